"""What a node's engine is given: an archive that the node composes as a stream from the blobs that arrived.

Graph-driver stores take Docker's archive, and have the layers that are left out where they lie upon the same ones.
Containerd stores take an OCI layout, which they keep as it is: what is left out has to be there blob for blob.
"""

from __future__ import annotations

import json
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from enum import Enum

from reprokit.bundle import layout
from reprokit.bundle.model import Image, blob_path, digest_of
from reprokit.bundle.partial import header
from reprokit.nodes.inventory import Inventory
from reprokit.nodes.spool import Spooled

_BLOCK = tarfile.BLOCKSIZE
_ZSTD_SINCE = 23  # moby's archive.DecompressStream knows zstd since then, gzip since ever


class Form(Enum):
    """How layers reach the engine: as they came, decompressed by the node's zstd, as gzip, as blobs to keep."""

    PACKED = "packed"
    UNPACKED = "unpacked"
    GZIP = "gzip"
    LAYOUT = "layout"


def form_for(there: Inventory) -> Form:
    """What a node's engine takes."""
    if there.containerd:
        return Form.LAYOUT
    if there.major >= _ZSTD_SINCE:
        return Form.PACKED
    return Form.UNPACKED if there.zstd else Form.GZIP


def id_there(image: Image, form: Form) -> str:
    """What the engine will call the image."""
    return digest_of(layout.manifest_of(image)) if form is Form.LAYOUT else image.id


def compose(images: Sequence[Image], blobs: Mapping[str, Spooled], form: Form) -> tuple[bytes, str]:
    """An archive of `images` with the layers in `blobs` (by diff id), as a file of headers and a command.

    The command, run in the folder of the blobs (`NAME.blob`) with `$head` the file's name, writes the archive; where a
    part is missing it ends early, which no engine takes.
    """
    files = dict(layout.small_files(images) if form is Form.LAYOUT else _small_files(images))
    head = b"".join(header(path, len(text)) + text + bytes(-len(text) % _BLOCK) for path, text in files.items())
    blocks = len(head) // _BLOCK
    parts = [f'dd if="$head" bs={_BLOCK} count={blocks} 2>/dev/null']
    sizes = {layer.diff_id: layer.size for image in images for layer in image.layers}
    for diff_id, spooled in blobs.items():
        size = sizes[diff_id] if form is Form.UNPACKED else spooled.blob.size
        head += header(blob_path(spooled.blob.digest) if form is Form.LAYOUT else _layer_path(diff_id), size)
        parts.append(f'dd if="$head" bs={_BLOCK} skip={blocks} count=1 2>/dev/null')
        parts.append(f"{'zstd -dcq' if form is Form.UNPACKED else 'cat'} {spooled.name}.blob")
        parts.append(f"head -c {-size % _BLOCK} /dev/zero")
        blocks += 1
    parts.append(f"head -c {2 * _BLOCK} /dev/zero")
    return head, " && ".join(parts)


def load_script(folder: str, command: str, images: Sequence[Image], blobs: Sequence[Spooled], form: Form) -> str:
    """Takes the head on its input, has the engine load, prints each image's id, and tidies up.

    For containerd stores each image's manifest is left in the node's cache: no command tells which blobs it names.
    """
    names = shlex.join(image.name for image in images)
    manifests = [layout.manifest_of(image) for image in images] if form is Form.LAYOUT else []
    kept = [f"printf %s {shlex.quote(m.decode())} > {digest_of(m).removeprefix('sha256:')}" for m in manifests]
    gone = 'for file in *; do docker image inspect "sha256:$file" >/dev/null 2>&1 || rm -f "$file"; done'
    keep = ["mkdir -p ../../manifests && cd ../../manifests || exit 1", *kept, gone] if kept else []
    # The name is a new one: what a broken connection left running may still read its own.
    return "\n".join(
        [
            f"cd {shlex.quote(folder)} || exit 1",
            "head=head-$$-$(date +%s).part",
            "trap 'rm -f \"$head\"' EXIT",
            'cat > "$head" || exit 1',
            f"{{ {command}; }} | docker load >/dev/null || exit 1",
            f"docker image inspect --format '{{{{json .Id}}}}' {names} || exit 1",
            f'rm -f "$head" {" ".join(f"{blob.name}.blob" for blob in blobs)}',
            *keep,
            f"rmdir {shlex.quote(folder)} 2>/dev/null",
            "exit 0",
        ]
    )


def _small_files(images: Sequence[Image]) -> dict[str, bytes]:
    manifest = [
        {
            "Config": f"{_hex(image.id)}.json",
            "RepoTags": [image.name],
            "Layers": [_layer_path(layer.diff_id) for layer in image.layers],
        }
        for image in images
    ]
    configs = {f"{_hex(image.id)}.json": image.config for image in images}
    return {**configs, "manifest.json": json.dumps(manifest, separators=(",", ":")).encode()}


def _layer_path(diff_id: str) -> str:
    return f"{_hex(diff_id)}/layer.tar"


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
