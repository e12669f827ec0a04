"""What a node's engine is given: a Docker archive that the node composes as a stream from the blobs that arrived."""

from __future__ import annotations

import json
import shlex
import tarfile
from collections.abc import Mapping, Sequence

from reprokit.bundle.model import Image
from reprokit.bundle.partial import header
from reprokit.nodes.spool import Spooled

_BLOCK = tarfile.BLOCKSIZE
_UNPACKED = "zstd -dcq"
_AS_IT_IS = "cat"


def small_files(images: Sequence[Image]) -> bytes:
    """The configs and `manifest.json` as the beginning of a tar."""
    manifest = [
        {
            "Config": f"{_hex(image.id)}.json",
            "RepoTags": [image.name],
            "Layers": [layer_path(layer.diff_id) for layer in image.layers],
        }
        for image in images
    ]
    files = {f"{_hex(image.id)}.json": image.config for image in images}
    files["manifest.json"] = json.dumps(manifest, separators=(",", ":")).encode()
    return b"".join(header(path, len(text)) + text + bytes(-len(text) % _BLOCK) for path, text in files.items())


def layer_path(diff_id: str) -> str:
    return f"{_hex(diff_id)}/layer.tar"


def compose(images: Sequence[Image], blobs: Mapping[str, Spooled], unpack: bool) -> tuple[bytes, str]:
    """An archive of `images` with the layers in `blobs` (by diff id), as a file of headers and a command.

    The command, run in the folder of the blobs (`HEX.blob`) with `$head` the file's name, writes the archive; where a
    part is missing it ends early, which no engine takes. With `unpack` the node's zstd decompresses the layers, else
    the engine does.
    """
    head = small_files(images)
    blocks = len(head) // _BLOCK
    parts = [f'dd if="$head" bs={_BLOCK} count={blocks} 2>/dev/null']
    sizes = {layer.diff_id: layer.size for image in images for layer in image.layers}
    for diff_id, spooled in blobs.items():
        size = sizes[diff_id] if unpack else spooled.blob.size
        head += header(layer_path(diff_id), size)
        parts.append(f'dd if="$head" bs={_BLOCK} skip={blocks} count=1 2>/dev/null')
        parts.append(f"{_UNPACKED if unpack else _AS_IT_IS} {spooled.hex}.blob")
        parts.append(f"head -c {-size % _BLOCK} /dev/zero")
        blocks += 1
    parts.append(f"head -c {2 * _BLOCK} /dev/zero")
    return head, " && ".join(parts)


def load_script(folder: str, command: str, names: Sequence[str], blobs: Sequence[Spooled]) -> str:
    """Takes the head on its input, has the engine load, prints each image's id, and tidies up."""
    # The name is a new one: what a broken connection left running may still read its own.
    return f"""
cd {shlex.quote(folder)} || exit 1
head=head-$$-$(date +%s).part
trap 'rm -f "$head"' EXIT
cat > "$head" || exit 1
{{ {command}; }} | docker load >/dev/null || exit 1
docker image inspect --format '{{{{json .Id}}}}' {shlex.join(names)} || exit 1
rm -f "$head" {" ".join(f"{blob.hex}.blob" for blob in blobs)}
cd .. && rmdir {shlex.quote(folder)} 2>/dev/null
exit 0
"""


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
