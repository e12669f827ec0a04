"""The machine that an engine runs on: this one, or a node (`nodes.remote.Remote`).

`engine.host` is one of them. Code about containers uses it instead of the machine that runs the code.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from reprokit.host import disk, gpu, mounts, workspace
from reprokit.host.gpu import Gpu
from reprokit.host.memory import MEMINFO, memory_bytes
from reprokit.host.mounts import BindMount
from reprokit.host.user import Caller
from reprokit.recipe.find import Target

# The memory of one C++ or CUDA compiler process, as for torch extensions and CUTLASS kernels.
_JOB_BYTES = 2 << 30
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NETWORK = Path("/proc/self/ns/net")  # each container counts as a machine


class Machine:
    """This machine. `name` is a node's, "" for this machine. Sizes are bytes, None if unknown."""

    name = ""

    def identity(self) -> str:
        """The same text for all names of one machine."""
        try:
            return " ".join([_BOOT.read_text(encoding="ascii").strip(), str(_NETWORK.readlink())])
        except OSError:
            return self.name

    def caller(self) -> Caller:
        """The user there."""
        return Caller.current()

    def environment(self) -> Mapping[str, str]:
        """The variables that commands may get: the proxies of that machine, and TERM of this terminal."""
        return os.environ

    def cdi_devices(self, folders: Iterable[str]) -> tuple[str, ...]:
        """Names such as `nvidia.com/gpu=0` from the CDI files of these folders."""
        return gpu.cdi_devices(folders)

    def has_device_file(self) -> bool:
        """Whether a driver's device file exists."""
        return gpu.has_device_file()

    def gpus(self) -> list[Gpu]:
        return gpu.gpus()

    def port_is_free(self, port: int) -> bool:
        """Whether a TCP port of the machine's loopback can be published."""
        with socket.socket() as probe:
            # As the engine's proxy does: a port with lingering connections is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                return error.errno != errno.EADDRINUSE  # EACCES: ports below 1024 are for root, and the engine is root
            return True

    def memory_bytes(self) -> int | None:
        return memory_bytes()

    def disk_free_bytes(self, folder: str) -> int | None:
        return disk.free_bytes(folder)

    def require_source(self, mount: BindMount) -> None:
        """Raises UsageError if a mount's source is missing there, or is behind a link."""
        mounts.require_source(mount)

    def workspace_path(self, target: Target) -> str:
        """The path of the target's workspace there, existing or not. Raises UsageError if it is behind a link."""
        return str(workspace.locate(target.workspace, target.path).resolve())

    def workspace(self, target: Target) -> str:
        """The path of the target's workspace, made with the recipe's folders if they are missing.

        Raises UsageError.
        """
        return str(workspace.prepare(target))

    def mountinfo(self) -> str:
        """/proc/self/mountinfo of the user's login there, "" if there is none."""
        return mounts.mountinfo()


def fitting_jobs(processors: int, peak_bytes: int = 0, meminfo: Path = MEMINFO) -> int:
    """How many compilers fit into the free memory, 1 to `processors`; `peak_bytes` is the measured need of one."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return processors
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    return processors if free is None else max(1, min(processors, free // max(peak_bytes, _JOB_BYTES)))
