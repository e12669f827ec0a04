"""Whose image it is: decided by IDs that this installation built or was told to trust, never by labels."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import subprocess
import sys
from contextlib import ExitStack, nullcontext

import pytest

from reprokit.bundle.load import checked, signer
from reprokit.errors import EngineError, ReprokitError, WorkFailed
from reprokit.image import trust
from reprokit.image.events import Note
from tests.support.builds import TOOLS, Builds, root_file_system
from tests.support.images import tar_of
from tests.support.made import Made
from tests.support.names import unique
from tests.support.strangers import User, new_key, signed

pytestmark = pytest.mark.engine

MADE = "# block tool\nENV TOOL=1\nRUN echo made >/made\n"
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  cpu:
    base: {base}
benchmarks:
  one:
    command: echo 1 ms
    parse: {{values: [{{pattern: '(?P<value>[0-9]+) ms', metric: time, unit: ms}}]}}
"""


@pytest.fixture(scope="module")
def base(engine):
    """A small base with what containers need."""
    name = unique("trust-base")
    tools = root_file_system((*TOOLS, "bash", "tail", "mkdir", "date", "find", "touch", "truncate"))
    engine.import_image(io.BytesIO(tools), name, "1", ["ENV PATH=/bin"])
    # The first step of every recipe installs packages; there are none to be had here.
    files = {"bin/apt-get": b"#!/bin/sh\n", "etc/ssl/certs/ca-certificates.crt": b"none"}
    context = tar_of({"Dockerfile": f"FROM {name}:1\nCOPY bin /bin\nCOPY etc /etc\n".encode(), **files})
    for event in engine.build(io.BytesIO(context), tag=f"{name}:1", rm=True):
        assert "error" not in event, event
    yield f"{name}:1"
    engine.remove_image(f"{name}:1", force=True)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def name(engine):
    """A recipe's name; every image and container of it is removed."""
    name = unique("trust")
    yield name
    for container in engine.containers([f"reprokit.recipe={name}"]):
        engine.remove(container["Id"], force=True)
    for image in engine.images([]):
        for tag in image.get("RepoTags") or []:
            if name in tag:
                with contextlib.suppress(ReprokitError):
                    engine.remove_image(tag, force=True)


def altered(engine, name: str) -> str:
    """A stranger's image under this name, with the labels that the image has; its ID."""
    context = tar_of({"Dockerfile": f"FROM {name}\nCOPY evil /evil\n".encode(), "evil": name.encode()})
    for event in engine.build(io.BytesIO(context), tag=name, rm=True):
        assert "error" not in event, event
    return engine.image(name)["Id"]


def test_a_copied_label_is_not_up_to_date(engine, base, home, monkeypatch):
    builds = Builds(engine, base, monkeypatch)
    name = f"reprokit/{builds.target.label}"
    try:
        first = builds(MADE)
        assert first.state == "built here" and not builds(MADE).built
        evil = altered(engine, name)
        assert engine.image(name)["Config"]["Labels"]["reprokit.inputs"] == first.inputs and evil != first.image_id
        again = builds(MADE)
        assert again.built and again.image_id != evil and engine.image(name)["Id"] == again.image_id
        notes = [event.text for event in builds.seen(Note) if "is unverified" in event.text]
        assert len(notes) == 1 and f"`reprokit trust add {builds.target.label}`" in notes[0]
        # Told to trust it, build takes it.
        engine.tag(evil, *name.split(":"))
        trust.record(engine, evil, "trusted", "test")
        kept = builds(MADE)
        assert not kept.built and kept.image_id == evil and kept.state == "trusted"
    finally:
        engine.remove_image(name, force=True)


def test_the_state_is_the_users_alone_and_forgets_images_that_are_gone(engine, home):
    image = engine.import_image(io.BytesIO(tar_of({"x": os.urandom(8)})), unique("trust"), "1", [])
    trust.record(engine, image, "trusted", "test")
    trust.record(engine, "sha256:" + "1" * 64, "trusted", "send", "ssh://elsewhere")
    folder = home / "state" / "trust"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert trust.state(image) == "trusted" and trust.state("sha256:" + "2" * 64) == "unverified"
    trust.record(engine, image, "built here", "build")
    trust.record(engine, image, "trusted", "test")
    assert trust.state(image) == "built here"
    engine.remove_image(image, force=True)
    trust.revoke(engine, [])
    assert set(trust.entries()) == {"sha256:" + "1" * 64}
    folder.chmod(0o777)
    with pytest.raises(EngineError, match="other users can change"):
        trust.state(image)
    folder.chmod(0o700)
    (folder / "images.json").write_text("[{")
    assert trust.state("sha256:" + "1" * 64) == "unverified"
    (folder / "images.json").unlink()
    (folder / "images.json").symlink_to("/etc/passwd")
    with pytest.raises(ReprokitError):
        trust.state(image)


def test_many_processes_lose_no_entry(engine, home):
    code = (
        "import sys; from reprokit.engine import Engine; from reprokit.image import trust\n"
        "for n in range(5): trust.record(Engine.connect(), f'sha256:{sys.argv[1]*63}{n}', 'trusted', 't', 'ssh://x')"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, digit]) for digit in "abc"]
    assert [process.wait(200) for process in running] == [0, 0, 0]
    assert len(trust.entries()) == 15


def test_an_image_is_unverified_until_a_key_or_the_user_says_otherwise(engine, name, tmp_path):
    full = f"reprokit/{name}:cpu"
    made = Made.of({full: [tar_of({"x": name.encode()})]}, labels={"reprokit.recipe": name})
    key, plain, path = new_key(tmp_path, "key"), made.write(tmp_path / "plain.rkit"), tmp_path / "signed.rkit"
    path.write_bytes(signed(made, key))

    def state(user: User) -> str:
        (row,) = [row for row in json.loads(user("trust", "list", "--json")) if full in row["names"]]
        return row["state"]

    user = User(tmp_path / "1")
    assert "plain.rkit is not signed: its maker is unknown" in user("load", plain)
    assert state(user) == "unverified"
    assert "is not signed" not in user("load", plain)
    assert "which --signed-by does not name" in user("load", path) and state(user) == "unverified"
    user("load", path, "--signed-by", f"{key}.pub")
    assert state(user) == "trusted"
    assert f"{full} is unverified" in user("trust", "revoke", full) and state(user) == "unverified"
    user("trust", "revoke", full, code=2)
    user("trust", "add", full)
    assert state(user) == "trusted" and "trusted" in user("trust", "list")
    user("trust", "add", f"reprokit/{unique('none')}:cpu", code=2)

    other = User(tmp_path / "2")
    assert state(other) == "unverified"
    other("load", plain, "--trust")
    assert state(other) == "trusted"


@pytest.mark.parametrize("swapped", [True, False])
def test_a_bundle_that_is_swapped_for_a_signed_one_is_not_taken_for_it(tmp_path, swapped):
    """In place, between the check of its content and that of its signature."""
    key = new_key(tmp_path, "key")
    good = Made.of({"reprokit/x:cpu": [tar_of({"x": b"good"})]})
    evil = Made.of({"reprokit/x:cpu": [tar_of({"x": b"evil"})]})
    path = tmp_path / "x.rkit"
    path.write_bytes(signed(evil, new_key(tmp_path, "theirs")) if swapped else signed(good, key))

    def swap(path):
        @contextlib.contextmanager
        def shown():
            yield lambda done, total: None
            path.write_bytes(signed(good, key))

        return shown() if swapped else nullcontext(lambda done, total: None)

    with ExitStack() as stack:
        (found,) = checked([path], stack, swap)
        if swapped:
            with pytest.raises(WorkFailed, match="not an allowed key"):
                signer(found.bundle, key.with_suffix(".pub"))
        else:
            assert signer(found.bundle, key.with_suffix(".pub")).startswith("SHA256:")


def test_run_and_bench_say_and_record_whose_image_it_is(engine, base, name, tmp_path):
    user = User(tmp_path / "builder")
    (user.here / "recipes").mkdir()
    (user.here / "recipes" / f"{name}.yaml").write_text(RECIPE.format(name=name, base=base))
    user("build", name)
    built = engine.image(f"reprokit/{name}:cpu")["Id"]

    def measured(who: User) -> str:
        lines = (user.here / "results" / f"{name}.jsonl").read_text().splitlines()
        record = json.loads(lines[-1])
        assert record["image_digest"] == built
        return record["image_state"]

    assert "unverified" not in user("bench", name) and measured(user) == "built here"
    assert "unverified" not in user.process("run", name, "--", "true")
    other = User(tmp_path / "other")
    other.here = user.here
    assert other("bench", name).count("is unverified: neither built here nor trusted") == 1
    assert measured(other) == "unverified" and engine.image(f"reprokit/{name}:cpu")["Id"] == built
    assert other.process("run", name, "--", "true").count("is unverified") == 1
    assert other.process("exec", name, "--", "true").count("is unverified") == 1
    assert "the image is unverified" in other("results", "show", name)
    other("trust", "add", name)
    assert "unverified" not in other.process("run", name, "--", "true")
    assert "unverified" not in other("bench", name) and measured(other) == "trusted"
