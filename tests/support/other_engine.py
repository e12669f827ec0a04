"""A second Docker Engine, in namespaces of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.engines import ServedEngine
from tests.support.privileges import need_root

_LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as any_socket:
    flags = 0x41  # IFF_UP | IFF_RUNNING
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", flags))  # SIOCSIFFLAGS
"""


class OtherEngine(ServedEngine):
    """A dockerd in namespaces of its own, which take its containers and mounts along when it dies.

    Its network has a loopback and nothing else.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        need_root()
        self.socket = folder / "d.sock"
        # The network too: with --bridge=none a dockerd deletes docker0, and with it the first engine's network.
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += ["dockerd", f"--host=unix://{self.socket}", f"--data-root={data}"]
        command += [
            f"--exec-root={folder / 'exec'}",
            f"--pidfile={folder / 'pid'}",
            "--bridge=none",
            "--iptables=false",
        ]
        super().__init__(f"unix://{self.socket}", command, folder / "log")

    def prepare(self) -> None:
        self.inside([sys.executable, "-c", _LOOPBACK_UP], check=True)

    def inside(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a command in the engine's network."""
        return subprocess.run([*self.enter, *command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
