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
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask, authorization, connect, environment
from tests.support.fetching import LOCAL, local_mirrors
from tests.support.repositories import Repositories
from tests.support.upstream import Upstream
from tests.support.waiting import wait_for
from tests.support.wheels import make_wheel

FORGE = f"http://{GitServer.host}/forge.test"


@pytest.fixture
def gateway(store: Store):
    with Gateway(Mirrors(store), own=LOCAL) as running:
        yield running


def test_strangers_are_sent_away_and_it_ends_with_its_build(store: Store, upstream: Upstream):
    with Gateway(Mirrors(store), own=LOCAL) as gateway:
        connection = connect(gateway)
        connection.request("GET", f"http://127.0.0.1:{upstream.port}/a")
        answer = connection.getresponse()
        assert answer.status == 407 and answer.getheader("Proxy-Authenticate", "").startswith("Basic")
        answer.read()
        connection.request("GET", f"http://127.0.0.1:{upstream.port}/a", headers={"Proxy-Authorization": "Basic eDp5"})
        assert connection.getresponse().status == 407
        assert not upstream.requests and not gateway.requests
        address = urlsplit(gateway.url)
        assert address.hostname == "127.0.0.1"
        assert address.password not in gateway.hide(f"proxy {gateway.url}")
        assert set(gateway.build_arguments()) >= {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy"}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", address.port))


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


def test_a_connection_serves_many_requests_with_any_bodies(gateway: Gateway, upstream: Upstream):
    root = f"http://127.0.0.1:{upstream.port}"
    upstream.answers |= {
        "/a": (200, {}, b"a"),
        "/none": (304, {"ETag": "x"}, b""),
        "/chunked": (200, {"Transfer-Encoding": "chunked"}, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        "/cut": (200, {"Content-Length": "10", "Connection": "close"}, b"short"),
    }
    connection = connect(gateway)
    for path, status, body in (
        ("/a", 200, b"a"),
        ("/none", 304, b""),
        ("/gone", 404, b"no"),
        ("/chunked", 200, b"abcde"),
    ):
        connection.request("GET", f"{root}{path}", headers=authorization(gateway))
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, body)
    connection.request("HEAD", f"{root}/a", headers=authorization(gateway))
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Content-Length"), answer.read()) == (200, "1", b"")
    assert ask(gateway, f"{root}/a", "POST", b"sent")[1] == b"a" and upstream.requests[-1][3] == b"sent"
    with pytest.raises(http.client.IncompleteRead):
        ask(gateway, f"{root}/cut")


def test_hosts_that_cannot_be_reached_are_named_instead_of_apts_words(gateway: Gateway, upstream: Upstream):
    ask(gateway, f"http://127.0.0.1:{upstream.port}/a")
    assert gateway.unreached("no packages") is None
    answer, body = ask(gateway, "http://one.invalid/dists/x")
    assert answer.status == 502 and body.startswith(b"reprokit gateway: cannot reach one.invalid: ")
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


@pytest.mark.slow
def test_pip_installs_from_it(index: Path, store: Store, tmp_path: Path):
    make_wheel(index, "top_level", "1.0", ("low",))
    make_wheel(index, "low", "2.0")
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(index.as_uri(),)))
    wheels = resolve_wheels(WheelRequest(["top-level==1.0"], Platform("3.11")), mirrors)
    fetch_all([wheel.locked_input() for wheel in wheels], mirrors)
    wheels = [wheel.model_copy(update={"blocks": ("wheels",)}) for wheel in wheels]
    with Gateway(Mirrors(store), ServedSet(wheels=wheels)) as gateway:
        command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "download", "-q"]
        address = ServedSet(wheels=wheels).arguments()["REPROKIT_WHEELS"]
        command += ["--no-cache-dir", f"--index-url={address}", "--trusted-host=wheels.reprokit.invalid"]
        command += ["-d", str(tmp_path / "out")]
        done = subprocess.run(
            [*command, "Top.Level==1.0"], env=environment(gateway, tmp_path), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert {p.name for p in (tmp_path / "out").iterdir()} == {
            "top_level-1.0-py3-none-any.whl",
            "low-2.0-py3-none-any.whl",
        }
        assert ask(gateway, f"{address}stranger/")[0].status == 404 and gateway.missing == {"stranger": 1}
        assert ask(gateway, address)[1].count(b"<a ") == 2
        assert ask(gateway, "http://wheels.reprokit.invalid/other/simple/")[0].status == 404


def commits_of(name: str, commit: str, store: Store) -> tuple[GitCommit, ...]:
    """The commit and its submodules, in the store."""
    source = Source(name="top", git=f"https://forge.test/{name}", commit=commit, path="/top", submodules=True)
    return lock_git(source, local_mirrors(store))


@pytest.mark.slow
def test_git_fetches_a_commit_and_its_submodules(repositories: Repositories, store: Store, tmp_path: Path):
    repositories.make("lib/leaf", {"l": "leaf"})
    repositories.make("lib/middle", {"m": "middle"}, {"leaf": ("lib/leaf", "../leaf.git")})
    modules = {"a": ("lib/middle", "../../lib/middle.git"), "b": ("lib/leaf", "https://forge.test/lib/leaf.git")}
    old = repositories.make("team/top", {"t": "old"}, modules)
    # Now the commit and the commits of its submodules are no heads of branches.
    for name in ("team/top", "lib/leaf", "lib/middle"):
        repositories.commit(name, {"t": "new"})
    with Gateway(Mirrors(store), ServedSet(git=commits_of("team/top", old, store))) as gateway:
        for protocol in (0, 2):
            script = f"""set -e
                git init -q . && git config protocol.version {protocol}
                git fetch -q --depth 1 {FORGE}/team/top {old} && git checkout -q FETCH_HEAD
                git remote add origin {FORGE}/team/top
                git -c url.http://{GitServer.host}/.insteadOf=https:// submodule update -q --init --recursive --depth 1
                cat t a/m a/leaf/l b/l"""
            folder = tmp_path / f"work{protocol}"
            folder.mkdir()
            environ = environment(gateway, tmp_path)
            done = subprocess.run(["sh", "-c", script], cwd=folder, env=environ, capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (0, "oldmiddleleafleaf"), done.stderr


@pytest.mark.slow
def test_git_is_read_only_and_knows_its_commits_only(repositories: Repositories, store: Store):
    head = repositories.make("team/top", {"t": "1"})
    with Gateway(Mirrors(store), ServedSet(git=commits_of("team/top", head, store))) as gateway:
        refs = f"{FORGE}/team/top.git/info/refs?service="
        answer, body = ask(gateway, refs + "git-upload-pack")
        assert answer.status == 200 and head.encode() in body
        assert ask(gateway, refs + "git-receive-pack")[0].status == 403
        assert ask(gateway, f"{FORGE}/team/top/objects/info/packs")[0].status == 404
        assert ask(gateway, f"{FORGE}/team/other/info/refs?service=git-upload-pack")[0].status == 404
        assert "forge.test/team/other" in gateway.missing

        def fetch(body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
            kind = "application/x-git-upload-pack-request"
            url = f"{FORGE}/team/top/git-upload-pack"
            return ask(gateway, url, "POST", gzip.compress(body), Content_Encoding="gzip", Content_Type=kind)

        want = f"want {head}\n".encode()
        answer, body = fetch(b"%04x" % (len(want) + 4) + want + b"0000" + b"0009done\n")
        assert answer.status == 200 and b"PACK" in body
        # A compressed request is not unpacked in memory.
        zeros = bytes(100 << 20)
        tracemalloc.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            fetch(zeros)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20
