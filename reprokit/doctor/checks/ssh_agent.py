"""The keys with which ssh logs in to nodes."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit import config
from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, warning

_SCRIPT = """
command -v ssh | say ssh
ssh-add -l >/dev/null 2>&1
echo $? | say code
for file in "$HOME"/.ssh/id_*.pub; do [ -f "$file" ] && echo "${file##*/}" | say key; done
"""
_AGENT = {"0": "the agent has keys", "1": "the agent has no keys"}


def find(host: Examined) -> Iterator[Finding]:
    if host.node:
        return  # agents are not forwarded to nodes
    nodes = config.load().nodes
    if not nodes:
        yield info("ssh_agent", "nodes=none", "no nodes are configured")
        return
    found = host.ask(_SCRIPT)
    subject = f"nodes={len(nodes)}"
    if not found.one("ssh"):
        yield error("ssh_agent.ssh", subject, "ssh is not installed", "install the OpenSSH client")
    elif found.one("code") != "0" and not found.one("key"):
        agent = _AGENT.get(found.one("code"), "no agent answers")
        remedy = "reprokit never asks for passwords: set up a key (`ssh-keygen`, `ssh-copy-id`, `ssh-add`)"
        yield warning("ssh_agent.keys", subject, f"{agent}, and ~/.ssh has no key", remedy)
    else:
        keys = ", ".join(found.all("key")) or "no key in ~/.ssh"
        yield info("ssh_agent", subject, f"{_AGENT.get(found.one('code'), 'no agent answers')}; {keys}")
