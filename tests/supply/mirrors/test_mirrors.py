"""Addresses are asked in order: the user's mirrors, the host's settings, those in the lock, public ones."""

from __future__ import annotations

import hashlib
import socket
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reprokit.config import Configuration, MirrorEntry
from reprokit.supply.fetch.pool import FetchFailed, fetch_all
from reprokit.supply.kinds.apt.settings import AptSettings, remember_archive
from reprokit.supply.kinds.wheels import index as wheels
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import HOSTS
from tests.support.upstream import Upstream

A = "a" * 64
DEB = LockedInput(
    "apt", "curl 1", A, 1, {"archive": "debian", "path": "pool/main/c/c.deb", "as_of": "20261121T000000Z"}
)
WHEEL = LockedInput(
    "wheels", "p-1-py3-none-any.whl", A, 1, {"name": "p", "version": "1", "file": "p-1-py3-none-any.whl"}
)


class Host:
    """Replaces the settings of this machine's pip and apt."""

    def __init__(self, store: Store) -> None:
        self.store, self.pip, self.apt = store, PipSettings(), AptSettings()

    def __call__(self, *indexes: str, **lists: list[str]) -> Mirrors:
        entries = tuple(MirrorEntry(kind, value, "test") for kind, values in lists.items() for value in values)
        return Mirrors(self.store, Configuration(entries, hosts=HOSTS), indexes, self.pip, self.apt)


@pytest.fixture
def host(store: Store) -> Host:
    return Host(store)


def test_apt(host: Host):
    remember_archive(host.store, "debian", "http://seen.test/debian")
    host.apt = AptSettings({"debian": "http://host.test/debian"})
    templates = ["http://one.test/{archive}/{path}", "llvm=http://l.test/{path}", "file:///srv/{path}"]
    *first, last = host(apt=templates).urls(DEB)
    assert first[:4] == [
        "http://one.test/debian/pool/main/c/c.deb",
        "file:///srv/pool/main/c/c.deb",
        "http://host.test/debian/pool/main/c/c.deb",
        "http://seen.test/debian/pool/main/c/c.deb",
    ]
    assert last.endswith("/archive/debian/20261121T000000Z/pool/main/c/c.deb")
    # An archive without a name has the lock's address only.
    urls = ("https://vendor.test/apt/pool/x.deb",)
    vendors = LockedInput("apt", "x 1", A, 1, {"archive": "vendor", "path": "pool/x.deb"}, urls)
    assert tuple(host(apt=["debian=http://m.test/{path}"]).urls(vendors)) == urls
    # Only an archive's own hosts are stood in for.
    host.apt = AptSettings()
    mirrored = ["http://m.test/debian/dists/stable/InRelease"]
    for name, archives, expected in (
        ("vendor.test", (), []),
        ("seen.test", (), mirrored),
        ("base.test", ("base.test",), mirrored),
        ("m.test", ("m.test",), []),
    ):
        places = host(apt=["http://m.test/{archive}/{path}"])
        assert places.archive(f"http://{name}/debian/dists/stable/InRelease", archives) == expected, name


def test_plain_files_and_conda_packages(host: Host):
    urls = ("https://forge.test/o/cub.zip?v=1", "http://two.test/c")
    file = LockedInput("files", "cub.zip", A, 1, {"name": "cub.zip"}, urls)
    templates = ["https://m.test/{host}/{path}", "file:///srv/{name}", "file:///by-hash/{sha256}"]
    assert list(host(files=templates).urls(file)) == [
        "https://m.test/forge.test/o/cub.zip?v=1",
        "https://m.test/two.test/c",
        "file:///srv/cub.zip",
        f"file:///by-hash/{A}",
        *urls,
    ]
    fields = {"channel": "conda-forge", "subdir": "linux-64", "file": "x-1-0.conda"}
    package = LockedInput("conda", "x-1-0.conda", A, 1, fields)
    mirror, public = host(conda=["https://m.test/cloud/{channel}"]).urls(package)
    assert mirror == "https://m.test/cloud/conda-forge/linux-64/x-1-0.conda"
    assert public.endswith("/conda-forge/linux-64/x-1-0.conda")
    assert host().channels("main")[0].endswith("/pkgs/main")


def test_git_and_its_dead_mirrors(host: Host):
    lists = {"git": ["https://dead.test/{path}.git", "file:///srv/git/{owner}/{repo}.git"]}
    places = host(**lists)
    url = "https://forge.test/apache/tvm"
    dead, local = "https://dead.test/apache/tvm.git", "file:///srv/git/apache/tvm.git"
    assert places.git(url) == [dead, local, url]
    for _ in range(3):
        places.report(dead, "repository 'https://dead.test/apache/tvm.git' not found")
    assert places.git(url)[0] == dead  # it answers: another repository may be there
    for _ in range(2):
        places.report(dead, "Failed to connect to dead.test port 443")
    assert places.git(url) == [local, url, dead]
    assert host(**lists).git(url) == [local, url, dead]  # the next run knows


@pytest.mark.parametrize(
    ("error", "is_last"),
    [
        *((why, False) for why in ("HTTP 404", "HTTP 403", "the file has 3 bytes there, expected 4", "other bytes: x")),
        *((why, True) for why in ("HTTP 503", "HTTP 429", "stalled", "it does not answer")),
    ],
)
def test_a_host_that_does_not_serve_goes_last(host: Host, error: str, is_last: bool):
    places = host(files=["https://m.test/{path}"])
    file = LockedInput("files", "f", A, 1, {}, ("https://forge.test/f",))
    for _ in range(5):
        places.report("https://m.test/f", error)
    urls = ["https://m.test/f", "https://forge.test/f"]
    assert list(places.urls(file)) == (urls[::-1] if is_last else urls)


def page(*files: str, host: str = "") -> bytes:
    return "".join(f'<a href="{host}/files/{file}#sha256={A}">{file}</a>' for file in files).encode()


def test_wheels_are_looked_up_in_order_and_no_further_than_needed(host: Host, upstream: Upstream, tmp_path: Path):
    root = f"http://127.0.0.1:{upstream.port}"
    upstream.answers |= {
        "/mine/p/": (200, {"Content-Type": "text/html"}, page("q-1-py3-none-any.whl")),
        "/theirs/p/": (200, {"Content-Type": "text/html"}, page(WHEEL.name)),
        "/recipe/p/": (200, {"Content-Type": "text/html"}, page(WHEEL.name, host="http://cdn.test")),
    }
    (tmp_path / WHEEL.name).touch()
    host.pip = PipSettings(f"{root}/theirs", find_links=(tmp_path.as_uri(),))
    lists = {"wheels": [f"{root}/mine", "https://direct.test/{name}/{file}"]}
    places = host(f"{root}/recipe", **lists)
    found = places.urls(WHEEL)
    assert next(found) == f"https://direct.test/p/{WHEEL.name}"
    assert [path for _, path, _, _ in upstream.requests] == ["/mine/p/"]
    assert next(found) == (tmp_path / WHEEL.name).as_uri()
    assert next(found) == f"{root}/files/{WHEEL.name}"
    assert [path for _, path, _, _ in upstream.requests] == ["/mine/p/", "/theirs/p/"]
    assert list(found) == [f"http://cdn.test/files/{WHEEL.name}"]
    list(places.urls(WHEEL))
    assert len(upstream.requests) == 3  # pages are asked for once


def test_a_dead_file_host_puts_its_index_last(host: Host, upstream: Upstream):
    root = f"http://127.0.0.1:{upstream.port}"
    upstream.answers |= {
        "/one/p/": (200, {}, page(WHEEL.name, host="http://cdn.test")),
        "/two/p/": (200, {}, page(WHEEL.name)),
    }
    places = host(wheels=[f"http://localhost:{upstream.port}/one", f"{root}/two"])
    assert next(places.urls(WHEEL)) == f"http://cdn.test/files/{WHEEL.name}"
    for _ in range(2):
        places.report(f"http://cdn.test/files/{WHEEL.name}", "stalled")
    assert next(places.urls(WHEEL)) == f"{root}/files/{WHEEL.name}"


def test_an_index_that_fails_is_left_for_this_run_and_named(
    host: Host, upstream: Upstream, store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(wheels, "_PAUSE_S", 0)
    root = f"http://127.0.0.1:{upstream.port}"
    upstream.answers |= {"/broken/p/": (500, {}, b""), "/good/p/": (200, {}, page(WHEEL.name))}
    host.pip = PipSettings(f"http://me:secret@127.0.0.1:{upstream.port}/broken", extra_indexes=(f"{root}/good",))
    places = host()
    for _ in range(3):
        assert list(places.urls(WHEEL)) == [f"{root}/files/{WHEEL.name}"]
    assert [path for _, path, _, _ in upstream.requests].count("/broken/p/") == 3
    upstream.answers["/good/p/"] = (404, {}, b"")
    with pytest.raises(FetchFailed) as error:
        fetch_all([WHEEL], host())
    assert (error.value.message, error.value.where) == (f"{WHEEL.name}: HTTP 500", f"{root}/broken")


def test_an_index_without_the_project_is_asked_for_the_next_one(host: Host, upstream: Upstream):
    file = "q-1-py3-none-any.whl"
    other = LockedInput("wheels", file, A, 1, {"name": "q", "version": "1", "file": file})
    upstream.answers["/simple/q/"] = (200, {}, page(file))
    for status in (403, 404, 410):
        upstream.answers["/simple/p/"] = (status, {}, b"")
        places = host(f"http://127.0.0.1:{upstream.port}/simple")
        assert list(places.urls(WHEEL)) == [] and len(list(places.urls(other))) == 1
        assert not places.silent(WHEEL)
    # An index with credentials.
    upstream.answers["/simple/p/"] = (200, {}, page(WHEEL.name))
    host.pip = PipSettings(f"http://me:p%40ss@127.0.0.1:{upstream.port}/simple")
    assert list(host().urls(WHEEL)) == [f"http://me:p%40ss@127.0.0.1:{upstream.port}/files/{WHEEL.name}"]
    headers = {name.lower(): value for name, value in upstream.requests[-1][2].items()}
    assert headers["authorization"] == "Basic " + b64encode(b"me:p@ss").decode()


def test_resolving_asks_the_users_mirrors_too(host: Host, tmp_path: Path):
    (tmp_path / WHEEL.name).touch()
    host.pip = PipSettings("https://own.test/simple", extra_indexes=("https://more.test",), cert="/ca.pem")
    lists = ["https://m.test/simple", tmp_path.as_uri(), "https://m.test/{file}", "https://m.test/stable.html"]
    found = host("https://recipe.test", wheels=lists).pip
    assert found.indexes == ("https://own.test/simple", "https://m.test/simple", "https://more.test")
    assert found.find_links == (tmp_path.as_uri(), "https://m.test/stable.html")
    assert found.cert == "/ca.pem"


def test_proxies_are_each_tools_own(host: Host, upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    host.pip = PipSettings("https://index.test/simple", proxy="me:secret@pip.test:3128")
    host.apt = AptSettings(proxies={"": "http://apt.test:3142", "near.test": "DIRECT"})

    def proxy(url: str) -> str | None:
        found = host().settings.proxy(urlsplit(url))
        return found.hostname if found else None

    assert proxy("https://index.test/simple/p/") == "pip.test"
    assert proxy("http://deb.test/debian/pool/main/a.deb") == "apt.test"
    assert proxy("http://near.test/debian/pool/main/a.deb") is None
    assert proxy("https://files.test/cub.zip") is None
    monkeypatch.setenv("https_proxy", "http://all.test:1")
    assert proxy("https://files.test/cub.zip") == "all.test"
    assert proxy("https://index.test/simple/p/") == "pip.test"


def test_folders_of_every_kind_need_no_network(host: Host, store: Store, tmp_path: Path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{taken.getsockname()[1]}")

        def put(path: str, kind: str, fields: dict[str, str], *urls: str) -> LockedInput:
            data = f"{kind} {path}".encode()
            sha256 = hashlib.sha256(data).hexdigest()
            file = tmp_path / "srv" / path.replace("BY-HASH", sha256)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            return LockedInput(kind, file.name, sha256, len(data), {"name": file.name, **fields}, urls)

        wheel = "torch-1.12.1+cu113-cp38-cp38-linux_x86_64.whl"
        deb = {"archive": "debian", "path": "pool/main/g/g++_1_amd64.deb"}
        conda = {"channel": "conda-forge", "subdir": "noarch", "file": "x-1-0.conda"}
        inputs = [
            put("debian/pool/main/g/g++_1_amd64.deb", "apt", deb),
            put(f"wheels/{wheel}", "wheels", {"name": "torch", "version": "1.12.1+cu113", "file": wheel}),
            put("conda-forge/noarch/x-1-0.conda", "conda", conda),
            put("by-hash/BY-HASH", "files", {}, "https://forge.invalid/cub.zip"),
        ]
        templates = {"apt": "{archive}/{path}", "wheels": "wheels", "conda": "{channel}", "files": "by-hash/{sha256}"}
        root = (tmp_path / "srv").as_uri()
        places = host(**{kind: [f"{root}/{template}"] for kind, template in templates.items()})
        assert fetch_all(inputs, places).files == 4
        assert all(store.path(each.sha256).is_file() for each in inputs)
