"""Addresses of strangers reach neither this machine nor its network, and get no password of the user's."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from reprokit.config import Configuration, MirrorEntry
from reprokit.container.session import caller_variables
from reprokit.errors import ReprokitError, SourceError
from reprokit.recipe.model import RecipeFile
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client, Refusal, Settings
from reprokit.supply.gateway import Gateway, guarded
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.files import lock_file
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import lock_wheels
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from reprokit.untrusted import addresses
from reprokit.untrusted.addresses import NotPublic, Own, check_for_proxy, connect, is_public
from tests.support import asking
from tests.support.file_server import Reply, Request, Server, whole

DATA = b"secret of a service on loopback"
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY", "ALL_PROXY")


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(direct: None) -> Iterator[Server]:
    with contextlib.closing(Server()) as one:
        one.url("/f", whole(DATA))
        yield one


def mirrors(store: Store, *entries: MirrorEntry, hosts: tuple[str, ...] = ()) -> Mirrors:
    """Those of a user who has configured this, and nothing of pip's and apt's."""
    return Mirrors(store, Configuration(entries, hosts=hosts), (), PipSettings(), AptSettings())


def locked(store: Store, url: str, *entries: MirrorEntry, hosts: tuple[str, ...] = ()) -> int:
    """Lock a recipe's file; returns its size."""
    file = RecipeFile(name="f", urls=["https://files.test/f"], path="/f").model_copy(update={"urls": [url]})
    return lock_file(file, mirrors(store, *entries, hosts=hosts)).size


PRIVATE = """
    127.0.0.1 127.9.9.9 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1 198.18.0.1
    224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1
    ::ffff:169.254.169.254 ::127.0.0.1 2002:7f00:1:: 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe fec0::1
"""
PUBLIC = "1.1.1.1 140.82.121.3 2606:4700::1111 64:ff9b::101:101"


def test_which_addresses_are_public():
    assert [address for address in PRIVATE.split() if is_public(address)] == []
    assert [address for address in PUBLIC.split() if not is_public(address)] == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::ffff:127.0.0.1]"]
)
def test_no_spelling_of_loopback_is_asked(server: Server, store: Store, host: str):
    url = f"http://{host}:{server.port}/f"
    with pytest.raises(SourceError, match="not public"):
        locked(store, url)
    assert server.connections == 0
    # The neighbour: the same address where the user's configuration names it.
    assert locked(store, url, hosts=(host,)) == len(DATA) and server.connections


def test_a_redirect_to_loopback_is_not_followed(server: Server, store: Store):
    with contextlib.closing(Server()) as evil:
        evil.url("/f", lambda request: Reply(302, {"Location": server.url("/f"), "Content-Length": "0"}))
        with pytest.raises(SourceError, match="not public"):
            locked(store, evil.url("/f"), hosts=(f"127.0.0.1:{evil.port}",))
        assert evil.connections and not server.connections
        assert locked(store, evil.url("/f"), hosts=("127.0.0.1",)) == len(DATA)


NO_ADDRESS = ("http://[::1", "http://h:99999/x", "http://h:x/y", "http://\u2100/x", "https://[x]/y")


@pytest.mark.parametrize("location", [*NO_ADDRESS, "http://u\u0130:p@h/"])
def test_a_redirect_to_no_address(server: Server, location: str):
    wrong = server.url("/a", lambda request: Reply(302, {"Location": location, "Content-Length": "0"}))
    right = server.url("/b", lambda request: Reply(302, {"Location": "/f", "Content-Length": "0"}))
    with Client(Settings(own=Own.of(["127.0.0.1"]))) as client:
        with pytest.raises(Refusal), client.ask(wrong):
            pass
        with client.ask(right) as answer:
            assert answer.read() == DATA
        for url in (location, "http:///x", "http://\udcff/x", "", "x", "//h/x", "file:///etc/passwd"):
            with pytest.raises(Refusal), client.ask(url):
                pass


def test_a_name_is_judged_by_the_address_that_is_connected_to(server: Server, monkeypatch):
    """A name that leads to a public address first, and to loopback when it is asked again."""
    answers, asked = [["198.51.100.1", "127.0.0.1"], ["127.0.0.1"]], []

    def resolve(host, port, *_):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers[len(asked) - 1]]

    def refuse(self, address):
        assert address[0] != "127.0.0.1"
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(addresses, "is_public", lambda text: text == "198.51.100.1" or is_public(text))
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(OSError):
        connect("rebind.test", server.port, 1, lambda host, port: False)
    assert asked == ["rebind.test"] and server.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "localhost", "a.localhost", "169.254.169.254", "::1"])
def test_a_proxy_is_not_asked_for_what_is_not_public(server: Server, monkeypatch, host: str):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    spelled = f"[{host}]" if ":" in host else host
    with Client(Settings()) as client, pytest.raises(Refusal, match="not public"), client.ask(f"http://{spelled}/f"):
        pass
    assert server.connections == 0
    with pytest.raises(NotPublic):
        check_for_proxy(host, 80, lambda host, port: False)
    server.url("http://files.test/f", whole(DATA))  # the neighbour: names are the proxy's to resolve
    with Client(Settings()) as client, client.ask("http://files.test/f") as answer:
        assert answer.read() == DATA


def test_a_build_reaches_no_service_of_this_machine_through_the_gateway(server: Server, store: Store):
    with Gateway(Mirrors(store)) as gateway:
        gateway.mirrors = mirrors(store)
        answer, body = asking.ask(gateway, server.url("/f"))
        assert answer.status == 502 and b"not public" in body
        through = asking.connect(gateway)
        through.request("CONNECT", f"127.0.0.1:{server.port}", headers=asking.authorization(gateway))
        assert through.getresponse().status == 502
        assert server.connections == 0
        gateway.mirrors = mirrors(store, hosts=("127.0.0.1",))
        answer, body = asking.ask(gateway, server.url("/f"))
        assert (answer.status, body) == (200, DATA)


@pytest.mark.slow
def test_an_index_of_a_recipe_on_loopback_is_not_asked(server: Server, store: Store, monkeypatch):
    """uv and pip ask through this process, and so do the pages that an index redirects to."""
    page = server.url("/simple/no-such-thing/", whole(b"<html></html>", Content_Type="text/html"))
    index = page.removesuffix("no-such-thing/")
    for name, value in {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": index, "PIP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)
    request = WheelRequest(["no-such-thing==1.0"], Platform("3.11", "2.36"), indexes=[index])
    with pytest.raises(ReprokitError):
        lock_wheels(request, mirrors(store))
    assert server.connections == 0
    with pytest.raises(ReprokitError):
        lock_wheels(request, mirrors(store, hosts=("127.0.0.1",)))
    assert server.requests["/simple/no-such-thing/"]


def test_an_index_lists_no_file_of_this_machine(store: Store, tmp_path):
    (tmp_path / "f").write_bytes(DATA)
    with pytest.raises(SourceError):
        locked(store, (tmp_path / "f").as_uri())
    folder = MirrorEntry("files", f"{tmp_path.as_uri()}/{{name}}", "test")
    assert locked(store, "https://files.test/f", folder) == len(DATA)
    own = Own.of([folder.value])
    assert not own.holds("file:///etc/passwd") and not own.holds(f"{tmp_path.as_uri()}/../x")


@pytest.mark.slow
@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433"])
def test_a_source_on_loopback_is_not_asked_by_git(store: Store, monkeypatch, host: str):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setattr("reprokit.supply.kinds.git.fetch._ATTEMPTS", 1)
    came = []

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, peer = listener.accept()
                came.append(peer)
                connection.close()  # TLS need not be spoken: that git came is enough

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, daemon=True).start()
        commit = Commit(f"https://{host}:{listener.getsockname()[1]}/team/tool", "1" * 40)
        for hosts in ((), (host,)):
            with pytest.raises(SourceError):
                ensure([commit], mirrors(store, hosts=hosts))
            assert bool(came) == bool(hosts)


@pytest.mark.parametrize(
    ("place", "named", "not_named"),
    [
        ("https://mirror.test/{path}", ("mirror.test", 443), ("mirror.test", 80)),
        ("http://mirror.test:8080/{path}", ("MIRROR.test", 8080), ("mirror.test", 443)),
        ("http://127.0.0.1:8080/{path}", ("127.0.0.1", 8080), ("127.0.0.1", 22)),
        ("https://{host}/{path}", None, ("mirror.", 443)),
        ("https://mirror.{host}/{path}", None, ("mirror.", 443)),
        ("https://mirror.test{path}", None, ("mirror.test", 443)),
        ("registry.test:5000/hub", ("registry.test", 5000), ("registry.test", 443)),
        ("lab.test", ("lab.test", 1234), ("xlab.test", 1234)),
    ],
)
def test_what_a_configuration_names(place: str, named: tuple[str, int] | None, not_named: tuple[str, int]):
    own = Own.of([place])
    assert named is None or own.names(*named)
    assert not own.names(*not_named)


# --- Passwords of the user: they go to hosts of their own configuration, over https, and into no container

BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


@pytest.fixture
def netrc(tmp_path: Path, direct: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user with passwords for every host, whose loopback is public: only passwords are judged."""
    (tmp_path / ".netrc").write_text("default login me password secret\nmachine localhost login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setattr("reprokit.untrusted.addresses.is_public", lambda address: True)
    return tmp_path


@pytest.fixture
def secure(netrc: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server on https://localhost whose certificate this user trusts."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(netrc / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(netrc / "ca.pem"))
    authority.issue_cert("localhost").configure_cert(context)
    with contextlib.closing(Server(context)) as one:
        one.url("/f", whole(b"x"))
        yield one


def sent(server: Server, url: str, *own: str) -> list[str | None]:
    """The passwords that came with a request for `url`, of a user whose configuration names `own`."""
    server.requests.clear()
    with Client(Settings(own=Own.of(own))) as client, client.ask(url) as answer:
        answer.read()
    return [request.headers.get("authorization") for requests in server.requests.values() for request in requests]


def test_netrc_goes_to_hosts_of_the_configuration_only(secure: Server):
    url, own = secure.url("/f"), f"https://localhost:{secure.port}/{{path}}"
    assert sent(secure, url) == sent(secure, url, "other.test", "xlocalhost", "localhost:1") == [None]
    assert sent(secure, url, "localhost") == sent(secure, url, own) == [BASIC]
    with contextlib.closing(Server(secure.tls)) as other:  # it is not sent where a redirect leads
        target = other.url("/g", whole(b"x"))
        url = secure.url("/r", lambda request: Reply(302, {"Location": target, "Content-Length": "0"}))
        assert sent(secure, url, own) == [BASIC]
        assert "authorization" not in other.requests["/g"][0].headers


@pytest.mark.parametrize("configured", ["https", "http"])
def test_passwords_go_over_http_only_where_that_is_configured(netrc: Path, server: Server, configured: str):
    own = ("127.0.0.1", f"{configured}://127.0.0.1:{server.port}/{{path}}")
    expected = [BASIC if configured == "http" else None]
    assert sent(server, server.url("/f"), *own) == expected
    # netrc knows no schemes, so uv and pip send its passwords to every address of a host.
    server.requests.clear()
    with guarded(Mirrors(Store(netrc / "store")), Own.of(own)) as variables:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": variables["http_proxy"]}))
        request = urllib.request.Request(server.url("/f"), headers={"Authorization": BASIC})
        with opener.open(request) as answer:
            assert answer.read() == DATA
    assert [r.headers.get("authorization") for r in server.requests["/f"]] == expected


def test_programs_find_the_passwords_of_the_users_own_hosts_only(netrc: Path):
    for own, text in (((), ""), (("localhost",), "machine localhost login me password secret\n")):
        with guarded(Mirrors(Store(netrc / "store")), Own.of(own)) as variables:
            file = Path(variables["NETRC"])
            assert file.read_text() == text and file.stat().st_mode & 0o777 == 0o600
            assert not variables["no_proxy"] and not variables["ALL_PROXY"]


@pytest.mark.parametrize("own", [(), ("localhost",)])
def test_a_client_certificate_is_shown_to_hosts_of_the_configuration_only(netrc: Path, own: tuple[str, ...]):
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(netrc / "ca.pem")
    authority.issue_cert("me@localhost").private_key_and_cert_chain_pem.write_to_path(netrc / "me.pem")
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
        files = {"ca_file": str(netrc / "ca.pem"), "client_cert": str(netrc / "me.pem")}
        url = f"https://localhost:{listening.getsockname()[1]}/f"
        with Client(Settings(own=Own.of(own), **files)) as client, client.ask(url) as answer:
            assert answer.status == 200
        thread.join()
    assert [bool(certificate) for certificate in seen] == [bool(own)]


@pytest.mark.parametrize("hosts", [(), ("localhost",)])
def test_git_sends_passwords_to_hosts_of_the_configuration_only(netrc, secure, monkeypatch, hosts: tuple[str, ...]):
    """Neither those of the credential helper nor headers for a host that only a recipe names."""
    helper = f"!f() {{ touch {netrc}/helped; echo username=me; echo password=secret; }}; f"
    (netrc / ".gitconfig").write_text(
        f'[credential]\n\thelper = "{helper}"\n[http]\n\tsslCAInfo = {netrc}/ca.pem\n'
        f'[http "https://localhost:{secure.port}/"]\n\textraHeader = "X-Token: secret"\n'
    )
    for name in [name for name in os.environ if name.startswith("GIT_CONFIG")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("GIT_SSL_CAINFO", raising=False)
    monkeypatch.setattr("reprokit.supply.kinds.git.fetch._ATTEMPTS", 1)

    def unauthorized(request: Request) -> Reply:
        return Reply(401, {"WWW-Authenticate": 'Basic realm="x"', "Content-Length": "0"})

    secure.url("/team/tool/info/refs?service=git-upload-pack", unauthorized)
    with pytest.raises(SourceError) as error:
        commit = Commit(f"https://localhost:{secure.port}/team/tool", "1" * 40)
        ensure([commit], mirrors(Store(netrc / "store"), hosts=hosts))
    requests = [request for each in secure.requests.values() for request in each]
    assert requests, f"git did not come as far as the server: {error.value}"
    passwords = [r.headers[name] for r in requests for name in ("authorization", "x-token") if name in r.headers]
    helped = (netrc / "helped").exists()
    if hosts:
        assert "secret" in passwords and (helped or BASIC in passwords)
    else:
        assert (helped, passwords) == (False, [])


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
def test_a_command_gets_proxies_without_their_password(value: str, passed: str):
    caller = caller_variables({"https_proxy": value, "ALL_PROXY": value, "PATH": "/x"}, "bridge", False)
    assert caller.variables == {"https_proxy": passed, "ALL_PROXY": passed}
    assert caller.bare == ([] if value == passed else ["https_proxy", "ALL_PROXY"])
    assert redact("at http://me:s@cret@host/a@b and https://u@h") == "at http://host/a@b and https://h"
