"""Nodes on one machine: each a network of its own with an sshd and a Docker Engine in it, and its own home folder.

    this machine ──┬── node1 … nodeN
                   ├── gate ──── hidden     (no way to `hidden` but through `gate`, which has no engine)
                   └── an address at which nobody is

Everything of a node is a child of one process in namespaces of its own: when that dies, by whatever signal, its
network, mounts, sshd and engine go with it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import docker

from reprokit.engine import Engine
from tests.support.waiting import wait_for

_SSHD = """
Port 22
HostKey {folder}/hostkey
PidFile none
AuthorizedKeysFile {folder}/authorized
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
PrintMotd no
MaxStartups 100
Subsystem sftp internal-sftp
{environment}
"""
# Of one node, for the names in it.
_AWKWARD_CACHE = "node2's own cache"
# Its own /run, so that its engine's socket is where it usually is; its own /root. The machine's sshd, if there is one,
# is not concerned.
_START = """
set -eu
cd "$1"
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd home
mount --bind home /root
ip link set lo up
echo up > up
/usr/sbin/sshd -D -e -f sshd_config 2> sshd.log &
wait
"""
_ENGINE = """
exec dockerd --host=unix:///run/docker.sock --host="unix://$1/s" --data-root="$1/data" --exec-root=/run/docker \
  --pidfile=/run/docker.pid --iptables=false --insecure-registry=10.0.0.0/8 > "$1/engine.log" 2>&1
"""
# Another Debian's engine: that is its root, and what it makes lies in the node's folder, which it sees as /mnt.
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
_CLIENT = """
IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking yes
"""


@dataclass
class Machine:
    """One of the cluster's machines. `veth` is this machine's end of the wire to it, "" where there is none.

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
        """What a user writes to name it."""
        return f"root@{self.address}"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def cache(self) -> Path:
        """$XDG_CACHE_HOME of its logins, as this machine sees it."""
        return self.home / (_AWKWARD_CACHE if self.name == "node2" else ".cache")

    @property
    def incoming(self) -> Path:
        return self.cache / "reprokit" / "incoming"

    def engine(self) -> Engine:
        """Its engine, which is waited for."""
        wait_for(self._answers, 60)
        return Engine(docker.APIClient(self._socket, timeout=60))

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
        self._engine.wait(60)

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", "--net", "--mount", "--pid", f"--target={self.init}", "--"]

    @property
    def init(self) -> int:
        """The process that all others of the machine descend from."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def pids(self, word: str) -> list[int]:
        """Its processes with a word in their command line, as this machine numbers them."""
        space = Path(f"/proc/{self.init}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "ns" / "pid").readlink() == space and word in (folder / "cmdline").read_text():
                    found.append(int(folder.name))
        return found

    def kill(self, word: str) -> int:
        """Kill -9 its processes with a word in their command line; returns how many there were."""
        pids = self.pids(word)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(pids)

    def cut(self) -> None:
        """Take the wire out."""
        _ip("link", "set", self.veth, "down")

    def mend(self) -> None:
        _ip("link", "set", self.veth, "up")

    def sent_to(self) -> int:
        """Bytes that went over the wire to it, headers of every kind included."""
        return int(Path(f"/sys/class/net/{self.veth}/statistics/tx_bytes").read_text())

    def _answers(self) -> bool:
        try:
            return bool(docker.APIClient(self._socket, timeout=5).ping())
        except Exception:
            return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Cluster:
    """Machines by name; `down` is the address of one that is off.

    `environment` is what a process needs for its `ssh` to use the cluster's key and known hosts, and for its own files.
    """

    folder: Path
    machines: dict[str, Machine] = field(default_factory=dict)
    down: str = ""

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    @property
    def nodes(self) -> list[Machine]:
        """Those that have an engine and no machine before them."""
        return [m for name, m in self.machines.items() if name.startswith("node")]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "user"),
        }


@contextlib.contextmanager
def cluster(count: int = 4) -> Iterator[Cluster]:
    """`count` nodes with an engine, a `gate`, and a `hidden` node behind it, all of them up. Takes root."""
    # Short, for sockets are in it; not a pytest folder, which stays.
    folder = Path(tempfile.mkdtemp(prefix="rk-nodes-"))
    found = Cluster(folder)
    try:
        _client_files(folder)
        # Unlikely to be anybody's: another cluster may run beside this one.
        prefix = f"10.{random.randrange(100, 250)}.{random.randrange(1, 250)}"
        tag = f"{random.randrange(1 << 16):04x}"
        for number in range(1, count + 1):
            machine = _start(folder, f"node{number}")
            found.machines[machine.name] = machine
            _wire(machine, f"rk{tag}n{number}", f"{prefix}.{4 * number + 1}", f"{prefix}.{4 * number + 2}")
        gate = found.machines["gate"] = _start(folder, "gate")
        _wire(gate, f"rk{tag}g", f"{prefix}.241", f"{prefix}.242")
        hidden = found.machines["hidden"] = _start(folder, "hidden")
        _wire(hidden, f"rk{tag}h", f"{prefix}.245", f"{prefix}.246", gate)
        _ip("addr", "add", f"{prefix}.249/30", "dev", gate.veth)
        found.down = f"root@{prefix}.250"  # on gate's wire, and gate does not answer to it
        _write_known_hosts(found)
        for machine in found.machines.values():
            wait_for(lambda machine=machine: b"listening" in (machine.folder / "sshd.log").read_bytes(), 30)
        with_engine = [machine for machine in found.machines.values() if machine is not gate]
        for machine in with_engine:
            machine.start_engine()
        for machine in with_engine:
            machine.engine()
        yield found
    finally:
        for machine in found.machines.values():
            machine.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, name: str) -> Machine:
    own = folder / name
    own.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(own / "hostkey")], check=True)
    (own / "authorized").write_bytes((folder / "key.pub").read_bytes())
    environment = f'SetEnv XDG_CACHE_HOME="/root/{_AWKWARD_CACHE}"' if name == "node2" else ""
    (own / "sshd_config").write_text(_SSHD.format(folder=own, environment=environment))
    # Whoever kills the tests kills the machine.
    command = ["setpriv", "--pdeathsig", "KILL"]
    command += ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += ["sh", "-c", _START, "start", str(own)]
    with (own / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    wait_for((own / "up").exists, 30)
    return Machine(name, own, process)


def _wire(machine: Machine, veth: str, ours: str, theirs: str, before: Machine | None = None) -> None:
    """A wire from this machine, or from the one `before` it."""
    _ip("link", "add", veth, "type", "veth", "peer", "name", f"{veth}p")
    _ip("link", "set", f"{veth}p", "netns", str(machine.init), "name", "eth0")
    near = _ip
    if before:
        _ip("link", "set", veth, "netns", str(before.init))
        near = lambda *words: before.inside("ip", *words)  # noqa: E731
    near("addr", "add", f"{ours}/30", "dev", veth)
    near("link", "set", veth, "up")
    machine.inside("ip", "addr", "add", f"{theirs}/30", "dev", "eth0")
    machine.inside("ip", "link", "set", "eth0", "up")
    machine.address, machine.gateway, machine.veth = theirs, ours, "" if before else veth


def _client_files(folder: Path) -> None:
    """A key, a home with an ssh configuration, and an `ssh` that reads it: ssh itself asks the password file."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    (folder / "user" / ".ssh").mkdir(parents=True)
    (folder / "user" / ".ssh" / "config").write_text(_CLIENT.format(folder=folder))
    wrapper = folder / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "$HOME/.ssh/config" "$@"\n')
    wrapper.chmod(0o755)


def _write_known_hosts(found: Cluster) -> None:
    lines = [
        f"{machine.address} {' '.join((machine.folder / 'hostkey.pub').read_text().split()[:2])}\n"
        for machine in found.machines.values()
    ]
    (found.folder / "known_hosts").write_text("".join(lines))


def _ip(*words: str) -> object:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True)
