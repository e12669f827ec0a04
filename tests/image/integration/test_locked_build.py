"""A recipe is locked, fetched and built as a user does it. test_identical_layers has the build without a network."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.supply.lock.file import read, write
from reprokit.supply.lock.model import VariantLock
from tests.support.desk import Desk

pytestmark = [
    pytest.mark.engine,
    pytest.mark.network,
    pytest.mark.long,
    pytest.mark.xdist_group("locked-whole"),
]

LOOK = """
cat /opt/top/top.txt /opt/top/3rd/leaf.txt /opt/notes.txt; tree --version
python3 -c "import six; print(six.__version__)"
find / -xdev \\( -name '*.whl' -o -name '*.deb' \\) -not -path '*/ensurepip/*' -not -path '/usr/share/python-wheels/*'
grep -rl reprokit.invalid /etc /root /opt /var /usr/local 2>/dev/null
ls -A /tmp /var/lib/apt/lists
cat /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null | grep -c reprokit || true
"""


@pytest.fixture(scope="module")
def desk(engine: Engine, debian_12, served, tmp_path_factory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("desk"), served[1])
    made.run("lock", made.recipe)
    yield made
    for image in (made.image, made.small_image):
        with contextlib.suppress(ReprokitError):
            engine.remove_image(image, force=True)


def test_locking_twice_gives_the_same_bytes_and_no_host(desk: Desk, served):
    first = desk.lock.read_bytes()
    assert "unchanged" in desk.run("lock", desk.recipe)
    row, _small = json.JSONDecoder().raw_decode(desk.run("lock", desk.recipe, "--json"))[0]["locks"]
    assert (row["recipe"], row["lock"], row["changed"]) == (f"{desk.recipe}:v", str(desk.lock), False)
    desk.run("lock", desk.recipe, "--update", "all")
    assert desk.lock.read_bytes() == first
    text = first.decode()
    assert sha256(b"notes of the paper\n").hexdigest() in text and "six-1.16.0-py2.py3-none-any.whl" in text
    assert text.count("forge.test") == 2
    hosts = {line.split("//")[1].split("/")[0] for line in text.split("'") if "//" in line}
    assert hosts <= {"forge.test", f"127.0.0.1:{served[1]}"}
    assert f"{desk.recipe}:v: up to date" in desk.run("lock", "--check", desk.recipe)


def test_a_warm_build_asks_nothing_outside_and_is_the_same_image(desk: Desk, engine: Engine, inside):
    desk.run("fetch", desk.recipe)
    assert "0 B downloaded" in desk.run("fetch", desk.recipe)
    built, _ = json.JSONDecoder().raw_decode(desk.run("build", desk.recipe, "--json"))
    assert (built["name"], built["image"]) == (desk.image, engine.image(desk.image)["Id"])
    records = sorted((desk.root / "home" / "state" / "builds").iterdir())
    record = json.loads(records[-1].read_text())
    assert record["hosts_asked"] == {} and record["asked_in_vain"] == {}
    assert "is up to date" in desk.run("build", desk.recipe)
    seen = inside(desk.image, LOOK)
    assert seen.startswith("top.txtleaf.txtnotes of the paper\n") and "1.16.0" in seen and "tree v" in seen
    assert "0" in seen.splitlines() and ".deb" not in seen and ".whl" not in seen and "invalid" not in seen


def test_other_bytes_at_the_same_address_are_refused(desk: Desk, served, tmp_path: Path):
    folder, _ = served
    same_size = "n0tes of the paper\n"
    try:
        (folder / "notes.txt").write_text(same_size)
        said = desk.run("fetch", desk.recipe, code=4, REPROKIT_HOME=str(tmp_path))
        for bytes_of in (b"notes of the paper\n", same_size.encode()):
            assert sha256(bytes_of).hexdigest() in said
        assert "notes.txt has changed upstream" in said
        (folder / "notes.txt").write_text("another size\n")
        assert "files: notes.txt" in desk.run("outdated", desk.recipe, code=1)
    finally:
        (folder / "notes.txt").write_text("notes of the paper\n")


def test_a_stale_lock_is_refused(desk: Desk):
    text = desk.file.read_text()
    desk.file.write_text(text.replace("apt: [tree]", "apt: [tree, file]"))
    try:
        assert "stale: apt" in desk.run("lock", "--check", desk.recipe, code=1)
        assert "reprokit lock" in desk.run("build", desk.recipe, code=1)
    finally:
        desk.file.write_text(text)


@pytest.fixture
def changed_lock(desk: Desk) -> Iterator[Callable[[VariantLock], None]]:
    """Writes the lock with another variant `small`, and the old one again at the end."""
    whole = read(desk.lock)

    def change(variant: VariantLock) -> None:
        write(desk.lock, whole.model_copy(update={"variants": {**whole.variants, "small": variant}}))

    yield change
    write(desk.lock, whole)


def test_what_every_mirror_has_dropped_is_named_and_drift_takes_what_follows(desk: Desk, engine: Engine, changed_lock):
    now = read(desk.lock).variants["small"]
    (tree,) = [package for package in now.apt if package.name == "tree"]
    old = tree.model_copy(
        update={"version": "1.0-0", "path": tree.path.replace(tree.version, "1.0-0"), "sha256": "0" * 64}
    )
    changed_lock(now.model_copy(update={"apt": tuple(old if p is tree else p for p in now.apt)}))
    said = desk.run("build", desk.small, code=4)
    assert "apt package tree 1.0-0 is on no mirror any more" in said
    assert "--update apt" in said and "--drift" in said
    said = desk.run("build", "--drift", desk.small)
    assert f"tree 1.0-0 -> {tree.version}" in said
    labels = engine.image(desk.small_image)["Config"]["Labels"]
    assert json.loads(labels["reprokit.drift"]) == [f"tree 1.0-0 -> {tree.version}"]
    said = desk.run("build", desk.small)
    assert "is up to date" in said and "built with --drift" in said


def test_what_the_lock_does_not_name_is_refused_by_name_and_recorded_on_demand(
    desk: Desk, engine: Engine, served, changed_lock
):
    before = engine.image(desk.small_image)
    changed_lock(read(desk.lock).variants["small"].model_copy(update={"files": ()}))
    address = f"http://127.0.0.1:{served[1]}/notes.txt"
    said = desk.run("build", desk.small, code=1)
    assert f"undeclared download: {address}" in said and "--record" in said, said
    said = desk.run("build", "--record", desk.small)
    found = sha256(b"notes of the paper\n").hexdigest()
    line = next(line for line in said.splitlines() if "name: notes.txt" in line)
    assert f'- {{name: notes.txt, urls: ["{address}"], sha256: "{found}"' in line
    # Neither the image nor a step of it remains, which a locked build would take for its own.
    assert "is not kept" in said and engine.image(desk.small_image) == before
    assert f"undeclared download: {address}" in desk.run("build", desk.small, code=1)
