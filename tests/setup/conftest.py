from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bare_machine import BACKEND, PYPROJECT, TOOLS, Machine
from tests.support.paths import ROOT


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Has python3, mmdebstrap and a compiler; no engine answers at its DOCKER_HOST; apt-get can be given."""
    checkout, bin_dir = tmp_path / "my checkout", tmp_path / "bin"
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/setup.sh", checkout / ".ci")
    (checkout / "pyproject.toml").write_text(PYPROJECT)
    (checkout / "backend.py").write_text(BACKEND)
    bin_dir.mkdir()
    for tool in TOOLS:
        (bin_dir / tool).symlink_to(shutil.which(tool) or pytest.fail(f"{tool} is not here"))
    made = Machine(checkout, bin_dir, {"PATH": str(bin_dir), "HOME": str(tmp_path), "PIP_NO_INDEX": "1"})
    made.env["DOCKER_HOST"] = f"unix://{tmp_path}/no-engine.sock"
    made.command("python3", f'exec "{Path(sys.base_prefix) / "bin/python3"}" "$@"')
    made.command("sudo", '[ "$1" != -n ] || shift; exec "$@"')
    made.command("uname", "echo x86_64")
    for name in ("g++", "git", "aarch64-linux-gnu-g++", "qemu-aarch64"):
        made.command(name, "exit 0")
    for name in ("mmdebstrap", "newuidmap", "docker-registry", "rootlesskit", "zsh", "fish"):
        made.command(name, "exit 0")
    return made


@pytest.fixture
def engine() -> Iterator[str]:
    """The address of something that answers a ping as Docker Engine does."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/engine.sock")  # tmp_path can be too long for a socket
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    client.sendall(b"HTTP/1.0 200 OK\r\n\r\nOK")

        threading.Thread(target=serve, daemon=True).start()
        yield f"unix://{listener.getsockname()}"
