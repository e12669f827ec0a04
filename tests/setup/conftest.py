from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("cat", "cut", "dirname", "env", "flock", "grep", "id", "ls", "mkdir", "mktemp", "rm", "sed", "sh")
TOOLS += ("sha256sum", "sleep", "tail", "tr")
PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
# A build backend without dependencies, so that pip needs no index.
BACKEND = """\
import zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    info = {"METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n", "RECORD": "",
            "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    with zipfile.ZipFile(f"{folder}/tiny-1-py3-none-any.whl", "w") as wheel:
        for name, text in info.items():
            wheel.writestr(f"tiny-1.dist-info/{name}", text)
    return "tiny-1-py3-none-any.whl"
"""


@dataclass
class Machine:
    """A checkout with a space in its path, and a PATH of chosen commands, so that anything can be missing."""

    checkout: Path
    bin: Path
    env: dict[str, str] = field(default_factory=dict)

    def command(self, name: str, script: str) -> None:
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", ".ci/setup.sh", *args],
            cwd=self.checkout,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def setup(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*args, **env)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


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
    made.command("sudo", 'exec "$@"')
    made.command("uname", "echo x86_64")
    for name in ("g++", "git", "aarch64-linux-gnu-g++", "qemu-aarch64"):
        made.command(name, "exit 0")
    for name in ("mmdebstrap", "newuidmap", "docker-registry", "rootlesskit"):
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
