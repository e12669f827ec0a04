from __future__ import annotations

from reprokit.supply.kinds.kind import content_key
from reprokit.supply.kinds.wheels.platform import NOW, AsOf, Platform
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
