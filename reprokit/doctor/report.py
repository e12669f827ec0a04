"""A report to paste into an issue: findings without names, addresses, paths and secrets of the user."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import platform
import re
from collections.abc import Iterable, Iterator, Sequence

from reprokit import __version__
from reprokit.compat.model import Finding
from reprokit.config import Configuration
from reprokit.doctor.examined import Examined, NotAsked
from reprokit.doctor.shell import Reported
from reprokit.redact import environment_secrets, redact
from reprokit.untrusted.terminal import escaped

_LEAST_SECRET = 6  # characters
_URL_HOST = re.compile(r"(?<=://)(?!localhost\b|127\.|\[::1\])[^/\s:?#'\"`)]+")
_QUERY = re.compile(r"(?<=[^\s])\?[^\s'\"`)]+=[^\s'\"`)]*")
_HOME = re.compile(r"/(?:home|Users)/[^/\s'\"`:,)]+")
_ADDRESS = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)|(?<![\w:.])(?=[0-9a-fA-F]*:[0-9a-fA-F]*:)[0-9a-fA-F:]+(?!\w)"
)


class Scrubber:
    """Remove the user's name, home, hosts and secrets from text."""

    def __init__(
        self, users: Iterable[str], hosts: Iterable[str], homes: Iterable[str], secrets: Iterable[str]
    ) -> None:
        replaced = [
            *((re.escape(secret), "SECRET") for secret in secrets if len(secret) >= _LEAST_SECRET),
            *((rf"{re.escape(home.rstrip('/'))}(?![\w.-])", "~") for home in homes if len(home) > 1),
            *((rf"(?<![\w-]){re.escape(host)}(?:\.[\w-]+)*(?![\w-])", "HOST") for host in _longest_first(hosts)),
            *((rf"(?<![\w-]){re.escape(user)}(?![\w-])", "USER") for user in _longest_first(users) if user != "root"),
        ]
        self._patterns = [(re.compile(pattern, re.IGNORECASE), word) for pattern, word in replaced]

    def __call__(self, text: str) -> str:
        text = _QUERY.sub("", redact(text))
        for pattern, word in self._patterns:
            text = pattern.sub(word, text)
        text = _HOME.sub("/home/USER", _URL_HOST.sub("HOST", text))
        return _ADDRESS.sub(_hidden, text)


def scrubber(host: Examined, configuration: Configuration) -> Scrubber:
    """The scrubber for a report on this machine or a node. Raises NoAnswer, OSError if a name is unknown."""
    names = host.names.result()
    nodes = configuration.nodes
    user, _, address = host.node.rpartition("@")
    own = [
        *_all(names, "host"),
        *(name for node in nodes for name in (node.name, node.host)),
        address.partition(":")[0],
    ]
    others = [*configuration.hosts, *(entry.value for entry in configuration.entries), *(node.jump for node in nodes)]
    with contextlib.suppress(NotAsked):
        others += host.info().mirrors
    hosts = [*own, *(name.partition(".")[0] for name in own if not name[:1].isdigit()), *map(_host_of, others)]
    users = [*_all(names, "user"), *(node.user for node in nodes), user]
    return Scrubber(users, hosts, _all(names, "home"), environment_secrets(os.environ))


def report(findings: Sequence[Finding], where: str, scrub: Scrubber | None) -> str:
    """The text of the report. Without a scrubber it shows only rules, as other text may contain secrets."""
    lines = [
        f"reprokit {__version__}, Python {platform.python_version()}, on {where}",
        *(line for finding in findings for line in _lines(finding, scrub)),
    ]
    # Indented text is a block of code in Markdown.
    return "reprokit doctor\n\n" + "".join(f"    {escaped(line)}\n" for line in lines)


def _lines(finding: Finding, scrub: Scrubber | None) -> Iterator[str]:
    if scrub is None:
        yield f"{finding.severity:8} {finding.rule}"
        return
    yield f"{finding.severity:8} {finding.rule}: {scrub(', '.join(finding.subjects))}"
    for text in (finding.reason, f"remedy: {finding.remedy}" if finding.remedy else ""):
        if text:
            yield f"         {scrub(text)}"


def _all(answers: Iterable[Reported], name: str) -> list[str]:
    return [line for answer in answers for line in answer.all(name)]


def _longest_first(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if len(name) > 1 and name != "localhost"}, key=len, reverse=True)


def _host_of(address: str) -> str:
    """The host of a URL, of a template of one, or of `HOST[:PORT]/...`."""
    return re.split(r"[/:{]", address.partition("://")[2] or address)[0].rpartition("@")[2]


def _hidden(match: re.Match[str]) -> str:
    try:
        return match[0] if ipaddress.ip_address(match[0]).is_loopback else "ADDRESS"
    except ValueError:
        return match[0]  # a version, a time, or the address of a PCI device
