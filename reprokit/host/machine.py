"""The machine that an engine runs on: this one, or a node (`nodes.remote.Remote`).

`engine.host` is one of these. Code about containers asks it, and never the machine that it happens to run on.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from reprokit.host import disk, gpu, mounts, workspace
from reprokit.host.gpu import GpuDevice, GpuSupport
from reprokit.host.mounts import BindMount
from reprokit.host.user import Caller
from reprokit.recipe.find import Target

_MEMINFO = Path("/proc/meminfo")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


class Machine(Protocol):
    """`name` is the node's, "" for this machine. Sizes are bytes, None where unknown."""

    name: str

    def caller(self) -> Caller:
        """The user there."""

    def environment(self) -> Mapping[str, str]:
        """The user's variables that commands may get: that machine's proxies, and TERM of the terminal here."""

    def gpu_support(self, info: Mapping[str, Any]) -> GpuSupport:
        """What the engine with this info can give to containers."""

    def has_gpu(self, offered: GpuSupport) -> bool:
        """Whether a request for a GPU can succeed."""

    def gpus(self) -> list[GpuDevice]: ...

    def port_is_free(self, port: int) -> bool:
        """Whether a TCP port of its loopback can be published."""

    def memory_bytes(self) -> int | None: ...

    def disk_free_bytes(self, folder: str) -> int | None: ...

    def require_source(self, mount: BindMount) -> None:
        """Raises UsageError where a mount's source is missing there, or is behind a link."""

    def workspace(self, target: Target, say: Callable[[str], None]) -> str:
        """The path of the target's workspace, made with the recipe's folders where they are missing.

        Raises UsageError.
        """

    def mountinfo(self) -> str:
        """/proc/self/mountinfo of the user's login there, "" where there is none."""


class LocalMachine:
    """This machine."""

    name = ""

    def caller(self) -> Caller:
        return Caller.here()

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def gpu_support(self, info: Mapping[str, Any]) -> GpuSupport:
        return gpu.support(info)

    def has_gpu(self, offered: GpuSupport) -> bool:
        return gpu.has_gpu(offered)

    def gpus(self) -> list[GpuDevice]:
        return gpu.gpus()

    def port_is_free(self, port: int) -> bool:
        with socket.socket() as probe:
            # As the engine's proxy binds: a port whose last connections linger is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
            return True

    def memory_bytes(self) -> int | None:
        return memory_bytes()

    def disk_free_bytes(self, folder: str) -> int | None:
        return disk.free_bytes(folder)

    def require_source(self, mount: BindMount) -> None:
        mounts.require_source(mount)

    def workspace(self, target: Target, say: Callable[[str], None]) -> str:
        return str(workspace.prepare(target, say))

    def mountinfo(self) -> str:
        return mounts.mountinfo()


def memory_bytes(meminfo: Path = _MEMINFO, cgroup_limit: Path = _CGROUP_LIMIT) -> int | None:
    """This machine's memory in bytes, or a cgroup's limit where that is lower; None where unknown."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    total = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")), None)
    try:
        limit = cgroup_limit.read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if total is not None and limit.isdigit() else total
