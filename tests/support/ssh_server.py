"""An sshd on loopback with git repositories, and an agent that holds the only key to it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.waiting import wait_for


class SshServer:
    """`environment` is a user's whose agent has the key; `connections` counts who came."""

    def __init__(self, root: Path, port: int, agent: Path) -> None:
        self.root, self.port, self.agent = root, port, agent
        self.private_key = (root / "user").read_text()

    @property
    def address(self) -> str:
        return f"ssh://root@127.0.0.1:{self.port}{self.root}/forge"

    @property
    def environment(self) -> dict[str, str]:
        options = f"-F /dev/null -oUserKnownHostsFile={self.root}/known -oIdentityFile=none -oBatchMode=yes"
        return {"SSH_AUTH_SOCK": str(self.agent), "GIT_SSH_COMMAND": f"ssh {options}"}

    @property
    def connections(self) -> int:
        return (self.root / "log").read_text().count("Connection from")


@contextmanager
def ssh_server(root: Path) -> Iterator[SshServer]:
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        pytest.skip("takes root and openssh-server")
    root.chmod(0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)], check=True)
    (root / "authorized").write_bytes((root / "user.pub").read_bytes())
    port = free_port()
    kind, key, *_ = (root / "host.pub").read_text().split()
    (root / "known").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    settings = {
        "ListenAddress": "127.0.0.1", "Port": port, "HostKey": root / "host", "AuthorizedKeysFile": root / "authorized",
        "PidFile": "none", "PasswordAuthentication": "no", "StrictModes": "no", "UsePAM": "no",
        "PermitRootLogin": "prohibit-password", "LogLevel": "VERBOSE",
    }  # fmt: skip
    (root / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    said = subprocess.run(["ssh-agent", "-a", str(root / "agent")], check=True, capture_output=True, text=True).stdout
    agent = re.search(r"SSH_AGENT_PID=(\d+)", said)
    assert agent is not None
    command = ["/usr/sbin/sshd", "-D", "-f", str(root / "sshd_config"), "-E", str(root / "log")]
    with subprocess.Popen(command) as process:
        try:
            environment = {**os.environ, "SSH_AUTH_SOCK": str(root / "agent")}
            subprocess.run(["ssh-add", "-q", str(root / "user")], check=True, env=environment)
            wait_for(lambda: (root / "log").exists() and "Server listening" in (root / "log").read_text(), 60)
            yield SshServer(root, port, root / "agent")
        finally:
            process.terminate()
            os.kill(int(agent[1]), 15)
