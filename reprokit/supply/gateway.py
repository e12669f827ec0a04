"""The gateway: an HTTP proxy in this process, which is a build's only network and exists only during the build.

A build uses it through the predefined `http_proxy` build arguments, which are neither in the layer cache's key nor in
the image's history. It serves the variant's inputs from the store under host names that cannot exist (`.invalid`, RFC
2606), passes plain HTTP on, tunnels CONNECT, and records every requested host.

It listens at the socket of a closed network, or on 127.0.0.1, which other users of the machine can reach. It requires a
password that only the build has, as inputs may come from private repositories.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import SplitResult, unquote, urlsplit

from reprokit.config import mirror_hint
from reprokit.errors import NoConnection, ReprokitError
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.lost import listed
from reprokit.supply.fetch.settings import Settings, environment_proxy
from reprokit.supply.kinds.kind import InputServer
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.policy import Policy, Recorder, pass_all
from reprokit.supply.serve import forward, server, tunnel
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own
from reprokit.untrusted.limits import GATEWAY_NAME, GATEWAY_NAMES

_STALL_S = 60
_BLOCK = 1 << 16


@dataclass
class Gateway:
    """Use as a context manager: inside it the proxy runs.

    `archives` are hosts of the distribution's archive, which the host's own mirrors may replace. `recorder` records
    every file that passes over plain HTTP. Containers that connect to `address` arrive at `listening`: a port of
    127.0.0.1 unless given. `own` replaces the hosts of the user's configuration. `mask` hides a build's secrets.
    `failure` is the last error of making a file that a build asked for.
    """

    store: Store
    inputs: ServedSet
    policy: Policy = pass_all
    archives: Container[str] = ()
    recorder: Recorder | None = None
    listening: socket.socket | None = None
    address: tuple[str, int] | None = None
    own: Own | None = None
    mask: Callable[[str], str] = str
    hosts: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failure: ReprokitError | None = None
    bytes_served: int = 0
    requests: int = 0
    _token: str = field(default_factory=partial(secrets.token_urlsafe, 18), repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Gateway:
        """Raises SourceError if an apt package is not in the store."""
        self._scratch = TemporaryDirectory(prefix="reprokit-git-")
        self._sets: dict[str, dict[str, InputServer]] = {}
        for each in self.inputs.servers.values():
            each.prepare(self.store, Path(self._scratch.name))
            self._sets.setdefault(each.host, {})[each.key] = each
        self.mirrors = Mirrors(self.store)
        # The user's own hosts are looked up only when needed: that runs pip, which takes longer than most requests.
        self.client = Client(Settings(stall_s=_STALL_S, proxy=self.proxy, lost=self.store.lost), named=self.named)
        listening = self.listening or socket.create_server(("127.0.0.1", 0))
        self.address = self.address or listening.getsockname()
        self._server = _Server(self, listening)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._scratch.cleanup()
        self.client.close()

    @property
    def url(self) -> str:
        """The address for `http_proxy`, with the password: use `hide` for logs."""
        assert self.address is not None
        host, port = self.address
        return f"http://reprokit:{self._token}@{host}:{port}"

    def hide(self, text: str) -> str:
        """`text` without the gateway's password and the build's secrets."""
        return self.mask(text.replace(self._token, "***"))

    def build_arguments(self) -> dict[str, str]:
        """The predefined arguments of a build, in both spellings, as tools differ."""
        proxies = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        return {**dict.fromkeys(proxies, self.url), "no_proxy": "", "NO_PROXY": ""}

    def allows(self, authorization: str | None) -> bool:
        expected = "Basic " + base64.b64encode(f"reprokit:{self._token}".encode()).decode()
        return hmac.compare_digest((authorization or "").encode(), expected.encode())

    def named(self, host: str, port: int) -> bool:
        """Whether the user's configuration names this server, which then need not be public."""
        return (self.own or self.mirrors.own).names(host, port)

    def mirrored(self, address: SplitResult) -> list[SplitResult]:
        """The mirrors to try first for a file of a distribution's archive: the user's, then the host's own."""
        return [urlsplit(url) for url in self.mirrors.archive(address.geturl(), self.archives)]

    def proxy(self, address: SplitResult) -> SplitResult | None:
        """The proxy of the environment; for addresses like apt's that of the host's apt."""
        if proxy := environment_proxy(address):
            return proxy
        of_apt = re.search(r"/(dists|pool)/", address.path)
        found = self.mirrors.apt.proxy(address.hostname or "") if of_apt else None
        return urlsplit(found) if found else None

    def unreached(self, what: str) -> NoConnection | None:
        """The error for `what` if hosts of an archive that were requested cannot be reached: apt does not name them."""
        failures = {host: why for host in sorted(self.hosts) if (why := self.store.lost.last_failure(f"http://{host}"))}
        if not failures:
            return None
        return NoConnection(f"{what}: no connection to {listed(failures)}", hint=mirror_hint("apt"))

    def server(self, address: SplitResult) -> InputServer | None:
        """The set that an address names; another one of its host refuses addresses of sets of other builds."""
        sets = self._sets.get(address.hostname or "", {})
        key = unquote(address.path).lstrip("/").partition("/")[0]
        return sets.get(key) or next(iter(sets.values()), None)

    def reached(self) -> None:
        with self._lock:
            self.requests += 1

    def note(self, names: Counter[str], name: str) -> None:
        """Count a name in one of the gateway's counters, which are bounded."""
        name = self.hide(name)[:GATEWAY_NAME]
        with self._lock:
            if name in names or len(names) < GATEWAY_NAMES:
                names[name] += 1

    def served(self, count: int) -> None:
        with self._lock:
            self.bytes_served += count


class _Server(server.LimitedServer):
    def __init__(self, gateway: Gateway, listening: socket.socket) -> None:
        self.gateway = gateway
        super().__init__(listening, Handler)


class Handler(server.LimitedHandler):
    server: _Server

    @property
    def gateway(self) -> Gateway:
        return self.server.gateway

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_GET

    def do_CONNECT(self) -> None:
        if self._authorised() and self._permitted(self.path):
            tunnel.open_tunnel(self, self.path)

    def _answer(self) -> None:
        if not self._authorised():
            return
        address = urlsplit(self.path)
        if address.scheme != "http" or not address.hostname:
            self.refuse(400, f"not a request for a proxy: {self.path}")
        elif found := self.gateway.server(address):
            found.answer(self, address)
        elif address.hostname.endswith(".reprokit.invalid"):
            self.discard_body()
            self.refuse(404, f"nothing is served here: {address.hostname}")
        elif self._permitted(address.hostname):
            forward.forward(self, address)

    def _authorised(self) -> bool:
        if self.gateway.allows(self.headers.get("Proxy-Authorization")):
            self.gateway.reached()
            if self.server.admit(self.connection):
                return True
            self.close_connection = True
            self.refuse(503, "too many connections")
            return False
        self.discard_body()
        self.refuse(407, "this gateway belongs to a running build", {"Proxy-Authenticate": 'Basic realm="reprokit"'})
        return False

    def _permitted(self, name: str) -> bool:
        self.gateway.note(self.gateway.hosts, name)
        refusal = self.gateway.policy(self.command, name)
        if refusal is None:
            return True
        self.gateway.note(self.gateway.refused, redact(self.path))
        self.discard_body()
        self.refuse(403, refusal)
        return False

    def refuse(self, status: int, why: str, headers: dict[str, str] | None = None) -> None:
        """Answer with one line of text that says why."""
        body = f"reprokit gateway: {why}\n".encode()
        self.start(
            status,
            {
                "Content-Type": "text/plain; charset=utf-8",
                "Content-Length": str(len(body)),
                **(headers or {}),
            },
        )
        if self.command != "HEAD":
            self.wfile.write(body)

    def start(self, status: int, headers: dict[str, str], reason: str | None = None) -> None:
        self.send_response_only(status, reason)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def body(self) -> Iterator[bytes]:
        """The request's body of known length in blocks."""
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0:
            block = self.rfile.read(min(left, _BLOCK))
            if not block:
                self.close_connection = True
                return
            left -= len(block)
            yield block

    def discard_body(self) -> None:
        """Read the request body, so that the connection can be used again."""
        length = self.headers.get("Content-Length")
        known = not self.headers.get("Transfer-Encoding") and (length or "0").isdigit()
        if not known or int(length or 0) > 1 << 20:
            self.close_connection = True
        elif length:
            self.rfile.read(int(length))
