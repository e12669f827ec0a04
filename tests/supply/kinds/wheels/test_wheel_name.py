"""Names of files in an index that would take memory, time or a traceback."""

from __future__ import annotations

import pytest

from reprokit.supply.kinds.wheels.listing import ListedFile
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.wheel_name import parsed_wheel


def parts(letter: str, count: int) -> str:
    return ".".join(f"{letter}{number}" for number in range(count))


def listed(name: str, **more: str) -> ListedFile:
    return ListedFile.model_validate({"filename": name, "url": "https://example.org/x", **more})


@pytest.mark.parametrize(
    "name",
    [
        f"x-1.0-{parts('a', 2000)}-{parts('b', 2000)}-{parts('c', 2000)}.whl",
        f"x-1.0-{parts('a', 1001)}-none-any.whl",
        f"x-{'1' * 5000}-py3-none-any.whl",
        f"x-{'1' * 5000}.tar.gz",
        "x-py3-none-any.whl",
    ],
)
def test_a_name_that_nobody_could_read_is_passed_over(name):
    assert listed(name).version is None and parsed_wheel(name) is None
    if name.endswith(".whl"):
        assert not listed(name).fits(Platform("3.11", "2.36"))


def test_real_names_are_read():
    name = "x-1.0-2-cp39.cp310.cp311.py3-abi3.none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    found = parsed_wheel(name)
    assert found and (found[0], str(found[1]), found[2], len(found[3])) == ("x", "1.0", (2, ""), 16)
    assert str(listed(name).version) == "1.0" and listed(name).fits(Platform("3.11", "2.36"))
    assert listed("x-1.0.tar.gz", **{"requires-python": f">{'1' * 5000}"}).fits(Platform("3.11", "2.36"))
