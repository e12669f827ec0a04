"""The commands that have a node's engine load images from the layers in the staging directory."""

from __future__ import annotations

import shlex
import tarfile
from collections.abc import Mapping, Sequence

from reprokit.nodes.spool import Spooled
from reprokit.oci.archive_writer import entries
from reprokit.oci.layout import END, header, manifest_of, padding
from reprokit.oci.model import Image, digest_of, hex_of
from reprokit.oci.store import Form

_BLOCK = tarfile.BLOCKSIZE


def compose(images: Sequence[Image], blobs: Mapping[str, Spooled], form: Form) -> tuple[bytes, str]:
    """An archive of `images` with the layers in `blobs` (by diff ID), as a file of headers and a command.

    The command, run in the folder of the blobs (`NAME.blob`) with `$head` the file's name, writes the archive. Where a
    part is missing it ends early; no engine loads such an archive.
    """
    sizes = {layer.diff_id: layer.size for image in images for layer in image.layers}
    layers = {diff_id: sizes[diff_id] if form.plain else spooled.blob.size for diff_id, spooled in blobs.items()}
    head, commands, copied = bytearray(), list[str](), 0

    def copy_head() -> None:
        nonlocal copied
        skip, copied = copied, len(head) // _BLOCK
        commands.append(f'dd if="$head" bs={_BLOCK} skip={skip} count={copied - skip} 2>/dev/null')

    for path, size, content in entries(images, layers, form):
        head += header(path, size)
        if isinstance(content, bytes):
            head += content + padding(size)
        else:
            copy_head()
            commands.append(f"{'zstd -dcq' if form.plain else 'cat'} {blobs[content].name}.blob")
            commands.append(f"head -c {len(padding(size))} /dev/zero")
    head += END
    copy_head()
    return bytes(head), " && ".join(commands)


def load_script(folder: str, command: str, images: Sequence[Image], blobs: Sequence[Spooled], form: Form) -> str:
    """Reads the headers from its input, has the engine load, prints each image's ID, and removes the blobs.

    For containerd stores each image's manifest is kept in the node's cache: no command shows which blobs it names.
    """
    names = shlex.join(image.name for image in images)
    manifests = [manifest_of(image) for image in images] if form is Form.LAYOUT else []
    kept = [f"printf %s {shlex.quote(m.decode())} > {hex_of(digest_of(m))}" for m in manifests]
    gone = 'for file in *; do docker image inspect "sha256:$file" >/dev/null 2>&1 || rm -f "$file"; done'
    keep = ["mkdir -p ../../manifests && cd ../../manifests || exit 1", *kept, gone] if kept else []
    # A new name each time: a process that a broken connection left may still read the old file.
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
