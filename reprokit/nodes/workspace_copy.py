"""A recipe's workspace on a node: copied once from here, then the node's own."""

from __future__ import annotations

import shlex
import tarfile
from pathlib import Path
from typing import IO

from reprokit.display import notify
from reprokit.errors import EngineError, UsageError
from reprokit.formatting import size
from reprokit.host.workspace import is_build_output, locate, mark, prepare
from reprokit.nodes.ssh import LOST, SshConnection, last_line
from reprokit.recipe.find import Target
from reprokit.untrusted.files import Folder, pack

# Unpacked beside its place and renamed, so that a broken copy never becomes a workspace. Leftovers are removed after a
# day; of two concurrent copies the first one stays.
_FILL = """
set -eu
parent={parent} name={name}
mkdir -p "$parent"
find "$parent" -maxdepth 1 -name ".$name.??????" -mmin +1440 -exec rm -rf {{}} +
copy=$(mktemp -d "$parent/.$name.XXXXXX")
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' HUP INT TERM
tar -xf - -C "$copy"
[ -e "$copy/.reprokit-whole" ]
rm "$copy/.reprokit-whole"
chmod 755 "$copy"
mv -T "$copy" "$parent/$name" 2>/dev/null || [ -d "$parent/$name" ]
"""
# Prints the workspace's real path and makes the recipe's folders in it. Each folder is entered before the next one is
# made, so that a link that a container plants meanwhile leads nowhere.
_FOLDERS = """
set -eu
cd {root}
root=$(pwd -P)
printf 'reprokit:%s\\n' "$root"
for folder in {folders}; do
  cd "$root"
  here=$root
  IFS=/
  for part in $folder; do
    [ -n "$part" ] && [ "$part" != . ] || continue
    [ -d "./$part" ] || mkdir "./$part" 2>/dev/null || break
    here=$here/$part
    cd -P "./$part"
    [ "$(pwd -P)" = "$here" ] || {{ echo "a link is in the way: $folder" >&2; exit 1; }}
  done
done
"""


def folder_of(cache: str, target: Target) -> str:
    """Where the workspace is below the node's caches: each checkout of each machine has a folder of its own there."""
    own = str(locate(target.workspace, target.path).resolve())
    return f"{cache}/reprokit/workspaces/{target.workspace}-{mark(_machine(), own, str(target.path), digits=12)}"


def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def workspace(connection: SshConnection, cache: str, target: Target) -> str:
    """As `host.workspace.prepare`, below the node's own caches; returns the real path.

    Raises EngineError if it cannot be made, SourceError.
    """
    root = folder_of(cache, target)
    node = connection.node.name
    if connection.run(f"[ -d {shlex.quote(root)} ]").returncode:
        earlier = f"{cache}/reprokit/workspaces/{target.workspace}"
        if not connection.run(f"[ -d {shlex.quote(earlier)} ]").returncode:
            notify(f"{node}:{earlier} is the workspace of an earlier version, which is no longer used")
        _fill(connection, root, target)
        notify(f"the workspace on the node is {node}:{root}; changes there are not copied back")
    folders = " ".join(shlex.quote(mount.source) for mount in target.variant.mounts)
    done = connection.run(_FOLDERS.format(root=shlex.quote(root), folders=folders))
    path = next((line[9:] for line in done.stdout.splitlines() if line.startswith("reprokit:/")), "")
    if done.returncode or not path:
        raise EngineError(f"cannot make the workspace: {last_line(done.stderr)}", f"{node}:{root}")
    return path


def _fill(connection: SshConnection, root: str, target: Target) -> None:
    parent, _, name = root.rpartition("/")
    folder = prepare(target)
    script = _FILL.format(parent=shlex.quote(parent), name=shlex.quote(name))
    try:
        with Folder(folder) as opened:
            notify(f"copying the workspace {folder} ({size(opened.size(is_build_output))}) to {connection.node.name}")
        done = connection.feed(script, lambda stream: _write_tar(stream, folder))
    except OSError as error:
        raise UsageError(f"cannot read the workspace: {error.strerror}", str(error.filename or folder)) from None
    if done.returncode == LOST:
        raise connection.lost(last_line(done.stderr))
    if done.returncode:
        raise EngineError(f"cannot copy the workspace: {last_line(done.stderr)}", f"{connection.node.name}:{parent}")


def _write_tar(stream: IO[bytes], folder: Path) -> None:
    """The folder's content, and at its end a file that says that it is complete."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        pack(folder, tar, is_build_output)
        tar.addfile(tarfile.TarInfo(".reprokit-whole"))
