"""A machine of the cluster: a process in namespaces of its own, below which its sshd and its engine run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reprokit.engine import Engine
from tests.support.engines import answers, connect
from tests.support.waiting import wait_for

# The cache folder of one node, whose name needs quoting.
AWKWARD_CACHE = "node2's own cache"
_ENGINE = """
exec dockerd --host=unix:///run/docker.sock --host="unix://$1/s" --data-root="$1/data" --exec-root=/run/docker \
  --pidfile=/run/docker.pid --iptables=false --insecure-registry=10.0.0.0/8 > "$1/engine.log" 2>&1
"""
# Another Debian's engine, in that Debian's root; its data are in the node's folder, which it sees as /mnt.
_OTHER_ENGINE = """
set -eu
mkdir -p "$1/other" "$2/mnt"
mount --bind "$2" "$2"
mount -t proc proc "$2/proc"
for each in dev sys run; do mount --rbind /$each "$2/$each"; done
mount --bind "$1/other" "$2/mnt"
mount -t tmpfs tmpfs "$2/tmp"
echo "{\\"features\\": {\\"containerd-snapshotter\\": $3}}" > "$2/mnt/daemon.json"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec chroot "$2" dockerd --config-file=/mnt/daemon.json --host=unix:///run/docker.sock --host=unix:///mnt/s \\
  --data-root=/mnt/data --exec-root=/run/other --pidfile=/run/docker.pid --bridge=none --iptables=false \\
  > "$1/engine.log" 2>&1
"""


@dataclass
class Machine:
    """One of the cluster's machines. `veth` is the network interface towards it, "" where there is none.

    `gateway` is the address at which it sees this machine, or the one before it.
    """

    name: str
    folder: Path
    process: subprocess.Popen[bytes]
    address: str = ""
    gateway: str = ""
    veth: str = ""

    @property
    def login(self) -> str:
        """Its address, as a user writes it."""
        return f"root@{self.address}"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def cache(self) -> Path:
        """$XDG_CACHE_HOME of its logins, as a path on this machine."""
        return self.home / (AWKWARD_CACHE if self.name == "node2" else ".cache")

    @property
    def incoming(self) -> Path:
        return self.cache / "reprokit" / "incoming"

    def engine(self) -> Engine:
        """Its engine, once it answers."""
        wait_for(lambda: answers(self._socket))
        return connect(self._socket)

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in its network and with its mounts."""
        return subprocess.run([*self._enter, *command], capture_output=True, text=True, check=True)

    def start_engine(self) -> None:
        """Start its engine, for the first time or after it was killed."""
        self._socket = f"unix://{self.folder}/s"
        command = [*self._enter, "sh", "-c", _ENGINE, "start", str(self.folder)]
        self._engine = subprocess.Popen(command, start_new_session=True)

    def start_other_engine(self, root: Path, containerd: bool) -> None:
        """Start the engine of another root folder instead, with one of its two image stores. The first is stopped."""
        self.stop_engine()
        self._socket = f"unix://{self.folder}/other/s"
        script = [_OTHER_ENGINE, "start", str(self.folder), str(root), "true" if containerd else "false"]
        command = [*self._enter, "unshare", "--mount", "sh", "-c", *script]
        self._engine = subprocess.Popen(command, start_new_session=True)

    def stop_engine(self) -> None:
        """Stop its engine."""
        for pid in self.pids("dockerd\0"):
            os.kill(pid, signal.SIGTERM)
        self._engine.wait(120)

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", "--net", "--mount", "--pid", f"--target={self.init}", "--"]

    @property
    def init(self) -> int:
        """The process that all others of the machine descend from."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def pids(self, word: str) -> list[int]:
        """Its processes with a word in their command line, by their IDs on this machine."""
        space = Path(f"/proc/{self.init}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "ns" / "pid").readlink() == space and word in (folder / "cmdline").read_text():
                    found.append(int(folder.name))
        return found

    def kill(self, word: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to its processes with a word in their command line; returns how many there were."""
        pids = self.pids(word)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGKILL:
            # nsenter stops itself when its child is stopped; it must run to reap the child.
            self._engine.send_signal(signal.SIGCONT)
        return len(pids)

    @contextlib.contextmanager
    def stalling(self, after: int) -> Iterator[None]:
        """Let through `after` bytes to it and then hardly any: a transfer of more is surely met under way."""
        device = ("dev", self.veth, "root")
        run("tc", "qdisc", "add", *device, "tbf", "rate", "2mbit", "burst", str(after), "limit", str(1 << 20))
        try:
            yield
        finally:
            run("tc", "qdisc", "del", *device)

    def cut(self) -> None:
        """Disconnect it."""
        ip("link", "set", self.veth, "down")

    def mend(self) -> None:
        ip("link", "set", self.veth, "up")

    def sent_to(self) -> int:
        """Bytes that were sent to it, with all headers."""
        return int(Path(f"/sys/class/net/{self.veth}/statistics/tx_bytes").read_text())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def run(*words: str) -> object:
    return subprocess.run(words, capture_output=True, text=True, check=True)


def ip(*words: str) -> object:
    return run("ip", *words)
