from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.config import Configuration, MirrorEntry
from reprokit.errors import SourceError
from reprokit.recipe.model import Sdist
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.resolve import best, lock_wheels, moved_wheels, supported
from reprokit.supply.kinds.wheels.uv import IndexFile, Package
from reprokit.supply.lock.model import Distribution
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store, sha256_of
from tests.support.fetching import HOSTS
from tests.support.upstream import Upstream
from tests.support.wheels import make_wheel

PYTHON_311 = Platform("3.11", "2.36")
Lock = Callable[..., "tuple[Distribution, ...]"]


@pytest.fixture
def lock(store: Store) -> Lock:
    def run(
        requirements: list[str],
        platform: Platform = PYTHON_311,
        sdists: tuple[Sdist, ...] = (),
        indexes: tuple[str, ...] = (),
        configuration: Configuration = Configuration(hosts=HOSTS),  # noqa: B008
        **more: object,
    ) -> tuple[Distribution, ...]:
        mirrors = Mirrors(store, configuration, indexes=indexes)
        return lock_wheels(requirements, sdists, platform, indexes, mirrors, store, **more)

    return run


def names(found: tuple[Distribution, ...]) -> list[str]:
    return [f"{w.name}=={w.version}" for w in found]


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


def asked(upstream: Upstream, method: str = "GET") -> list[str]:
    return [path for verb, path, _, _ in upstream.requests if verb == method]


def test_wheels_and_what_they_need(index: Path, lock: Lock, store: Store):
    top, low = make_wheel(index, "top", "1.0", ("low>=1",)), make_wheel(index, "low", "1.5")
    found = lock(["top==1.0"])
    assert names(found) == ["low==1.5", "top==1.0"]
    assert [w.sha256 for w in found] == [sha256_of(low), sha256_of(top)]
    assert [w.size for w in found] == [low.stat().st_size, top.stat().st_size]
    assert lock([]) == ()


def test_another_python_another_wheel(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux2014_x86_64")
    make_wheel(index, "top", "1.0", tag="cp36-cp36m-manylinux1_x86_64")
    assert "cp311" in lock(["top==1.0"])[0].file
    assert "cp38" in lock(["top==1.0"], Platform("3.8", "2.31"))[0].file
    assert "cp36m" in lock(["top==1.0"], Platform("3.6", "2.27"))[0].file


def test_a_wheel_that_the_c_library_cannot_load_is_not_taken(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux_2_31_x86_64")
    with pytest.raises(SourceError, match=r"no wheel of top==1\.0 for Python 3\.8 and glibc 2\.28"):
        lock(["top==1.0"], Platform("3.8", "2.28"))


def test_markers_are_judged_for_the_image(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", ('backport; python_version < "3.8"', 'windows; sys_platform == "win32"'))
    make_wheel(index, "backport", "2.0")
    assert names(lock(["top==1.0"], Platform("3.7", "2.28"))) == ["backport==2.0", "top==1.0"]
    assert names(lock(["top==1.0"])) == ["top==1.0"]


def test_a_local_build_satisfies_the_public_version(index: Path, lock: Lock):
    make_wheel(index, "torch", "2.0.1+cpu")
    assert names(lock(["torch==2.0.1"])) == ["torch==2.0.1+cpu"]


def test_a_missing_version_is_named_with_its_neighbours(index: Path, lock: Lock):
    for version in ("1.0", "1.1", "2.0", "3.0", "3.1", "9.0"):
        make_wheel(index, "top", version)
    with pytest.raises(SourceError) as error:
        lock(["top==2.5"])
    assert "no wheel of top==2.5 for Python 3.11" in error.value.message
    assert error.value.hint == "nearest versions that exist: 1.1, 2.0, 3.0, 3.1"


def test_conflicts_name_both_sides(index: Path, lock: Lock):
    make_wheel(index, "one", "1.0", ("low==1",))
    make_wheel(index, "two", "1.0", ("low==2",))
    make_wheel(index, "low", "1")
    make_wheel(index, "low", "2")
    with pytest.raises(SourceError, match="do not fit together") as error:
        lock(["one==1.0", "two==1.0"])
    for words in ("two depend on low==2", "one depend on low==1", "you require one==1.0 and two==1.0"):
        assert words in error.value.message


def sdist(folder: Path, name: str, version: str, tmp_path: Path) -> Path:
    """An sdist whose setup.py would leave a trace if it ran."""
    source = tmp_path / f"{name}-{version}"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (source / "PKG-INFO").write_text(f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n")
    with tarfile.open(folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    return folder / f"{name}-{version}.tar.gz"


def test_sdists_are_taken_where_the_recipe_says_so_and_never_run(index: Path, lock: Lock, tmp_path: Path):
    file = sdist(index, "old", "1.4.0", tmp_path)
    make_wheel(index, "low", "1.0")
    make_wheel(index, "low", "2.0")
    with pytest.raises(SourceError, match=r"no wheel of old==1\.4\.0") as error:
        lock(["old==1.4.0"])
    assert "`sdists`" in error.value.hint
    found = lock([], sdists=(Sdist(package="old==1.4.0", requires=["low<2"]),))
    assert names(found) == ["low==1.0", "old==1.4.0"]
    assert (found[1].file, found[1].sha256) == (file.name, sha256_of(file))
    assert not (tmp_path / "ran").exists()


def test_what_is_locked_stays_until_it_is_freed(index: Path, lock: Lock):
    for name in ("low", "lower"):
        make_wheel(index, name, "1.0")
    make_wheel(index, "top", "1.0", ("low", "lower"))
    before = lock(["top==1.0"])
    for name in ("low", "lower"):
        make_wheel(index, name, "2.0")
    assert lock(["top==1.0"], keep=before) == before
    assert names(lock(["top==1.0"], keep=before, update=["Low"])) == ["low==2.0", "lower==1.0", "top==1.0"]
    assert names(lock(["top==1.0"])) == ["low==2.0", "lower==2.0", "top==1.0"]
    # What is no longer allowed does not stay.
    make_wheel(index, "top", "2.0", ("low>=2", "lower"))
    assert names(lock(["top==2.0"], keep=before)) == ["low==2.0", "lower==1.0", "top==2.0"]


def test_a_locked_file_stays_though_a_better_one_came(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    before = lock(["top==1.0"])
    make_wheel(index, "top", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    assert lock(["top==1.0"], keep=before) == before
    assert "2_28" in lock(["top==1.0"])[0].file
    # But not for a platform that it does not fit.
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux_2_17_x86_64")
    assert "cp38" in lock(["top==1.0"], Platform("3.8", "2.31"), keep=before)[0].file


def test_the_recipes_indexes_come_second(index: Path, lock: Lock, upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    here, there = (make_wheel(index.parent / place, "top", v) for place, v in (("a", "1.0"), ("b", "2.0")))
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", serve(upstream, "mine", here, hashes=True))
    recipe = serve(upstream, "recipe", there, hashes=True)
    said: list[str] = []
    assert names(lock(["top"], indexes=(recipe,), say=said.append)) == ["top==1.0"]
    assert "/recipe/top/" not in asked(upstream) and not said
    assert names(lock(["top==2.0"], indexes=(recipe,), say=said.append)) == ["top==2.0"]
    assert "trying the recipe's indexes too" in said[0]


def test_sizes_are_asked_for_and_no_wheel_is_downloaded(
    index: Path, lock: Lock, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    wheel = make_wheel(index.parent / "elsewhere", "top", "1.0")
    address = serve(upstream, "mine", wheel, hashes=True)
    metadata = b"Metadata-Version: 2.1\nName: top\nVersion: 1.0\n"
    body = f'<a href="/files/{wheel.name}#sha256={sha256_of(wheel)}" data-core-metadata="true">{wheel.name}</a>'
    upstream.answers["/mine/top/"] = (200, {"Content-Type": "text/html"}, body.encode())
    upstream.answers[f"/files/{wheel.name}.metadata"] = (200, {}, metadata)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    (found,) = lock(["top==1.0"])
    assert (found.sha256, found.size) == (sha256_of(wheel), wheel.stat().st_size)
    assert f"/files/{wheel.name}" in asked(upstream, "HEAD")
    assert f"/files/{wheel.name}" not in asked(upstream, "GET")


def test_an_index_that_says_no_checksums(index: Path, lock: Lock, upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    wheel = make_wheel(index.parent / "elsewhere", "top", "1.0")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", serve(upstream, "mine", wheel))
    (found,) = lock(["top==1.0"])
    assert (found.sha256, found.size) == (sha256_of(wheel), wheel.stat().st_size)


def test_an_index_that_is_down_is_done_without(
    index: Path, lock: Lock, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    wheel = make_wheel(index.parent / "elsewhere", "top", "1.0")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", serve(upstream, "mine", wheel, hashes=True))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://me:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    said: list[str] = []
    assert names(lock(["top==1.0"], say=said.append)) == ["top==1.0"]
    assert "continuing without it" in said[0] and "127.0.0.1:9/simple" in said[0] and "secret" not in said[0]
    with pytest.raises(SourceError, match="could not be reached") as error:
        lock(["gone==1.0"])
    assert "127.0.0.1:9" in error.value.where


@pytest.mark.parametrize("place", ["/whl/cu113", "/whl/links.html"])
def test_a_recipes_index_that_is_down_is_named_with_what_it_alone_has(
    index: Path, lock: Lock, monkeypatch: pytest.MonkeyPatch, place: str
):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(SourceError, match=r"no .*wheel of torch.*the recipe's own index could not") as error:
        lock(["torch==1.12.1+cu113"], indexes=(f"http://127.0.0.1:9{place}",))
    assert error.value.where == f"http://127.0.0.1:9{place}"


def test_an_index_with_a_password(index: Path, lock: Lock, upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    wheel = make_wheel(index.parent / "elsewhere", "top", "1.0")
    address = serve(upstream, "mine", wheel, hashes=True).replace("http://", "http://me:pass%40word@")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    (found,) = lock(["top==1.0"])
    assert found.size == wheel.stat().st_size
    sent = [
        {k.lower(): v for k, v in headers.items()}.get("authorization")
        for verb, _, headers, _ in upstream.requests
        if verb == "HEAD"
    ]
    assert "Basic bWU6cGFzc0B3b3Jk" in sent
    assert "pass" not in found.model_dump_json()


def test_the_users_mirror_is_asked(index: Path, lock: Lock, upstream: Upstream):
    wheel = make_wheel(index.parent / "elsewhere", "top", "1.0")
    mirror = Configuration((MirrorEntry("wheels", serve(upstream, "mirror", wheel, hashes=True), "test"),), hosts=HOSTS)
    assert names(lock(["top==1.0"], configuration=mirror)) == ["top==1.0"]


def test_the_file_that_pip_would_choose():
    tags = supported(PYTHON_311)
    files = [
        "top-1.0-py3-none-any.whl",
        "top-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "top-1.0-cp38-abi3-manylinux_2_28_x86_64.whl",
        "top-1.0-1-cp311-cp311-manylinux_2_28_x86_64.whl",
        "top-1.0-2-cp311-cp311-manylinux_2_28_x86_64.whl",
        "top-1.0-cp311-cp311-manylinux_2_39_x86_64.whl",
        "top-1.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "top-1.0.tar.gz",
    ]
    order = [files[i] for i in (4, 3, 1, 2, 0, 7)]
    for number, expected in enumerate(order):
        left = tuple(IndexFile(f, "https://x.test/" + f) for f in files if f not in order[:number])
        assert best(Package("top", "1.0", left), tags, PYTHON_311).file == expected
    with pytest.raises(SourceError, match=r"no file of top==1\.0 fits Python 3\.11 and glibc 2\.36"):
        best(Package("top", "1.0", tuple(IndexFile(f, "") for f in files[5:7])), tags, PYTHON_311)


@given(st.permutations(range(6)))
def test_the_choice_does_not_depend_on_the_order_of_the_index(order: list[int]):
    files = [f"top-1.0-{n % 3}-cp311-cp311-manylinux_2_{17 + 11 * (n % 2)}_x86_64.whl" for n in range(6)]
    package = Package("top", "1.0", tuple(IndexFile(files[n], "") for n in order))
    assert best(package, supported(PYTHON_311), PYTHON_311).file == "top-1.0-2-cp311-cp311-manylinux_2_28_x86_64.whl"


# What old papers pin, from the indexes of this machine: metadata alone, whatever the wheels weigh.
@pytest.mark.network
@pytest.mark.parametrize(
    ("requirements", "platform", "sdists", "expected"),
    [
        (["numpy==1.19.5"], Platform("3.6", "2.27"), (), "numpy-1.19.5-cp36-cp36m-manylinux2010_x86_64.whl"),
        (["numpy==1.19.5", "scipy==1.5.4"], Platform("3.8", "2.31"), (), "scipy-1.5.4-cp38-cp38-manylinux1_x86_64.whl"),
        (["torch==1.13.1"], Platform("3.9", "2.36"), (), "nvidia_cudnn_cu11-8.5.0.96-2-py3-none-manylinux1_x86_64.whl"),
        (
            ["tensorflow==1.15.5"],
            Platform("3.7", "2.27"),
            (Sdist(package="gast==0.2.2"),),
            "gast-0.2.2.tar.gz",
        ),
    ],
)
def test_old_stacks(lock: Lock, requirements: list[str], platform: Platform, sdists: tuple[Sdist, ...], expected: str):
    found = lock(requirements, platform, sdists)
    assert expected in [w.file for w in found]
    assert all(w.size > 0 for w in found)


def test_what_moved(index: Path, lock: Lock, store: Store, upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    elsewhere = index.parent / "elsewhere"
    wheels = [make_wheel(elsewhere, name, "1.0") for name in ("same", "newer", "yanked", "gone", "changed")]
    names = [wheel.name.split("-")[0] for wheel in wheels]
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", serve(upstream, "mine", *wheels, hashes=True))
    monkeypatch.setenv("UV_CACHE_DIR", str(index.parent / "cache"))
    mirrors = Mirrors(store, Configuration(hosts=HOSTS))
    locked = lock(names)
    assert moved_wheels(locked, names, (), PYTHON_311, (), mirrors) == []

    newer = make_wheel(elsewhere, "newer", "2.0")
    other = make_wheel(elsewhere, "changed", "1.0", ("same",))
    serve(upstream, "mine", wheels[1], newer, hashes=True)
    serve(upstream, "mine", other, hashes=True)
    serve(upstream, "mine", make_wheel(elsewhere, "gone", "1.1"), hashes=True)
    status, headers, page = upstream.answers["/mine/yanked/"]
    page = page.replace(b"<a ", b'<a data-yanked="broken" ')
    upstream.answers["/mine/yanked/"] = (status, headers, page)
    wanted = [name if name != "yanked" else "yanked==1.0" for name in names]
    monkeypatch.setenv("UV_CACHE_DIR", str(index.parent / "empty"))
    by_name = {wheel.name: wheel for wheel in locked}
    assert moved_wheels(locked, wanted, (), PYTHON_311, (), mirrors) == [
        Moved("wheels", "changed", by_name["changed"].sha256, sha256_of(other), "changed"),
        Moved("wheels", "gone", "1.0", "1.1", "vanished"),
        Moved("wheels", "newer", "1.0", "2.0", "newer"),
        Moved("wheels", "yanked", "1.0", "1.0", "yanked"),
    ]
    # A pin that nothing meets any more.
    pinned = ["same", "gone==1.0"]
    assert moved_wheels(locked, pinned, (), PYTHON_311, (), mirrors) == [Moved("wheels", "gone", "1.0", "", "vanished")]
