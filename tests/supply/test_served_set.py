"""Sets of blocks: an address depends on its set alone, and serves nothing of another one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from reprokit.supply.gateway import Gateway
from reprokit.supply.lock.model import Distribution
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask
from tests.support.stores import put

BLOCKS = {"wheels": ("torch", "wheels"), "apt": ("base", "my-cuda")}


def wheel(store: Store, name: str, *blocks: str) -> Distribution:
    file, sha256 = f"{name}-1-py3-none-any.whl", put(store, name.encode())
    return Distribution(name=name, version="1", file=file, sha256=sha256, size=len(name), blocks=tuple(blocks))


def test_an_address_depends_on_its_set_alone(store: Store):
    torch = wheel(store, "torch", "torch", "wheels")
    one = ServedSet(BLOCKS, wheels=[torch, wheel(store, "numpy", "wheels")], apt=()).arguments()
    two = ServedSet(BLOCKS, wheels=[wheel(store, "scipy", "wheels"), torch], apt=()).arguments()
    arguments = ("WHEELS_TORCH", "WHEELS", "APT_BASE", "APT_MY_CUDA", "GIT", "ARCHIVES")
    assert one.keys() == {f"REPROKIT_{name}" for name in arguments}
    assert {name for name in one if one[name] != two[name]} == {"REPROKIT_WHEELS"}


def test_a_set_serves_its_own_files_only(store: Store):
    torch, numpy = wheel(store, "torch", "torch", "wheels"), wheel(store, "numpy", "wheels")
    with Gateway(Mirrors(store), ServedSet(BLOCKS, wheels=[torch, numpy])) as gateway:
        addresses = gateway.inputs.arguments()
        alone, together = addresses["REPROKIT_WHEELS_TORCH"], addresses["REPROKIT_WHEELS"]
        for address in (alone, together):
            assert ask(gateway, f"{address}torch/{torch.file}")[1] == b"torch"
        assert ask(gateway, f"{together}numpy/{numpy.file}")[1] == b"numpy"
        assert ask(gateway, f"{alone}numpy/{numpy.file}")[0].status == 404
        assert b"numpy" not in ask(gateway, alone)[1]


def test_a_lock_with_unknown_blocks(store: Store):
    stranger = wheel(store, "stranger", "nowhere")
    served = ServedSet(BLOCKS, wheels=[stranger])
    assert served.arguments() == ServedSet(BLOCKS, wheels=()).arguments()
    with Gateway(Mirrors(store), served) as gateway:
        for address in set(served.arguments().values()):
            assert ask(gateway, f"{address}stranger/{stranger.file}")[0].status in (403, 404)
    with pytest.raises(ValidationError, match="blocks"):
        wheel(store, "stranger", "TORCH=http://forge.test/")
