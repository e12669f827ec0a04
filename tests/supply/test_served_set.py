"""Sets of blocks: an address depends on its set alone, and serves nothing of another one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from reprokit.supply.gateway import Gateway
from reprokit.supply.lock.model import Distribution
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask
from tests.support.stores import put

BLOCKS = {"wheels": ("torch", "wheels"), "apt": ("base", "my-cuda")}


def wheel(store: Store, name: str, *blocks: str) -> Distribution:
    content = name.encode()
    file = f"{name}-1-py3-none-any.whl"
    return Distribution(
        name=name, version="1", file=file, sha256=put(store, content), size=len(content), blocks=tuple(blocks)
    )


def test_an_address_depends_on_its_set_alone(store: Store):
    torch = wheel(store, "torch", "torch", "wheels")
    one = ServedSet(BLOCKS, wheels=[torch, wheel(store, "numpy", "wheels")], apt=()).arguments()
    two = ServedSet(BLOCKS, wheels=[wheel(store, "scipy", "wheels"), torch], apt=()).arguments()
    assert one.keys() == {
        "REPROKIT_WHEELS_TORCH",
        "REPROKIT_WHEELS",
        "REPROKIT_APT_BASE",
        "REPROKIT_APT_MY_CUDA",
        "REPROKIT_GIT",
        "REPROKIT_ARCHIVES",
    }
    assert {name for name in one if one[name] != two[name]} == {"REPROKIT_WHEELS"}


def test_a_set_serves_its_own_files_only(store: Store):
    torch, numpy = wheel(store, "torch", "torch", "wheels"), wheel(store, "numpy", "wheels")
    with Gateway(store, ServedSet(BLOCKS, wheels=[torch, numpy])) as gateway:
        addresses = gateway.inputs.arguments()
        alone, together = addresses["REPROKIT_WHEELS_TORCH"], addresses["REPROKIT_WHEELS"]
        assert (
            ask(gateway, f"{alone}torch/{torch.file}")[1]
            == b"torch"
            == ask(gateway, f"{together}torch/{torch.file}")[1]
        )
        assert ask(gateway, f"{together}numpy/{numpy.file}")[1] == b"numpy"
        assert ask(gateway, f"{alone}numpy/{numpy.file}")[0].status == 404
        assert b"numpy" not in ask(gateway, alone)[1]


def test_a_lock_without_sets_gives_every_block_all(store: Store):
    flat = [wheel(store, "torch"), wheel(store, "numpy")]
    found = ServedSet(BLOCKS, wheels=flat).arguments()
    assert (
        found["REPROKIT_WHEELS_TORCH"]
        == found["REPROKIT_WHEELS"]
        == ServedSet(wheels=flat).arguments()["REPROKIT_WHEELS"]
    )


def test_a_lock_that_names_a_block_that_is_not_there_serves_it_nowhere(store: Store):
    stranger = wheel(store, "stranger", "nowhere")
    found = ServedSet(BLOCKS, wheels=[stranger])
    assert found.arguments() == ServedSet(BLOCKS, wheels=()).arguments()
    with Gateway(store, found) as gateway:
        for address in set(found.arguments().values()):
            assert ask(gateway, f"{address}stranger/{stranger.file}")[0].status in (403, 404)
    with pytest.raises(ValidationError, match="blocks"):
        wheel(store, "stranger", "TORCH=http://forge.test/")
