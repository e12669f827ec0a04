"""Nodes on one machine: each a network of its own with an sshd and a Docker Engine in it, and its own home folder.

    this machine ──┬── node1 … nodeN
                   ├── gate ──── hidden     (reached only through `gate`, which has no engine)
                   └── an address that nobody has

Everything of a node is a child of one process in namespaces of its own: when that dies, by whatever signal, its
network, mounts, sshd and engine go with it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.errors import ReprokitError
from tests.support.machine import AWKWARD_CACHE, Machine, ip
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
# It has its own /run, so that its engine's socket has the usual path, and its own /root.
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
_CLIENT = """
IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking yes
"""


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
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder / "user")}

    def clear(self) -> None:
        """Remove all containers and images from the nodes, and reprokit's files."""
        for machine in [*self.nodes, self["hidden"]]:
            engine = machine.engine()
            for found in engine.containers([]):
                with contextlib.suppress(ReprokitError):  # it may be going away by itself
                    engine.remove(found.id, force=True)
            for found in engine.api.images():
                engine.remove_image(found["Id"], force=True)
            shutil.rmtree(machine.cache, ignore_errors=True)


@contextlib.contextmanager
def cluster(count: int = 4) -> Iterator[Cluster]:
    """`count` nodes with an engine, a `gate`, and a `hidden` node behind it, all of them up. Needs root."""
    # A short path, because it has sockets; not a pytest folder, which is kept.
    folder = Path(tempfile.mkdtemp(prefix="rk-nodes-"))
    found = Cluster(folder)
    try:
        _client_files(folder)
        # Random, because another cluster may run at the same time.
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
        ip("addr", "add", f"{prefix}.249/30", "dev", gate.veth)
        found.down = f"root@{prefix}.250"  # gate's network has no such machine
        _write_known_hosts(found)
        for machine in found.machines.values():
            wait_for(lambda machine=machine: b"listening" in (machine.folder / "sshd.log").read_bytes())
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
    environment = f'SetEnv XDG_CACHE_HOME="/root/{AWKWARD_CACHE}"' if name == "node2" else ""
    (own / "sshd_config").write_text(_SSHD.format(folder=own, environment=environment))
    # The machine ends with the tests, even if they are killed.
    command = ["setpriv", "--pdeathsig", "KILL"]
    command += ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += ["sh", "-c", _START, "start", str(own)]
    with (own / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    wait_for((own / "up").exists)
    return Machine(name, own, process)


def _wire(machine: Machine, veth: str, ours: str, theirs: str, before: Machine | None = None) -> None:
    """Connect it to this machine, or to the one `before` it."""
    ip("link", "add", veth, "type", "veth", "peer", "name", f"{veth}p")
    ip("link", "set", f"{veth}p", "netns", str(machine.init), "name", "eth0")
    near = ip
    if before:
        ip("link", "set", veth, "netns", str(before.init))
        near = lambda *words: before.inside("ip", *words)  # noqa: E731
    near("addr", "add", f"{ours}/30", "dev", veth)
    near("link", "set", veth, "up")
    machine.inside("ip", "addr", "add", f"{theirs}/30", "dev", "eth0")
    machine.inside("ip", "link", "set", "eth0", "up")
    machine.address, machine.gateway, machine.veth = theirs, ours, "" if before else veth


def _client_files(folder: Path) -> None:
    """A key, a home with an ssh configuration, and an `ssh` that reads it: ssh itself ignores $HOME."""
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
