"""The staging directory in a node's cache, where blobs arrive before the engine loads them.

Each sender has a directory of its own, so that two senders of one image do not collide. Blobs of a broken connection
are resumed, after leftover writers have been killed. Needs POSIX sh and coreutils.
"""

from __future__ import annotations

import fcntl
import secrets
import shlex
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from reprokit.errors import SourceError
from reprokit.host.disk import too_small
from reprokit.nodes.ssh import LOST, Lost, SshConnection, last_line
from reprokit.nodes.survey import free_bytes, number
from reprokit.oci.blob_folder import StoredBlob
from reprokit.oci.layout import END, header, manifest_of, padding, small_entries
from reprokit.oci.model import Image, blob_path, digest_of, hex_of
from reprokit.oci.store import Form
from reprokit.untrusted.documents import understood

_READY = "reprokit: incoming"
_CHANGED, _DAMAGED = 75, 65
_COPY_BLOCK = 1 << 20
_PREPARE = f"""
umask 077
base=${{XDG_CACHE_HOME:-$HOME/.cache}}/reprokit/incoming
mkdir -p "$base/$sender" && touch "$base/$sender" && cd -P "$base" || exit 1
touch -d "@$(($(date +%s) - 604800))" .week
for entry in */* */; do
  if [ "$entry" -ot .week ]; then rm -f "$entry" 2>/dev/null || rmdir "$entry" 2>/dev/null; fi
done
cd "$sender" || exit 1
for file in *.pid; do
  [ -f "$file" ] || continue
  read -r pid < "$file"
  part=$PWD/${{file%.pid}}.part
  while [ -n "$pid" ] && [ "$(readlink "/proc/$pid/fd/1")" = "$part" ]; do kill -9 "$pid"; sleep 0.05; done
  rm -f "$file"
done
echo '{_READY}'
pwd
df -P -k . | {{ read -r _; read -r _ _ _ free _; echo "$free"; }}
for file in *.part *.blob; do
  [ ! -f "$file" ] || echo "$(wc -c < "$file") $file"
done
"""
_APPEND = f"""
cd "$folder" || exit 1
[ -f "$name.part" ] || : > "$name.part" || exit 1
[ "$(wc -c < "$name.part")" -eq "$offset" ] || exit {_CHANGED}
export name
sh -c 'echo $$ > "$name.pid"; exec cat >> "$name.part"' || exit 1
rm -f "$name.pid"
[ "$(wc -c < "$name.part")" -eq "$size" ] || exit {_CHANGED}
if [ "$offset" -gt 0 ] && [ "$(sha256sum < "$name.part")" != "${{name#*.}}  -" ]; then
  rm -f "$name.part"
  exit {_DAMAGED}
fi
mv "$name.part" "$name.blob"
"""

_FORGET = """
cd "${XDG_CACHE_HOME:-$HOME/.cache}/reprokit/incoming/$sender" 2>/dev/null || exit 0
rm -f head-*.part
for layer in $layers; do rm -f "$layer".*; done
cd .. && rmdir "$sender" 2>/dev/null
exit 0
"""
_BLOCK = tarfile.BLOCKSIZE


@dataclass
class RemoteStaging:
    """A sender's directory on a node: its path, the free bytes, and the size of each file by name."""

    connection: SshConnection
    folder: str
    free: int
    files: dict[str, int] = field(default_factory=dict)

    def arrived(self, blob: StoredBlob) -> int:
        """The number of bytes of a blob that have arrived."""
        complete = f"{blob.name}.blob" in self.files
        return blob.blob.size if complete else min(self.files.get(f"{blob.name}.part", 0), blob.blob.size)

    def put(self, blob: StoredBlob, progress: Callable[[int], None]) -> None:
        """Send the missing bytes of a blob. `progress` gets the bytes present.

        A new blob is not checked: ssh protects the transfer, and the engine verifies the layer. Raises Lost if another
        attempt may succeed, else SourceError.
        """
        start, size = self.arrived(blob), blob.blob.size
        progress(start)
        if f"{blob.name}.blob" in self.files:
            return
        if size - start > self.free:
            raise too_small(size - start, self.free, self.connection.node.name, "free {amount} there")
        values = {"folder": self.folder, "name": blob.name, "offset": str(start), "size": str(size)}

        def write(stdin: IO[bytes]) -> None:
            with blob.path.open("rb") as file:
                file.seek(start)
                while block := file.read(_COPY_BLOCK):
                    stdin.write(block)
                    stdin.flush()
                    progress(file.tell())

        done = self.connection.feed(_with(values, _APPEND), write)
        if done.returncode == 0:
            self.free -= size - start
            self.files[f"{blob.name}.blob"] = size
            return
        words, name = last_line(done.stderr), self.connection.node.name
        if done.returncode == _DAMAGED:
            raise Lost("an earlier part of a layer was damaged and has been removed", name)
        if done.returncode in (LOST, _CHANGED):
            raise self.connection.lost(words)
        if "No space left" in words:
            raise too_small(size - start, self.free, name, "free {amount} there")
        raise SourceError(f"the node could not write a layer: {words}", name)


def prepare(connection: SshConnection, sender: str) -> RemoteStaging:
    """The sender's staging directory; leftover writers have been killed. Raises SourceError."""
    answer = connection.run(_with({"sender": sender}, _PREPARE))
    lines = answer.stdout.partition(f"{_READY}\n")[2].splitlines()
    if answer.returncode or len(lines) < 2:
        raise SourceError(
            f"the node cannot store files: {last_line(answer.stderr)}",
            connection.node.name,
            "make ${XDG_CACHE_HOME:-~/.cache} on the node writable for its user",
        )
    folder, free, *files = lines
    with understood("the node's answer", connection.node.name):
        sizes = [line.split(" ", 1) for line in files]
        return RemoteStaging(connection, folder, free_bytes(free), {name: number(size) for size, name in sizes})


def forget(connection: SshConnection, sender: str, layers: Iterable[str]) -> None:
    """Remove the blobs of these layers (diff IDs), which are no longer needed. Raises Lost."""
    names = " ".join(diff_id.removeprefix("sha256:") for diff_id in layers)
    connection.run(_with({"sender": sender, "layers": names}, _FORGET))


def sender_id(folder: Path) -> str:
    """The random name of this sender on nodes, made at its first use."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "sender").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        name = file.read()
        if not name:
            name = secrets.token_hex(8)
            file.write(name)
    return name


def _with(variables: dict[str, str], script: str) -> str:
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in variables.items()) + script


def load_script(folder: str, images: Sequence[Image], blobs: Mapping[str, StoredBlob], form: Form) -> tuple[str, bytes]:
    """A script that loads `images` into the node's engine, prints their IDs and removes `blobs`, and its input.

    The input has the headers of the archive, then most of the script, as an argument has at most 128 KiB. The script
    puts the layers between the headers, from `blobs` (by diff ID) in `folder`. If a part is missing, the archive ends
    early; no engine loads such an archive. For containerd stores each image's manifest is kept in the node's cache: no
    command shows its blobs.
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
    script = [
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
    return "\n".join(lines), head + "\n".join(script).encode()
