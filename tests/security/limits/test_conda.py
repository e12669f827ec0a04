"""conda packages that grow."""

from __future__ import annotations

import bz2
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reprokit.untrusted import limits
from tests.support.bombs import GIB, entry, frame, refused
from tests.support.conda_packages import index, member, new_format, old_format, stated

pytestmark = pytest.mark.long

Run = Callable[..., str]
LINKED = """
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.store import Store
from tests.support.conda_packages import kept
store = Store(Path("store"))
packages = [kept(store, f"p{n}", Path(name).read_bytes(), end=name[1:]) for n, name in enumerate(sys.argv[1:])]
print(environment(packages, store).stat().st_size)
"""
INDEX, NONE = index("x"), b'{"paths": []}'


def info(**more: bytes) -> dict[str, bytes]:
    return {"index.json": INDEX, "paths.json": NONE, **{f"{name}.json": content for name, content in more.items()}}


def listed(*paths: object) -> bytes:
    return json.dumps({"paths": paths}).encode()


def zipped(*tars: bytes) -> bytes:
    """A package of the newer format with these packed tars of `info/` and of the rest."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as outer:
        for name, tar in zip(("info-x.tar.zst", "pkg-x.tar.zst"), tars, strict=True):
            outer.writestr(name, tar)
    return out.getvalue()


INFO = zstandard.compress(b"".join(member(f"info/{name}", content) for name, content in info().items()) + bytes(1024))
Bomb = tuple[limits.Limit, str, Callable[[], bytes]]
BOMBS: dict[str, Bomb] = {
    "blanks": (limits.DOCUMENT, ".tar.bz2", lambda: old_format([], info(index=INDEX + b" " * (300 << 20)))),
    "values": (limits.VALUES, ".tar.bz2", lambda: old_format([], info(index=b"[%s0]" % (b"0," * 400_000)))),
    "values in the list": (
        limits.CONDA_VALUES, ".conda", lambda: new_format([], info(paths=b"[%s0]" % (b"[]," * 2_100_000)))
    ),
    "paths": (
        limits.ENTRIES, ".conda",
        lambda: new_format([], info(paths=listed(*[stated(f"{n}", kind="directory") for n in range(300_001)])))
    ),
    "folders inside each other": (
        limits.DEPTH, ".conda", lambda: new_format([], info(paths=listed(stated("a/" * 90 + "b", kind="directory"))))
    ),
    "zeros": (limits.UNPACKED, ".conda", lambda: zipped(INFO, frame(entry(size=20 * GIB), 20 * GIB))),
    "zeros in bzip2": (limits.UNPACKED, ".tar.bz2", lambda: bz2.compress(bytes(200 << 20)) * 6),
    "entries": (limits.ENTRIES, ".conda", lambda: zipped(INFO, zstandard.compress(entry() * 8192) * 64)),
}  # fmt: skip


@pytest.mark.parametrize("bomb", list(BOMBS))
def test_a_package_that_grows_is_refused(run: Run, tmp_path: Path, bomb: str) -> None:
    limit, end, make = BOMBS[bomb]
    (tmp_path / f"x{end}").write_bytes(make())
    refused(run(f"x{end}", code=2, python=LINKED), limit)


def test_many_packages_together_are_as_limited_as_one(run: Run, tmp_path: Path) -> None:
    """Each unpacks to less than the limit."""
    for n in range(3):
        (tmp_path / f"{n}.conda").write_bytes(zipped(INFO, frame(entry("x", 1 << 29), 1 << 29, bytes(1024))))
    assert int(run("0.conda", python=LINKED)) > 0
    refused(run("0.conda", "1.conda", "2.conda", code=2, python=LINKED), limits.UNPACKED)


def test_lists_of_many_packages_are_not_all_kept(run: Run, tmp_path: Path) -> None:
    for n in range(10):
        (tmp_path / f"{n}.conda").write_bytes(
            new_format([member("a")], info(paths=listed({**stated("a"), "sha256": "x" * (15 << 20)})))
        )
    refused(run(*(f"{n}.conda" for n in range(10)), code=2, python=LINKED), limits.CONDA_TEXT)


def test_a_long_list_of_members_is_not_read(run: Run, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.conda", "w") as outer:
        for n in range(30_000):
            outer.writestr(f"{n}", b"")
    assert "list of members is too long" in run("x.conda", code=4, python=LINKED)


@pytest.mark.parametrize("mode", ["text", "binary"])
def test_a_large_file_with_many_placeholders_streams(run: Run, tmp_path: Path, mode: str) -> None:
    """The search is linear where the placeholder almost matches everywhere, and where all is one string."""
    content = b"/opt/conda/a" * (8 << 20 >> 2)
    entries = [member("a", content), member("b", b"a" * (64 << 20))]
    paths = [stated("a", content, mode), stated("b", entries[1], mode)]
    paths[0]["prefix_placeholder"], paths[1]["prefix_placeholder"] = "/opt/conda/a", "a" * 4000 + "b"
    (tmp_path / "x.conda").write_bytes(new_format(entries, info(paths=listed(*paths))))
    assert int(run("x.conda", python=LINKED)) > 64 << 20
