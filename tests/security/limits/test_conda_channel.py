"""The lists of a conda channel that grow, or that the solver does not survive."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import zstandard

from reprokit.errors import SourceError, UsageError
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.conda.solve import lock_conda
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import CondaPackage
from tests.support.file_server import Server, whole

pytestmark = pytest.mark.long

LIMIT = 128 << 20
COMPRESS = zstandard.ZstdCompressor().compress


def record(**more: object) -> dict[str, object]:
    stated = {"name": "tool", "version": "1.0", "build": "0", "build_number": 0, "subdir": "linux-64", "depends": []}
    return {**stated, "sha256": "1" * 64, "size": 7, **more}


def lists(packages: dict[str, object], blanks: int = 0) -> bytes:
    return json.dumps({"info": {"subdir": "linux-64"}, "packages": packages}).encode() + b" " * blanks


class Channel:
    """A channel on a server of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def channels(self, channel: str) -> list[str]:
        return [self._server.url(f"/{channel}")]

    def lock(self, content: bytes) -> tuple[CondaPackage, ...]:
        for subdir, held in (("linux-64", content), ("noarch", lists({}))):
            self._server.url(f"/main/{subdir}/repodata.json.zst", whole(COMPRESS(held)))
        variant = Variant(base="debian:12", conda=["tool"], conda_channels=["main"])
        return lock_conda(variant, Platform("3.11", glibc="2.31"), self, lambda line: None)  # type: ignore[arg-type]


@pytest.fixture
def channel() -> Iterator[Channel]:
    server = Server()
    yield Channel(server)
    server.close()


def test_a_list_that_fits(channel: Channel) -> None:
    """The control of all others."""
    (package,) = channel.lock(lists({"tool-1.0-0.conda": record()}))
    assert (package.name, package.sha256, package.size) == ("tool", "1" * 64, 7)


def test_a_small_answer_that_unpacks_to_a_large_list(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_LIMIT_CONDA_BYTES", str(LIMIT))
    with pytest.raises(SourceError, match="no address serves the conda channel main"):
        channel.lock(lists({"tool-1.0-0.conda": record()}, blanks=LIMIT))


def test_a_package_that_needs_much_memory(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_LIMIT_CONDA_BYTES", str(LIMIT))
    with pytest.raises(UsageError, match=f"more than {LIMIT} bytes of memory") as caught:
        channel.lock(lists({"tool-1.0-0.conda": record(depends=["a"] * (LIMIT // 20))}))
    assert f"REPROKIT_LIMIT_CONDA_BYTES={2 * LIMIT}" in caught.value.hint


def test_a_list_that_takes_long(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_LIMIT_CONDA_SECONDS", "1")
    with pytest.raises(UsageError, match="more than 1 seconds of processor time") as caught:
        channel.lock(lists({f"tool-1.{n}-0.conda": record(version=f"1.{n}") for n in range(200_000)}))
    assert "REPROKIT_LIMIT_CONDA_SECONDS=2" in caught.value.hint


NO_LISTS = {
    "nothing": b"",
    "too deep": b"[" * 1_000_000,
    "a number of packages": b'{"packages": 7}',
    "an empty package": b'{"packages": {"tool-1.0-0.conda": {}}}',
}


@pytest.mark.parametrize("content", NO_LISTS.values(), ids=NO_LISTS)
def test_no_list(channel: Channel, content: bytes) -> None:
    with pytest.raises((SourceError, UsageError)):
        channel.lock(content)


@pytest.mark.parametrize("stated", [{"sha256": None}, {"size": None}, {"subdir": "../x"}, {"name": "a/../../b"}])
def test_a_package_that_cannot_be_locked(channel: Channel, stated: dict[str, object]) -> None:
    with pytest.raises((SourceError, UsageError)):
        channel.lock(lists({"tool-1.0-0.conda": record(**stated)}))
