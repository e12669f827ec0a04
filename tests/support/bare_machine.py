"""A machine on which any command can be missing."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

TOOLS = ("cat", "cut", "dirname", "env", "flock", "grep", "id", "ls", "mkdir", "mktemp", "rm", "sed", "sh")
TOOLS += ("sha256sum", "sleep", "tail", "tr", "true")


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
        command, pipes = ["sh", ".ci/setup.sh", *args], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        env = {**self.env, **env}
        return subprocess.Popen(command, cwd=self.checkout, env=env, stdin=subprocess.DEVNULL, text=True, **pipes)

    def setup(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*args, **env)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
