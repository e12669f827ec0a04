"""`load`, apart from the transfer of layers."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from reprokit.bundle.load import checked
from reprokit.bundle.model import METADATA
from reprokit.errors import UsageError
from reprokit.oci.loader import LOADING
from reprokit.oci.model import DOCKER_MANIFEST, INDEX, OCI_LAYOUT
from reprokit.recipe.start import starting_recipe
from tests.support import made as making
from tests.support.damage import ALL, spoilt
from tests.support.images import noise, tar_of
from tests.support.made import Made, canonical_of, tar
from tests.support.names import unique
from tests.support.nvidia_smi import write_smi
from tests.support.strangers import entry, new_key, signed, workspace

LAYERS = [tar_of({f"bin/{name}": noise(50_000, seed)}) for seed, name in enumerate("ab")]


@pytest.fixture
def name(engine, images):
    """A name of an image; the image is removed after the test."""
    images.names.append(f"{images.prefix}-loaded:1")
    yield images.names[-1]
    if engine.image(images.names[-1]):
        engine.remove_image(images.names[-1], force=True)


A100 = {"index": "0", "name": "NVIDIA A100-SXM4-80GB", "compute_cap": "8.0"}


def test_a_driver_that_is_too_old_is_reported_first(reprokit, engine, name, tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    write_smi(smi, {**A100, "driver_version": "450.80.02"})
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = Made.of({name: LAYERS}, pins={"cuda": "12.1"}, min_driver="525.60.13").write(tmp_path / "x.rkit")
    said = reprokit("load", path, code=1)
    answer = reprokit("check", "--pins", "cuda=12.1", "--driver", "450.80.02", code=1)
    reason = said.partition("driver=450.80.02: ")[2].partition(" (nearest")[0].splitlines()[0]
    assert len(reason) > 20 and reason in " ".join(answer.split()) and "--force" in said
    assert engine.image(name) is None

    def as_json(*options: str) -> dict:
        return json.JSONDecoder().raw_decode(reprokit("load", path, "--json", *options))[0]

    assert as_json("--force") == {"loaded": [name], "present": []}
    write_smi(smi, {**A100, "driver_version": "550.54.14"})
    assert as_json() == {"loaded": [], "present": [name]}
    engine.remove_image(name, force=True)
    assert reprokit("load", path) == f"loaded {name}\nx.rkit is not signed: its maker is unknown\n"


def test_another_engines_writing_of_the_same_image_is_present(reprokit, engine, name, tmp_path):
    again = [LAYERS[0], tar_of({"bin/a": noise(50_000, 0), "bin/b": noise(50_000, 1)})]
    digests = [canonical_of(layers) for layers in (LAYERS, again, LAYERS[:1])]
    assert digests[0] == digests[1] != digests[2]
    assert f"loaded {name}" in reprokit(
        "load", Made.of({name: LAYERS}, canonical=digests[0]).write(tmp_path / "x.rkit")
    )
    loaded = engine.image_id(name)
    other = Made.of({name: again}, canonical=digests[1]).write(tmp_path / "y.rkit")
    assert f"{name} is present already" in reprokit("load", other) and engine.image_id(name) == loaded
    less = Made.of({name: LAYERS[:1]}, canonical=digests[2]).write(tmp_path / "z.rkit")
    assert "--replace" in reprokit("load", less, code=2)


def test_damage_is_reported_before_the_engine_is_asked(reprokit, tmp_path, name, monkeypatch):
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


def test_a_workspace_that_would_leave_its_folder_is_refused(reprokit, engine, tmp_path, name, home):
    for inside in (
        [(entry("../x"), b"x")],
        [(entry("/tmp/reprokit-test-escaped"), b"x")],
        [(entry("a", tarfile.SYMTYPE, "."), b""), (entry("a/x"), b"x")],
        [(entry("b/x"), b"x")],
        [(entry("x"), b"x"), (entry("x"), b"y")],
        [(entry("x"), b"x"), (entry("y", tarfile.LNKTYPE, "x"), b"")],
        [(entry("fifo", tarfile.FIFOTYPE), b"")],
    ):
        reprokit("load", workspace(Made.of({name: LAYERS}), inside).write(tmp_path / "x.rkit"), code=2)
        assert engine.image(name) is None
        assert not [*(home / "workspaces").rglob("*")]


def test_a_signature_is_checked_and_can_be_required(reprokit, name, tmp_path):
    mine, other = new_key(tmp_path, "mine"), new_key(tmp_path, "other")
    made, by_me = Made.of({name: LAYERS}), tmp_path / "signed.rkit"
    plain = made.write(tmp_path / "plain.rkit")
    by_me.write_bytes(signed(made, mine))
    assert "is signed by SHA256:" in reprokit("load", by_me)
    assert "SHA256:" in reprokit("show", by_me)
    reprokit("load", by_me, "--signed-by", mine.with_suffix(".pub"))
    assert "not an allowed key" in reprokit("load", by_me, "--signed-by", other.with_suffix(".pub"), code=1)
    assert "not signed" in reprokit("load", plain, "--signed-by", mine.with_suffix(".pub"), code=1)


def test_an_exported_image_is_loaded_again(reprokit, engine, two, tmp_path):
    out = tmp_path / "x.rkit"
    reprokit("export", *two, "-o", out)
    before = [engine.image(name) for name in two]
    for name in two:
        engine.remove_image(name, force=True)
    assert reprokit("load", out).count("loaded") == 2
    assert [image.id for image in before] == [engine.image(name).id for name in two]


def bundle() -> Made:
    a, b, c = (tar_of({f"bin/{name}": noise(20_000, seed)}) for seed, name in enumerate("abc"))
    return Made.of({"reprokit-test-damaged/x:1": [a, b, c], "reprokit-test-damaged/y:1": [a, c]})


def refusal(path: Path) -> UsageError | None:
    with ExitStack() as stack:
        try:
            checked([path], stack)
        except UsageError as error:
            return error
    return None


def test_a_config_that_engines_read_differently_is_refused(tmp_path, monkeypatch):
    assert refusal(bundle().write(tmp_path / "x.rkit")) is None  # control
    plain = making.config_of
    monkeypatch.setattr(making, "config_of", lambda *args: plain(*args)[:-1] + b', "Config": {"Entrypoint": ["/x"]}}')
    error = refusal(bundle().write(tmp_path / "x.rkit"))
    assert error and "readers understand the key 'config' of its config differently" in error.message


@pytest.mark.slow
def test_every_damaged_bundle_is_refused(tmp_path):
    """600 ways; none crashes, and nothing is written."""
    path, kinds, accepted = tmp_path / "in" / "x.rkit", Counter(), []
    path.parent.mkdir()
    for number in range(600):
        kind, raw = spoilt(number, bundle())
        path.write_bytes(raw)
        error = refusal(path)
        if error is None:
            accepted.append((number, kind))
        else:
            assert error.where.startswith(str(path)) and error.message, (number, kind)
            kinds[kind] += 1
    assert not accepted
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]
    assert set(kinds) == {kind.__name__ for kind in ALL}


@pytest.mark.parametrize("name", [METADATA, INDEX, DOCKER_MANIFEST, OCI_LAYOUT])
@pytest.mark.slow
def test_no_bit_of_a_small_file_can_change(tmp_path, name):
    files = bundle().files
    for at in range(0, len(files[name]), 3):
        content = bytearray(files[name])
        content[at] ^= 1 << at % 8
        (tmp_path / "x.rkit").write_bytes(tar({**files, name: bytes(content)}))
        assert refusal(tmp_path / "x.rkit") is not None, at
