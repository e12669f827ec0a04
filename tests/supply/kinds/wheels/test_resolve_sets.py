"""What a block installs alone is locked alone, without the recipe's own pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.kind import InputRequest, Tools
from reprokit.supply.kinds.wheels import KIND
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.lock.model import Base, Distribution, VariantLock
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.wheels import PYTHON_311, make_wheel


@pytest.fixture
def tools(index: Path, store: Store) -> Tools:
    make_wheel(index, "torch", "2.0", requires=["setuptools", "shared"])
    for name, version in (("setuptools", "65.7"), ("setuptools", "80.0"), ("shared", "1.0"), ("own", "1.0")):
        make_wheel(index, name, version)
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(index.as_uri(),)))
    return Tools(mirrors, lambda line: None, None, pytest.fail)  # type: ignore[arg-type]


def locked(
    tools: Tools, *own: str, old: VariantLock | None = None, checksums: Mapping[str, Sequence[str]] = {}
) -> tuple[Distribution, ...]:
    variant, pins = Variant(base="debian:12"), {"torch": "torch==2.0"}
    request = InputRequest(variant, "x86_64", ["torch==2.0", *own], pins, (), PYTHON_311, old, checksums=checksums)
    return KIND.resolve(request, tools)["wheels"]


def test_the_papers_pins_are_installed_over_what_torch_brings(tools: Tools):
    both = ("torch", "wheels")
    one, two = locked(tools, "setuptools==65.7", "own==1.0"), locked(tools, "own==1.0")
    assert {(wheel.name, wheel.version): wheel.blocks for wheel in one} == {
        ("own", "1.0"): ("wheels",),
        ("setuptools", "65.7"): ("wheels",),
        ("setuptools", "80.0"): ("torch",),
        ("shared", "1.0"): both,
        ("torch", "2.0"): both,
    }
    # Papers with the same torch have its set in common.
    assert [w.sha256 for w in one if "torch" in w.blocks] == [w.sha256 for w in two if "torch" in w.blocks]


def test_checksums_of_requirements_files_are_not_about_what_a_block_brings(tools: Tools):
    (pinned,) = (wheel.sha256 for wheel in locked(tools, "setuptools==65.7") if wheel.version == "65.7")
    checksums = {"setuptools": [pinned]}
    wheels = locked(tools, "setuptools==65.7", checksums=checksums)
    assert ("setuptools", "80.0") in {(wheel.name, wheel.version) for wheel in wheels}
    with pytest.raises(SourceError, match=r"shared.* allows"):
        locked(tools, "setuptools==65.7", checksums={**checksums, "shared": ["0" * 64]})
    with pytest.raises(SourceError, match=r"torch.* allows"):
        locked(tools, checksums={"torch": ["0" * 64]})


def test_an_earlier_lock_keeps_its_versions_and_is_split(tools: Tools, index: Path):
    first = locked(tools, "own==1.0")
    flat = tuple(wheel.model_copy(update={"blocks": ()}) for wheel in first)
    old = VariantLock(
        reprokit="1", inputs={}, python="3.11", glibc="2.36", machine="x86_64",
        base=Base(reference="debian:12", digest="sha256:" + "1" * 64), wheels=flat,
    )  # fmt: skip
    make_wheel(index, "shared", "2.0")
    assert locked(tools, "own==1.0", old=old) == first
    assert old.hash != old.model_copy(update={"wheels": first}).hash
