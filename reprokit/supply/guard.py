"""Programs that fetch on our behalf (uv, pip, git), kept to where a stranger's address may lead.

Their requests go through a gateway of this process, which judges each address it connects to; names, redirects and
submodules included. They find the user's passwords for the user's own hosts only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from reprokit.supply.fetch.http import read_netrc
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own

# Of the user's settings of git what a company's network takes; with a proxy of git's own the proxy judges names.
_KEPT = ("http.proxy", "http.sslCAInfo", "http.sslCAPath", "http.sslVerify")
_AGENTS = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "XDG_CONFIG_HOME")


@contextmanager
def guarded(store: Store, own: Own) -> Iterator[dict[str, str]]:
    """The variables of a program that is kept so, to be added to its environment."""
    with Gateway(store, ServedSet(), own=own) as gateway, TemporaryDirectory(prefix="reprokit-netrc-") as folder:
        netrc = Path(folder) / "netrc"
        netrc.touch(0o600)
        netrc.write_text(_netrc(own))
        yield {**gateway.build_arguments(), "all_proxy": "", "ALL_PROXY": "", "NETRC": str(netrc)}


@contextmanager
def git_environment(address: str, store: Store, owned: Callable[[], Own]) -> Iterator[Mapping[str, str] | None]:
    """All variables of a git that talks to this address; None, for the user's git as it is, where it is the user's own.

    That is a mirror, a host of the configuration, or what `url.insteadOf` leads elsewhere. Any other is asked without
    credential helpers, agents and netrc, and over https alone. `owned` is called only where it decides: pip, which it
    asks, takes longer than git.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or git("ls-remote", "--get-url", address).strip() != address:
        yield None
        return
    own = owned()
    if own.names(parts.hostname or "", parts.port or 443) or own.trusts(parts):
        yield None
        return
    with guarded(store, own) as variables:
        kept = {name: value for name in _KEPT if (value := _setting(name, address))}
        bare = {n: v for n, v in os.environ.items() if n.startswith("GIT_SSL_") or not n.startswith("GIT_")}
        for name in _AGENTS:
            bare.pop(name, None)
        settings = {f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(kept)}
        settings |= {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(kept.values())}
        isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "https"}
        # git's own HTTP library looks for .netrc in the home folder.
        home = str(Path(variables["NETRC"]).parent / "none")
        yield {**bare, **variables, **settings, **isolated, "GIT_CONFIG_COUNT": str(len(kept)), "HOME": home}


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
