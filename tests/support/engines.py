"""The kinds of engines: this machine's Docker, Debian 13's with both of its stores, podman."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import docker

from reprokit.engine import Engine
from tests.support.privileges import need_root
from tests.support.waiting import wait_for

# The engine's process has Debian 13 as its root; its data are in FOLDER, which it sees as /mnt.
_START = """
root=$1 folder=$2

ip link set lo up
mkdir -p "$root/mnt"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount --bind "$folder" "$root/mnt"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec chroot "$root" /usr/sbin/dockerd --config-file=/mnt/daemon.json --host=unix:///mnt/d.sock --data-root=/mnt/data \
    --exec-root=/run/exec --pidfile=/run/pid --bridge=none --iptables=false
"""


def debian_13(folder: Path) -> Path:
    """Debian 13's engine, unpacked but not configured: a static program needs no more."""
    need_root()
    command = ["mmdebstrap", "--variant=extract", "--include=docker.io,base-files"]
    command += ["--aptopt=APT::Install-Recommends false", "trixie", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def connect(address: str) -> Engine:
    return Engine(docker.APIClient(address, timeout=120))


def answers(address: str) -> bool:
    """Whether an engine answers there."""
    try:
        return bool(docker.APIClient(address, timeout=5).ping())
    except Exception:
        return False


class ServedEngine:
    """An engine that `command` starts; it listens at `address`."""

    def __init__(self, address: str, command: list[str], log: Path) -> None:
        self.address, self.log = address, log
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        try:
            wait_for(lambda: self.process.poll() is not None or answers(self.address))
            assert self.process.poll() is None, log.read_text()
            self.prepare()
        except BaseException:
            self.stop()
            raise

    def prepare(self) -> None:
        """What is missing when the engine answers."""

    def connect(self) -> Engine:
        return connect(self.address)

    @property
    def enter(self) -> list[str]:
        """The beginning of a command that runs in the engine's network."""
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--"]

    def stop(self) -> None:
        # unshare forwards no other signal, and its child ends with it.
        self.process.kill()
        self.process.wait()


class NewDocker(ServedEngine):
    """Debian 13's Docker Engine, in namespaces of its own that end with it."""

    def __init__(self, root: Path, folder: Path, containerd: bool) -> None:
        need_root()
        folder.mkdir(exist_ok=True)
        (folder / "daemon.json").write_text(json.dumps({"features": {"containerd-snapshotter": containerd}}))
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
        command += ["sh", "-euc", _START, "sh", str(root), str(folder)]
        super().__init__(f"unix://{folder / 'd.sock'}", command, folder / "log")


class Podman(ServedEngine):
    """podman's service with Docker's interface, storage of its own, and namespaces that end with it."""

    def __init__(self, folder: Path) -> None:
        need_root()
        folder.mkdir(exist_ok=True)
        address = f"unix://{folder / 'p.sock'}"
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
        # crun, the default, refuses machines with both versions of cgroups.
        command += ["--runtime=runc", "--cgroup-manager=cgroupfs"] if shutil.which("runc") else []
        command += ["--storage-driver=vfs", "system", "service", "--time=0", address]
        super().__init__(address, command, folder / "log")
