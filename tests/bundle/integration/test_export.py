"""`reprokit export`, with real engines and read back by other tools."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
import zstandard

from reprokit.bundle import signature
from reprokit.bundle.model import METADATA, SIGNATURE, Metadata
from reprokit.engine import Engine
from reprokit.oci.model import INDEX, blob_path
from reprokit.verify.layers import ImageInEngine, digest
from tests.support.export_kills import kill_and_repeat
from tests.support.exporting import contents, export
from tests.support.images import Images, noise
from tests.support.skopeo import skopeo
from tests.support.strangers import new_key


@pytest.fixture(autouse=True)
def _at_home(home: Path) -> None:
    pass


def test_skopeo_reads_a_bundle_and_the_metadata_is_complete(engine: Engine, two: tuple[str, str], tmp_path: Path):
    key, out = new_key(tmp_path, "key"), tmp_path / "x.rkit"
    said = export(*two, "-o", str(out), "--sign", str(key))
    unpacked = re.fullmatch(rf"{out}: {two[0]}, {two[1]}: .* \((\d+) MB unpacked\)\n", said.stdout)
    assert list(tmp_path.glob(".x*")) == []
    entries = contents(out)
    text = signature.statement(entries[INDEX], entries[METADATA])
    assert signature.verify(text, entries[SIGNATURE], key.with_suffix(".pub")).startswith("SHA256:")
    metadata = Metadata.model_validate_json(entries[METADATA])
    assert [image.name for image in metadata.images] == list(two)
    assert metadata.absent == ()
    # The layers that they share count once.
    assert unpacked and int(unpacked[1]) * 1e6 < sum(image.size for image in metadata.images) - 2_000_000
    for name, item in zip(two, json.loads(entries["manifest.json"]), strict=True):
        described = engine.image(name)
        assert (item["RepoTags"], item["Config"]) == ([name], blob_path(described.id))
        inspected = json.loads(skopeo("inspect", "--config", f"oci-archive:{out}:{name}"))
        assert inspected["rootfs"]["diff_ids"] == list(described.layers)
        # skopeo compares every digest.
        skopeo("copy", "-q", f"oci-archive:{out}:{name}", f"dir:{tmp_path / name.replace('/', '-')}")


def test_an_update_has_only_new_layers(engine: Engine, images: Images, two: tuple[str, str], tmp_path: Path):
    old, new = tmp_path / "old.rkit", tmp_path / "new.rkit"
    export(two[0], "-o", str(old))
    rebuilt = images.on(two[0], "rebuilt", [{"n/one": noise(1 << 20, 900)}])
    said = json.loads(export(rebuilt, "--since", str(old), "-o", str(new), "--json").stdout)
    before = engine.image(two[0]).layers
    assert sorted(said["absent"]) == sorted(before)
    assert said["bytes"] == new.stat().st_size < 0.6 * (1 << 20) + (1 << 16)
    manifest = json.loads(contents(new)["manifest.json"])[0]
    assert manifest["Layers"][: len(before)] == [blob_path(layer) for layer in before]
    refused = export(rebuilt, "--since", str(old), "-o", str(old), code=2)
    assert refused.stderr.startswith("error: a bundle cannot replace")


def test_what_cannot_be_exported_is_named_with_a_remedy(base: str, tmp_path: Path):
    out = tmp_path / "x.rkit"
    (tmp_path / "file").write_bytes(b"")
    for arguments, why in (
        (["faith"], "hint: reprokit build faith:cuda"),
        (["nobody"], "unknown recipe 'nobody'"),
        (["some/image:1"], "no image of this name (some/image:1)"),
        ([], "name images, or one --container"),
        (["x", "--container", "y"], "name images, or one --container"),
        (["x", "--exclude", "y"], "--exclude works with --container only"),
        (["x", "--format", "zip"], "no such format: 'zip'"),
        (["x", "--format", "docker", "--with-store"], "has complete images only"),
        (["x", "y", "--format", "squashfs"], "only one image"),
        ([base, "-o", str(tmp_path)], "the target is a folder"),
        ([base, "-o", str(tmp_path / "file" / "x.rkit")], "the file cannot be written"),
        ([base, "-o", str(tmp_path / "nosuch" / "x")], "the file cannot be written: No such file or directory"),
    ):
        assert why in export("-o", str(out), *arguments, code=2, cwd=tmp_path).stderr
    assert not list(tmp_path.glob("*x.rkit*")) and not (tmp_path / "nosuch").exists()


def test_a_full_disk_is_reported_and_leaves_nothing(base: str, tmp_path: Path):
    out = tmp_path / "x.rkit"
    command = ["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", sys.executable, "-m", "reprokit", "export"]
    done = subprocess.run([*command, base, "-o", str(out)], capture_output=True, text=True)
    message = f"error: the file cannot be written: File too large ({out})"
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, message)
    assert not list(tmp_path.glob("*x.rkit*"))


def test_an_interrupted_export_is_resumed(two: tuple[str, str], tmp_path: Path):
    out, partial, complete = tmp_path / "x.rkit", tmp_path / ".x.rkit.partial", tmp_path / "complete.rkit"
    export(*two, "-o", str(complete))
    command = [sys.executable, "-m", "reprokit", "export", *two, "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (partial.exists() and partial.stat().st_size > (1 << 20)) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=200)[1]
    if process.returncode == 130:
        assert said.endswith("interrupted: the same command continues\n")
        assert not out.exists()
    export(*two, "-o", str(out))
    assert not partial.exists()
    resumed, expected = contents(out), contents(complete)
    assert resumed.keys() == expected.keys()
    assert all(resumed[name] == expected[name] for name in expected.keys() - {INDEX, METADATA})


@pytest.mark.long
@pytest.mark.kills(2)
def test_exports_killed_at_random_moments_are_resumed(images: Images, tmp_path: Path, kills: int):
    base = images.base("kill", {f"f{i}": noise(1 << 20, i * 5000) for i in range(4)})
    name = images.on(base, "killed", [{f"g{i}/{j}": noise(1 << 20, i * 7 + j) for j in range(4)} for i in range(4)])
    kill_and_repeat([name], tmp_path, kills, seed=5)


def test_an_archive_for_old_engines_loads_there(engine: Engine, images: Images, tmp_path: Path):
    name = images.base("old", {"a": noise(1 << 20, 7)}, ["ENV X=y"])
    before = engine.image(name).id
    out = tmp_path / "x.tar"
    export(name, "-o", str(out), "--format", "docker")
    engine.remove_image(name)
    with out.open("rb") as archive:
        engine.load(archive)
    assert engine.image(name).id == before
    skopeo("inspect", f"docker-archive:{out}")
    assert list(tmp_path.glob(".x*")) == []


def test_a_folder_is_an_oci_layout(two: tuple[str, str], tmp_path: Path):
    out = tmp_path / "layout"
    export(*two, "-o", str(out), "--format", "oci-dir")
    for name in two:
        skopeo("copy", "-q", f"oci:{out}:{name}", f"dir:{tmp_path / name.replace('/', '-')}")
    assert not list(tmp_path.glob(".layout*"))
    assert len({file.stat().st_mode for file in out.rglob("*") if file.is_file()}) == 1
    done = export(*two, "-o", str(out), "--format", "oci-dir", code=2)
    assert "the target exists and is not an empty folder" in done.stderr


def test_a_squashfs_has_files_and_start_scripts(engine: Engine, images: Images, two: tuple[str, str], tmp_path: Path):
    out, root = tmp_path / "x.sqsh", tmp_path / "root"
    name = images.on(two[0], "squash", [{"etc/environment": b"old"}], 'ENV A="b c"\nENTRYPOINT ["/bin/a", "it\'s"]')
    export(name, "-o", str(out), "--format", "squashfs")
    subprocess.run(["unsquashfs", "-q", "-n", "-d", str(root), str(out)], check=True, capture_output=True)
    assert (root / "bin/a").read_bytes() == noise(3 << 20, 1)
    assert (root / "l/two").read_bytes() == noise(1 << 20, 300)
    assert (root / "etc/environment").read_text() == "PATH=/bin:/opt/x\nA=b c\n"
    assert "cd /w && unset OLDPWD" in (root / "etc/rc").read_text()
    assert subprocess.run(["sh", "-n", str(root / "etc/rc")]).returncode == 0
    assert os.access(root / "etc/rc", os.X_OK)
    assert not (root / ".dockerenv").exists()
    exported = engine.image(name).id
    assert not [c["Names"] for c in engine.api.containers(all=True) if c["ImageID"] == exported], "a container is left"


RECIPE = """\
name: bundled
paper: {title: A paper, venue: none, year: 2026, licence: none}
variants:
  cpu: {base: "debian:12", pins: {python: "3.11"}, blocks: [python]}
"""


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe and its workspace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "bundled.yaml").write_text(RECIPE)
    workspace = tmp_path / "workspaces" / "bundled"
    (workspace / "src" / "__pycache__").mkdir(parents=True)
    (workspace / "src" / "a.py").write_text("print(1)\n")
    (workspace / "src" / "tool").write_text("#!/bin/sh\n")
    (workspace / "src" / "tool").chmod(0o755)
    (workspace / "src" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (workspace / "link").symlink_to("src/a.py")
    os.link(workspace / "src" / "a.py", workspace / "same.py")
    os.mkfifo(workspace / "pipe")
    return tmp_path


@pytest.fixture(scope="module")
def image(images: Images) -> str:
    labels = {"recipe": "bundled", "variant": "cpu", "inputs": "ab", "pins": '{"python": "3.11"}'}
    labels["min-driver"] = "450.36"
    lines = " ".join(f"reprokit.{key}={json.dumps(value)}" for key, value in labels.items())
    return images.base("recipe", {"a": noise(1 << 16, 3)}, [f"LABEL {lines}"])


def test_a_workspace_is_packed_without_owners_beside_labels_and_recipe(here: Path, images: Images, image: str) -> None:
    out = here / "x.rkit"
    export(image, "-o", str(out), "--with-workspace")
    entries = contents(out)
    metadata = Metadata.model_validate_json(entries[METADATA])
    (part,) = metadata.parts
    content = entries[part.path]
    assert (part.kind, part.name, part.path) == ("workspace", "bundled", "workspaces/bundled.tar.zst")
    assert (part.digest, part.size) == (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        members = {member.name: member for member in tar}
        assert tar.extractfile("same.py").read() == b"print(1)\n"  # type: ignore[union-attr]
    assert set(members) == {"src", "src/a.py", "src/tool", "link", "same.py"}
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members.values()} == {(0, 0, "", "")}
    assert members["link"].linkname == "src/a.py" and members["src/tool"].mode == 0o755
    (described,) = metadata.images
    assert (described.recipe, described.variant, described.inputs) == ("bundled", "cpu", "ab")
    assert (described.pins, described.min_driver) == ({"python": "3.11"}, "450.36")
    assert (described.recipe_text, described.lock_text) == (RECIPE, "")
    assert described.size > described.packed > 0
    assert described.canonical == digest(ImageInEngine.of(images.engine, image))


def test_a_missing_workspace_lock_or_recipe_is_reported(here: Path, image: str) -> None:
    (here / "workspaces" / "bundled").rename(here / "moved")
    out = here / "x.rkit"
    assert "bundled has no workspace yet" in export(image, "-o", str(out), "--with-workspace", code=2).stderr
    assert "bundled has no lock" in export(image, "-o", str(out), "--with-store", code=2).stderr
    assert not list(here.glob("*x.rkit*"))
    (here / "recipes" / "bundled.yaml").unlink()
    assert "the recipe bundled is not here" in export(image, "-o", str(out)).stderr
