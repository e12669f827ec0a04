"""Names of images: none that exists moves unasked, reprokit's own are out of reach, none leads to another address."""

from __future__ import annotations

import contextlib
import io
import json

import docker
import pytest

from reprokit.errors import ReprokitError, UsageError
from reprokit.image.labels import kind_of_name
from tests.support.images import tar_of
from tests.support.made import Made
from tests.support.names import unique
from tests.support.registry import Registry
from tests.support.strangers import User

pytestmark = pytest.mark.engine


@pytest.fixture
def user(tmp_path) -> User:
    return User(tmp_path)


@pytest.fixture
def recipe(engine):
    """A recipe's name; its images are removed."""
    name = unique("tags")
    yield name
    for image in engine.images([]):
        for reference in [*(image.get("RepoTags") or []), *(image.get("RepoDigests") or [])]:
            if name in reference:
                with contextlib.suppress(ReprokitError):
                    engine.remove_image(reference, force=True)


def own(engine, name: str, **labels: str) -> str:
    """The user's image `reprokit/NAME:cpu`; its ID."""
    labels = {"recipe": name, "variant": "cpu", **labels}
    changes = [f'LABEL reprokit.{key}="{value}"' for key, value in labels.items()]
    return engine.import_image(io.BytesIO(tar_of({"mine": name.encode()})), f"reprokit/{name}", "cpu", changes)


def by_digest(said: str) -> str:
    """What `push` prints."""
    return next(line for line in said.splitlines() if "@sha256:" in line)


def bundle(tmp_path, name: str):
    return Made.of({name: [tar_of({"theirs": name.encode()})]}).write(tmp_path / "x.rkit")


def test_load_moves_a_name_only_with_replace(engine, user, recipe, tmp_path):
    name, mine = f"reprokit/{recipe}:cpu", own(engine, recipe)
    path = bundle(tmp_path, name)
    said = user("load", path, code=2)
    assert f"error: there are other images called {name}" in said and "--replace allows it" in said
    assert engine.image(name)["Id"] == mine and not (user.home / "recipes").exists()
    assert f"{name} moved; it pointed to {mine}" in user("load", path, "--replace")
    assert engine.image(name)["Id"] != mine
    # What is there already needs no agreement, nor does a new name.
    assert "is present already" in user("load", path)
    assert json.loads(user("load", path, "--json")) == {"loaded": [], "present": [name]}
    assert "loaded" in user("load", bundle(tmp_path, f"reprokit/{recipe}:cuda"))


@pytest.mark.parametrize(
    "name",
    [
        "reprokit/base:debian-12",
        "reprokit/base:debian-12-0123456789abcdef",
        "docker.io/reprokit/base:debian-12",
        "index.docker.io/reprokit/base:debian-12",
        "localhost/reprokit/base:debian-12",
        "docker.io/reprokit/x:cpu",
        "library/reprokit/base:debian-12",
        "reprokit/base/x:cpu",
        "reprokit/x:cpu--failed",
        "reprokit/X:cpu",
        "reprokit/x:Cpu",
        "reprokit/x:latest--x",
        "reprokit-snapshot:x",
        "../containers/json",
        "../containers/json:x",
        "x/../../containers/json:x",
        "reprokit/../x:cpu",
        "reprokit/x",
        "reprokit/x:cpu@sha256:" + "0" * 64,
        "-x:1",
        "x:1?force=1",
        "x%2f..:1",
        "x y:1",
        "",
        "x" * 300 + ":1",
    ],
)
def test_no_bundle_takes_a_reserved_name_or_what_is_no_name(engine, user, tmp_path, name):
    assert kind_of_name(name) == "reserved"
    before = {image["Id"] for image in engine.images([])}
    content = [tar_of({"x": unique("reserved").encode()})]
    path = Made.of({name: content}).write(tmp_path / "x.rkit")
    for options in ([], ["--trust", "--replace", "--force", "--yes"]):
        assert "error: " in user("load", path, *options, code=2)
    made = Made.of({name: content}).images[0].id
    assert made not in before and engine.image(made) is None


def test_another_image_needs_a_bundle_that_is_trusted(engine, user, tmp_path):
    name = f"{unique('foreign')}/x:1".removeprefix("reprokit-")
    path = bundle(tmp_path, name)
    try:
        said = user("load", path, code=2)
        assert f"the bundle has {name}, which is not a recipe's image" in said and "--trust allows it" in said
        assert engine.image(name) is None
        assert f"loaded {name}" in user("load", path, "--trust")
    finally:
        with contextlib.suppress(ReprokitError):
            engine.remove_image(name, force=True)


@pytest.mark.parametrize(
    "name", ["debian:12", "nvidia/cuda:11.3.1-devel-ubuntu20.04", "nvcr.io/nvidia/pytorch:23.01-py3"]
)
def test_a_base_is_a_foreign_name(name):
    assert kind_of_name(name) == "foreign"


@pytest.mark.parametrize("name", ["reprokit/x:cpu", "reprokit/a.b_c-d:cuda-debian", "container/x:latest"])
def test_what_export_writes_of_recipes_and_containers_is_free(name):
    assert kind_of_name(name) == "recipe"


def test_no_name_leads_to_another_part_of_the_api(engine):
    evil = "../containers/json?all=1&x="
    calls = [engine.image, engine.container, engine.history, engine.remove_image, engine.remove, engine.start]
    for name in (evil, "../containers/json", "x/../../info", "/x", "x//y", "..", "a/./b", "x y", "x#y", "x" * 600):
        for call in calls:
            with pytest.raises(UsageError, match="not the name of an image or container"):
                call(name)
    # Without the check docker-py does ask for it.
    bare = docker.DockerClient.from_env().api
    assert "/../containers/json" in bare._url("/images/{0}/json", "../containers/json")
    assert isinstance(bare._result(bare._get(bare._url("/images/{0}", "../containers/json")), True), list)
    for name in ("debian:12", "h.lab:5000/x@sha256:" + "0" * 64, "sha256:" + "0" * 64):
        assert engine.image(name) is None or name == "debian:12"


def test_pull_moves_a_name_only_with_replace(engine, user, recipe, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    name = f"reprokit/{recipe}:cpu"
    theirs = own(engine, recipe)
    with Registry(engine) as registry:
        published = by_digest(user("push", f"{registry.host}/{recipe}:cpu"))
        for tag in engine.image(name)["RepoDigests"]:
            engine.remove_image(tag, force=True)
        engine.remove_image(name, force=True)
        mine = own(engine, recipe, who="me")
        assert mine != theirs
        for place in (f"{registry.host}/{recipe}:cpu", published):
            said = user("pull", place, code=2)
            assert f"error: there is another image called {name}" in said and "--replace" in said
            assert engine.image(name)["Id"] == mine and engine.image(published) is None
        said = user("pull", published, "--replace")
        assert engine.image(name)["Id"] == theirs and "is unverified" in said
        assert ", already present)" in user("pull", published)


def test_a_push_leaves_the_registrys_name_as_it_was(engine, user, recipe, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    own(engine, recipe)
    with Registry(engine) as registry:
        place = f"{registry.host}/{recipe}"
        other = engine.import_image(io.BytesIO(tar_of({"other": b"x"})), place, "cpu", [])
        user("push", f"{place}:cpu")
        assert engine.image(f"{place}:cpu")["Id"] == other


def test_a_registrys_labels_give_no_reserved_name(engine, user, recipe, monkeypatch, tmp_path):
    """By its digest an image says itself which variant it is."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    own(engine, recipe, variant="cpu--failed")
    with Registry(engine) as registry:
        published = by_digest(user("push", f"{registry.host}/{recipe}:cpu"))
        said = user("pull", published, code=1)
        assert "which is not a valid recipe" in said


def test_send_takes_no_reserved_name(engine, user):
    image = unique("tags")
    engine.import_image(io.BytesIO(tar_of({"x": image.encode()})), f"reprokit-{image}", "1", [])
    try:
        said = user("send", f"reprokit-{image}:1", "nobody@127.0.0.1:9", code=2)
        assert "this name is reserved" in said
    finally:
        engine.remove_image(f"reprokit-{image}:1", force=True)
