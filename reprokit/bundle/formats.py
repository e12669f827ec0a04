"""The export formats: bundles, and the formats of other tools."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping

from reprokit.bundle import squashfs
from reprokit.bundle.model import Metadata
from reprokit.bundle.partial_file import partial_of
from reprokit.bundle.write import ExportJob, becoming, require_all, write
from reprokit.errors import UsageError
from reprokit.host.disk import unwritable
from reprokit.oci.blob_folder import BlobFolder
from reprokit.oci.compress import copy
from reprokit.oci.layout import docker_manifest, layout_files
from reprokit.oci.model import BLOBS, blob_path


def docker(job: ExportJob) -> Metadata:
    """An archive for `docker load` of any version: layers are uncompressed, as Engine 22 and older require.

    It is an OCI layout, too, so skopeo and podman read it as `docker-archive` and as `oci-archive`.
    """
    with becoming(job.target) as tar:
        found = job.read(tar, copy)
        for path, content in [*layout_files(found), docker_manifest(found)]:
            tar.add(path, content)
        require_all(found, tar.entries)
    return job.metadata(found)


def folder(job: ExportJob) -> Metadata:
    """An OCI image layout as a folder, for skopeo's `oci:`, umoci and Apptainer.

    Raises UsageError if the folder exists and is not empty.
    """
    target, partial = job.target, partial_of(job.target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("the target exists and is not an empty folder", str(target), "name a new folder")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()  # fails if a link is: it could lead to any folder of the user's
        (partial / BLOBS).mkdir(parents=True)
        sink = BlobFolder(partial)
        found = job.read(sink)
        for diff_id in {layer.diff_id for image in found for layer in image.layers}:
            if stored := sink.find(diff_id):
                stored.path.replace(partial / blob_path(stored.blob.digest))
        for path, content in layout_files(found):
            (partial / path).write_bytes(content)
        sizes = {str(file.relative_to(partial)): file.stat().st_size for file in partial.rglob("*") if file.is_file()}
        require_all(found, sizes)
        partial.replace(target)
    except FileExistsError:
        raise UsageError("a file or a link is in the way", str(partial), "remove it") from None
    except OSError as error:
        raise unwritable(error, "the folder", target) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return job.metadata(found)


# Each writes the images to the job's target, completely or not at all, and returns the metadata.
FORMATS: Mapping[str, Callable[[ExportJob], Metadata]] = {
    "rkit": write,
    "docker": docker,
    "oci-dir": folder,
    "squashfs": squashfs.write,
}
