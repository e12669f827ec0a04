"""Nonsense in what strangers write ends in an error that names it, never in "a bug in reprokit"."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from reprokit.cli import app
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, SourceError, UsageError
from reprokit.image.blocks import wheel_requirements
from reprokit.image.platform import platform_of
from reprokit.nodes import inventory, remote_staging
from reprokit.nodes.remote import Remote
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.kinds.apt import output as aptoutput
from reprokit.supply.kinds.conda.solve import lock_conda
from reprokit.supply.kinds.wheels.index import Lookup, WheelIndex
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.uv import explain
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors.rest import Rest
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own
from reprokit.untrusted.documents import parsed
from reprokit.verbs import VERBS
from tests.support import rendering
from tests.support.file_server import Reply, Server
from tests.support.verbs import run_verb

NO_ADDRESS = (
    "http://[::1",
    "http://h:99999/x",
    "http://h:x/y",
    "http://\u2100/x",
    "https://[x]/y",
    "http:///x",
    "http://\udcff/x",
)
NAMES = ("../../evil", "..", "/etc/passwd", "a\0b", "", ":", "x:../y", "\udcff", "-", "a b", "x" * 5000)


# --- names on the command line


@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.slow
def test_a_recipe_name_that_is_none(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))  # what `-` stands for
    for name in NAMES:
        # Errors of the command line and of ours are the only ones.
        with contextlib.suppress(ReprokitError, typer.Exit, typer.TyperException):
            app(args=[verb, "--", name], standalone_mode=False)
    assert not (tmp_path.parent.parent / "evil.yaml").exists()


@pytest.mark.engine
def test_an_image_name_that_is_none(engine: Engine) -> None:
    with pytest.raises(UsageError, match="is not the name"):
        engine.image("\udcff")
    assert engine.image("no-such-image") is None


def a_recipe(**variant: Any) -> None:
    text = {"name": "x", "paper": rendering.PAPER, "variants": {"v": {"base": "debian:12", **variant}}}
    load_text(json.dumps(text), "x.yaml", "x")


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_an_address_in_a_recipe(url: str) -> None:
    files = [{"name": "f", "urls": [url], "path": "/f"}]
    with pytest.raises(UsageError):
        a_recipe(files=files, blocks=["files"])
    a_recipe(files=[{**files[0], "urls": ["http://[::1]:8080/x"]}], blocks=["files"])


@pytest.mark.parametrize("size", ["999999999999GiB", "9" * 5000, "-1GiB", "1e9GiB"])
@pytest.mark.slow
def test_a_size_that_no_machine_has(tmp_path: Path, size: str) -> None:
    (tmp_path / "recipes").mkdir()
    recipe = tmp_path / "recipes" / "x.yaml"
    for shm, code in ((size, 2), ("64GiB", 0)):
        variant = {"base": "debian:12", "shm": shm}
        recipe.write_text(json.dumps({"name": "x", "paper": rendering.PAPER, "variants": {"v": variant}}))
        done = run_verb("show", "x", cwd=tmp_path, env={"REPROKIT_HOME": str(tmp_path / "home")})
        assert done.returncode == code, done
        assert done.stderr.count("\n") == (1 if code else 0) and ("error: variants.v.shm: " in done.stderr) == bool(
            code
        )


# --- pins


@pytest.mark.parametrize("pin", ["2.0~/x", "x", "@", "1.0;x", "9" * 190])
def test_a_pin_that_is_no_version(tmp_path: Path, pin: str) -> None:
    for blocks, pins in (
        ([{"torch": {}}, "python"], {"torch": pin, "python": "3.11"}),
        (["python"], {"python": pin}),
    ):
        with pytest.raises(UsageError):
            found = rendering.target(tmp_path, pins=pins, blocks=blocks, wheels=["a==1"])
            wheel_requirements(found)
            platform_of(found, "x86_64")


@pytest.mark.parametrize(
    ("python", "glibc"), [("2.0~/x", "2.36"), ("3", "2.36"), ("3.11", "2"), ("3.11", "2.9999999999")]
)
def test_a_platform_that_a_lock_invents(python: str, glibc: str) -> None:
    """A glibc of 2.9999999999 had as many wheel tags."""
    with pytest.raises(UsageError, match="is not a version of"):
        Platform(python, glibc).tags()
    assert Platform("3.11", "2.36").tags()


@pytest.mark.slow
def test_a_cuda_pin_that_conda_cannot_read(tmp_path: Path) -> None:
    def requiring(cuda: str) -> Variant:
        return Variant(base="debian:12", conda=["a==1"], conda_channels=["c"], pins={"cuda": cuda})

    channels = SimpleNamespace(channels=lambda name: [tmp_path.as_uri()])
    (tmp_path / "linux-64").mkdir()
    (tmp_path / "noarch").mkdir()
    for subdir in ("linux-64", "noarch"):
        (tmp_path / subdir / "repodata.json").write_text(json.dumps({"info": {"subdir": subdir}, "packages": {}}))
    with pytest.raises(UsageError, match="conda cannot read"):
        lock_conda(requiring("2.0~/x"), Platform("3.11"), channels, lambda line: None)
    with pytest.raises(UsageError, match="no set of conda packages"):
        lock_conda(requiring("11.8"), Platform("3.11"), channels, lambda line: None)


# --- servers


@pytest.fixture
def server() -> Iterator[Server]:
    with contextlib.closing(Server()) as found:
        yield found


@pytest.mark.parametrize("location", [*NO_ADDRESS[:5], "http://u\u0130:p@h/"])
def test_a_redirect_to_no_address(server: Server, location: str) -> None:
    wrong = server.url("/a", lambda request: Reply(302, {"Location": location, "Content-Length": "0"}))
    server.url("/c", lambda request: Reply(200, {"Content-Length": "1"}, b"x"))
    right = server.url("/b", lambda request: Reply(302, {"Location": "/c", "Content-Length": "0"}))
    with Client(Settings(own=Own.of(["127.0.0.1"]))) as client:
        with pytest.raises(Refusal), client.ask(wrong):
            pass
        with client.ask(right) as answer:
            assert answer.read() == b"x"


@pytest.mark.parametrize("url", [*NO_ADDRESS, "", "x", "//h/x", "file:///etc/passwd"])
def test_a_download_from_no_address(url: str) -> None:
    with Client() as client, pytest.raises(Refusal), client.ask(url):
        pass


@pytest.mark.parametrize(
    "page",
    [
        "[]",
        '{"files": 1}',
        '{"files": [1]}',
        '{"files": [{"url": 1}]}',
        '{"files": [{"url": "http://[::1"}]}',
        "[" * 100_000,
    ],
)
def test_a_page_of_an_index(tmp_path: Path, page: str) -> None:
    places = WheelIndex(("https://index.test/",), Rest(Store(tmp_path)), Client)
    places._lookup = Lookup(lambda url: (page.encode(), "application/json"))
    want = LockedInput("wheels", "x", "a" * 64, 1, {"name": "x", "version": "1", "file": "x-1.whl"}, ())
    assert list(places.urls(want)) == []
    assert places.failures


def test_json_that_is_nested_without_end() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed("[" * 200_000)
    assert parsed('["\\ud800", 1]')


# --- tools and nodes

URI = "'http://h.test/debian/pool/main/c/cc_1_all.deb' cc_1_all.deb {size} SHA256:" + "a" * 64 + "\n"


def test_what_apt_prints(store: Store) -> None:
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


def test_what_uv_prints() -> None:
    for words in ("", "error: ", "error: No solution found", "Failed to fetch: `http://[::1`"):
        assert isinstance(explain(words, Platform("3.11")), ReprokitError)


class Connection:
    node = SimpleNamespace(name="far")

    def __init__(self, output: str) -> None:
        self._output = output

    def run(self, script: str, *more: object, **options: object) -> Any:
        return SimpleNamespace(returncode=0, stdout=self._output, stderr="")


def test_what_a_node_answers() -> None:
    def asked(output: str) -> Any:
        return Connection(output)

    ready = "reprokit: incoming\n/x\n{}\n"
    assert remote_staging.prepare(asked(ready.format("1\n5 a.part")), "s").files == {"a.part": 5}
    for free in ("", "\u00b2", "1\nx", "1\nx a.part", "9" * 5000):
        with pytest.raises(SourceError, match=r"is not valid|cannot store files"):
            remote_staging.prepare(asked(ready.format(free)), "s")
    for line in ("[" * 100_000, '{"manifest": {}}', '{"id": 1, "labels": 1}', "1e999", '{"x": 1}'):
        with pytest.raises(ReprokitError):
            inventory.inventory(asked(f"reprokit: inventory\n{line}\n"))
    assert Remote(asked("x\na b c \u00b2 d\n")).disk_free_bytes("/") is None
    assert Remote(asked("x\na b c 5 d\n")).disk_free_bytes("/") == 5120
