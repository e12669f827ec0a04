"""A second Docker Engine, in namespaces of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reprokit.engine import Engine
from tests.support.engines import answers, connect
from tests.support.privileges import need_root
from tests.support.waiting import wait_for

_LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as any_socket:
    flags = 0x41  # IFF_UP | IFF_RUNNING
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", flags))  # SIOCSIFFLAGS
"""


class OtherEngine:
    """A dockerd in namespaces of its own, which take its containers and mounts along when it dies.

    Its network has a loopback and nothing else.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        need_root()
        self.socket = folder / "d.sock"
        self.log = folder / "log"
        # The network too: with --bridge=none a dockerd deletes docker0, and with it the first engine's network.
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += ["dockerd", f"--host=unix://{self.socket}", f"--data-root={data}"]
        command += [f"--exec-root={folder / 'exec'}"]
        command += [f"--pidfile={folder / 'pid'}", "--bridge=none", "--iptables=false"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for(lambda: self.process.poll() is not None or answers(self.address))
            assert self.process.poll() is None, self.log.read_text()
            self.inside([sys.executable, "-c", _LOOPBACK_UP], check=True)
        except BaseException:
            self.stop()
            raise

    @property
    def address(self) -> str:
        return f"unix://{self.socket}"

    def connect(self) -> Engine:
        return connect(self.address)

    def inside(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a command in the engine's network."""
        enter = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--"]
        return subprocess.run([*enter, *command], capture_output=True, text=True, **options)  # type: ignore[call-overload]

    def stop(self) -> None:
        # unshare ignores SIGTERM while it waits, and its child is killed with it.
        self.process.kill()
        self.process.wait()
