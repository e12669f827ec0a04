from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reprokit.errors import SourceError, UsageError
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.conda.solve import lock_conda
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import CondaPackage
from tests.support.conda_channel import index_channel, make_package

PLATFORM = Platform("3.11", glibc="2.31")


class Places:
    def __init__(self, **channels: list[Path]) -> None:
        self.known = {name: [folder.as_uri() for folder in folders] for name, folders in channels.items()}

    def channels(self, channel: str) -> list[str]:
        return self.known[channel]


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channel")
    make_package(folder, "tool", "1.0", ("lib >=1",))
    make_package(folder, "tool", "1.1", ("lib >=1", "__glibc >=2.99"))
    make_package(folder, "tool", "1.2", ("lib >=1", "__cuda >=11.8"))
    make_package(folder, "lib", "1.5", subdir="noarch", old=True)
    index_channel(folder)
    return folder


def lock(places: Places, *specs: str, channels: tuple[str, ...] = ("main",), **pins: str) -> list[CondaPackage]:
    variant = Variant(base="debian:12", conda=list(specs), conda_channels=list(channels), pins=pins)
    return list(lock_conda(variant.conda, variant.conda_channels, variant.pins.get("cuda", ""), PLATFORM, places))


@pytest.mark.slow
def test_cuda_is_the_recipes_not_the_hosts(channel: Path):
    assert lock(Places(main=[channel]), "tool=1", cuda="11.8")[1].version == "1.2"
    assert lock(Places(main=[channel]), "tool=1", cuda="11.4")[1].version == "1.0"
    with pytest.raises(UsageError, match=r"(?s)tool==1\.1.*__glibc"):
        lock(Places(main=[channel]), "tool==1.1")


@pytest.mark.slow
def test_the_first_channel_that_has_a_package_gives_it(channel: Path, tmp_path: Path):
    make_package(tmp_path / "other", "lib", "2.0")
    index_channel(tmp_path / "other")
    places = Places(main=[channel], other=[tmp_path / "other"])
    locked = lock(places, "tool=1", channels=("other", "main"))
    assert [(p.name, p.version, p.channel) for p in locked] == [("lib", "2.0", "other"), ("tool", "1.0", "main")]


@pytest.mark.slow
def test_the_next_address_where_one_is_dead(channel: Path, tmp_path: Path):
    lib, tool = lock(Places(main=[tmp_path / "nowhere", channel]), "tool=1")
    content = (channel / "noarch/lib-1.5-h0_0.tar.bz2").read_bytes()
    assert lib == CondaPackage(
        channel="main", subdir="noarch", name="lib", version="1.5", build="h0_0", file="lib-1.5-h0_0.tar.bz2",
        sha256=hashlib.sha256(content).hexdigest(), size=len(content),
    )  # fmt: skip
    # The newest for the image's C library.
    assert (tool.version, tool.subdir, tool.file) == ("1.0", "linux-64", "tool-1.0-h0_0.conda")
    with pytest.raises(SourceError, match="no address serves the conda channel main"):
        lock(Places(main=[tmp_path / "nowhere"]), "tool==1.0")
