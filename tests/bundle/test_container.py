"""A container in its present state: its configuration, and the files that are excluded."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from reprokit.bundle.model import METADATA, Metadata
from reprokit.container import names
from reprokit.engine import Engine
from tests.support.exporting import contents, export
from tests.support.images import tar_of
from tests.support.names import unique

FILES = {
    "opt/tool": b"t" * 5000,
    "var/cache/apt/archives/x.deb": b"d" * 100_000,
    "root/.cache/pip/http/y": b"p" * 200_000,
    "data/large": b"l" * 300_000,
}
Make = Callable[..., str]


@pytest.fixture
def container(engine: Engine, base: str, home: Path) -> Iterator[Make]:
    """Makes containers of `base` with FILES in them, never started."""
    made: list[str] = []

    def make(**config: Any) -> str:
        name = unique("export")
        engine.create_container(name, {"Image": base, "Cmd": ["/bin/a"], **config})
        made.append(name)
        engine.put_archive(name, "/", tar_of(FILES))
        return name

    yield make
    for name in made:
        engine.remove(name, force=True)


def _image(out: Path) -> tuple[dict[str, Any], list[dict[str, bytes]]]:
    """The only image's config, and the files of each of its layers."""
    entries = contents(out)
    (item,) = json.loads(entries["manifest.json"])
    layers = []
    for path in item["Layers"]:
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(entries[path])
        with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
            layers.append({m.name: tar.extractfile(m).read() for m in tar if m.isreg()})  # type: ignore[union-attr]
    return json.loads(entries[item["Config"]]), layers


def _snapshot(engine: Engine, container: str) -> bool:
    return engine.image(f"reprokit-export:{container}") is not None


def test_it_keeps_its_configuration_and_the_layers_below(engine: Engine, base: str, container: Make, tmp_path: Path):
    name = container(Env=["X=y z"], Labels={"mine": "1"}, Entrypoint=["/bin/a"], Hostname="secret-host")
    out = tmp_path / "x.rkit"
    said = export("--container", name, "-o", str(out), "--exclude", "/data/*")
    image, layers = _image(out)
    assert image["rootfs"]["diff_ids"][:-1] == list(engine.image(base).layers)
    config = image["config"]
    assert (config["Env"], config["Entrypoint"]) == (["X=y z", "PATH=/bin:/opt/x"], ["/bin/a"])
    assert (config["WorkingDir"], config["User"], config["Labels"]) == ("/w", "7", {"mine": "1"})
    assert "secret-host" not in json.dumps(image)
    assert {name: content for name, content in layers[-1].items() if name in FILES} == {"opt/tool": FILES["opt/tool"]}
    assert "excluded: 3 files of package caches and --exclude, 600 kB" in said.stderr
    assert "5 kB  /opt/tool" in said.stderr
    assert Metadata.model_validate_json(contents(out)[METADATA]).images[0].name == f"container/{name}:latest"
    assert not _snapshot(engine, name)
    missing = export("--container", "nobody", "-o", str(tmp_path / "y"), code=2)
    assert "no container 'nobody'" in missing.stderr


def test_a_recipes_container_gets_the_name_of_its_image(engine: Engine, base: str, container: Make, tmp_path: Path):
    built = engine.image(base).id
    labels = {names.NAME: "c", names.RECIPE: "faith", names.VARIANT: "cuda", names.IMAGE: built, names.OWNER: "0"}
    labels |= {names.SETTINGS: "{}", "reprokit.inputs": "aa", "reprokit.pins": '{"cuda": "11.1"}'}
    name = container(Labels=labels, User="0:0", Entrypoint=["idle"], Env=["NVIDIA_VISIBLE_DEVICES=void", "HERE=1"])
    out = tmp_path / "x.rkit"
    export("--container", name, "-o", str(out))
    config = _image(out)[0]["config"]
    pins = {"reprokit.pins": '{"cuda": "11.1"}'}
    assert config["Labels"] == {"reprokit.recipe": "faith", "reprokit.variant": "cuda", **pins}
    assert (config["Env"], config["User"]) == (["HERE=1", "PATH=/bin:/opt/x"], "7")
    assert "Entrypoint" not in config
    (described,) = Metadata.model_validate_json(contents(out)[METADATA]).images
    assert (described.name, described.pins, described.inputs) == ("reprokit/faith:cuda", {"cuda": "11.1"}, "")


def test_an_exported_container_runs(engine: Engine, container: Make, tmp_path: Path):
    name, again, out = container(), unique("export"), tmp_path / "x.tar"
    export("--container", name, "-o", str(out), "--format", "docker")
    loaded = f"container/{name}:latest"
    with out.open("rb") as archive:
        engine.load(archive)
    try:
        engine.create_container(again, {"Image": loaded})
        for path, present in (("/opt/tool", True), ("/bin/a", True), ("/var/cache/apt/archives/x.deb", False)):
            assert (engine.status(again, path) is not None) == present
    finally:
        engine.remove(again, force=True)
        engine.remove_image(loaded, force=True)


def test_a_container_as_a_squashfs(container: Make, tmp_path: Path):
    out, root = tmp_path / "x.sqsh", tmp_path / "root"
    export("--container", container(Env=["X=y"]), "-o", str(out), "--format", "squashfs")
    subprocess.run(["unsquashfs", "-q", "-n", "-d", str(root), str(out)], check=True, capture_output=True)
    assert (root / "opt/tool").read_bytes() == FILES["opt/tool"]
    assert not (root / "var/cache/apt/archives/x.deb").exists()
    assert (root / "etc/environment").read_text() == "X=y\nPATH=/bin:/opt/x\n"


def _exporting(container: str, out: Path) -> subprocess.Popen[str]:
    """A process that is about to take the snapshot."""
    command = [sys.executable, "-m", "reprokit", "export", "--container", container, "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stderr
    assert any("snapshot" in line for line in process.stderr)
    return process


@pytest.mark.parametrize("delay", [0.1, pytest.param(0.0, marks=pytest.mark.long)])
def test_an_interrupt_leaves_no_snapshot(engine: Engine, container: Make, tmp_path: Path, delay: float):
    name = container()
    process = _exporting(name, tmp_path / "x.rkit")
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=200)
    assert not _snapshot(engine, name)


def test_the_snapshot_of_a_killed_process_is_removed_by_the_next(engine: Engine, container: Make, tmp_path: Path):
    name, out = container(), tmp_path / "x.rkit"
    engine.commit(name, "reprokit-export", name)  # as one that was killed leaves it
    assert _snapshot(engine, name)
    export("--container", name, "-o", str(out))
    assert not _snapshot(engine, name)
