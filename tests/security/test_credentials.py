"""Passwords of the user: they go to hosts of their own configuration, over https, and into no container."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from reprokit.config import Configuration
from reprokit.container.session import caller_variables
from reprokit.errors import SourceError
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.guard import guarded
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own
from tests.support.file_server import Reply, Request, Server, whole

BASIC = "Basic " + base64.b64encode(b"me:secret").decode()
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY", "ALL_PROXY")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with passwords for every host, and whose network calls loopback public: only passwords are judged."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".netrc").write_text("default login me password secret\nmachine localhost login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setattr("reprokit.untrusted.addresses.is_public", lambda address: True)
    return tmp_path


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server on https://localhost whose certificate this user trusts."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    one = Server(context)
    yield one
    one.close()


def sent(server: Server, url: str, *own: str) -> list[str | None]:
    """The passwords that came with a request for `url`, of a user whose configuration names `own`."""
    server.requests.clear()
    with Client(Settings(own=Own.of(own))) as client, client.ask(url) as answer:
        answer.read()
    return [request.headers.get("authorization") for requests in server.requests.values() for request in requests]


def test_netrc_goes_to_hosts_of_the_configuration_only(home, secure):
    url = secure.url("/f", whole(b"x"))
    assert sent(secure, url) == [None]
    assert sent(secure, url, "other.test", "xlocalhost", "localhost:1") == [None]
    assert sent(secure, url, "localhost") == [BASIC]
    assert sent(secure, url, f"https://localhost:{secure.port}/{{path}}") == [BASIC]


def test_netrc_goes_over_https_unless_plain_http_is_configured(home):
    plain = Server()
    url = plain.url("/f", whole(b"x"))
    assert sent(plain, url, "127.0.0.1", f"https://127.0.0.1:{plain.port}/{{path}}") == [None]
    assert sent(plain, url, f"http://127.0.0.1:{plain.port}/{{path}}") == [BASIC]
    plain.close()


def test_netrc_is_not_sent_where_a_redirect_leads(home, secure):
    other = Server(secure.tls)
    other.url("/g", whole(b"x"))
    url = secure.url("/f", lambda request: Reply(302, {"Location": other.url("/g"), "Content-Length": "0"}))
    assert sent(secure, url, f"https://localhost:{secure.port}/{{path}}") == [BASIC]
    assert "authorization" not in other.requests["/g"][0].headers
    other.close()


def test_programs_find_the_passwords_of_the_users_own_hosts_only(home, tmp_path):
    store = Store(tmp_path / "store")
    for own, found in (((), ""), (("localhost",), "machine localhost login me password secret\n")):
        with guarded(store, Own.of(own)) as variables:
            netrc = Path(variables["NETRC"])
            assert netrc.read_text() == found and netrc.stat().st_mode & 0o777 == 0o600
            assert not variables["no_proxy"] and not variables["ALL_PROXY"]


@pytest.mark.parametrize("configured", ["", "http://127.0.0.1:{port}/simple"])
def test_programs_send_passwords_over_http_only_where_that_is_configured(home, tmp_path, configured):
    """netrc knows no schemes, so uv and pip send its passwords to every address of a host."""
    plain = Server()
    url = plain.url("/f", whole(b"x"))
    own = Own.of(["127.0.0.1", *filter(None, [configured.format(port=plain.port)])])
    with guarded(Store(tmp_path / "store"), own) as variables:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": variables["http_proxy"]}))
        with opener.open(urllib.request.Request(url, headers={"Authorization": BASIC})) as answer:
            assert answer.read() == b"x"
    assert [r.headers.get("authorization") for r in plain.requests["/f"]] == [BASIC if configured else None]
    plain.close()


@pytest.mark.parametrize("own", [(), ("localhost",)])
def test_a_client_certificate_is_shown_to_hosts_of_the_configuration_only(home, tmp_path, own):
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("me@localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "me.pem")
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with context.wrap_socket(listening.accept()[0], server_side=True) as connection:
                connection.recv(4096)
                seen.append(connection.getpeercert())
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        files = {"ca_file": str(tmp_path / "ca.pem"), "client_cert": str(tmp_path / "me.pem")}
        url = f"https://localhost:{listening.getsockname()[1]}/f"
        with Client(Settings(own=Own.of(own), **files)) as client, client.ask(url) as answer:
            assert answer.status == 200
        thread.join()
    assert [bool(certificate) for certificate in seen] == [bool(own)]


def unauthorized(request: Request) -> Reply:
    return Reply(401, {"WWW-Authenticate": 'Basic realm="x"', "Content-Length": "0"})


def asked_for(home: Path, secure: Server, monkeypatch: pytest.MonkeyPatch, *hosts: str) -> tuple[bool, list[str]]:
    """Whether git asked the user's credential helper for a source's password, and the passwords that were sent."""
    helped = home / "helped"
    helper = f"!f() {{ touch {helped}; echo username=me; echo password=secret; }}; f"
    (home / ".gitconfig").write_text(
        f'[credential]\n\thelper = "{helper}"\n[http]\n\tsslCAInfo = {home}/ca.pem\n'
        f'[http "https://localhost:{secure.port}/"]\n\textraHeader = "X-Token: secret"\n'
    )
    for name in [name for name in os.environ if name.startswith("GIT_CONFIG")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("GIT_SSL_CAINFO", raising=False)
    monkeypatch.setattr("reprokit.supply.kinds.git.fetch._ATTEMPTS", 1)
    secure.paths.clear()
    secure.requests.clear()
    secure.url("/team/tool/info/refs?service=git-upload-pack", unauthorized)
    mirrors = Mirrors(Store(home / "store"), Configuration(hosts=hosts), (), PipSettings(), AptSettings())
    with pytest.raises(SourceError) as error:
        ensure([Commit(f"https://localhost:{secure.port}/team/tool", "1" * 40)], mirrors)
    requests = [request for each in secure.requests.values() for request in each]
    assert requests, f"git did not come as far as the server: {error.value}"
    names = ("authorization", "x-token")
    return helped.exists(), [request.headers[name] for request in requests for name in names if name in request.headers]


def test_git_sends_no_password_to_a_host_that_only_a_recipe_names(home, secure, monkeypatch):
    assert asked_for(home, secure, monkeypatch) == (False, [])


def test_git_sends_passwords_to_a_host_of_the_configuration(home, secure, monkeypatch):
    """The positive control: the same user, server and source."""
    helped, passwords = asked_for(home, secure, monkeypatch, "localhost")
    assert "secret" in passwords and (helped or BASIC in passwords)


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        ("http://me:secret@proxy.test:3128", "http://proxy.test:3128"),
        ("http://me:se@cr/et@proxy.test:3128/", "http://proxy.test:3128/"),
        ("me:secret@proxy.test:3128", "proxy.test:3128"),
        ("socks5h://me@proxy.test", "socks5h://proxy.test"),
        ("http://proxy.test:3128", "http://proxy.test:3128"),
        ("proxy.test:3128", "proxy.test:3128"),
    ],
)
def test_a_command_gets_proxies_without_their_password(value, passed):
    found = caller_variables({"https_proxy": value, "ALL_PROXY": value, "PATH": "/x"}, "bridge", False)
    assert found.variables == {"https_proxy": passed, "ALL_PROXY": passed}
    assert found.bare == ([] if value == passed else ["https_proxy", "ALL_PROXY"])


def test_passwords_are_taken_out_of_what_is_shown():
    assert redact("at http://me:s@cret@host/a@b and https://u@h") == "at http://host/a@b and https://h"
