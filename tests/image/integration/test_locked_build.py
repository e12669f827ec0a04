"""A recipe is locked, fetched and built as a user does it. test_identical_layers has the build without a network."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.supply.lock.file import read, write
from reprokit.supply.lock.model import VariantLock
from tests.support.desk import Desk

LOOK = """
cat /opt/top/top.txt /opt/top/3rd/leaf.txt /opt/notes.txt; tree --version
python3 -c "import six; print(six.__version__)"
find / -xdev \\( -name '*.whl' -o -name '*.deb' \\) -not -path '*/ensurepip/*' -not -path '/usr/share/python-wheels/*'
grep -rl reprokit.invalid /etc /root /opt /var /usr/local 2>/dev/null
ls -A /tmp /var/lib/apt/lists
cat /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null | grep -c reprokit || true
"""
NOTES = b"notes of the paper\n"


@pytest.fixture(scope="module")
def desk(engine: Engine, debian_12, served, tmp_path_factory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("desk"), served[1])
    made.run("lock", made.recipe)
    yield made
    for image in (made.image, made.small_image):
        with contextlib.suppress(ReprokitError):
            engine.remove_image(image, force=True)


@pytest.mark.network
@pytest.mark.long
@pytest.mark.xdist_group("locked-whole")
def test_a_lock_is_the_same_each_time_and_refuses_what_has_changed(desk: Desk, served, tmp_path: Path):
    first = desk.lock.read_bytes()
    assert "unchanged" in desk.run("lock", desk.recipe)
    row, _small = json.JSONDecoder().raw_decode(desk.run("lock", desk.recipe, "--json"))[0]["locks"]
    assert (row["recipe"], row["lock"], row["changed"]) == (f"{desk.recipe}:v", str(desk.lock), False)
    desk.run("lock", desk.recipe, "--update", "all")
    # Debian may publish meanwhile: then the next lock is that of the same archive.
    if re.findall(rb"as_of: \S+", desk.lock.read_bytes()) != re.findall(rb"as_of: \S+", first):
        first = desk.lock.read_bytes()
        desk.run("lock", desk.recipe, "--update", "all")
    assert desk.lock.read_bytes() == first
    text = first.decode()
    assert sha256(NOTES).hexdigest() in text and "six-1.16.0-py2.py3-none-any.whl" in text
    assert text.count("forge.test") == 2
    hosts = {line.split("//")[1].split("/")[0] for line in text.split("'") if "//" in line}
    assert hosts <= {"forge.test", f"127.0.0.2:{served[1]}"}
    assert f"{desk.recipe}:v: up to date" in desk.run("lock", "--check", desk.recipe)
    # Another recipe.
    recipe = desk.file.read_text()
    desk.file.write_text(recipe.replace("apt: [tree]", "apt: [tree, file]"))
    assert "stale: apt" in desk.run("lock", "--check", desk.recipe, code=1)
    assert "reprokit lock" in desk.run("build", desk.recipe, code=1)
    desk.file.write_text(recipe)
    # Other bytes at the same address.
    notes = served[0] / "notes.txt"
    try:
        notes.write_text("n0tes of the paper\n")
        output = desk.run("fetch", desk.recipe, code=4, REPROKIT_HOME=str(tmp_path))
        for content in (NOTES, notes.read_bytes()):
            assert sha256(content).hexdigest() in output
        assert "notes.txt has changed upstream" in output
        notes.write_text("another size\n")
        assert "files: notes.txt" in desk.run("lock", "--outdated", desk.recipe, code=1)
    finally:
        notes.write_bytes(NOTES)


@pytest.mark.network
@pytest.mark.long
@pytest.mark.xdist_group("locked-whole")
def test_a_warm_build_asks_nothing_outside_and_is_the_same_image(desk: Desk, engine: Engine, inside):
    desk.run("fetch", desk.recipe)
    assert "0 B downloaded" in desk.run("fetch", desk.recipe)
    built, _ = json.JSONDecoder().raw_decode(desk.run("build", desk.recipe, "--json"))
    assert (built["name"], built["image"]) == (desk.image, engine.image(desk.image).id)
    (file,) = (desk.root / "home" / "state" / "builds").iterdir()
    record = json.loads(file.read_text())
    assert record["hosts_asked"] == {} and record["asked_in_vain"] == {}
    assert "is up to date" in desk.run("build", desk.recipe)
    output = inside(desk.image, LOOK)
    assert output.startswith("top.txtleaf.txtnotes of the paper\n") and "1.16.0" in output and "tree v" in output
    assert "0" in output.splitlines() and ".deb" not in output and ".whl" not in output and "invalid" not in output


@pytest.mark.network
@pytest.mark.long
@pytest.mark.xdist_group("locked-whole")
def test_what_the_lock_or_the_mirrors_lack_is_named_and_taken_on_demand(desk: Desk, engine: Engine, served):
    locks = read(desk.lock)
    small = locks.variants["small"]

    def change(**entries: object) -> None:
        """Write the lock with another variant `small`."""
        changed: VariantLock = small.model_copy(update=entries)
        write(desk.lock, locks.model_copy(update={"variants": {**locks.variants, "small": changed}}))

    # A package that every mirror has dropped.
    (tree,) = [package for package in small.apt if package.name == "tree"]
    path = tree.path.replace(tree.version, "1.0-0")
    old = tree.model_copy(update={"version": "1.0-0", "path": path, "sha256": "0" * 64})
    change(apt=tuple(old if package is tree else package for package in small.apt))
    output = desk.run("build", desk.small, code=4)
    assert "apt package tree 1.0-0 is on no mirror any more" in output
    assert "--update apt" in output and "--drift" in output
    drift = f"tree 1.0-0 -> {tree.version}"
    assert drift in desk.run("build", "--drift", desk.small)
    assert json.loads(engine.image(desk.small_image).labels["reprokit.drift"]) == [drift]
    output = desk.run("build", desk.small)
    assert "is up to date" in output and "built with --drift" in output

    # A file that the lock does not name.
    before = engine.image(desk.small_image)
    change(files=())
    address = f"http://127.0.0.2:{served[1]}/notes.txt"
    output = desk.run("build", desk.small, code=1)
    assert f"undeclared download: {address}" in output and "--record" in output, output
    output = desk.run("build", "--record", desk.small)
    line = next(line for line in output.splitlines() if "name: notes.txt" in line)
    assert f'- {{name: notes.txt, urls: ["{address}"], sha256: "{sha256(NOTES).hexdigest()}"' in line
    # Neither the image nor a step of it remains, which a locked build would take for its own.
    assert "is not kept" in output and engine.image(desk.small_image) == before
    assert f"undeclared download: {address}" in desk.run("build", desk.small, code=1)
