"""conda packages and lists of channels that grow, or that the solver does not survive."""

from __future__ import annotations

import bz2
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from reprokit.errors import SourceError, UsageError
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.conda.solve import lock_conda
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import CondaPackage
from reprokit.untrusted import limits
from tests.support.bombs import GIB, entry, frame, refused
from tests.support.conda_packages import index, member, new_format, old_format, stated
from tests.support.file_server import Server, whole

Run = Callable[..., str]
LINKED = """
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.store import Store
from tests.support.conda_packages import kept
store = Store(Path("store"))
packages = [kept(store, f"p{n}", Path(name).read_bytes(), end=name[1:]) for n, name in enumerate(sys.argv[1:])]
print(environment(packages, store).stat().st_size)
"""


def info(**more: bytes) -> dict[str, bytes]:
    known = {"index.json": index("x"), "paths.json": b'{"paths": []}'}
    return known | {f"{name}.json": content for name, content in more.items()}


def listed(*paths: object) -> bytes:
    return json.dumps({"paths": paths}).encode()


def zipped(*tars: bytes) -> bytes:
    """A package of the newer format with these packed tars of `info/` and of the files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as outer:
        for name, tar in zip(("info-x.tar.zst", "pkg-x.tar.zst"), tars, strict=True):
            outer.writestr(name, tar)
    return out.getvalue()


INFO = zstandard.compress(b"".join(member(f"info/{name}", content) for name, content in info().items()) + bytes(1024))
BOMBS: dict[str, tuple[limits.Limit, str, Callable[[], bytes]]] = {
    "blanks": (limits.DOCUMENT, ".tar.bz2", lambda: old_format([], info(index=index("x") + b" " * (300 << 20)))),
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


@pytest.mark.long
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_package_that_grows_is_refused(run: Run, tmp_path: Path, bomb: str) -> None:
    limit, end, make = BOMBS[bomb]
    (tmp_path / f"x{end}").write_bytes(make())
    refused(run(f"x{end}", code=2, python=LINKED), limit)


@pytest.mark.long
def test_many_packages_together_are_as_limited_as_one(run: Run, tmp_path: Path) -> None:
    """Each unpacks to less than the limit, and their lists are not all kept."""
    for n in range(3):
        (tmp_path / f"{n}.conda").write_bytes(zipped(INFO, frame(entry("x", 1 << 29), 1 << 29, bytes(1024))))
    assert int(run("0.conda", python=LINKED)) > 0
    refused(run("0.conda", "1.conda", "2.conda", code=2, python=LINKED), limits.UNPACKED)
    long = new_format([member("a")], info(paths=listed({**stated("a"), "sha256": "x" * (15 << 20)})))
    for n in range(10):
        (tmp_path / f"{n}.conda").write_bytes(long)
    refused(run(*(f"{n}.conda" for n in range(10)), code=2, python=LINKED), limits.CONDA_TEXT)


@pytest.mark.long
def test_a_long_list_of_members_is_not_read(run: Run, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.conda", "w") as outer:
        for n in range(30_000):
            outer.writestr(f"{n}", b"")
    assert "list of members is too long" in run("x.conda", code=4, python=LINKED)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["text", "binary"])
def test_a_large_file_with_many_placeholders_streams(run: Run, tmp_path: Path, mode: str) -> None:
    """The search is linear where the placeholder almost matches everywhere, and where all is one string."""
    content = b"/opt/conda/a" * (8 << 20 >> 2)
    entries = [member("a", content), member("b", b"a" * (64 << 20))]
    paths = [stated("a", content, mode), stated("b", entries[1], mode)]
    paths[0]["prefix_placeholder"], paths[1]["prefix_placeholder"] = "/opt/conda/a", "a" * 4000 + "b"
    (tmp_path / "x.conda").write_bytes(new_format(entries, info(paths=listed(*paths))))
    assert int(run("x.conda", python=LINKED)) > 64 << 20


# --- Lists of a channel

LIMIT = 128 << 20


def record(**more: object) -> dict[str, object]:
    known = {"name": "tool", "version": "1.0", "build": "0", "build_number": 0, "subdir": "linux-64", "depends": []}
    return {**known, "sha256": "1" * 64, "size": 7, **more}


def repodata(packages: dict[str, object], blanks: int = 0) -> bytes:
    return json.dumps({"info": {"subdir": "linux-64"}, "packages": packages}).encode() + b" " * blanks


class Channel:
    """A channel on a server of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def channels(self, channel: str) -> list[str]:
        return [self._server.url(f"/{channel}")]

    def lock(self, content: bytes) -> tuple[CondaPackage, ...]:
        for subdir, served in (("linux-64", content), ("noarch", repodata({}))):
            packed = zstandard.ZstdCompressor().compress(served)
            self._server.url(f"/main/{subdir}/repodata.json.zst", whole(packed))
        variant = Variant(base="debian:12", conda=["tool"], conda_channels=["main"])
        return lock_conda(
            variant.conda, variant.conda_channels, variant.pins.get("cuda", ""), Platform("3.11", glibc="2.31"), self
        )  # type: ignore[arg-type]


@pytest.fixture
def channel() -> Iterator[Channel]:
    with closing(Server()) as server:
        yield Channel(server)


@pytest.mark.long
def test_a_list_that_grows(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    (package,) = channel.lock(repodata({"tool-1.0-0.conda": record()}))  # the control
    assert (package.name, package.sha256, package.size) == ("tool", "1" * 64, 7)
    monkeypatch.setenv("REPROKIT_LIMIT_CONDA_BYTES", str(LIMIT))
    with pytest.raises(SourceError, match="no address serves the conda channel main"):
        channel.lock(repodata({"tool-1.0-0.conda": record()}, blanks=LIMIT))
    with pytest.raises(UsageError, match=f"more than {LIMIT} bytes of memory") as caught:
        channel.lock(repodata({"tool-1.0-0.conda": record(depends=["a"] * (LIMIT // 20))}))
    assert f"REPROKIT_LIMIT_CONDA_BYTES={2 * LIMIT}" in caught.value.hint
    monkeypatch.delenv("REPROKIT_LIMIT_CONDA_BYTES")
    monkeypatch.setenv("REPROKIT_LIMIT_CONDA_SECONDS", "1")
    with pytest.raises(UsageError, match="more than 1 seconds of processor time") as caught:
        channel.lock(repodata({f"tool-1.{n}-0.conda": record(version=f"1.{n}") for n in range(200_000)}))
    assert "REPROKIT_LIMIT_CONDA_SECONDS=2" in caught.value.hint


@pytest.mark.long
def test_a_list_that_is_none(channel: Channel) -> None:
    packages = [{}, *(record(**more) for more in ({"sha256": None}, {"size": None}, {"subdir": "../x"}))]
    packages.append(record(name="a/../../b"))
    contents = [b"", b"[" * 1_000_000, b'{"packages": 7}', *(repodata({"tool-1.0-0.conda": each}) for each in packages)]
    for content in contents:
        with pytest.raises((SourceError, UsageError)):
            channel.lock(content)
