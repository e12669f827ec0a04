from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import subprocess
import sys
import tracemalloc
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reprokit.recipe.model import Source
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.git.resolve import lock_git
from reprokit.supply.kinds.git.serve import Repositories as GitServer
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import resolve_wheels
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask, authorization, connect, environment
from tests.support.fetching import LOCAL, local_mirrors
from tests.support.repositories import Repositories
from tests.support.upstream import Upstream
from tests.support.waiting import wait_for
from tests.support.wheels import make_wheel


@pytest.fixture
def gateway(store: Store):
    with Gateway(store, ServedSet(), own=LOCAL) as running:
        yield running


def test_strangers_are_sent_away(gateway: Gateway, upstream: Upstream):
    connection = connect(gateway)
    connection.request("GET", f"http://127.0.0.1:{upstream.port}/a")
    answer = connection.getresponse()
    assert answer.status == 407 and answer.getheader("Proxy-Authenticate", "").startswith("Basic")
    answer.read()
    connection.request("GET", f"http://127.0.0.1:{upstream.port}/a", headers={"Proxy-Authorization": "Basic eDp5"})
    assert connection.getresponse().status == 407
    assert not upstream.requests and not gateway.requests


def test_it_listens_on_loopback_and_ends_with_its_build(store: Store):
    with Gateway(store, ServedSet(), own=LOCAL) as running:
        address = urlsplit(running.url)
        assert address.hostname == "127.0.0.1"
        socket.create_connection(("127.0.0.1", address.port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", address.port))


def test_its_password_can_be_hidden(gateway: Gateway):
    password = urlsplit(gateway.url).password
    assert password not in gateway.hide(f"proxy {gateway.url}")
    assert set(gateway.build_arguments()) >= {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy"}


def test_plain_http_is_passed_on(gateway: Gateway, upstream: Upstream):
    upstream.answers["/pool/a.deb?x=1"] = (206, {"Content-Range": "bytes 1-3/9", "ETag": '"e"'}, b"yte")
    answer, body = ask(
        gateway, f"http://127.0.0.1:{upstream.port}/pool/a.deb?x=1", Range="bytes=1-3", Proxy_Connection="x"
    )
    assert (answer.status, body, answer.getheader("ETag")) == (206, b"yte", '"e"')
    method, path, headers, _ = upstream.requests[0]
    assert (method, path, headers["Range"]) == ("GET", "/pool/a.deb?x=1", "bytes=1-3")
    assert headers["Host"] == f"127.0.0.1:{upstream.port}"
    assert not [name for name in headers if name.lower().startswith("proxy-")]
    assert gateway.hosts == {"127.0.0.1": 1}
    wait_for(lambda: gateway.bytes_served >= 3)
    assert gateway.bytes_served == 3


def test_a_connection_serves_many_requests(gateway: Gateway, upstream: Upstream):
    upstream.answers |= {"/a": (200, {}, b"a"), "/none": (304, {"ETag": "x"}, b"")}
    connection = connect(gateway)
    for path, status, body in (("/a", 200, b"a"), ("/none", 304, b""), ("/gone", 404, b"no"), ("/a", 200, b"a")):
        connection.request("GET", f"http://127.0.0.1:{upstream.port}{path}", headers=authorization(gateway))
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, body)
    connection.request("HEAD", f"http://127.0.0.1:{upstream.port}/a", headers=authorization(gateway))
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Content-Length"), answer.read()) == (200, "1", b"")


def test_bodies_without_a_length_and_bodies_of_requests(gateway: Gateway, upstream: Upstream):
    upstream.answers["/chunked"] = (200, {"Transfer-Encoding": "chunked"}, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    upstream.answers["/post"] = (200, {}, b"ok")
    assert ask(gateway, f"http://127.0.0.1:{upstream.port}/chunked")[1] == b"abcde"
    assert ask(gateway, f"http://127.0.0.1:{upstream.port}/post", "POST", b"sent")[1] == b"ok"
    assert upstream.requests[-1][3] == b"sent"


def test_a_cut_body_does_not_look_whole(gateway: Gateway, upstream: Upstream):
    upstream.answers["/cut"] = (200, {"Content-Length": "10", "Connection": "close"}, b"short")
    with pytest.raises(http.client.IncompleteRead):
        ask(gateway, f"http://127.0.0.1:{upstream.port}/cut")


def test_an_upstream_that_is_away_is_named(gateway: Gateway):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        answer, body = ask(gateway, f"http://127.0.0.1:{taken.getsockname()[1]}/a")
    assert answer.status == 502
    assert body.startswith(b"reprokit gateway: cannot reach 127.0.0.1: ")


def test_archives_that_cannot_be_reached_are_named_instead_of_apts_words(gateway: Gateway, upstream: Upstream):
    ask(gateway, f"http://127.0.0.1:{upstream.port}/a")
    assert gateway.unreached("no packages") is None
    ask(gateway, "http://one.invalid/dists/x")
    error = gateway.unreached("no packages")
    assert error and error.message.startswith("no packages: no connection to one.invalid: ")
    assert "REPROKIT_APT_MIRRORS" in error.hint


def test_the_hosts_own_proxy_is_used(gateway: Gateway, upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    upstream.answers["/dists/x"] = (200, {}, b"via proxy")
    monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{upstream.port}")
    assert ask(gateway, "http://archive.invalid/dists/x")[1] == b"via proxy"
    _, path, headers, _ = upstream.requests[0]
    assert path == "http://archive.invalid/dists/x"
    assert headers["proxy-authorization"] == "Basic " + b64encode(b"me:p@ss").decode()


def test_a_tunnel_carries_bytes_both_ways(gateway: Gateway, upstream: Upstream):
    upstream.answers["/a"] = (200, {}, b"inside")
    connection = connect(gateway)
    connection.set_tunnel("127.0.0.1", upstream.port, authorization(gateway))
    connection.request("GET", "/a")
    assert connection.getresponse().read() == b"inside"
    assert gateway.hosts == {f"127.0.0.1:{upstream.port}": 1}


def test_the_policy_decides_and_the_name_is_recorded(store: Store, upstream: Upstream):
    def policy(method: str, name: str) -> str | None:
        return f"undeclared download: {name}" if method == "CONNECT" or name == "127.0.0.1" else None

    with Gateway(store, ServedSet(), policy=policy) as gateway:
        answer, body = ask(gateway, f"http://127.0.0.1:{upstream.port}/a")
        assert (answer.status, body) == (403, b"reprokit gateway: undeclared download: 127.0.0.1\n")
        with pytest.raises(OSError, match="403"):
            connection = connect(gateway)
            connection.set_tunnel("secret.test", 443, authorization(gateway))
            connection.request("GET", "/")
        assert dict(gateway.hosts) == {"127.0.0.1": 1, "secret.test:443": 1}
    assert not upstream.requests


@pytest.mark.slow
def test_pip_installs_from_it(index: Path, store: Store, tmp_path: Path):
    make_wheel(index, "top_level", "1.0", ("low",))
    make_wheel(index, "low", "2.0")
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(index.as_uri(),)))
    wheels = resolve_wheels(WheelRequest(["top-level==1.0"], Platform("3.11")), mirrors)
    fetch_all([wheel.locked_input() for wheel in wheels], mirrors)
    with Gateway(store, ServedSet(wheels=wheels)) as gateway:
        command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "download", "-q"]
        index = ServedSet(wheels=wheels).arguments()["REPROKIT_WHEELS"]
        command += ["--no-cache-dir", f"--index-url={index}", "--trusted-host=wheels.reprokit.invalid"]
        command += ["-d", str(tmp_path / "out")]
        done = subprocess.run(
            [*command, "Top.Level==1.0"], env=environment(gateway, tmp_path), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert {p.name for p in (tmp_path / "out").iterdir()} == {
            "top_level-1.0-py3-none-any.whl",
            "low-2.0-py3-none-any.whl",
        }
        done = subprocess.run(
            [*command, "stranger"], env=environment(gateway, tmp_path), capture_output=True, text=True
        )
        assert done.returncode != 0
        assert gateway.missing == {"stranger": 1}
        assert ask(gateway, ServedSet(wheels=wheels).arguments()["REPROKIT_WHEELS"])[1].count(b"<a ") == 2
        assert ask(gateway, "http://wheels.reprokit.invalid/other/simple/")[0].status == 404


def commits_of(name: str, commit: str, store: Store) -> tuple[GitCommit, ...]:
    """The commit and its submodules, in the store."""
    source = Source(name="top", git=f"https://forge.test/{name}", commit=commit, path="/top", submodules=True)
    return lock_git(source, local_mirrors(store), lambda line: None)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["0", "1", "2"])
def test_git_fetches_a_commit_and_its_submodules(
    repositories: Repositories, store: Store, tmp_path: Path, protocol: str
):
    repositories.make("lib/leaf", {"l": "leaf"})
    repositories.make("lib/middle", {"m": "middle"}, {"leaf": ("lib/leaf", "../leaf.git")})
    modules = {"a": ("lib/middle", "../../lib/middle.git"), "b": ("lib/leaf", "https://forge.test/lib/leaf.git")}
    old = repositories.make("team/top", {"t": "old"}, modules)
    # Now the commit and the commits of its submodules are no heads of branches.
    for name in ("team/top", "lib/leaf", "lib/middle"):
        repositories.commit(name, {"t": "new"})
    commits = commits_of("team/top", old, store)
    with Gateway(store, ServedSet(git=commits)) as gateway:
        script = f"""set -e
            git init -q . && git config protocol.version {protocol}
            git fetch -q --depth 1 http://{GitServer.host}/forge.test/team/top {old} && git checkout -q FETCH_HEAD
            git remote add origin http://{GitServer.host}/forge.test/team/top
            git -c url.http://{GitServer.host}/.insteadOf=https:// submodule update -q --init --recursive --depth 1
            cat t a/m a/leaf/l b/l"""
        (tmp_path / "work").mkdir()
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=tmp_path / "work",
            env=environment(gateway, tmp_path),
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "oldmiddleleafleaf"


def test_git_is_read_only_and_knows_its_commits_only(repositories: Repositories, store: Store):
    head = repositories.make("team/top", {"t": "1"})
    with Gateway(store, ServedSet(git=commits_of("team/top", head, store))) as gateway:
        refs = f"http://{GitServer.host}/forge.test/team/top.git/info/refs?service="
        answer, body = ask(gateway, refs + "git-upload-pack")
        assert answer.status == 200 and head.encode() in body
        assert ask(gateway, refs + "git-receive-pack")[0].status == 403
        assert ask(gateway, f"http://{GitServer.host}/forge.test/team/top/objects/info/packs")[0].status == 404
        assert (
            ask(gateway, f"http://{GitServer.host}/forge.test/team/other/info/refs?service=git-upload-pack")[0].status
            == 404
        )
        assert "forge.test/team/other" in gateway.missing


def test_git_requests_may_be_compressed(repositories: Repositories, store: Store):
    head = repositories.make("team/top", {"t": "1"})
    with Gateway(store, ServedSet(git=commits_of("team/top", head, store))) as gateway:
        want = f"want {head}\n".encode()
        request = b"%04x" % (len(want) + 4) + want + b"0000" + b"0009done\n"
        answer, body = ask(
            gateway, f"http://{GitServer.host}/forge.test/team/top/git-upload-pack", "POST", gzip.compress(request),
            Content_Encoding="gzip", Content_Type="application/x-git-upload-pack-request",
        )  # fmt: skip
        assert answer.status == 200 and b"PACK" in body


@pytest.mark.slow
def test_a_compressed_git_request_is_not_unpacked_in_memory(repositories: Repositories, store: Store):
    head = repositories.make("team/top", {"t": "1"})
    zeros = gzip.compress(bytes(100 << 20), 9)
    with Gateway(store, ServedSet(git=commits_of("team/top", head, store))) as gateway:
        tracemalloc.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(
                gateway, f"http://{GitServer.host}/forge.test/team/top/git-upload-pack", "POST", zeros,
                Content_Encoding="gzip", Content_Type="application/x-git-upload-pack-request",
            )  # fmt: skip
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 << 20
