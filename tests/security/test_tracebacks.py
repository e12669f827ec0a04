"""Nonsense in what strangers write ends in an error that names it, never in "a bug in reprokit"."""

from __future__ import annotations

import contextlib
import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from reprokit.cli import app
from reprokit.errors import ReprokitError, SourceError, UsageError
from reprokit.image.request import request_of
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant
from reprokit.supply.hosts import FailingHosts
from reprokit.supply.kinds.apt import resolve as aptoutput
from reprokit.supply.kinds.conda.solve import lock_conda
from reprokit.supply.kinds.wheels.index import WheelIndex
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.uv import explain
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from reprokit.untrusted.documents import parsed
from reprokit.verbs import VERBS
from tests.support import rendering

NAMES = ("../../evil", "..", "/etc/passwd", "a\0b", "", ":", "x:../y", "\udcff", "-", "a b", "x" * 5000)


@pytest.mark.slow
@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.usefixtures("home")
def test_a_recipe_name_that_is_none(verb: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))  # what `-` stands for
    for name in NAMES:
        # Errors of the command line and of ours are the only ones.
        with contextlib.suppress(ReprokitError, typer.Exit, typer.TyperException):
            app(args=[verb, "--", name], standalone_mode=False)
    assert not (tmp_path.parent.parent / "evil.yaml").exists()


def a_recipe(**variant: Any) -> None:
    text = {"name": "x", "paper": rendering.PAPER, "variants": {"v": {"base": "debian:12", **variant}}}
    load_text(json.dumps(text), "x.yaml", "x")


def file_of(url: str) -> dict[str, Any]:
    return {"files": [{"name": "f", "urls": [url], "path": "/f"}], "blocks": ["files"]}


URLS = ["http://[::1", "http://h:99999/x", "http://h:x/y", "http://\u2100/x", "https://[x]/y", "http:///x",
        "http://\udcff/x"]  # fmt: skip


def test_addresses_and_sizes_in_a_recipe():
    for url in URLS:
        with pytest.raises(UsageError):
            a_recipe(**file_of(url))
    for size in ("999999999999GiB", "9" * 5000, "-1GiB", "1e9GiB"):
        with pytest.raises(UsageError, match=r"variants\.v\.shm: "):
            a_recipe(shm=size)
    a_recipe(**file_of("http://[::1]:8080/x"), shm="64GiB")  # the control


@pytest.mark.parametrize("pin", ["2.0~/x", "x", "@", "1.0;x", "9" * 190])
def test_a_pin_that_is_no_version(tmp_path, pin: str):
    for blocks, pins in (
        ([{"torch": {}}, "python"], {"torch": pin, "python": "3.11"}),
        (["python"], {"python": pin}),
    ):
        with pytest.raises(UsageError):
            target = rendering.target(tmp_path, pins=pins, blocks=blocks, wheels=["a==1"])
            request_of(target, None, "x86_64")


def test_a_platform_that_a_lock_invents():
    """A glibc of 2.9999999999 had as many wheel tags."""
    for python, glibc in (("2.0~/x", "2.36"), ("3", "2.36"), ("3.11", "2"), ("3.11", "2.9999999999")):
        with pytest.raises(UsageError, match="is not a version of"):
            Platform(python, glibc).tags()
    assert Platform("3.11", "2.36").tags()


@pytest.mark.slow
def test_a_cuda_pin_that_conda_cannot_read(tmp_path):
    channels = SimpleNamespace(channels=lambda name: [tmp_path.as_uri()])
    for subdir in ("linux-64", "noarch"):
        (tmp_path / subdir).mkdir()
        (tmp_path / subdir / "repodata.json").write_text(json.dumps({"info": {"subdir": subdir}, "packages": {}}))
    for cuda, words in (("2.0~/x", "conda cannot read"), ("11.8", "no set of conda packages")):
        variant = Variant(base="debian:12", conda=["a==1"], conda_channels=["c"], pins={"cuda": cuda})
        with pytest.raises(UsageError, match=words):
            lock_conda(variant.conda, variant.conda_channels, variant.pins.get("cuda", ""), Platform("3.11"), channels)  # type: ignore[arg-type]


WHEEL = LockedInput("wheels", "x", "a" * 64, 1, {"name": "x", "version": "1", "file": "x-1.whl"}, ())


@pytest.mark.parametrize(
    "page",
    [
        "[]",
        '{"files": 1}',
        '{"files": [1]}',
        '{"files": [{"url": 1}]}',
        '{"files": [{"url": "http://[::1"}]}',
        "[" * 10**5,
    ],
)
def test_a_page_of_an_index(tmp_path, page: str):
    places = WheelIndex(
        ("https://index.test/",), FailingHosts(Store(tmp_path)), lambda url: (page.encode(), "application/json")
    )
    assert list(places.urls(WHEEL)) == [] and places.failures


def test_json_that_is_nested_without_end():
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed("[" * 200_000)
    assert parsed('["\\ud800", 1]')


URI = "'http://h.test/debian/pool/main/c/cc_1_all.deb' cc_1_all.deb {size} SHA256:" + "a" * 64 + "\n"


def test_what_apt_and_uv_print(store: Store):
    assert aptoutput.packages_of(URI.format(size=1), store)[0].size == 1
    for text in (
        URI.format(size="9" * 5000),
        URI.replace("http://h.test", "http://[::1").format(size=1),
        URI.replace(" cc_1", " -_1").format(size=1),
    ):
        with pytest.raises(SourceError, match="is not valid"):
            aptoutput.packages_of(text, store)
    for date in ("soon", "Sat, 99 Sep 2026 09:10:11 UTC", "Fri, 31 Dec 9999 23:59:59 -0100"):
        with pytest.raises(SourceError, match="is not valid"):
            aptoutput.as_of((), f"/x/h_InRelease:Date: {date}\n")
    for words in ("", "error: ", "error: No solution found", "Failed to fetch: `http://[::1`"):
        assert isinstance(explain(words, Platform("3.11")), ReprokitError)
