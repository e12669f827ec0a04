"""A node as a machine with an engine, and a recipe's workspace on it, which is copied there once."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO

from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError
from reprokit.formatting import size
from reprokit.host.gpu import Gpu, devices_of
from reprokit.host.machine import Machine
from reprokit.host.mounts import BindMount
from reprokit.host.user import Caller
from reprokit.host.workspace import is_build_output, locate, mark, prepare
from reprokit.nodes.config import find
from reprokit.nodes.ssh import LOST, SshConnection, last_line
from reprokit.nodes.survey import FACTS_SCRIPT, NodeFacts, free_bytes, no_engine, parse_facts
from reprokit.recipe.find import Target
from reprokit.untrusted.files import Folder, pack

# Unpacked beside the final path and renamed, so that a broken copy never becomes a workspace. Leftovers are removed
# after a day; of two concurrent copies the first one stays.
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
# made, so that a link that a container plants meanwhile has no effect.
_FOLDERS = """
set -eu
cd {root}
root=$(pwd -P)
printf 'reprokit:%s\\n' "$root"
for folder in {folders}; do
  cd "$root"
  expected=$root
  IFS=/
  for part in $folder; do
    [ -n "$part" ] && [ "$part" != . ] || continue
    [ -d "./$part" ] || mkdir "./$part" 2>/dev/null || break
    expected=$expected/$part
    cd -P "./$part"
    [ "$(pwd -P)" = "$expected" ] || {{ echo "a link is in the way: $folder" >&2; exit 1; }}
  done
done
"""
_FORWARD_S = 20
# In an address ssh replaces `${NAME}` by a variable of this user's environment, and splits at colons.
_HOST = r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}"
_FORWARDED = re.compile(rf"unix://(?P<path>/[\w.@+/-]+)|tcp://(?P<host>{_HOST})/?", re.ASCII)


def workspace_folder(cache: str, target: Target) -> str:
    """The folder of the workspace below the node's caches, one for each checkout on each machine."""
    own = str(locate(target.workspace, target.path).resolve())
    return f"{cache}/reprokit/workspaces/{target.workspace}-{mark(_machine(), own, str(target.path), digits=12)}"


def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def copied_workspace(connection: SshConnection, cache: str, target: Target) -> str:
    """As `host.workspace.prepare`, below the node's own caches; returns the real path.

    Raises EngineError if it cannot be made, SourceError.
    """
    root = workspace_folder(cache, target)
    node = connection.node.name
    if connection.run(f"[ -d {shlex.quote(root)} ]").returncode:
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
    """Write the folder's content, and then an empty file as the mark of a complete copy."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        pack(folder, tar, is_build_output)
        tar.addfile(tarfile.TarInfo(".reprokit-whole"))


_CDI_FILES = """
for folder in {folders}; do
  for file in "$folder"/*.json "$folder"/*.yaml "$folder"/*.yml; do
    [ -f "$file" ] && printf 'reprokit:file %s\\n' "$file" && cat "$file" && echo
  done
done
true
"""


class Remote(Machine):
    """A node behind a connection. Its facts are collected once."""

    def __init__(self, connection: SshConnection) -> None:
        self.connection = connection
        self.name = connection.node.name

    @cached_property
    def seen(self) -> NodeFacts:
        """Raises EngineError if the node's answer is not valid, SourceError if the connection breaks."""
        try:
            return parse_facts(self.connection.run(FACTS_SCRIPT).stdout)
        except ValueError as error:
            raise EngineError(str(error), self.name, "is its login shell a POSIX shell?") from None

    def identity(self) -> str:
        return self.seen.machine or self.name

    def caller(self) -> Caller:
        return self.seen.caller

    def environment(self) -> Mapping[str, str]:
        return self.seen.proxies | {"TERM": os.environ.get("TERM", "")}

    def cdi_devices(self, folders: Iterable[str]) -> tuple[str, ...]:
        answer = self.connection.run(_CDI_FILES.format(folders=" ".join(map(shlex.quote, folders)))).stdout
        names: list[str] = []
        for part in ("\n" + answer).split("\nreprokit:file ")[1:]:
            file, _, text = part.partition("\n")
            try:
                names += devices_of(file, text)
            except ValueError:
                continue
        return tuple(dict.fromkeys(names))

    def has_device_file(self) -> bool:
        return bool(self.seen.devices)

    def gpus(self) -> list[Gpu]:
        return list(self.seen.gpus)

    def port_is_free(self, port: int) -> bool:
        return port not in self.seen.listening

    def memory_bytes(self) -> int | None:
        return self.seen.memory

    def disk_free_bytes(self, folder: str) -> int | None:
        answer = self.connection.run(f"df -P -k {shlex.quote(folder)}").stdout.splitlines()
        fields = answer[1].split() if len(answer) > 1 else []
        try:
            return free_bytes(fields[3])
        except (LookupError, ValueError):
            return None

    def require_source(self, mount: BindMount) -> None:
        if not mount.source.startswith("/"):
            raise UsageError(f"-v {mount.source}: folders of {self.name} need absolute paths")
        real = self.connection.run(f"readlink -e {shlex.quote(mount.source)}")
        if real.returncode:
            raise UsageError(
                f"nothing to mount at {mount.target}: {self.name} has no {mount.source}",
                hint=f"make it on the node: mkdir -p {shlex.quote(mount.source)}",
            )
        if (path := real.stdout.rstrip("\n")) != mount.source.rstrip("/"):
            raise UsageError(
                f"{mount.source} of {self.name} is reached through a link", hint=f"mount its real path: {path}"
            )

    def workspace_path(self, target: Target) -> str:
        return workspace_folder(self.seen.cache, target)

    def workspace(self, target: Target) -> str:
        return copied_workspace(self.connection, self.seen.cache, target)

    def mountinfo(self) -> str:
        return self.seen.mountinfo


@contextmanager
def engine_of(node: str) -> Iterator[Engine]:
    """The engine of a node, by its name or address. Raises SourceError if it cannot be reached, EngineError."""
    with SshConnection(find(node)) as connection:
        remote = Remote(connection)
        with engine_behind(connection, remote, remote.seen.docker) as engine:
            yield engine


@contextmanager
def engine_behind(connection: SshConnection, remote: Remote, address: str) -> Iterator[Engine]:
    """The engine at an address on the node, such as the node's DOCKER_HOST. Raises EngineError, SourceError."""
    with tempfile.TemporaryDirectory(prefix="rk-", dir="/tmp") as folder:
        socket = Path(folder) / "d"
        _forward(connection, address, socket)
        try:
            engine = Engine.behind(str(socket), remote)
        except EngineError:
            # ssh shows only that nothing answers; the node's own client gives the reason.
            answer = connection.run("docker version >/dev/null")
            if not answer.returncode:
                raise
            raise no_engine(connection, answer.stderr) from None
        try:
            yield engine
        except EngineError:
            if not connection.broken:
                raise
            raise connection.lost("the connection broke; commands on the node may continue") from None


def _forward(connection: SshConnection, address: str, socket: Path) -> None:
    match = _FORWARDED.fullmatch(address)
    if match is None:
        raise EngineError(
            f"ssh cannot forward an engine at {address}", connection.node.name, "set DOCKER_HOST on the node"
        )
    ssh, *options = connection.control
    command = [ssh, "-O", "forward", "-L", f"{socket}:{match['path'] or match['host']}", *options]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_FORWARD_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise connection.lost(f"no answer within {_FORWARD_S} s") from None
    if done.returncode:
        raise EngineError(
            f"ssh cannot forward the node's engine: {last_line(done.stderr)}",
            connection.node.name,
            "does its sshd allow forwarding (AllowTcpForwarding, AllowStreamLocalForwarding)?",
        )
