"""Proxies, certificates, credentials, redirects."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from reprokit.errors import SourceError
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client, same_server
from reprokit.supply.fetch.settings import Settings
from reprokit.untrusted.addresses import Own
from tests.support.fetching import LOCAL, QUICK, Fetch, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, whole

DATA = content(100_000)


def basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()


def leads_to(target: str) -> Behaviour:
    return lambda request: Reply(302, {"Location": target, "Content-Length": "0"})


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(server: Server, authority: trustme.CA) -> Iterator[Server]:
    """A server on https://localhost with certificates of `authority`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    one = Server(context)
    yield one
    one.close()


def ask(url: str, settings: Settings = QUICK) -> bytes:
    with Client(settings) as client, client.ask(url) as answer:
        return answer.read()


def test_a_redirect_is_followed_to_another_host_without_credentials(fetch: Fetch, server: Server):
    far = server.url("/far", whole(DATA)).replace("127.0.0.1", "localhost")
    near = server.url("/near", leads_to(far)).replace("://", "://me:secret@")
    fetch(want(DATA, near))
    assert fetch.has(DATA)
    assert server.requests["/near"][0].headers["authorization"] == basic("me:secret")
    assert "authorization" not in server.requests["/far"][0].headers


def test_a_redirect_on_the_same_host_keeps_them(fetch: Fetch, server: Server):
    server.url("/far", whole(DATA))
    fetch(want(DATA, server.url("/near", leads_to("/far")).replace("://", "://me:secret@")))
    assert server.requests["/far"][0].headers["authorization"] == basic("me:secret")


def test_a_token_stays_with_its_server_too(server: Server):
    far = server.url("/far", whole(DATA)).replace("127.0.0.1", "localhost")
    token = {"Authorization": "Bearer secret", "Accept": "any"}
    with Client(QUICK) as client, client.ask(server.url("/near", leads_to(far)), token) as answer:
        assert answer.status == 200
    assert server.requests["/near"][0].headers["authorization"] == "Bearer secret"
    assert "authorization" not in server.requests["/far"][0].headers
    assert server.requests["/far"][0].headers["accept"] == "any"


def test_a_range_survives_a_redirect(fetch: Fetch, server: Server):
    fetch.partial(DATA[:1000], of=DATA)
    server.url("/far", whole(DATA))
    fetch(want(DATA, server.url("/near", leads_to("/far"))))
    assert fetch.has(DATA) and server.requests["/far"][0].start == 1000


def test_a_redirect_loop_ends(fetch: Fetch, server: Server):
    with pytest.raises(SourceError, match="redirects more than 10 times"):
        fetch(want(DATA, server.url("/loop", leads_to("/loop"))))
    assert len(server.requests["/loop"]) == 11


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://example.org/f"])
def test_a_redirect_never_leaves_the_web(fetch: Fetch, server: Server, target: str):
    with pytest.raises(SourceError, match=f"it redirects from http:// to {urlsplit(target).scheme}://"):
        fetch(want(DATA, server.url("/f", leads_to(target))))


def test_a_redirect_never_leaves_tls(secure: Server, server: Server, authority: trustme.CA, tmp_path: Path):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    url = secure.url("/f", leads_to(server.url("/f", whole(DATA))))
    with pytest.raises(Refusal, match="from https:// to http://"):
        ask(url, Settings(own=LOCAL, ca_file=str(tmp_path / "ca.pem")))


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", None])
def test_certificates_are_judged_as_the_host_says(
    secure: Server, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    url = secure.url("/f", whole(DATA))
    with pytest.raises(Refusal, match="certificate verify failed") as caught:
        ask(url)
    assert not caught.value.again
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)
    if variable:
        monkeypatch.setenv(variable, str(file))
    assert ask(url, Settings(own=LOCAL, ca_file=None if variable else str(file)))


def test_a_trusted_host_is_asked_for_no_certificate(secure: Server):
    assert ask(secure.url("/f", whole(DATA)), Settings(own=LOCAL, trusted_hosts=frozenset({"localhost"})))


def test_certificates_that_cannot_be_read_are_named(secure: Server):
    with pytest.raises(SourceError, match="the certificates cannot be read") as caught:
        ask(secure.url("/f"), Settings(own=LOCAL, ca_file="/nowhere.pem"))
    assert caught.value.where == "/nowhere.pem"


def test_netrc_is_honoured(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    own = Own.of([server.url("/"), "localhost"])
    ask(server.url("/f", whole(DATA)), Settings(own=own))
    ask(server.url("/g", whole(DATA)).replace("127.0.0.1", "localhost"), Settings(own=own))
    assert server.requests["/f"][0].headers["authorization"] == basic("me:secret")
    assert "authorization" not in server.requests["/g"][0].headers


def proxy_behaviour(request: Request) -> Reply:
    if request.headers.get("proxy-authorization") != basic("me:s cret"):
        return Reply(407, {"Content-Length": "0"})
    return whole(DATA)(request)


def test_the_environment_names_the_proxy(fetch: Fetch, server: Server, monkeypatch: pytest.MonkeyPatch):
    server.url("http://files.test/f", proxy_behaviour)
    monkeypatch.setenv("http_proxy", f"http://me:s%20cret@127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "localhost")
    fetch(want(DATA, "http://files.test/f"))
    assert fetch.has(DATA)
    ask(server.url("/direct", whole(DATA)).replace("127.0.0.1", "localhost"))
    assert len(server.requests["/direct"]) == 1


def test_credentials_are_never_shown(fetch: Fetch, server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{server.port}")
    url = "https://you:hidden@files.test/f"
    with pytest.raises(SourceError) as caught:
        fetch(want(DATA, url, server.url("/f").replace("://", "://you:hidden@")))
    said = f"{caught.value.message} {caught.value.where} {fetch.lines}"
    assert "Tunnel connection failed" in said and "secret" not in said and "hidden" not in said


def test_credentials_stay_out_of_the_sidecar(fetch: Fetch, server: Server):
    def cut(request: Request) -> Reply:
        good = whole(content(900_000), ETag='"a"')(request)
        return Reply(good.status, good.headers, good.body[:500_000], "close")

    url = server.url("/f", cut, lambda r: Reply(404, {"Content-Length": "0"})).replace("://", "://me:secret@")
    with pytest.raises(SourceError):
        fetch(want(content(900_000), url))
    texts = [path.read_text() for path in (fetch.store.root / "partial").glob("*.json")]
    assert len(texts) == 1 and '"a"' in texts[0].replace("\\", "") and "secret" not in texts[0]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a/x", "https://a/y", True),
        ("http://a/", "https://a/", True),
        ("https://a/", "https://a:443/", True),
        ("https://a/", "https://b/", False),
        ("https://a/", "https://a:8443/", False),
        ("http://a:8080/", "https://a/", False),
    ],
)
def test_who_may_see_credentials(one: str, other: str, same: bool):
    assert same_server(urlsplit(one), urlsplit(other)) is same


def test_one_client_serves_many_threads(server: Server):
    url = server.url("/f", whole(b"x"))
    with Client(QUICK, connections=4) as client:

        def many() -> None:
            for _ in range(50):
                with client.ask(url) as answer:
                    assert answer.read() == b"x"

        run_all([many] * 4)
    assert len(server.requests["/f"]) == 200 and server.connections <= 4


def run_all(functions: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_kept_connection_that_ends_as_it_is_used_again_is_made_anew():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for _ in range(2):  # each connection ends when a second request comes
                with listening.accept()[0] as connection:
                    connection.recv(1 << 16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    connection.recv(1 << 16)

        threading.Thread(target=serve, daemon=True).start()
        with Client(QUICK) as client:
            for _ in range(2):
                with client.ask(f"http://127.0.0.1:{listening.getsockname()[1]}/f") as answer:
                    assert b"".join(iter(answer.read, b"")) == b"ok"
