"""Restrictions for programs that download addresses of recipes (uv, pip, git).

Their requests go through a gateway of this process, which checks every address, also of redirects and submodules. They
get the user's passwords only for hosts of the user's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import SplitResult, urlsplit

from reprokit.errors import SourceError
from reprokit.supply.fetch.http import read_netrc
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own

# The user's git settings that a company's network needs. With a proxy of git's own, that proxy resolves names.
_KEPT = ("http.proxy", "http.sslCAInfo", "http.sslCAPath", "http.sslVerify")
_AGENTS = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "XDG_CONFIG_HOME")


@contextmanager
def guarded(store: Store, own: Own) -> Iterator[dict[str, str]]:
    """The variables to add to the environment of such a program."""
    with Gateway(store, ServedSet(), own=own) as gateway, TemporaryDirectory(prefix="reprokit-netrc-") as folder:
        netrc = Path(folder) / "netrc"
        netrc.touch(0o600)
        netrc.write_text(_netrc(own))
        yield {**gateway.build_arguments(), "all_proxy": "", "ALL_PROXY": "", "NETRC": str(netrc)}


@contextmanager
def git_environment(address: str, mirrors: Mirrors) -> Iterator[Mapping[str, str] | None]:
    """The environment of a git that connects to this address; None to use the user's git unrestricted.

    Unrestricted are mirrors, hosts of the configuration, and addresses that `url.insteadOf` changes. Others are used
    without credential helpers, agents and netrc, and only over https. Raises SourceError for ssh to another host,
    GitFailed for a host that this command could not reach.
    """
    lost = mirrors.store.lost
    if why := lost.why(address):
        raise GitFailed(f"{urlsplit(address).hostname} cannot be reached: {why}")
    environ = None
    try:
        with _environment(address, mirrors) as environ:
            yield environ
    except GitFailed as error:
        if error.unreachable and environ is None:  # otherwise the gateway records it
            lost.failed(address, str(error))
        elif error.unreachable and (why := lost.last_failure(address)):
            raise GitFailed(f"{urlsplit(address).hostname} cannot be reached: {why}") from None
        raise


@contextmanager
def _environment(address: str, mirrors: Mirrors) -> Iterator[Mapping[str, str] | None]:
    parts = urlsplit(address)
    if parts.scheme == "ssh":
        yield _ssh_environment(parts, mirrors.own)
        return
    if parts.scheme not in ("http", "https") or git("ls-remote", "--get-url", address).strip() != address:
        yield None
        return
    own = mirrors.own
    if own.names(parts.hostname or "", parts.port or 443) or own.trusts(parts):
        yield None
        return
    with guarded(mirrors.store, own) as variables:
        kept = {name: value for name in _KEPT if (value := _setting(name, address))}
        bare = {n: v for n, v in os.environ.items() if n.startswith("GIT_SSL_") or not n.startswith("GIT_")}
        for name in _AGENTS:
            bare.pop(name, None)
        settings = {f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(kept)}
        settings |= {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(kept.values())}
        isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "https"}
        # git's HTTP library looks for .netrc in the home folder.
        home = str(Path(variables["NETRC"]).parent / "none")
        yield {**bare, **variables, **settings, **isolated, "GIT_CONFIG_COUNT": str(len(kept)), "HOME": home}


def _ssh_environment(address: SplitResult, own: Own) -> Mapping[str, str] | None:
    """The user's keys and agent, without prompts. The agent stays on this host."""
    if not own.names(address.hostname or "", address.port or 22):
        raise SourceError(
            f"ssh to {address.hostname} would use your keys, and your configuration does not name that host",
            address.geturl(),
            "if you trust it, add it to `hosts:` of your configuration: `reprokit config`",
        )
    if {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys() or _setting("core.sshCommand", address.geturl()):
        return None
    return {**os.environ, "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oForwardAgent=no"}


def _setting(name: str, address: str) -> str:
    try:
        return git("config", "--get-urlmatch", name, address).strip()
    except GitFailed:
        return ""


def _netrc(own: Own) -> str:
    known = read_netrc()
    lines = []
    for host, (login, _, password) in known.hosts.items() if known else ():
        words = ["machine", host, "login", login or "", "password", password or ""]
        if own.names(host, 443) and all(word and word.isprintable() and " " not in word for word in words):
            lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)
