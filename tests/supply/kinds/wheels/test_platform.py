from __future__ import annotations

import pytest

from reprokit.supply.kinds.kind import content_key
from reprokit.supply.kinds.wheels.listing import ListedFile
from reprokit.supply.kinds.wheels.platform import NOW, AsOf, Platform
from reprokit.supply.kinds.wheels.wheel_name import parsed_wheel
from reprokit.supply.lock.model import Distribution


def test_the_key_of_a_set_is_that_of_its_content():
    one, two = (
        Distribution(name=n, version="1.0", file=f"{n}-1.0-py3-none-any.whl", sha256=n * 64, size=1) for n in "ab"
    )
    assert content_key((one, two), "file") == content_key((two, one), "file")
    assert content_key((one, two), "file") != content_key((one,), "file")


def test_platform_tags_run_from_the_c_library_down():
    tags = Platform("3.11", "2.31").tags()
    assert tags[0] == "manylinux_2_31_x86_64"
    assert "manylinux_2_17_x86_64" in tags and "manylinux2014_x86_64" in tags
    assert "manylinux_2_32_x86_64" not in tags
    assert "manylinux1_aarch64" not in Platform("3.11", "2.31", "aarch64").tags()


def test_a_day_becomes_options_of_uv():
    assert NOW.options() == []
    day = AsOf("2021-06-01T23:59:59Z", {"numpy": "2021-07-01T00:00:00Z"})
    assert day.options() == [
        "--exclude-newer=2021-06-01T23:59:59Z",
        "--exclude-newer-package=numpy=2021-07-01T00:00:00Z",
    ]


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
    parsed = parsed_wheel(name)
    assert parsed and (parsed[0], str(parsed[1]), parsed[2], len(parsed[3])) == ("x", "1.0", (2, ""), 16)
    assert str(listed(name).version) == "1.0" and listed(name).fits(Platform("3.11", "2.36"))
    assert listed("x-1.0.tar.gz", **{"requires-python": f">{'1' * 5000}"}).fits(Platform("3.11", "2.36"))
