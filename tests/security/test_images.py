"""Names and trust of images: no name moves unasked, reprokit's own are out of reach, labels prove nothing."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import docker
import pytest

from reprokit.bundle.load import checked, signer
from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, UsageError, WorkFailed
from reprokit.image import trust
from reprokit.image.labels import kind_of_name
from tests.support.builds import TOOLS, Builds, root_file_system
from tests.support.images import built, tar_of
from tests.support.made import Made
from tests.support.names import unique
from tests.support.registry import Registry
from tests.support.strangers import User, new_key, signed

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


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """A recipe's name; every image and container of it is removed."""
    name = unique("images")
    yield name
    for container in engine.containers([f"reprokit.recipe={name}"]):
        engine.remove(container.id, force=True)
    for image in engine.images([]):
        for reference in [*image.names, *image.digests]:
            if name in reference:
                with contextlib.suppress(ReprokitError):
                    engine.remove_image(reference, force=True)


def own(engine: Engine, name: str, **labels: str) -> str:
    """The user's image `reprokit/NAME:cpu`; its ID."""
    labels = {"recipe": name, "variant": "cpu", **labels}
    changes = [f'LABEL reprokit.{key}="{value}"' for key, value in labels.items()]
    return engine.import_image(io.BytesIO(tar_of({"mine": name.encode()})), f"reprokit/{name}", "cpu", changes)


def bundle(folder: Path, name: str) -> Path:
    return Made.of({name: [tar_of({"theirs": name.encode()})]}).write(folder / "x.rkit")


RESERVED = [
    "reprokit/base:debian-12", "reprokit/base:debian-12-0123456789abcdef", "docker.io/reprokit/base:debian-12",
    "index.docker.io/reprokit/base:debian-12", "localhost/reprokit/base:debian-12", "docker.io/reprokit/x:cpu",
    "library/reprokit/base:debian-12", "reprokit/base/x:cpu", "reprokit/x:cpu--failed", "reprokit/X:cpu",
    "reprokit/x:Cpu", "reprokit/x:latest--x", "reprokit-snapshot:x", "../containers/json", "../containers/json:x",
    "x/../../containers/json:x", "reprokit/../x:cpu", "reprokit/x", "reprokit/x:cpu@sha256:" + "0" * 64, "-x:1",
    "x:1?force=1", "x%2f..:1", "x y:1", "", "x" * 300 + ":1",
]  # fmt: skip
FOREIGN = ["debian:12", "nvidia/cuda:11.3.1-devel-ubuntu20.04", "nvcr.io/nvidia/pytorch:23.01-py3"]
FREE = ["reprokit/x:cpu", "reprokit/a.b_c-d:cuda-debian", "container/x:latest"]
KINDS = {**dict.fromkeys(RESERVED, "reserved"), **dict.fromkeys(FOREIGN, "foreign"), **dict.fromkeys(FREE, "recipe")}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_which_names_are_reserved(name: str, kind: str):
    assert kind_of_name(name) == kind


@pytest.mark.parametrize("reserved", ["reprokit/base:debian-12", "reprokit/x:cpu--failed", "../containers/json:x", ""])
def test_no_bundle_takes_a_reserved_name(engine: Engine, user: User, tmp_path, reserved: str):
    content = [tar_of({"x": unique("reserved").encode()})]
    path = Made.of({reserved: content}).write(tmp_path / "x.rkit")
    for options in ([], ["--trust", "--replace", "--force", "--yes"]):
        assert "error: " in user("load", path, *options, code=2)
    assert engine.image(Made.of({reserved: content}).images[0].id) is None


def test_another_image_needs_a_bundle_that_is_trusted(engine: Engine, user: User, tmp_path):
    foreign = f"{unique('foreign')}/x:1".removeprefix("reprokit-")
    path = bundle(tmp_path, foreign)
    try:
        text = user("load", path, code=2)
        assert f"the bundle has {foreign}, which is not a recipe's image" in text and "--trust allows it" in text
        assert engine.image(foreign) is None
        assert f"loaded {foreign}" in user("load", path, "--trust")
    finally:
        with contextlib.suppress(ReprokitError):
            engine.remove_image(foreign, force=True)


def test_send_takes_no_reserved_name(engine: Engine, user: User):
    image = unique("images")
    engine.import_image(io.BytesIO(tar_of({"x": image.encode()})), f"reprokit-{image}", "1", [])
    try:
        assert "this name is reserved" in user("send", f"reprokit-{image}:1", "nobody@127.0.0.1:9", code=2)
    finally:
        engine.remove_image(f"reprokit-{image}:1", force=True)


def test_no_name_leads_to_another_part_of_the_api(engine: Engine):
    evil = "../containers/json?all=1&x="
    calls = [engine.image, engine.container, engine.history, engine.remove_image, engine.remove, engine.start]
    for name in (evil, "../containers/json", "x/../../info", "/x", "x//y", "..", "a/./b", "x y", "x#y", "\udcff"):
        for call in calls:
            with pytest.raises(UsageError, match="not the name of an image or container"):
                call(name)
    # Without the check docker-py does ask for it.
    bare = docker.DockerClient.from_env().api
    assert "/../containers/json" in bare._url("/images/{0}/json", "../containers/json")
    assert isinstance(bare._result(bare._get(bare._url("/images/{0}", "../containers/json")), True), list)
    for name in ("debian:12", "h.lab:5000/x@sha256:" + "0" * 64, "sha256:" + "0" * 64, "no-such-image"):
        assert engine.image(name) is None or name == "debian:12"


def test_load_moves_a_name_only_with_replace(engine: Engine, user: User, name: str, tmp_path):
    full, mine = f"reprokit/{name}:cpu", own(engine, name)
    path = bundle(tmp_path, full)
    text = user("load", path, code=2)
    assert f"error: there are other images called {full}" in text and "--replace allows it" in text
    assert engine.image(full).id == mine and not (user.home / "recipes").exists()
    assert f"{full} moved; it pointed to {mine}" in user("load", path, "--replace")
    assert engine.image(full).id != mine
    # What is there already needs no agreement, nor does a new name.
    assert "is present already" in user("load", path)
    assert json.loads(user("load", path, "--json")) == {"loaded": [], "present": [full]}
    assert "loaded" in user("load", bundle(tmp_path, f"reprokit/{name}:cuda"))


def test_push_and_pull_move_a_name_only_with_replace(engine: Engine, user: User, name: str, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    full, theirs = f"reprokit/{name}:cpu", own(engine, name)
    with Registry(engine) as registry:
        place = f"{registry.host}/{name}:cpu"

        def pushed() -> str:
            """The address by digest, which `push` prints."""
            return next(line for line in user("push", place).splitlines() if "@sha256:" in line)

        other = engine.import_image(io.BytesIO(tar_of({"other": b"x"})), f"{registry.host}/{name}", "cpu", [])
        published = pushed()
        assert engine.image(place).id == other  # a push leaves the registry's name as it was
        engine.remove_image(place)
        for tag in engine.image(full).digests:
            engine.remove_image(tag, force=True)
        engine.remove_image(full, force=True)
        mine = own(engine, name, who="me")
        assert mine != theirs
        for address in (place, published):
            text = user("pull", address, code=2)
            assert f"error: there is another image called {full}" in text and "--replace" in text
            assert engine.image(full).id == mine and engine.image(published) is None
        text = user("pull", published, "--replace")
        assert engine.image(full).id == theirs and "is unverified" in text
        assert ", already present)" in user("pull", published)
        # By its digest an image says itself which variant it is: the registry's labels give no reserved name.
        own(engine, name, variant="cpu--failed")
        assert "which is not a valid recipe" in user("pull", pushed(), code=1)


# --- Whose image it is: decided by IDs that this installation built or was told to trust


@pytest.fixture(scope="module")
def base(engine: Engine) -> Iterator[str]:
    """A small base with what containers need."""
    name = unique("trust-base")
    tools = root_file_system((*TOOLS, "bash", "tail", "mkdir", "date", "find", "touch", "truncate"))
    engine.import_image(io.BytesIO(tools), name, "1", ["ENV PATH=/bin"])
    # The first step of every recipe installs packages; the base has none of them.
    files = {"bin/apt-get": b"#!/bin/sh\n", "etc/ssl/certs/ca-certificates.crt": b"none"}
    built(engine, f"FROM {name}:1\nCOPY bin /bin\nCOPY etc /etc\n", files, tag=f"{name}:1")
    yield f"{name}:1"
    engine.remove_image(f"{name}:1", force=True)


def test_a_copied_label_is_not_up_to_date(engine: Engine, base: str, home: Path, monkeypatch):
    builds, dockerfile = Builds(engine, base, monkeypatch), "# block tool\nENV TOOL=1\nRUN echo made >/made\n"
    name = f"reprokit/{builds.target.label}"
    try:
        first = builds(dockerfile)
        assert first.state == "built here" and not builds(dockerfile).built
        evil = built(engine, f"FROM {name}\nCOPY evil /evil\n", {"evil": name.encode()}, tag=name)
        assert engine.image(name).labels["reprokit.inputs"] == first.inputs and evil != first.image_id
        again = builds(dockerfile)
        assert again.built and again.image_id != evil and engine.image(name).id == again.image_id
        notes = [note for note in builds.notes if "is unverified" in note]
        assert len(notes) == 1 and f"`reprokit images trust {builds.target.label}`" in notes[0]
        # Told to trust it, build takes it.
        engine.tag(evil, *name.split(":"))
        trust.record(engine, evil, "trusted", "test")
        kept = builds(dockerfile)
        assert not kept.built and kept.image_id == evil and kept.state == "trusted"
    finally:
        engine.remove_image(name, force=True)


def test_the_state_is_the_users_alone_and_forgets_images_that_are_gone(engine: Engine, home: Path):
    image = engine.import_image(io.BytesIO(tar_of({"x": os.urandom(8)})), unique("trust"), "1", [])
    elsewhere = "sha256:" + "1" * 64
    trust.record(engine, image, "trusted", "test")
    trust.record(engine, elsewhere, "trusted", "send", "ssh://elsewhere")
    folder = home / "state" / "trust"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert trust.state(image) == "trusted" and trust.state("sha256:" + "2" * 64) == "unverified"
    for state, origin in (("built here", "build"), ("trusted", "test")):
        trust.record(engine, image, state, origin)
        assert trust.state(image) == "built here"
    engine.remove_image(image, force=True)
    trust.revoke(engine, [])
    assert set(trust.entries()) == {elsewhere}
    folder.chmod(0o777)
    with pytest.raises(EngineError, match="other users can change"):
        trust.state(image)
    folder.chmod(0o700)
    (folder / "images.json").write_text("[{")
    assert trust.state(elsewhere) == "unverified"
    (folder / "images.json").unlink()
    (folder / "images.json").symlink_to("/etc/passwd")
    with pytest.raises(ReprokitError):
        trust.state(image)


@pytest.mark.engine
@pytest.mark.usefixtures("home")
def test_many_processes_lose_no_entry():
    def record(digit: str) -> None:
        for number in range(5):
            trust.record(Engine.connect(), f"sha256:{digit * 63}{number}", "trusted", "test", "ssh://x")

    fork = multiprocessing.get_context("fork")
    running = [fork.Process(target=record, args=(digit,)) for digit in "abc"]
    for process in running:
        process.start()
    for process in running:
        process.join(200)
    assert [process.exitcode for process in running] == [0, 0, 0] and len(trust.entries()) == 15


def test_an_image_is_unverified_until_a_key_or_the_user_says_otherwise(user: User, name: str, tmp_path):
    full = f"reprokit/{name}:cpu"
    made = Made.of({full: [tar_of({"x": name.encode()})]}, labels={"reprokit.recipe": name})
    key, plain, path = new_key(tmp_path, "key"), made.write(tmp_path / "plain.rkit"), tmp_path / "signed.rkit"
    path.write_bytes(signed(made, key))

    def state(user: User) -> str:
        (row,) = [row for row in json.loads(user("images", "--json")) if full == row["name"]]
        return row["state"]

    assert "plain.rkit is not signed: its maker is unknown" in user("load", plain)
    assert state(user) == "unverified"
    assert "is not signed" not in user("load", plain)
    assert "which --signed-by does not name" in user("load", path) and state(user) == "unverified"
    user("load", path, "--signed-by", f"{key}.pub")
    assert state(user) == "trusted"
    assert f"{full} is unverified" in user("images", "revoke", full) and state(user) == "unverified"
    user("images", "revoke", full, code=2)
    user("images", "trust", full)
    assert state(user) == "trusted" and "trusted" in user("images")
    user("images", "trust", f"reprokit/{unique('none')}:cpu", code=2)
    other = User(tmp_path / "2")
    assert state(other) == "unverified"
    other("load", plain, "--trust")
    assert state(other) == "trusted"


@pytest.mark.parametrize("swapped", [True, False])
def test_a_bundle_that_is_swapped_for_a_signed_one_is_not_taken_for_it(tmp_path, monkeypatch, swapped: bool):
    """In place, between the check of its content and that of its signature."""
    key, path = new_key(tmp_path, "key"), tmp_path / "x.rkit"
    good, evil = (Made.of({"reprokit/x:cpu": [tar_of({"x": content})]}) for content in (b"good", b"evil"))
    path.write_bytes(signed(evil, new_key(tmp_path, "theirs")) if swapped else signed(good, key))

    @contextlib.contextmanager
    def swap(text: str):
        yield lambda done, total: None
        path.write_bytes(signed(good, key))

    if swapped:
        monkeypatch.setattr("reprokit.bundle.load.progress", swap)
    with ExitStack() as stack:
        (loaded,) = checked([path], stack)
        if swapped:
            with pytest.raises(WorkFailed, match="not an allowed key"):
                signer(loaded.bundle, key.with_suffix(".pub"))
        else:
            assert signer(loaded.bundle, key.with_suffix(".pub")).startswith("SHA256:")


def test_run_and_bench_say_and_record_whose_image_it_is(engine: Engine, base: str, name: str, user: User, tmp_path):
    (user.here / "recipes").mkdir()
    (user.here / "recipes" / f"{name}.yaml").write_text(RECIPE.format(name=name, base=base))
    user("build", name)
    image = engine.image(f"reprokit/{name}:cpu").id

    def measured() -> str:
        record = json.loads((user.here / "results" / f"{name}.jsonl").read_text().splitlines()[-1])
        assert record["image_digest"] == image
        return record["image_state"]

    assert "unverified" not in user("bench", name) and measured() == "built here"
    assert "unverified" not in user.process("run", name, "--", "true")
    other = User(tmp_path / "other")
    other.here = user.here
    assert other("bench", name).count("is unverified: neither built here nor trusted") == 1
    assert measured() == "unverified" and engine.image(f"reprokit/{name}:cpu").id == image
    for verb in ("run", "exec"):
        assert other.process(verb, name, "--", "true").count("is unverified") == 1
    assert "the image is unverified" in other("results", "show", name)
    other("images", "trust", name)
    assert "unverified" not in other.process("run", name, "--", "true")
    assert "unverified" not in other("bench", name) and measured() == "trusted"
