"""Addresses in recipes and locks must not reach this machine or its private network."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.config import Configuration, MirrorEntry
from reprokit.errors import ReprokitError, SourceError
from reprokit.recipe.packages import RecipeFile
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.files import lock_file
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import lock_wheels
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from reprokit.untrusted import addresses
from reprokit.untrusted.addresses import NotPublic, Own, check_for_proxy, connect, is_public
from tests.support.asking import ask as ask_gateway
from tests.support.asking import authorization
from tests.support.asking import connect as connect_gateway
from tests.support.file_server import Reply, Server, whole

DATA = b"secret of a service on loopback"
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY", "ALL_PROXY")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    one = Server()
    one.url("/f", whole(DATA))
    yield one
    one.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def mirrors(store: Store, *entries: MirrorEntry, hosts: tuple[str, ...] = ()) -> Mirrors:
    """Those of a user who has configured this, and nothing of pip's and apt's."""
    return Mirrors(store, Configuration(entries, hosts=hosts), (), PipSettings(), AptSettings())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "192.0.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1%eth0", "fc00::1",
        "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "2002:7f00:1::",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "fec0::1",
    ],
)  # fmt: skip
def test_addresses_of_machines_and_their_networks_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "140.82.121.3", "2606:4700::1111", "64:ff9b::101:101"])
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::ffff:127.0.0.1]"]
)
def test_no_spelling_of_loopback_is_asked(server, store, host):
    file = RecipeFile(name="f", urls=[f"http://{host}:{server.port}/f"], path="/f")
    with pytest.raises(SourceError, match="not public"):
        lock_file(file, mirrors(store), lambda line: None)
    assert server.connections == 0
    # The neighbour: the same address where the user's configuration names it.
    found = lock_file(file, mirrors(store, hosts=(host,)), lambda line: None)
    assert found.size == len(DATA) and server.connections


def test_a_redirect_to_loopback_is_not_followed(server, store):
    evil = Server()
    evil.url("/f", lambda request: Reply(302, {"Location": server.url("/f"), "Content-Length": "0"}))
    file = RecipeFile(name="f", urls=[evil.url("/f")], path="/f")
    with pytest.raises(SourceError, match="not public"):
        lock_file(file, mirrors(store, hosts=(f"127.0.0.1:{evil.port}",)), lambda line: None)
    assert evil.connections and not server.connections
    assert lock_file(file, mirrors(store, hosts=("127.0.0.1",)), lambda line: None).size == len(DATA)
    evil.close()


def test_a_name_is_judged_by_the_address_that_is_connected_to(server, monkeypatch):
    """A name that leads to a public address first, and to loopback when it is asked again."""
    answers = [["198.51.100.1", "127.0.0.1"], ["127.0.0.1"]]
    asked = []

    def resolve(host, port, *rest):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers[len(asked) - 1]]

    real = addresses.is_public
    monkeypatch.setattr(addresses, "is_public", lambda text: text == "198.51.100.1" or real(text))
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: _refuse_all_but_loopback(address))
    with pytest.raises(OSError):
        connect("rebind.test", server.port, 1, lambda host, port: False)
    assert asked == ["rebind.test"] and server.connections == 0


def _refuse_all_but_loopback(address):
    assert address[0] != "127.0.0.1"
    raise ConnectionRefusedError(111, "refused")


def test_a_mirror_of_the_user_may_be_on_loopback(server, store):
    """And only on the port that is configured."""
    file = RecipeFile(name="f", urls=["https://files.test/f"], path="/f")
    mirror = MirrorEntry("files", f"http://127.0.0.1:{server.port}/{{path}}", "test")
    assert lock_file(file, mirrors(store, mirror), lambda line: None).size == len(DATA)
    other = Own.of([mirror.value])
    assert other.names("127.0.0.1", server.port) and not other.names("127.0.0.1", 22)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "localhost", "a.localhost", "169.254.169.254", "::1"])
def test_a_proxy_is_not_asked_for_what_is_not_public(server, monkeypatch, host):
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


def test_a_build_reaches_no_service_of_this_machine_through_the_gateway(server, store):
    with Gateway(store, ServedSet()) as gateway:
        gateway.mirrors = mirrors(store)
        answer, body = ask_gateway(gateway, server.url("/f"))
        assert answer.status == 502 and b"not public" in body
        through = connect_gateway(gateway)
        through.request("CONNECT", f"127.0.0.1:{server.port}", headers=authorization(gateway))
        assert through.getresponse().status == 502
        assert server.connections == 0
        gateway.mirrors = mirrors(store, hosts=("127.0.0.1",))
        answer, body = ask_gateway(gateway, server.url("/f"))
        assert (answer.status, body) == (200, DATA)


@pytest.mark.slow
def test_an_index_of_a_recipe_on_loopback_is_not_asked(server, store, monkeypatch):
    """uv and pip ask through this process, and so do the pages that an index redirects to."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    wanted, platform = ["no-such-thing==1.0"], Platform("3.11", "2.36")
    pages = {"/simple/no-such-thing/": whole(b"<html></html>", Content_Type="text/html")}
    index = next(server.url(path, page) for path, page in pages.items()).removesuffix("no-such-thing/")
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ReprokitError):
        lock_wheels(WheelRequest(wanted, platform, indexes=[index]), mirrors(store))
    assert server.connections == 0
    with pytest.raises(ReprokitError):
        lock_wheels(WheelRequest(wanted, platform, indexes=[index]), mirrors(store, hosts=("127.0.0.1",)))
    assert server.requests["/simple/no-such-thing/"]


def test_an_index_lists_no_file_of_this_machine(server, store, tmp_path):
    (tmp_path / "id_rsa").write_text("key")
    uri = (tmp_path / "id_rsa").as_uri()
    file = RecipeFile(name="f", urls=["https://files.test/f"], path="/f")
    with pytest.raises(SourceError):
        lock_file(file.model_copy(update={"urls": [uri]}), mirrors(store), lambda line: None)
    folder = MirrorEntry("files", f"{tmp_path.as_uri()}/{{name}}", "test")
    (tmp_path / "f").write_bytes(DATA)
    assert lock_file(file, mirrors(store, folder), lambda line: None).size == len(DATA)
    outside = Own.of([folder.value])
    assert not outside.holds("file:///etc/passwd") and not outside.holds(f"{tmp_path.as_uri()}/../x")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433"])
@pytest.mark.slow
def test_a_source_on_loopback_is_not_asked_by_git(store, monkeypatch, host):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setattr("reprokit.supply.kinds.git.fetch._ATTEMPTS", 1)
    came = []

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, peer = listener.accept()
                came.append(peer)
                connection.close()  # no TLS is spoken here: that git came is enough

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, daemon=True).start()
        commit = Commit(f"https://{host}:{listener.getsockname()[1]}/team/tool", "1" * 40)
        with pytest.raises(SourceError):
            ensure([commit], mirrors(store))
        assert not came
        with pytest.raises(SourceError):
            ensure([commit], mirrors(store, hosts=(host,)))
        assert came


@pytest.mark.parametrize(
    ("places", "named", "not_named"),
    [
        (["https://mirror.test/{path}"], ("mirror.test", 443), ("mirror.test", 80)),
        (["http://mirror.test:8080/{path}"], ("MIRROR.test", 8080), ("mirror.test", 443)),
        (["https://{host}/{path}", "https://mirror.{host}/{path}"], None, ("mirror.", 443)),
        (["https://mirror.test{path}"], None, ("mirror.test", 443)),
        (["registry.test:5000/hub"], ("registry.test", 5000), ("registry.test", 443)),
        (["lab.test"], ("lab.test", 1234), ("xlab.test", 1234)),
    ],
)
def test_what_a_configuration_names(places, named, not_named):
    own = Own.of(places)
    assert named is None or own.names(*named)
    assert not own.names(*not_named)
