"""Facts about a node, collected by one script for a POSIX shell and coreutils."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reprokit.host import gpu
from reprokit.host.command import SAY, lines_of
from reprokit.host.gpu import DEVICE_FILES, Gpu
from reprokit.host.memory import memory_of
from reprokit.host.mounts import own_container
from reprokit.host.user import Caller

# The address of the login's engine, for `docker_address`.
DOCKER = """
if [ -n "${DOCKER_HOST-}" ]; then echo "$DOCKER_HOST" | say docker
elif grep -q '"currentContext"' "${DOCKER_CONFIG:-$HOME/.docker}/config.json" 2>/dev/null; then
  docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null | say docker
elif [ -n "${CONTAINER_HOST-}" ]; then echo "$CONTAINER_HOST" | say docker
fi
"""
SCRIPT = rf"""{SAY}
id -u | say uid
id -g | say gid
id -G | say groups
id -un 2>/dev/null | say user
printf '%s\n' "${{XDG_CACHE_HOME:-$HOME/.cache}}" | say cache
grep MemTotal: /proc/meminfo | say memory
env | grep -iE '^(http|https|ftp|all|no)_proxy=' | say proxy
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep ' 0A ' | say listening
grep -E ' /etc/(hostname|hosts|resolv.conf) ' /proc/self/mountinfo | say mount
for file in {" ".join(DEVICE_FILES)}; do [ -e "$file" ] && echo "$file" | say device; done
{gpu.script()}cat /proc/sys/kernel/random/boot_id 2>/dev/null | say boot
readlink /proc/self/ns/net 2>/dev/null | say network
{DOCKER}true
"""
# Runs after the script, for `NodeFacts.nested`.
RUNNING = "docker ps -q --no-trunc 2>/dev/null | say running\n"
_SOCKET = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class NodeFacts:
    """A login on a node and its machine.

    `cache` is the user's cache folder, `memory` in bytes, `listening` are TCP ports, `running` the IDs of the engine's
    running containers, `mountinfo` the lines that identify a container around the login. `hung`: the driver does not
    answer. `machine`: alike for all logins on one machine, "" if unknown.
    """

    caller: Caller
    cache: str
    memory: int | None
    proxies: dict[str, str]
    listening: frozenset[int]
    mountinfo: str
    devices: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    hung: bool = False
    docker: str = _SOCKET
    running: frozenset[str] = field(default_factory=frozenset)
    machine: str = ""

    @property
    def nested(self) -> bool:
        """Whether the login runs in a container of this node's engine; its paths are not the engine's."""
        return own_container(self.mountinfo) in self.running


def parse(output: str) -> NodeFacts:
    """Parse the script's output, which may be mixed with that of login scripts. Raises ValueError."""
    facts = lines_of(output)

    def first(name: str, default: str | None = None) -> str:
        found = facts.get(name) or ([] if default is None else [default])
        if not found:
            raise ValueError(f"the node's answer has no {name}")
        return found[0]

    caller = Caller(
        number(first("uid")), number(first("gid")), tuple(map(number, first("groups", "").split())), first("user", "")
    )
    answer = gpu.parse(facts)
    return NodeFacts(
        caller=caller,
        cache=first("cache"),
        memory=memory_of([first("memory", "")], ""),
        proxies=dict(p.partition("=")[::2] for p in facts.get("proxy", ())),
        listening=frozenset(_ports(facts.get("listening", ()))),
        mountinfo="".join(f"{line}\n" for line in facts.get("mount", ())),
        devices=tuple(facts.get("device", ())),
        gpus=answer.known_gpus,
        hung=answer.status == "hangs",
        docker=docker_address(facts),
        running=frozenset(facts.get("running", ())),
        machine=" ".join(facts["boot"] + facts["network"]) if {"boot", "network"} <= facts.keys() else "",
    )


def docker_address(facts: Mapping[str, list[str]]) -> str:
    """The address of the login's engine, as DOCKER_HOST has it."""
    return (facts.get("docker") or [""])[0] or _SOCKET


def number(text: str) -> int:
    """A whole number that a node wrote, of at most 18 digits. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def free_bytes(kilobytes: str) -> int:
    """Bytes of the free kilobytes that df prints, negative if root's reserve is in use. Raises ValueError."""
    return 0 if re.fullmatch(r"-[0-9]{1,18}", kilobytes) else number(kilobytes) * 1024


def _ports(lines: Iterable[str]) -> Iterable[int]:
    """The ports in lines of /proc/net/tcp, in hexadecimal after the address."""
    for line in lines:
        if found := re.match(r"\s*\d+: [0-9A-F]+:([0-9A-F]{4}) ", line):
            yield int(found[1], 16)
