"""The commands that have a node's engine load images from the layers in the staging directory."""

from __future__ import annotations

import shlex
import tarfile
from collections.abc import Mapping, Sequence

from reprokit.oci.blob_folder import StoredBlob
from reprokit.oci.layout import END, header, manifest_of, padding, small_entries
from reprokit.oci.model import Image, blob_path, digest_of, hex_of
from reprokit.oci.store import Form

_BLOCK = tarfile.BLOCKSIZE


def load_script(folder: str, images: Sequence[Image], blobs: Mapping[str, StoredBlob], form: Form) -> tuple[str, bytes]:
    """The script and its input: it has the engine load `images`, prints each one's ID, and removes `blobs`.

    The input is the headers of the archive and then the larger part of the script, as an argument has at most 128 KiB.
    The script puts the layers between the headers, from `blobs` (by diff ID) in `folder`. Where a part is missing the
    archive ends early; no engine loads such an archive. For containerd stores each image's manifest is kept in the
    node's cache: no command shows which blobs it names.
    """
    layers = {layer.diff_id: layer.descriptor for image in images for layer in image.layers}
    head, commands, copied = b"", list[str](), 0

    def copy(entries: bytes) -> None:
        nonlocal head, copied
        head += entries
        skip, copied = copied, len(head) // _BLOCK
        commands.append(f'dd if="$head" bs={_BLOCK} skip={skip} count={copied - skip} 2>/dev/null')

    copy(small_entries(images))
    for diff_id, stored in blobs.items():
        blob = layers[diff_id]
        copy(header(blob_path(blob.digest), blob.size))
        commands.append(f"{'zstd -dcq' if form is Form.PLAIN else 'cat'} {stored.name}.blob")
        commands.append(f"head -c {len(padding(blob.size))} /dev/zero")
    copy(END)
    names = shlex.join(image.name for image in images)
    manifests = [manifest_of(image) for image in images] if form is Form.BLOBS else []
    kept = [f"printf %s {shlex.quote(m.decode())} > {hex_of(digest_of(m))}" for m in manifests]
    gone = 'for file in *; do docker image inspect "sha256:$file" >/dev/null 2>&1 || rm -f "$file"; done'
    keep = ["mkdir -p ../../manifests && cd ../../manifests || exit 1", *kept, gone] if kept else []
    rest = [
        f"{{ {' && '.join(commands)}; }} | docker load >/dev/null || exit 1",
        f"docker image inspect --format '{{{{json .Id}}}}' {names} || exit 1",
        f'rm -f "$head" {" ".join(f"{stored.name}.blob" for stored in blobs.values())}',
        *keep,
        f"rmdir {shlex.quote(folder)} 2>/dev/null",
        "exit 0",
    ]
    # A new name each time: a process that a broken connection left may still read the old file.
    lines = [
        f"cd {shlex.quote(folder)} || exit 1",
        "head=head-$$-$(date +%s).part",
        "trap 'rm -f \"$head\"' EXIT",
        'cat > "$head" || exit 1',
        f'eval "$(dd if="$head" bs={_BLOCK} skip={copied} 2>/dev/null)"',
        "exit 1",  # the input is incomplete
    ]
    return "\n".join(lines), head + "\n".join(rest).encode()
