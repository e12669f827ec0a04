"""The machine that an engine runs on: what containers take from it besides the engine itself.

`engine.host` is one of these. Nothing else in this folder may look at the machine that it happens to run on.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from reprokit.container import gpu_host, path_mapping, workspace
from reprokit.container.gpu import GpuSupport
from reprokit.container.gpu_host import Gpu
from reprokit.container.spec import Mount
from reprokit.container.user import Caller
from reprokit.host import probe
from reprokit.recipe.find import Target

Say = Callable[[str], None]


class Host(Protocol):
    """`name` is the node's, "" for this machine. Sizes are bytes, None where the machine does not say."""

    name: str

    def caller(self) -> Caller:
        """Who the user is there."""

    def environment(self) -> Mapping[str, str]:
        """The user's variables that commands may get: proxies of that machine, and the user's own kind of terminal."""

    def gpu_support(self, info: Mapping[str, Any]) -> GpuSupport:
        """What the engine of this info can hand to containers."""

    def has_gpu(self, offered: GpuSupport) -> bool:
        """Whether asking for a GPU can work."""

    def gpus(self) -> list[Gpu]: ...

    def port_is_free(self, port: int) -> bool:
        """Whether a TCP port of its loopback can be published."""

    def memory_bytes(self) -> int | None: ...

    def disk_free_bytes(self, folder: str) -> int | None: ...

    def require_source(self, mount: Mount) -> None:
        """Raises UsageError where a mount's source is missing there, or is behind a link."""

    def workspace_mount(self, target: Target, say: Say) -> Mount:
        """The target's workspace, made with the recipe's folders in it where they are missing. Raises UsageError."""

    def mountinfo(self) -> str:
        """/proc/self/mountinfo of the user's login there, "" where there is none."""


class Here:
    """This machine."""

    name = ""

    def caller(self) -> Caller:
        return Caller.here()

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def gpu_support(self, info: Mapping[str, Any]) -> GpuSupport:
        return gpu_host.support(info)

    def has_gpu(self, offered: GpuSupport) -> bool:
        return gpu_host.has_gpu(offered)

    def gpus(self) -> list[Gpu]:
        return gpu_host.host_gpus()

    def port_is_free(self, port: int) -> bool:
        with socket.socket() as tried:
            # As the engine's proxy binds: a port whose last connections linger is free.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                return False
            return True

    def memory_bytes(self) -> int | None:
        return probe.memory_bytes()

    def disk_free_bytes(self, folder: str) -> int | None:
        return probe.disk_free_bytes(Path(folder))

    def require_source(self, mount: Mount) -> None:
        workspace.require_source(mount)

    def workspace_mount(self, target: Target, say: Say) -> Mount:
        return workspace.workspace_mount(target, say)

    def mountinfo(self) -> str:
        return path_mapping.mountinfo()
