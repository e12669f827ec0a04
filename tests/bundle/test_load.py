"""`load`, apart from the transfer of layers."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from contextlib import ExitStack

import pytest

from reprokit.oci.loader import LOADING
from reprokit.recipe.start import starting_recipe
from tests.support.images import noise, tar_of
from tests.support.made import Made
from tests.support.names import unique
from tests.support.other_engine import OtherEngine
from tests.support.privileges import need_root
from tests.support.strangers import entry, workspace
from tests.support.verbs import run_verb

pytestmark = pytest.mark.engine

LAYERS = [tar_of({f"bin/{name}": noise(50_000, seed)}) for seed, name in enumerate("ab")]


@pytest.fixture
def name(engine, images):
    """A name of an image; the image is removed after the test."""
    images.names.append(f"{images.prefix}-loaded:1")
    yield images.names[-1]
    if engine.image(images.names[-1]):
        engine.remove_image(images.names[-1], force=True)


def with_smi(tmp_path, monkeypatch, line: str) -> None:
    """A host whose nvidia-smi prints `line`: name, driver, compute capability."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f"#!/bin/sh\necho '{line}'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")


def test_a_driver_that_is_too_old_is_reported_first(reprokit, engine, name, tmp_path, monkeypatch):
    with_smi(tmp_path, monkeypatch, "NVIDIA A100-SXM4-80GB, 450.80.02, 8.0")
    path = Made.of({name: LAYERS}, pins={"cuda": "12.1"}, min_driver="525.60.13").write(tmp_path / "x.rkit")
    said = reprokit("load", path, code=1)
    checked = reprokit("check", "--pins", "cuda=12.1", "--driver", "450.80.02", code=1)
    reason = said.partition("driver=450.80.02: ")[2].partition(" (nearest")[0].splitlines()[0]
    assert len(reason) > 20 and reason in " ".join(checked.split()) and "--force" in said
    assert engine.image(name) is None
    assert f"loaded {name}" in reprokit("load", path, "--force")


def test_a_driver_that_is_new_enough_is_not_mentioned(reprokit, name, tmp_path, monkeypatch):
    with_smi(tmp_path, monkeypatch, "NVIDIA A100-SXM4-80GB, 550.54.14, 8.0")
    path = Made.of({name: LAYERS}, pins={"cuda": "12.1"}, min_driver="525.60.13").write(tmp_path / "x.rkit")
    assert reprokit("load", path) == f"loaded {name}\nx.rkit is not signed: its maker is unknown\n"


def test_as_json(home, name, tmp_path):
    path = Made.of({name: LAYERS}).write(tmp_path / "x.rkit")
    for expected in ({"loaded": [name], "present": []}, {"loaded": [], "present": [name]}):
        done = run_verb("load", path, "--json", cwd=tmp_path, env={"REPROKIT_HOME": str(home)})
        assert json.loads(done.stdout) == expected, done.stderr


def test_damage_is_found_before_the_engine_is_asked(reprokit, tmp_path, name, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/d.sock")
    path = Made.of({name: LAYERS}).write(tmp_path / "x.rkit")
    reprokit("load", path, code=3)
    raw = bytearray(path.read_bytes())
    raw[20_000] ^= 1
    path.write_bytes(raw)
    assert "damaged" in reprokit("load", path, code=2)


def test_an_image_that_inherits_the_label_of_unfinished_ones_stays(reprokit, engine, name, tmp_path):
    """A stranger's base has the label with the ID of a bundle's image; the user has built on that base."""
    made, mine = Made.of({name: LAYERS}), unique("mine")
    layer = io.BytesIO(tar_of({"x": noise(8, 1)}))
    engine.import_image(layer, mine, "1", [f"LABEL {LOADING}={made.images[0].id}"])
    try:
        assert engine.images([f"{LOADING}={made.images[0].id}"])
        assert f"loaded {name}" in reprokit("load", made.write(tmp_path / "x.rkit"))
        assert engine.image(f"{mine}:1")
    finally:
        if engine.image(f"{mine}:1"):
            engine.remove_image(f"{mine}:1")


def test_an_unknown_recipe_is_written_down(reprokit, tmp_path, name):
    recipe = starting_recipe("brought")
    path = Made.of({name: LAYERS}, recipe="brought", variant="cpu", recipe_text=recipe).write(tmp_path / "x.rkit")
    assert "brought" in reprokit("load", path)
    assert "brought" in reprokit("list") and "brought" in reprokit("show", "brought")
    other = Made.of({name: LAYERS}, recipe="brought", variant="cpu", recipe_text=recipe + "\n# other\n")
    assert "not what the image was built from" in reprokit("load", other.write(tmp_path / "y.rkit"))
    broken = Made.of({name: LAYERS}, recipe="broken", variant="cpu", recipe_text="name: [").write(tmp_path / "z.rkit")
    reprokit("load", broken, code=2)


def test_a_workspace_is_unpacked_unless_one_exists(reprokit, tmp_path, name, home):
    inside = [
        (entry("src", tarfile.DIRTYPE), b""),
        (entry("src/a.py"), b"print(1)"),
        (entry("src/b.py", tarfile.SYMTYPE, "a.py"), b""),
        (entry("out", tarfile.SYMTYPE, "/etc"), b""),
        (entry("up", tarfile.SYMTYPE, "src/../../x"), b""),
    ]
    path = workspace(Made.of({name: LAYERS}), inside).write(tmp_path / "x.rkit")
    said = reprokit("load", path)
    (folder,) = (home / "workspaces").glob("brought-w-*")
    assert "leads out of the workspace ('/etc')" in said and sorted(p.name for p in folder.iterdir()) == ["src"]
    assert (folder / "src/b.py").read_bytes() == b"print(1)" and (folder / "src/a.py").stat().st_mode & 0o7777 == 0o755
    (folder / "src/a.py").write_text("mine")
    assert "is present already" in reprokit("load", path) and (folder / "src/a.py").read_text() == "mine"


@pytest.mark.parametrize(
    "inside",
    [
        [(entry("../x"), b"x")],
        [(entry("/tmp/reprokit-test-escaped"), b"x")],
        [(entry("a", tarfile.SYMTYPE, "."), b""), (entry("a/x"), b"x")],
        [(entry("b/x"), b"x")],
        [(entry("x"), b"x"), (entry("x"), b"y")],
        [(entry("x"), b"x"), (entry("y", tarfile.LNKTYPE, "x"), b"")],
        [(entry("fifo", tarfile.FIFOTYPE), b"")],
    ],
)
def test_a_workspace_that_would_leave_its_folder_is_refused(reprokit, engine, tmp_path, name, home, inside):
    path = workspace(Made.of({name: LAYERS}), inside).write(tmp_path / "x.rkit")
    reprokit("load", path, code=2)
    assert engine.image(name) is None
    assert not [p for p in (home / "workspaces").rglob("*")]


def test_a_signature_is_checked_and_can_be_required(reprokit, images, base, tmp_path):
    for key in ("mine", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / key)], check=True)
    signed, plain = tmp_path / "signed.rkit", tmp_path / "plain.rkit"
    reprokit("export", base, "-o", signed, "--sign", tmp_path / "mine")
    reprokit("export", base, "-o", plain)
    assert "is signed by SHA256:" in reprokit("load", signed)
    assert "SHA256:" in reprokit("inspect", signed)
    reprokit("load", signed, "--signed-by", tmp_path / "mine.pub")
    assert "not an allowed key" in reprokit("load", signed, "--signed-by", tmp_path / "other.pub", code=1)
    assert "not signed" in reprokit("load", plain, "--signed-by", tmp_path / "mine.pub", code=1)


def test_an_exported_image_is_loaded_again(reprokit, engine, images, two, tmp_path):
    out = tmp_path / "x.rkit"
    reprokit("export", *two, "-o", out)
    before = [engine.image(name) for name in two]
    for name in two:
        engine.remove_image(name, force=True)
    assert reprokit("load", out).count("loaded") == 2
    after = [engine.image(name) for name in two]
    assert [image["Id"] for image in before] == [image["Id"] for image in after]


def test_a_full_disk_is_reported_before_loading(reprokit, tmp_path, short_path, name, monkeypatch):
    """Nothing is loaded into an engine whose disk is too small."""
    need_root()
    data = short_path / "data"
    data.mkdir()
    with ExitStack() as stack:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(data)], check=True)
        stack.callback(subprocess.run, ["umount", "-l", str(data)], check=True)
        engine = OtherEngine(short_path, data)
        stack.callback(engine.process.wait)
        stack.callback(engine.process.kill)
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        path = Made.of({name: [tar_of({"zeros": bytes(40 << 20)})]}).write(tmp_path / "x.rkit")
        said = reprokit("load", path, code=3)
        assert "not enough disk space" in said and str(data) in said and "hint: " in said
        assert not engine.connect().images([])
