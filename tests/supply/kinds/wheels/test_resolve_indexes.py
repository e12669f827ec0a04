"""Lock wheels from HTTP indexes of the user and of the recipe, and find what changed there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.config import MirrorEntry
from reprokit.errors import SourceError
from reprokit.recipe.model import Sdist
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import IndexUnreachable, changed_wheels
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store, sha256_of
from tests.support.fetching import local_mirrors
from tests.support.json_index import Index
from tests.support.upstream import Upstream
from tests.support.wheels import PYTHON_311, Lock, make_wheel, names


def serve(upstream: Upstream, index: str, *wheels: Path, hashes: bool = False) -> str:
    """A simple index of these wheels; returns its address."""
    pages: dict[str, str] = {}
    for wheel in wheels:
        upstream.answers[f"/files/{wheel.name}"] = (200, {}, wheel.read_bytes())
        fragment = f"#sha256={sha256_of(wheel)}" if hashes else ""
        name = wheel.name.split("-")[0]
        pages[name] = pages.get(name, "") + f'<a href="/files/{wheel.name}{fragment}">{wheel.name}</a>'
    for name, links in pages.items():
        page = f"<!DOCTYPE html><html><body>{links}</body></html>"
        upstream.answers[f"/{index}/{name}/"] = (200, {"Content-Type": "text/html"}, page.encode())
    return f"http://127.0.0.1:{upstream.port}/{index}/"


def only(store: Store, *indexes: str) -> Mirrors:
    """Mirrors with these as pip's indexes."""
    return local_mirrors(store, pip=PipSettings(index=indexes[0], extra_indexes=indexes[1:]))


def asked(upstream: Upstream, method: str = "GET") -> list[str]:
    return [path for verb, path, _, _ in upstream.requests if verb == method]


def test_the_recipes_indexes_come_second(
    tmp_path: Path, lock: Lock, upstream: Upstream, store: Store, reported: list[str]
):
    old, new = (make_wheel(tmp_path / place, "top", v) for place, v in (("a", "1.0"), ("b", "2.0")))
    mine, recipe = serve(upstream, "mine", old, hashes=True), serve(upstream, "recipe", new, hashes=True)
    mirrors = only(store, mine)
    assert names(lock(["top"], indexes=(recipe,), mirrors=mirrors)) == ["top==1.0"]
    assert "/recipe/top/" not in asked(upstream) and not reported
    assert names(lock(["top==2.0"], indexes=(recipe,), mirrors=mirrors)) == ["top==2.0"]
    assert "trying the recipe's indexes too" in reported[0]
    # An index that is down hides nothing of the others.
    indexes = ("http://127.0.0.1:9/simple", serve(upstream, "third", make_wheel(tmp_path, "low", "1.0"), hashes=True))
    reported.clear()
    mirrors = only(Store(tmp_path / "other"), mine)
    packages = lock(["top", "low"], indexes=indexes, mirrors=mirrors)
    assert names(packages) == ["low==1.0", "top==1.0"]
    assert "127.0.0.1:9" not in "".join(reported)


def test_a_recipes_page_of_links_is_read_as_one_page(upstream: Upstream, tmp_path: Path):
    """Projects publish builds for other CUDA versions on such pages."""
    wheel = make_wheel(tmp_path, "dgl_cu113", "0.9.1", tag="cp38-cp38-manylinux1_x86_64")
    upstream.answers[f"/{wheel.name}"] = (200, {}, wheel.read_bytes())
    page = f'<a href="{wheel.name}">{wheel.name}</a><br>\n'.encode()
    upstream.answers["/repo.html"] = (200, {"Content-Type": "text/html"}, page)
    indexes = [f"http://127.0.0.1:{upstream.port}/repo.html"]
    request = WheelRequest(["dgl-cu113==0.9.1"], Platform("3.8", "2.31"), indexes=indexes)
    (package,) = uv.resolve(request, PipSettings())
    assert (package.name, package.version) == ("dgl-cu113", "0.9.1")
    (file,) = package.files
    assert file.url == f"http://127.0.0.1:{upstream.port}/{wheel.name}"
    assert file.sha256 in ("", sha256_of(wheel))
    with pytest.raises(uv.Unsatisfied, match="dgl-cu113"):
        uv.resolve(replace(request, requirements=["dgl-cu113==1.0.0"]), PipSettings())


def test_sizes_and_checksums_are_those_of_the_wheel(tmp_path: Path, lock: Lock, upstream: Upstream, store: Store):
    wheel = make_wheel(tmp_path / "elsewhere", "top", "1.0")
    expected = (sha256_of(wheel), wheel.stat().st_size)
    (locked,) = lock(["top==1.0"], mirrors=only(store, serve(upstream, "silent", wheel)))  # without checksums
    assert (locked.sha256, locked.size) == expected
    # No wheel is downloaded if the index has its metadata; the size is asked for with the index's password.
    upstream.requests.clear()
    address = serve(upstream, "mine", wheel, hashes=True)
    body = f'<a href="/files/{wheel.name}#sha256={expected[0]}" data-core-metadata="true">{wheel.name}</a>'
    upstream.answers["/mine/top/"] = (200, {"Content-Type": "text/html"}, body.encode())
    metadata = b"Metadata-Version: 2.1\nName: top\nVersion: 1.0\n"
    upstream.answers[f"/files/{wheel.name}.metadata"] = (200, {}, metadata)
    mirrors = only(Store(tmp_path / "empty"), address.replace("http://", "http://me:pass%40word@"))
    (locked,) = lock(["top==1.0"], mirrors=mirrors)
    assert (locked.sha256, locked.size) == expected
    assert f"/files/{wheel.name}" in asked(upstream, "HEAD")
    assert f"/files/{wheel.name}" not in asked(upstream, "GET")
    sent = [{k.lower(): v for k, v in headers.items()} for verb, _, headers, _ in upstream.requests if verb == "HEAD"]
    assert "Basic bWU6cGFzc0B3b3Jk" in [headers.get("authorization") for headers in sent]
    assert "pass" not in locked.model_dump_json()


def test_an_index_that_is_down_is_done_without(
    tmp_path: Path, lock: Lock, upstream: Upstream, store: Store, monkeypatch: pytest.MonkeyPatch, reported: list[str]
):
    wheel = make_wheel(tmp_path / "elsewhere", "top", "1.0")
    mirrors = only(store, serve(upstream, "mine", wheel, hashes=True), "http://me:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert names(lock(["top==1.0"], mirrors=mirrors)) == ["top==1.0"]
    assert (
        "continuing without it" in reported[0] and "127.0.0.1:9/simple" in reported[0] and "secret" not in reported[0]
    )
    with pytest.raises(SourceError, match="could not be reached") as error:
        lock(["gone==1.0"], mirrors=mirrors)
    assert "127.0.0.1:9" in error.value.where


@pytest.mark.parametrize("place", ["/whl/cu113", "/whl/links.html"])
def test_a_recipes_index_that_is_down_is_named_with_what_it_alone_has(index: Path, lock: Lock, place: str):
    down = f"http://127.0.0.1:9{place}"
    with pytest.raises(IndexUnreachable) as error:
        lock(["torch==1.13.1+cu116"], indexes=(down,))
    assert error.value.where == down
    assert re.match(
        "the index cannot be reached: Connection refused; without it, no index has .*torch", str(error.value)
    )
    assert "REPROKIT_WHEELS_MIRRORS" in error.value.hint
    assert "PyPI's torch 1.13.1 is built for CUDA 11.7: pin 1.13.1" in error.value.hint


def test_the_users_mirror_is_asked(tmp_path: Path, lock: Lock, upstream: Upstream, store: Store):
    wheel = make_wheel(tmp_path / "elsewhere", "top", "1.0")
    mirror = MirrorEntry("wheels", serve(upstream, "mirror", wheel, hashes=True), "test")
    assert names(lock(["top==1.0"], mirrors=local_mirrors(store, mirror))) == ["top==1.0"]


# Pins of old papers, from the indexes that this machine uses. Only metadata is downloaded.
@pytest.mark.network
@pytest.mark.parametrize(
    ("requirement", "platform", "sdists", "expected"),
    [
        ("torch==1.13.1", Platform("3.9", "2.36"), (), "nvidia_cudnn_cu11-8.5.0.96-2-py3-none-manylinux1_x86_64.whl"),
        pytest.param(
            *("numpy==1.19.5", Platform("3.6", "2.27"), (), "numpy-1.19.5-cp36-cp36m-manylinux2010_x86_64.whl"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("tensorflow==1.15.5", Platform("3.7", "2.27"), (Sdist(package="gast==0.2.2"),), "gast-0.2.2.tar.gz"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_old_stacks(
    lock: Lock, store: Store, requirement: str, platform: Platform, sdists: tuple[Sdist, ...], expected: str
):
    locked = lock([requirement], platform, sdists, mirrors=Mirrors(store))
    assert expected in [w.file for w in locked]
    assert all(w.size > 0 for w in locked)


@pytest.mark.slow
def test_what_moved(tmp_path: Path, lock: Lock, store: Store, upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    elsewhere = tmp_path / "elsewhere"
    wheels = [make_wheel(elsewhere, name, "1.0") for name in ("same", "newer", "yanked", "gone", "changed")]
    names = [wheel.name.split("-")[0] for wheel in wheels]
    mirrors = only(store, serve(upstream, "mine", *wheels, hashes=True))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    locked = lock(names, mirrors=mirrors)
    assert changed_wheels(locked, WheelRequest(names, PYTHON_311), mirrors) == []

    newer = make_wheel(elsewhere, "newer", "2.0")
    other = make_wheel(elsewhere, "changed", "1.0", ("same",))
    serve(upstream, "mine", wheels[1], newer, hashes=True)
    serve(upstream, "mine", other, hashes=True)
    serve(upstream, "mine", make_wheel(elsewhere, "gone", "1.1"), hashes=True)
    status, headers, page = upstream.answers["/mine/yanked/"]
    page = page.replace(b"<a ", b'<a data-yanked="broken" ')
    upstream.answers["/mine/yanked/"] = (status, headers, page)
    wanted = [name if name != "yanked" else "yanked==1.0" for name in names]
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    by_name = {wheel.name: wheel for wheel in locked}
    assert changed_wheels(locked, WheelRequest(wanted, PYTHON_311), mirrors) == [
        UpstreamChange("wheels", "changed", by_name["changed"].sha256, sha256_of(other), "changed"),
        UpstreamChange("wheels", "gone", "1.0", "1.1", "vanished"),
        UpstreamChange("wheels", "newer", "1.0", "2.0", "newer"),
        UpstreamChange("wheels", "yanked", "1.0", "1.0", "yanked"),
    ]
    # No version meets this pin any more.
    pinned = ["same", "gone==1.0"]
    assert changed_wheels(locked, WheelRequest(pinned, PYTHON_311), mirrors) == [
        UpstreamChange("wheels", "gone", "1.0", "", "vanished")
    ]


def test_with_a_date_only_files_of_that_time_count(tmp_path: Path, lock: Lock, upstream: Upstream, store: Store):
    dated = Index(upstream, tmp_path)
    for version, day in (("1.0", "2021-01-01"), ("2.0", "2022-01-01")):
        dated.wheel("dated", version, day)
    index = f"http://127.0.0.1:{upstream.port}/simple/"
    mirrors = only(store, index)
    assert names(lock(["dated"], mirrors=mirrors)) == ["dated==2.0"]
    assert names(lock(["dated"], mirrors=mirrors, as_of="2021-06-30T23:59:59Z")) == ["dated==1.0"]
    for text, day, first in (("dated==2.0", "2021-06-30", "2022-01-01"), ("dated", "2020-06-30", "2021-01-01")):
        with pytest.raises(SourceError) as error:
            lock([text], mirrors=mirrors, as_of=f"{day}T23:59:59Z")
        assert error.value.message == (
            f"{index} has no {text} of {day} for Python 3.11: the first was uploaded on {first}; "
            "the base's Python 3.11 was released on 2022-10-24"
        )
        assert error.value.hint == "take a later day, or a base with an older Python"
    Index(upstream, tmp_path / "other", times=False).wheel("dated", "1.0", "")
    with pytest.raises(SourceError) as error:
        lock(["dated"], mirrors=only(Store(tmp_path / "other"), index), as_of="2021-06-30T23:59:59Z")
    assert error.value.message == f"{index} gives no upload times, so it has no dated of 2021-06-30"
    assert "PEP 700" in error.value.hint
