"""The gateway: an HTTP proxy in this process, which is a build's only network and exists only during the build.

A build uses it through the predefined `http_proxy` build arguments, which are neither in the layer cache's key nor in
the image's history. It serves the variant's inputs from the store under host names that cannot exist (`.invalid`, RFC
2606), passes plain HTTP on, tunnels CONNECT, and records every requested host.

It listens at the socket of a closed network, or on 127.0.0.1, which other users of the machine can reach. It requires a
password that only the build has, as inputs may come from private repositories. The number of connections is limited,
and so is their time until they are authenticated.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import re
import secrets
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from urllib3 import HTTPHeaderDict, make_headers
from urllib3.util import SKIP_HEADER

from reprokit.config import mirror_hint
from reprokit.errors import NoConnection, ReprokitError
from reprokit.formatting import size
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client, Refusal, Settings, host_proxy, read_netrc
from reprokit.supply.hosts import listed
from reprokit.untrusted.addresses import Named, NotPublic, Own, check_for_proxy, connect
from reprokit.untrusted.limits import GATEWAY_NAME, GATEWAY_NAMES

if TYPE_CHECKING:
    from reprokit.supply.fetch.http import Answer
    from reprokit.supply.kinds.kind import InputServer
    from reprokit.supply.mirrors import Mirrors
    from reprokit.supply.served_set import ServedSet
    from reprokit.supply.store import Store


# Authenticated connections: as many as the helper of a closed network forwards at once.
CONNECTIONS = 128
# Unauthenticated ones. A new one replaces the oldest, so that others cannot block a build by holding connections.
PENDING = 32
PENDING_S = 20.0
# Bytes of headers in one request. The library limits the first line.
HEADERS = 32 << 10
_STALL_S = 60
_BLOCK = 1 << 16


# Called with method and name (a host, or the host:port of a CONNECT) before a request is passed on; returns why it is
# refused, or None.
Policy = Callable[[str, str], "str | None"]
# RFC 9110 section 7.6.1: headers of one connection, never passed on.
_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip
_CONNECT_TIMEOUT_S = 30
_IDLE_TIMEOUT_S = 600


def pass_all(method: str, name: str) -> str | None:
    """The policy of a build without a lock: pass everything on, and record it."""
    return None


def locked(target: str) -> Policy:
    """The policy of a build of `target` (`NAME:VARIANT`) from its lock: refuse everything else."""

    def refuse(method: str, name: str) -> str | None:
        return f"undeclared download: {name.removesuffix(':443')} is not in the lock of {target}"

    return refuse


@dataclass(frozen=True)
class RecordedDownload:
    """A file that a build downloaded outside its lock; size in bytes and sha256 if they are known."""

    url: str
    size: int | None = None
    sha256: str = ""


class Recorder:
    """Downloads over plain HTTP, for `build --record`. The content of CONNECT is encrypted."""

    def __init__(self) -> None:
        self._downloads: dict[str, RecordedDownload] = {}
        self._origins: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def downloads(self) -> list[RecordedDownload]:
        """In the order of arrival, each once, by the address that the build requested first."""
        return list(self._downloads.values())

    def redirected(self, url: str, location: str) -> None:
        """Record a redirect from `url` to `location`, so that the recipe needs only `url`."""
        target = urljoin(url, location)
        with self._lock:
            if len(self._origins) < GATEWAY_NAMES and len(target) <= GATEWAY_NAME:
                self._origins[target] = self._origins.get(url, url)
        if target.startswith("https:"):
            self._keep(RecordedDownload(redact(self._origins.get(target, target))))

    def arrived(self, url: str, size: int, sha256: str) -> None:
        """Record a complete body."""
        self._keep(RecordedDownload(redact(self._origins.get(url, url)), size, sha256))

    def _keep(self, download: RecordedDownload) -> None:
        with self._lock:
            if len(self._downloads) < GATEWAY_NAMES and len(download.url) <= GATEWAY_NAME:
                self._downloads[download.url] = download


def recipe_lines(downloads: Iterable[RecordedDownload], hosts: Iterable[str], missing: Iterable[str]) -> list[str]:
    """The lines of a recipe whose lock would cover these downloads.

    `hosts` are the requested names (with a port for CONNECT), `missing` are inputs that the gateway lacked. The target
    paths of files are unknown: /opt is written for them.
    """
    archive = [d for d in downloads if re.search(r"/(dists|pool)/", urlsplit(d.url).path)]
    packages = {_file_name(d.url).partition("_")[0] for d in archive if d.url.endswith(".deb")}
    files = [d for d in downloads if d not in archive]
    lines = [f"apt: [{', '.join(sorted(packages))}]"] if packages else []
    lines += ["files:", *(_recipe_file(file) for file in files)] if files else []
    tunnels = sorted(host.removesuffix(":443") for host in hosts if ":" in host)
    if tunnels:
        lines.append("# over TLS, so unknown: `files` with an https:// address, or `sources` for git")
        lines += [f"#   {host}" for host in tunnels]
    return [*lines, *(f"# requested and not locked: {name}" for name in sorted(missing))]


def _recipe_file(file: RecordedDownload) -> str:
    name = _file_name(file.url)
    checksum = f', sha256: "{file.sha256}"' if file.sha256 else ""
    about = "" if file.size is None else f"  # {size(file.size)}"
    return f'  - {{name: {name}, urls: ["{file.url}"]{checksum}, path: /opt/{name}}}{about}'


def _file_name(url: str) -> str:
    """The last part of the address, as a valid name of `files`."""
    last = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._+-]", "_", last).lstrip(".+-") or "file"


@dataclass
class Gateway:
    """Use as a context manager: inside it the proxy runs and serves `inputs`.

    `archives` are hosts of the distribution's archive, which the host's own mirrors may replace. `recorder` records
    every file that passes over plain HTTP. Containers that connect to `address` arrive at `listening`: a port of
    127.0.0.1 unless given. `own` replaces the hosts of the user's configuration. `mask` hides a build's secrets.
    `failure` is the last error in making a requested file.
    """

    mirrors: Mirrors
    inputs: ServedSet | None = None
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
        for server in self.inputs.servers.values() if self.inputs else ():
            server.prepare(self.store, Path(self._scratch.name))
            self._sets.setdefault(server.host, {})[server.key] = server
        # The user's own hosts are looked up only when needed: that runs pip, which takes longer than most requests.
        self.client = Client(
            Settings(stall_s=_STALL_S, proxy=self.mirrors.proxy, lost=self.store.lost), named=self.named
        )
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
    def store(self) -> Store:
        return self.mirrors.store

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

    def unreached(self, failure: str) -> NoConnection | None:
        """The error for `failure` if requested hosts of an archive cannot be reached: apt does not name them."""
        failures = {host: why for host in sorted(self.hosts) if (why := self.store.lost.last_failure(f"http://{host}"))}
        if not failures:
            return None
        return NoConnection(f"{failure}: no connection to {listed(failures)}", hint=mirror_hint("apt"))

    def server(self, address: SplitResult) -> InputServer | None:
        """The set that an address names, else any set of its host, which refuses addresses of other builds."""
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


@contextlib.contextmanager
def guarded(mirrors: Mirrors, own: Own) -> Iterator[dict[str, str]]:
    """The variables to add to the environment of a program that downloads addresses of recipes (uv, pip, git).

    Its requests go through a gateway of this process, which checks every address, also of redirects and submodules. It
    gets the user's passwords only for the hosts of `own`.
    """
    with Gateway(mirrors, own=own) as gateway, TemporaryDirectory(prefix="reprokit-netrc-") as folder:
        netrc = Path(folder) / "netrc"
        netrc.touch(0o600)
        netrc.write_text(_netrc(own))
        yield {**gateway.build_arguments(), "all_proxy": "", "ALL_PROXY": "", "NETRC": str(netrc)}


def _netrc(own: Own) -> str:
    """The user's netrc without the entries of other hosts."""
    users = read_netrc()
    lines = []
    for host, (login, _, password) in users.hosts.items() if users else ():
        words = ["machine", host, "login", login or "", "password", password or ""]
        if own.names(host, 443) and all(word and word.isprintable() and " " not in word for word in words):
            lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)


class _Server(ThreadingHTTPServer):
    """Serves connections of `listening`, a socket of any family, and limits their number."""

    daemon_threads = True
    block_on_close = False  # idle connections would never end

    def __init__(self, gateway: Gateway, listening: socket.socket) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.gateway = gateway
        self.socket.close()  # unused
        self.socket = listening
        if listening.family == socket.AF_INET:
            # Its connections inherit it: an answer is two writes, and the second would wait 40 ms.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()
        self._open: set[object] = set()
        # Unauthenticated connections, the oldest first, with their deadlines.
        self._pending: dict[object, float] = {}

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            # Dropped connections stay open until their threads notice.
            full = len(self._open) >= CONNECTIONS + 2 * PENDING
            if not full:
                self._open.add(request)
                if len(self._pending) >= PENDING:
                    self._drop_oldest()
                self._pending[request] = time.monotonic() + PENDING_S
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            self._open.discard(request)
            self._pending.pop(request, None)
        super().shutdown_request(request)

    def admit(self, request: object) -> bool:
        """Count a connection as authenticated. False if there are too many."""
        with self._lock:
            self._pending.pop(request, None)
            return len(self._open) - len(self._pending) <= CONNECTIONS

    def service_actions(self) -> None:
        """Called regularly by `serve_forever`."""
        now = time.monotonic()
        with self._lock:
            while self._pending and next(iter(self._pending.values())) < now:
                self._drop_oldest()

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for request in self._open:
                _drop(request)

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._pending))
        del self._pending[oldest]
        _drop(oldest)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print no traceback for a client that disconnects."""


def _drop(request) -> None:  # type: ignore[no-untyped-def]
    """End a connection; its thread then stops."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Requests with a limit on all headers together."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 300

    def parse_request(self) -> bool:
        unbounded = self.rfile
        self.rfile = _Bounded(unbounded)
        try:
            return super().parse_request()
        finally:
            self.rfile = unbounded

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted, not printed."""

    @property
    def gateway(self) -> Gateway:
        return self.server.gateway

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_GET

    def do_CONNECT(self) -> None:
        if self._authorised() and self._permitted(self.path):
            open_tunnel(self, self.path)

    def _answer(self) -> None:
        if not self._authorised():
            return
        address = urlsplit(self.path)
        if address.scheme != "http" or not address.hostname:
            self.refuse(400, f"not a request for a proxy: {self.path}")
        elif server := self.gateway.server(address):
            server.answer(self, address)
        elif address.hostname.endswith(".reprokit.invalid"):
            self.discard_body()
            self.refuse(404, f"nothing is served here: {address.hostname}")
        elif self._permitted(address.hostname):
            forward(self, address)

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
        """Answer with the reason as one line of text."""
        body = f"reprokit gateway: {why}\n".encode()
        self.start(
            status, {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body)), **(headers or {})}
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
        remaining = int(self.headers.get("Content-Length") or 0)
        while remaining > 0:
            block = self.rfile.read(min(remaining, _BLOCK))
            if not block:
                self.close_connection = True
                return
            remaining -= len(block)
            yield block

    def discard_body(self) -> None:
        """Read the request body, so that the connection can be used again."""
        length = self.headers.get("Content-Length")
        bounded = not self.headers.get("Transfer-Encoding") and (length or "0").isdigit()
        if not bounded or int(length or 0) > 1 << 20:
            self.close_connection = True
        elif length:
            self.rfile.read(int(length))


class _Bounded(BufferedIOBase):
    """The lines of a request's headers."""

    def __init__(self, lines: BufferedIOBase) -> None:
        self._lines, self._left = lines, HEADERS

    def readline(self, limit: int | None = -1, /) -> bytes:
        line = self._lines.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.HTTPException(f"more than {HEADERS} bytes of headers")
        return line


def forward(handler: Handler, address: SplitResult) -> None:
    """Send the handler's request on and stream the answer back; 502 with the reason if that fails.

    Files of a distribution's archive are first requested from the user's and the host's own mirrors.
    """
    if handler.headers.get("Transfer-Encoding"):
        handler.close_connection = True
        handler.refuse(411, "a request body must state its length")
        return
    mirrors = handler.gateway.mirrored(address) if handler.command in ("GET", "HEAD") else []
    for mirror in mirrors:
        try:
            with contextlib.closing(_send(handler, mirror)) as answer:
                handler.gateway.mirrors.report(mirror.geturl(), None)
                if answer.status < 400:
                    _relay(handler, address, answer)
                    return
        except Refusal as refusal:
            handler.gateway.mirrors.report(mirror.geturl(), refusal.why)
    try:
        with contextlib.closing(_send(handler, address)) as answer:
            _relay(handler, address, answer)
    except Refusal as refusal:
        proxy = handler.gateway.mirrors.proxy(address)
        via = f" through the proxy {redact(proxy.geturl())}" if proxy else ""
        handler.close_connection = True
        handler.refuse(502, f"cannot reach {address.hostname}{via}: {refusal.why}")


def _send(handler: Handler, address: SplitResult) -> Answer:
    """The request of the handler at this address. Raises Refusal."""
    client = handler.gateway.client
    own = client.authorization(address) if address.username is not None else {}
    replaced = {*_HOP_BY_HOP, "host", *(name.lower() for name in own)}
    if handler.gateway.own is not None and not handler.gateway.own.trusts(address):
        replaced.add("authorization")  # netrc knows no schemes: uv and pip send its passwords over plain http too
    headers = HTTPHeaderDict((k, v) for k, v in handler.headers.items() if k.lower() not in replaced)
    for name in ("User-Agent", "Accept-Encoding"):
        headers.setdefault(name, SKIP_HEADER)
    headers |= own
    return client.send(address, handler.command, headers, handler.body() if "Content-Length" in headers else None)


def _relay(handler: Handler, address: SplitResult, answer: Answer) -> None:
    """Pass the answer on, and record it. Raises Refusal only before the first byte is sent."""
    recorder, location = handler.gateway.recorder, answer.headers.get("Location")
    if recorder and handler.command == "GET" and 300 <= answer.status < 400 and location:
        recorder.redirected(address.geturl(), location)
    recorded = recorder if handler.command == "GET" and answer.status == 200 else None
    size, digest = 0, hashlib.sha256()
    bodiless = handler.command == "HEAD" or answer.status in (204, 304) or answer.status < 200
    # HTTP/1.0 clients know no chunks: for them the end of the connection ends the body.
    sized = bodiless or answer.headers.get("Content-Length") is not None
    chunked = not sized and handler.request_version == "HTTP/1.1"
    handler.send_response_only(answer.status, answer.reason)
    for name, value in answer.headers.items():
        if name.lower() not in _HOP_BY_HOP:
            handler.send_header(name, value)
    if chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    elif not sized:
        handler.send_header("Connection", "close")
        handler.close_connection = True
    handler.end_headers()
    if bodiless:
        return
    try:
        while block := answer.read():
            handler.gateway.served(len(block))
            if recorded:
                size += len(block)
                digest.update(block)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
    except (OSError, Refusal):
        handler.close_connection = True  # a truncated body must not look complete
        return
    if chunked:
        handler.wfile.write(b"0\r\n\r\n")
    if recorded:
        recorded.arrived(address.geturl(), size, digest.hexdigest())


def open_tunnel(handler: Handler, name: str) -> None:
    """Connect to `host:port`, through the host's proxy if it has one; 502 with the reason if that fails."""
    handler.close_connection = True
    host, _, port = name.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        handler.refuse(400, f"not host:port: {name}")
        return
    lost, url = handler.gateway.store.lost, f"//{name}"
    if why := lost.why(url):
        handler.refuse(502, f"cannot reach {name}: {why}")
        return
    try:
        upstream = _connect(host, int(port), handler.gateway.named)
    except OSError as error:
        if not isinstance(error, NotPublic):
            lost.failed(url, error.strerror or str(error))
        handler.refuse(502, f"cannot reach {name}: {error}")
        return
    lost.answered(url)
    with upstream:
        handler.send_response_only(200, "Connection established")
        handler.end_headers()
        with contextlib.suppress(OSError):
            _carry(handler, upstream)


def _connect(host: str, port: int, named: Named) -> socket.socket:
    proxy = host_proxy("https", host)
    if proxy is None:
        return connect(host, port, _CONNECT_TIMEOUT_S, named)
    check_for_proxy(host, port, named)
    upstream = socket.create_connection((proxy.hostname, proxy.port or 80), _CONNECT_TIMEOUT_S)
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}" if proxy.username is not None else None
    authorization = make_headers(proxy_basic_auth=login)
    headers = "".join(f"{name}: {value}\r\n" for name, value in authorization.items())
    upstream.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        byte = upstream.recv(1)  # one at a time: the bytes after the header belong to the tunnel
        if not byte or len(answer) > 16384:
            break
        answer += byte
    status = answer.split(b"\r\n", 1)[0].decode("latin-1")
    if " 200" not in status:
        upstream.close()
        raise OSError(f"the proxy {redact(proxy.geturl())} answered {status!r}")
    return upstream


def _carry(handler: Handler, upstream: socket.socket) -> None:
    ends = {handler.connection: upstream, upstream: handler.connection}
    while ends:
        ready, _, _ = select.select(list(ends), [], [], _IDLE_TIMEOUT_S)
        if not ready:
            return
        for source in ready:
            block = source.recv(_BLOCK)
            if not block:
                with contextlib.suppress(OSError):
                    ends[source].shutdown(socket.SHUT_WR)
                del ends[source]
                continue
            ends_to = upstream if source is handler.connection else handler.connection
            ends_to.sendall(block)
            if source is upstream:
                handler.gateway.served(len(block))
