"""Proxies, certificates, credentials, redirects."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from reprokit.errors import SourceError
from reprokit.supply.fetch.http import Client, Refusal, Settings, same_server
from reprokit.untrusted.addresses import Own
from tests.support.fetching import LOCAL, QUICK, Fetch, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, cut, status, whole

DATA = content(100_000)


def basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()


def leads_to(target: str) -> Behaviour:
    return lambda request: Reply(302, {"Location": target, "Content-Length": "0"})


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, str]:
    """An authority, and the file with its certificate."""
    made, file = trustme.CA(), tmp_path_factory.mktemp("authority") / "ca.pem"
    made.cert_pem.write_to_path(file)
    return made, str(file)


@pytest.fixture
def secure(no_proxies: None, authority: tuple[trustme.CA, str]) -> Iterator[Server]:
    """A server on https://localhost with certificates of `authority`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority[0].issue_cert("localhost").configure_cert(context)
    one = Server(context)
    yield one
    one.close()


def ask(url: str, settings: Settings = QUICK) -> bytes:
    with Client(settings) as client, client.ask(url) as answer:
        return answer.read()


def test_credentials_follow_a_redirect_on_their_server_only(fetch: Fetch, server: Server):
    far = server.url("/far", whole(DATA)).replace("127.0.0.1", "localhost")
    near = server.url("/near", leads_to(far)).replace("://", "://me:secret@")
    fetch(want(DATA, near))
    assert fetch.has(DATA)
    token = {"Authorization": "Bearer secret", "Accept": "any"}
    with Client(QUICK) as client, client.ask(server.url("/near"), token) as answer:
        assert answer.status == 200
    assert [r.headers["authorization"] for r in server.requests["/near"]] == [basic("me:secret"), "Bearer secret"]
    assert not [r for r in server.requests["/far"] if "authorization" in r.headers]
    assert server.requests["/far"][1].headers["accept"] == "any"
    # On the same host they are kept, and so is the range.
    other = content(100_000, 1)
    fetch.partial(other[:1000], of=other)
    server.url("/same", whole(other))
    fetch(want(other, server.url("/here", leads_to("/same")).replace("://", "://me:secret@")))
    (request,) = server.requests["/same"]
    assert fetch.has(other) and request.start == 1000 and request.headers["authorization"] == basic("me:secret")


@pytest.mark.parametrize(
    ("target", "why", "requests"),
    [
        ("/f", "redirects more than 10 times", 11),
        ("file:///etc/passwd", "it redirects from http:// to file://", 1),
        ("ftp://example.org/f", "it redirects from http:// to ftp://", 1),
    ],
)
def test_redirects_end_and_never_leave_the_web(fetch: Fetch, server: Server, target: str, why: str, requests: int):
    with pytest.raises(SourceError, match=why):
        fetch(want(DATA, server.url("/f", leads_to(target))))
    assert len(server.requests["/f"]) == requests


def test_a_redirect_never_leaves_tls(secure: Server, server: Server, authority: tuple[trustme.CA, str]):
    url = secure.url("/f", leads_to(server.url("/f", whole(DATA))))
    with pytest.raises(Refusal, match="from https:// to http://"):
        ask(url, Settings(own=LOCAL, ca_file=authority[1]))


def test_certificates_are_judged_as_the_host_says(
    secure: Server, authority: tuple[trustme.CA, str], monkeypatch: pytest.MonkeyPatch
):
    variables = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
    for name in (*variables, "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    url = secure.url("/f", whole(b"x"))
    with pytest.raises(Refusal, match="certificate verify failed") as refused:
        ask(url)
    assert not refused.value.again
    for name in variables:
        with monkeypatch.context() as patch:
            patch.setenv(name, authority[1])
            assert ask(url) == b"x", name
    for settings in ({"ca_file": authority[1]}, {"trusted_hosts": frozenset({"localhost"})}):
        assert ask(url, Settings(own=LOCAL, **settings)) == b"x"
    with pytest.raises(SourceError, match="the certificates cannot be read") as caught:
        ask(url, Settings(own=LOCAL, ca_file="/nowhere.pem"))
    assert caught.value.where == "/nowhere.pem"


def test_netrc_is_honoured(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    own = Own.of([server.url("/"), "localhost"])
    ask(server.url("/f", whole(DATA)), Settings(own=own))
    ask(server.url("/g", whole(DATA)).replace("127.0.0.1", "localhost"), Settings(own=own))
    assert server.requests["/f"][0].headers["authorization"] == basic("me:secret")
    assert "authorization" not in server.requests["/g"][0].headers


def test_the_environment_names_the_proxy(fetch: Fetch, server: Server, monkeypatch: pytest.MonkeyPatch):
    def proxy(request: Request) -> Reply:
        if request.headers.get("proxy-authorization") != basic("me:s cret"):
            return Reply(407, {"Content-Length": "0"})
        return whole(DATA)(request)

    server.url("http://files.test/f", proxy)
    monkeypatch.setenv("http_proxy", f"http://me:s%20cret@127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "localhost")
    fetch(want(DATA, "http://files.test/f"))
    assert fetch.has(DATA)
    ask(server.url("/direct", whole(DATA)).replace("127.0.0.1", "localhost"))
    assert len(server.requests["/direct"]) == 1


def test_credentials_are_never_shown_nor_kept(fetch: Fetch, server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{server.port}")
    big = content(900_000)
    url = server.url("/f", cut(big, 500_000, "close", ETag='"a"'), status(404)).replace("://", "://you:hidden@")
    with pytest.raises(SourceError) as caught:
        fetch(want(big, "https://you:hidden@files.test/f", url))
    shown = f"{caught.value.message} {caught.value.where} {fetch.lines}"
    assert "Tunnel connection failed" in shown and "secret" not in shown and "hidden" not in shown


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

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.requests["/f"]) == 200 and server.connections <= 4


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
