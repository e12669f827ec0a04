"""Look up wheels by file name in HTML, JSON, folders and pages of links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.supply.hosts import FailingHosts
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.kinds.wheels.index import Get, NoSuchPage, WheelIndex, is_folder_of_files, links_of
from reprokit.supply.kinds.wheels.listing import ListedFile
from reprokit.supply.kinds.wheels.platform import NOW, AsOf, Platform, parsed_wheel
from reprokit.supply.lock.model import Distribution
from reprokit.supply.store import Store

A, B = "a" * 64, "b" * 64
FILE = "torch-1.12.1+cu113-cp38-cp38-linux_x86_64.whl"


def pages(**texts: str):
    """A client that has some pages, and the list of requested addresses."""
    asked: list[str] = []

    def get(url: str) -> tuple[bytes, str]:
        asked.append(url)
        name = url.rstrip("/").rpartition("/")[2]
        if name not in texts:
            raise NoSuchPage(url)
        return texts[name].encode(), "application/vnd.pypi.simple.v1+json" if texts[name][0] == "{" else "text/html"

    return get, asked


def index_of(get: Get) -> WheelIndex:
    return WheelIndex((), FailingHosts(Store()), get)


def find(index: WheelIndex, *question: str) -> list[str]:
    return list(index.find(*question))


def test_html_relative_escaped_and_with_hash():
    quoted = FILE.replace("+", "%2B")
    based = f'<base href="https://files.test/d/"><a href="x.whl#sha256={B}">x</a><a href="y.whl">y</a>'
    torch = f'<!DOCTYPE html><body><a href="../../whl/{quoted}#sha256={A}">x</a>'
    get, asked = pages(torch=torch, p=based, **{"stable.html": '<a href="cu/x.whl">x</a>'})
    lookup = index_of(get)
    assert find(lookup, "https://i.test/cu/simple/", "Torch", FILE, A) == [f"https://i.test/cu/whl/{quoted}"]
    assert find(lookup, "https://i.test/cu/simple", "torch", "other.whl", A) == []
    assert asked == ["https://i.test/cu/simple/torch/"]  # the page is asked for once
    # Another checksum is another file, and none may be it.
    assert find(lookup, "https://i.test", "p", "x.whl", A) == []
    assert find(lookup, "https://i.test", "p", "y.whl", A) == ["https://files.test/d/y.whl"]
    # A page of links is one page for all.
    assert find(lookup, "https://i.test/whl/stable.html", "p", "x.whl", A) == ["https://i.test/whl/cu/x.whl"]
    assert asked[-1] == "https://i.test/whl/stable.html"


def test_json():
    files = [{"filename": "x.whl", "url": "/f/x.whl", "hashes": {"sha256": A}}, {"filename": "z.whl", "url": "z.whl"}]
    get, _ = pages(p=json.dumps({"meta": {"api-version": "1.1"}, "files": files}))
    assert find(index_of(get), "https://i.test/simple", "P", "x.whl", A) == ["https://i.test/f/x.whl"]
    assert find(index_of(get), "https://i.test/simple", "P", "z.whl", A) == ["https://i.test/simple/p/z.whl"]


def test_the_indexs_credentials_go_to_its_own_host_only():
    body = b'<a href="https://i.test/x.whl">x</a><a href="https://cdn.test/y.whl">y</a><a href="z.whl">z</a>'
    found = links_of(body, "text/html", "https://me:secret@i.test/simple/p/")
    assert [found[name][0][0] for name in ("x.whl", "y.whl", "z.whl")] == [
        "https://me:secret@i.test/x.whl",
        "https://cdn.test/y.whl",
        "https://me:secret@i.test/simple/p/z.whl",
    ]


def test_folders_of_files_and_of_pages(tmp_path: Path):
    get, asked = pages()
    files, simple = tmp_path / "files", tmp_path / "simple"
    (simple / "pkg").mkdir(parents=True)
    files.mkdir()
    (files / FILE).touch()
    (simple / "pkg" / "index.html").write_text(f'<a href="../../files/{FILE}#sha256={A}">x</a>')
    lookup = index_of(get)
    assert find(lookup, files.as_uri(), "torch", FILE, A) == [(files / FILE).as_uri()]
    assert find(lookup, simple.as_uri(), "pkg", FILE, A) == [(files / FILE).as_uri().replace("%2B", "+")]
    assert find(lookup, simple.as_uri(), "pkg", FILE, B) == []
    assert find(lookup, simple.as_uri(), "none", FILE, A) == []
    assert (is_folder_of_files(files.as_uri()), is_folder_of_files(simple.as_uri())) == (True, False)
    assert not asked


def test_a_place_that_fails_is_the_callers_to_judge():
    def get(url: str) -> tuple[bytes, str]:
        raise OSError("stalled")

    with pytest.raises(OSError, match="stalled"):
        find(index_of(get), "https://i.test", "p", "x.whl", A)


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
