"""The export formats: bundles, and the formats of other tools."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import posixpath
import re
import shlex
import shutil
import subprocess
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from reprokit.bundle.container import FilterReport, filter_layer
from reprokit.bundle.model import Metadata
from reprokit.bundle.resumable_tar import becoming, claim, partial_of
from reprokit.bundle.write import ExportJob, SpaceEstimate, require_all, write
from reprokit.display import ByteProgress, notify
from reprokit.engine import LABEL, Engine
from reprokit.errors import EngineError, UsageError
from reprokit.host.disk import unwritable
from reprokit.oci.blob_folder import BlobFolder
from reprokit.oci.compress import copy
from reprokit.oci.layout import docker_manifest, layout_files, padding
from reprokit.oci.model import BLOBS, Image, blob_path

_OURS = ("/etc/environment", "/etc/rc", "/etc/rc.local", "/etc/fstab")
_EXCLUDED = (*_OURS, "/dev/*", "/.dockerenv")
_SQFSTAR = ("sqfstar", "-comp", "zstd", "-all-root", "-no-progress", "-quiet", "-force")
# enroot mounts the lines of /etc/fstab on the host, after it has expanded variables in them.
_VOLUME = re.compile(r"/[A-Za-z0-9._/+-]+")
_LABEL = f"{LABEL}.export"
_DAY_S = 86400


def squashfs(job: ExportJob) -> Metadata:
    """Write the only image of the job. Raises EngineError if sqfstar is missing or fails."""
    (info,), engine = job.images, job.engine
    assert engine
    image = job.changed.finish(Image(info.name, json.dumps({"config": dict(info.config)}).encode(), ()))
    config = json.loads(image.config)["config"]
    partial = partial_of(job.target)
    with claim(job.target) as file:
        try:
            space = SpaceEstimate(info.size, job.target.parent)
            space.check()

            def report(done: int, total: int) -> None:
                space.check(done, os.fstat(file.fileno()).st_size)
                job.progress(done, total)

            with _file_system(engine, info.name) as blocks:
                files = _counted(blocks, info.size, report)
                for edit in job.changed.edits.values():
                    files = edit(files)
                empty = contextlib.nullcontext((0, iter(())))
                files = filter_layer(files, _EXCLUDED, lambda path: empty, FilterReport())
                # enroot's files come first: sqfstar uses the first of two entries, even if the second is a link.
                files = itertools.chain(_entries(config), files)
                _squash(files, file, job.target)
            partial.replace(job.target)
        except BaseException as error:
            partial.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise unwritable(error, "the file", job.target) from None
            raise
    metadata = job.metadata([image])
    return metadata.model_copy(update={"images": (metadata.images[0].model_copy(update={"size": info.size}),)})


@contextlib.contextmanager
def _file_system(engine: Engine, reference: str) -> Iterator[Iterator[bytes]]:
    """The image's files as a tar, through a container that is never started."""
    for container in engine.containers([_LABEL]):
        if time.time() - container.created > _DAY_S:  # left by a killed process
            engine.remove(container.id, force=True)
    name = f"reprokit-export-{uuid.uuid4().hex[:12]}"
    body = {"Image": reference, "Cmd": ["/"], "NetworkDisabled": True, "Labels": {_LABEL: "squashfs"}}
    engine.create_container(name, body)
    try:
        yield engine.export(name)
    finally:
        engine.remove(name, force=True)


def _counted(blocks: Iterator[bytes], total: int, progress: ByteProgress) -> Iterator[bytes]:
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        progress(done, max(done, total))


def _entries(config: Mapping[str, Any]) -> Iterator[bytes]:
    for path, content in enroot_files(config):
        info = tarfile.TarInfo(path.lstrip("/"))
        info.size, info.mode = len(content), 0o755 if path == "/etc/rc" else 0o644
        yield info.tobuf(tarfile.PAX_FORMAT) + content + padding(len(content))


def enroot_files(config: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files that enroot reads."""
    env = config.get("Env") or []
    lines = [entry for entry in env if "\n" not in entry]
    if len(lines) < len(env):
        notify("variables with line breaks are excluded: /etc/environment cannot hold them")
    named = sorted(config.get("Volumes") or {})
    volumes = [path for path in named if _VOLUME.fullmatch(path) and ".." not in path.split("/")]
    if excluded := [path for path in named if path not in volumes]:
        notify(f"volumes whose paths /etc/fstab cannot hold are excluded: {', '.join(map(repr, excluded))}")
    fstab = [f"${{ENROOT_ROOTFS}}{path} {path} none x-create=dir,bind,rw,nosuid,nodev" for path in volumes]
    yield "/etc/environment", _text(lines)
    yield "/etc/fstab", _text(fstab)
    yield "/etc/rc", _rc(config).encode()
    yield "/etc/rc.local", _text(["# /etc/rc reads this file when the container starts."])


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _rc(config: Mapping[str, Any]) -> str:
    labels = {key: " ".join(value.split()) for key, value in (config.get("Labels") or {}).items()}
    workdir = shlex.quote(posixpath.join("/", config.get("WorkingDir") or ""))
    entrypoint = shlex.join(config.get("Entrypoint") or [])
    command = shlex.join([*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]) or "/bin/sh"
    lines = [
        *(f"# {key} {value}" for key, value in sorted(labels.items())),
        "",
        f"mkdir -p {workdir} 2> /dev/null",
        f"cd {workdir} && unset OLDPWD || exit 1",
        "if [ -s /etc/rc.local ]; then . /etc/rc.local; fi",
        f'if [ $# -gt 0 ]; then exec {entrypoint} "$@"; else exec {command}; fi',
    ]
    return "".join(f"{line}\n" for line in lines)


def _squash(blocks: Iterator[bytes], file: IO[bytes], target: Path) -> None:
    # sqfstar gets the open file: it would follow a planted link at a path.
    opened = file.fileno()
    argv = [*_SQFSTAR, f"/proc/self/fd/{opened}"]
    try:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(opened,))
    except FileNotFoundError:
        raise EngineError("sqfstar is not installed", hint="install squashfs-tools 4.5 or newer") from None
    assert process.stdin and process.stderr
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            for block in blocks:
                stdin.write(block)
        lines = process.stderr.read().decode(errors="replace").strip().splitlines()
    except BaseException:
        process.kill()
        raise
    finally:
        code = process.wait()
    if code:
        raise EngineError(f"sqfstar failed: {lines[-1] if lines else f'exit code {code}'}", str(target))


def docker(job: ExportJob) -> Metadata:
    """An archive for `docker load` of any version: layers are uncompressed, as Engine 22 and older require.

    It is an OCI layout, too, so skopeo and podman read it as `docker-archive` and as `oci-archive`.
    """
    with becoming(job.target) as tar:
        images = job.read(tar, copy)
        for path, content in [*layout_files(images), docker_manifest(images)]:
            tar.add(path, content)
        require_all(images, tar.entries)
    return job.metadata(images)


def folder(job: ExportJob) -> Metadata:
    """An OCI image layout as a folder, for skopeo's `oci:`, umoci and Apptainer.

    Raises UsageError if the folder exists and is not empty.
    """
    target, partial = job.target, partial_of(job.target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("the target exists and is not an empty folder", str(target), "name a new folder")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()  # fails for a link, which could lead to any folder of the user
        (partial / BLOBS).mkdir(parents=True)
        sink = BlobFolder(partial)
        images = job.read(sink)
        for diff_id in {layer.diff_id for image in images for layer in image.layers}:
            if stored := sink.find(diff_id):
                stored.path.replace(partial / blob_path(stored.blob.digest))
        for path, content in layout_files(images):
            (partial / path).write_bytes(content)
        sizes = {str(file.relative_to(partial)): file.stat().st_size for file in partial.rglob("*") if file.is_file()}
        require_all(images, sizes)
        partial.replace(target)
    except FileExistsError:
        raise UsageError("a file or a link is in the way", str(partial), "remove it") from None
    except OSError as error:
        raise unwritable(error, "the folder", target) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return job.metadata(images)


# Each function writes the images to the job's target, completely or not at all, and returns the metadata.
FORMATS: Mapping[str, Callable[[ExportJob], Metadata]] = {
    "rkit": write,
    "docker": docker,
    "oci-dir": folder,
    "squashfs": squashfs,
}
