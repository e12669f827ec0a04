"""The HTTP client of downloads and of the gateway: urllib3 with the host's proxies and certificates.

`reprokit.untrusted.addresses` checks every address that it connects to. Credentials of netrc go only to hosts of the
user's configuration.
"""

from __future__ import annotations

import email.utils
import netrc
import os
import re
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from http.client import IncompleteRead
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import certifi
import urllib3

from reprokit.errors import SourceError
from reprokit.redact import redact
from reprokit.supply.hosts import LostHosts
from reprokit.untrusted.addresses import Named, NotPublic, Own, check_for_proxy, connect
from reprokit.untrusted.limits import Limit

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)$")
_UNSATISFIED = re.compile(r"bytes \*/(\d+)$")
_WORTH_ANOTHER_TRY = (408, 425, 429)
_BLOCK = 1 << 18  # measured: 64 KiB and 1 MiB are no faster
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_DRAINED = 1 << 16
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
_PORTS = {"http": 80, "https": 443}
_HEADERS = {"User-Agent": "reprokit", "Accept": "*/*", "Accept-Encoding": "identity"}


def host_proxy(scheme: str, host: str) -> SplitResult | None:
    """The proxy that `http_proxy`, `https_proxy` and `no_proxy` name for this host."""
    proxies = urllib.request.getproxies()
    if scheme not in proxies or urllib.request.proxy_bypass(host):
        return None
    address = proxies[scheme]
    return urlsplit(address if "://" in address else f"http://{address}")


def environment_proxy(address: SplitResult) -> SplitResult | None:
    return host_proxy(address.scheme, address.hostname or "")


@dataclass(frozen=True)
class Settings:
    """Times in seconds, rates in bytes a second. The defaults tolerate a bad line and give up a dead server."""

    parallel: int = 6  # files at once
    connect_s: float = 10
    stall_s: float = 30  # without a byte
    slow_rate: float = 4096  # over the complete window; 28 MB in two hours have been seen
    slow_window_s: float = 60
    attempts: int = 4  # rounds through all addresses without progress
    backoff_s: float = 1  # before the second round, doubled before each further one
    longest_wait_s: float = 120  # upper limit of Retry-After
    ca_file: str | None = None  # else SSL_CERT_FILE and the like, else the system's
    client_cert: str | None = None
    trusted_hosts: frozenset[str] = field(default_factory=frozenset)  # without certificate checks, as in pip
    own: Own = field(default_factory=Own)  # hosts that get credentials and need not be public
    proxy: Callable[[SplitResult], SplitResult | None] = environment_proxy
    lost: LostHosts = field(default_factory=LostHosts)  # shared by all clients of a command


@dataclass(eq=False)
class Refusal(Exception):
    """Why one address did not serve its file.

    `again`: a retry may help, after `wait_s` if the server asks for that. `gone`: the server has no such file.
    `other_bytes`: it has another file under this name. `unreachable`: there was no connection to the server. `status`
    is the server's, 0 if it sent none or if `again`.
    """

    why: str
    again: bool = False
    wait_s: float | None = None
    gone: bool = False
    other_bytes: bool = False
    unreachable: bool = False
    status: int = 0

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True)
class Body:
    """How to use the body: `append` it at the offset, `start` with it, or `repeat` the request for all bytes.

    `total` is the file's size in bytes if the answer states it. An `encoded` body is never continued.
    """

    do: Literal["append", "start", "repeat"]
    total: int | None = None
    encoded: bool = False


def judge(status: int, headers: Mapping[str, str], offset: int, size: int | None, now: float) -> Body:
    """How to use the answer to a request for the bytes from `offset` on; `size` is the file's if known.

    `now` is the time since the epoch in seconds. Raises Refusal. Only a 206 at exactly this offset of a file of exactly
    this size is appended: other tools have corrupted files with a 200 (rust-lang/rustup #4710) and with a 206 at
    another offset (containers/ramalama PR #2917).
    """
    encoding = headers.get("Content-Encoding", "identity").lower()
    encoded = encoding not in ("identity", "")
    if status == 200:
        total = _content_length(headers)
        if size is not None and total is not None and total != size:
            # With the right size it may still be the file: some servers call every .gz encoded. The hash decides.
            raise Refusal(f"it encodes the file ({encoding})") if encoded else other_size(total, size)
        return Body("start", total, encoded)
    if status == 206 and offset:
        match = _CONTENT_RANGE.match(headers.get("Content-Range", ""))
        if match and int(match[1]) == offset and not encoded:
            if size is not None and int(match[3]) != size:
                raise other_size(int(match[3]), size)
            return Body("append", int(match[3]))
        return Body("repeat")
    if status == 416 and offset:
        match = _UNSATISFIED.match(headers.get("Content-Range", ""))
        if match and size is not None and int(match[1]) != size:
            raise other_size(int(match[1]), size)
        return Body("repeat")
    why = f"HTTP {status}"
    if status in _WORTH_ANOTHER_TRY or status >= 500:
        raise Refusal(why, again=True, wait_s=retry_after(headers.get("Retry-After", ""), now))
    raise Refusal(why, gone=status in (404, 410), status=status)


def other_size(got: int, expected: int) -> Refusal:
    return Refusal(f"the file has {got} bytes there, expected {expected}", other_bytes=True)


def retry_after(value: str, now: float) -> float | None:
    """Seconds from `now` of a Retry-After header (RFC 9110 section 10.2.3), None for an invalid one."""
    if seconds := re.fullmatch(r"\s*([0-9]{1,9})\s*", value):
        return float(seconds[1])
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.fromtimestamp(now, timezone.utc)).total_seconds())


def strong_etag(headers: Mapping[str, str]) -> str | None:
    """The ETag if it is strong: a weak one does not identify bytes (RFC 9110 section 8.8.1)."""
    etag = headers.get("ETag", "")
    return etag if re.fullmatch(r'"[\x21\x23-\x7e]*"', etag) else None


def _content_length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


_AS_IT_COMES: dict[str, Any] = {"redirect": False, "preload_content": False, "decode_content": False}


class Answer:
    """The final answer after redirects: `status`, `headers`, and the body in pieces as they arrive."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.status, self.reason = response.status, response.reason
        self.headers: Mapping[str, str] = response.headers
        self.chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"

    def read(self) -> bytes:
        """The next bytes, nothing at the body's end. Raises Refusal if the connection fails or stalls."""
        with _refusals():
            return self._response.read1(_BLOCK, decode_content=False)

    def stop(self) -> None:
        """End a `read` that another thread waits in."""
        with suppress(OSError, ValueError, RuntimeError):  # it has ended meanwhile
            self._response.shutdown()

    def close(self) -> None:
        """Return the connection to the pool if the rest of the body costs less than a new connection."""
        remaining = self._response.length_remaining
        if remaining is not None and remaining <= _DRAINED:
            self._response.drain_conn()
        self._response.close()


class Client:
    """Keeps connections open between requests; threads may share one."""

    def __init__(self, settings: Settings | None = None, connections: int = 6, named: Named | None = None) -> None:
        """Keep up to `connections` to one host. Hosts of `named`, else `settings.own`, need not be public."""
        self.settings = settings or Settings()
        self._named: Named = named or self.settings.own.names
        self._connections = connections
        self._pools: dict[tuple[str, bool, bool, bool], urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._netrc = read_netrc()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for pool in self._pools.values():
            pool.clear()

    @contextmanager
    def ask(self, url: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Iterator[Answer]:
        """The answer to a request, whatever its status, after at most 10 redirects.

        Raises Refusal if there is none, or if a redirect leads from https:// to http:// or to anything else.
        """
        address = _address(url)
        if address.scheme not in _PORTS or not address.hostname:
            raise Refusal(f"not an address: {redact(url)}")
        authorization = self.authorization(address)
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self.send(address, method, {**_HEADERS, **(headers or {}), **authorization})
            try:
                location = answer.headers.get("Location") if answer.status in _REDIRECTS else None
                if location is None:
                    yield answer
                    return
            finally:
                answer.close()
            target = _address(location, address.geturl())
            if target.scheme not in _PORTS or (address.scheme == "https" and target.scheme == "http"):
                raise Refusal(f"it redirects from {address.scheme}:// to {target.scheme or 'no'}://")
            if target.username is not None or not same_server(address, target):
                authorization = self.authorization(target)
                headers = {name: value for name, value in (headers or {}).items() if name.lower() != "authorization"}
            address = target
        raise Refusal(f"it redirects more than {_MOST_REDIRECTS} times")

    def read(self, url: str, headers: Mapping[str, str], limit: Limit, what: str) -> tuple[bytes, str]:
        """A document and its content type. Raises Refusal for any status but 200, UsageError beyond the limit."""
        with self.ask(url, headers) as answer:
            judge(answer.status, answer.headers, 0, None, time.time())
            body = bytearray()
            while block := answer.read():
                body += block
                limit.check(len(body), what, url)
            return bytes(body), answer.headers.get("Content-Type", "")

    def send(
        self, address: SplitResult, method: str, headers: Mapping[str, str], body: Iterable[bytes] | None = None
    ) -> Answer:
        """The answer to one request, whatever its status; the caller closes it. Raises Refusal if there is none.

        A host that cannot be reached gets no further request, see LostHosts.
        """
        lost, url = self.settings.lost, address.geturl()
        if why := lost.why(url):
            raise Refusal(why, unreachable=True)
        try:
            answer = self._send(address, method, headers, body)
        except Refusal as refusal:
            if refusal.unreachable:
                lost.failed(url, refusal.why)
            raise
        lost.answered(url)
        return answer

    def _send(
        self, address: SplitResult, method: str, headers: Mapping[str, str], body: Iterable[bytes] | None
    ) -> Answer:
        bare = address._replace(netloc=address.netloc.rpartition("@")[2], fragment="").geturl()
        with _refusals():
            if self.settings.proxy(address):
                port = address.port or _PORTS[address.scheme]
                check_for_proxy(address.hostname or "", port, self._named)
            request = partial(self._pool(address).request, method, bare, body=body, headers=headers, **_AS_IT_COMES)
            try:
                response = request()
            except urllib3.exceptions.ProtocolError as error:
                if body is not None or not isinstance(_innermost(error), ConnectionError):
                    raise
                response = request()  # the server may have closed a kept connection just as it was used again
        return Answer(response)

    def _pool(self, address: SplitResult) -> urllib3.PoolManager:
        proxy = self.settings.proxy(address)
        trusted = {address.hostname, address.netloc.rpartition("@")[2]} & self.settings.trusted_hosts
        secure = "https" in (address.scheme, proxy.scheme if proxy else "")
        own = self.settings.own.names(address.hostname or "", address.port or _PORTS[address.scheme])
        key = (proxy.geturl() if proxy else "", secure, bool(trusted), own)
        with self._lock:
            if key not in self._pools:
                # Reading the certificates takes longer than a small download.
                context = tls_context(self.settings, bool(trusted), own) if secure else None
                self._pools[key] = self._new_pool(proxy, context)
            return self._pools[key]

    def _new_pool(self, proxy: SplitResult | None, context: ssl.SSLContext | None) -> urllib3.PoolManager:
        options: dict[str, Any] = {
            "maxsize": self._connections,
            "retries": False,
            "timeout": urllib3.Timeout(connect=self.settings.connect_s, read=self.settings.stall_s),
            "ssl_context": context,
        }
        if proxy is None:
            return _direct(self._named, options)
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}" if proxy.username is not None else None
        headers = urllib3.make_headers(proxy_basic_auth=login)
        bare = proxy._replace(netloc=proxy.netloc.rpartition("@")[2]).geturl()
        return urllib3.ProxyManager(bare, proxy_headers=headers, proxy_ssl_context=context, **options)

    def authorization(self, address: SplitResult) -> dict[str, str]:
        """The header for the address's own credentials, else for those of netrc."""
        if address.username is not None:
            login = f"{unquote(address.username)}:{unquote(address.password or '')}"
        elif entry := self._found_in_netrc(address):
            login = f"{entry[0]}:{entry[2]}"
        else:
            return {}
        return dict(urllib3.make_headers(basic_auth=login))

    def _found_in_netrc(self, address: SplitResult) -> tuple[str, str | None, str | None] | None:
        users = self._netrc if self.settings.own.trusts(address) else None
        return users.authenticators(address.hostname or "") if users else None


def _direct(named: Named, options: dict[str, Any]) -> urllib3.PoolManager:
    """A pool that connects only to public addresses and to hosts that the user names."""

    class Checked:
        def _new_conn(self: Any) -> socket.socket:  # where urllib3 connects
            try:
                return connect(self._dns_host, self.port, self.timeout, named)
            except socket.gaierror as error:
                raise urllib3.exceptions.NameResolutionError(self.host, self, error) from error
            except NotPublic:
                raise
            except TimeoutError as error:
                raise urllib3.exceptions.ConnectTimeoutError(self, str(error)) from error
            except OSError as error:
                raise urllib3.exceptions.NewConnectionError(self, str(error)) from error

    class Http(Checked, urllib3.connection.HTTPConnection):
        pass

    class Https(Checked, urllib3.connection.HTTPSConnection):
        pass

    class HttpPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Https

    pool = urllib3.PoolManager(**options)
    pool.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}
    return pool


def _address(url: str, base: str = "") -> SplitResult:
    """Raises Refusal for text that is no address, such as `http://[::1`."""
    try:
        address = urlsplit(urljoin(base, url))
        _ = address.port, urllib3.make_headers(basic_auth=unquote(address.netloc)), address.path.encode("utf-8")
    except ValueError as error:
        raise Refusal(f"not an address: {redact(str(error))}") from None
    return address


def same_server(address: SplitResult, target: SplitResult) -> bool:
    """Whether credentials for `address` may go to `target`: the same host and port, or https instead."""
    if address.hostname != target.hostname:
        return False
    ports = [url.port or _PORTS[url.scheme] for url in (address, target)]
    return (address.scheme == target.scheme and ports[0] == ports[1]) or ports == [80, 443]


def tls_context(settings: Settings, trusted: bool = False, own: bool = True) -> ssl.SSLContext:
    """Certificates of the settings, else of the first variable that names a file, else of the system.

    The client certificate is used only for servers of the user's `own`. Raises SourceError if such a file cannot be
    read.
    """
    named = settings.ca_file or next((os.environ[name] for name in _CA_VARIABLES if os.environ.get(name)), None)
    defaults = ssl.get_default_verify_paths()
    # A Python with its own OpenSSL may have no folder of certificates.
    chosen = named or (None if defaults.cafile or defaults.capath else certifi.where())
    certificates = Path(chosen) if chosen else None
    try:
        folder = str(certificates) if certificates and certificates.is_dir() else None
        context = ssl.create_default_context(cafile=None if folder else chosen, capath=folder)
        if settings.client_cert and own:
            context.load_cert_chain(settings.client_cert)
    except OSError as error:
        raise SourceError(f"the certificates cannot be read: {error}", chosen or settings.client_cert or "") from None
    if trusted:  # the user's choice; urllib3 would warn at each request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def read_netrc() -> netrc.netrc | None:
    """The user's netrc file, None if there is none that can be read."""
    file = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        return netrc.netrc(file)
    except (OSError, netrc.NetrcParseError):
        return None


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn errors of urllib3 and of the system into Refusal."""
    try:
        yield
    except urllib3.exceptions.NewConnectionError as error:
        raise Refusal(_cause(error), again=True, unreachable=True) from None
    except urllib3.exceptions.ConnectTimeoutError:
        raise Refusal("it does not answer", again=True, unreachable=True) from None
    except urllib3.exceptions.ReadTimeoutError:
        raise Refusal("stalled", again=True) from None
    except urllib3.exceptions.SSLError as error:
        unknown = "CERTIFICATE_VERIFY_FAILED" in str(error)
        raise Refusal(f"TLS: {_cause(error)}", again=not unknown) from None
    except (urllib3.exceptions.LocationValueError, urllib3.exceptions.URLSchemeUnknown) as error:
        raise Refusal(f"not an address: {redact(str(error))}") from None
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        inner = _innermost(error)
        # http.client's words for a proxy that does not reach the server.
        no_tunnel = isinstance(error, urllib3.exceptions.ProxyError) or "Tunnel connection failed" in str(inner)
        raise Refusal(_cause(error), again=not isinstance(inner, NotPublic), unreachable=no_tunnel) from None


def _innermost(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _cause(error: BaseException) -> str:
    """The innermost reason, which is the system's own: `Connection refused`."""
    error = _innermost(error)
    if isinstance(error, IncompleteRead):
        return f"the connection ended {error.expected} bytes early"
    return redact(getattr(error, "strerror", None) or str(error) or type(error).__name__)
