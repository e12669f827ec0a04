"""Whether an image is what recipe and lock would give now."""

from __future__ import annotations

import pytest

from reprokit.engine import LABEL
from reprokit.image.labels import DOCKERFILE, INPUTS
from reprokit.image.lock.read import freshness, stale_image
from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base, Lock, VariantLock
from tests.support.rendering import source
from tests.support.rendering import target as target_of

FIELDS = {"pins": {"python": "3.11"}, "wheels": ["six==1.16.0"], "blocks": ["python", "wheels"]}
CHANGED = {**FIELDS, "wheels": ["six==1.17.0"]}


def labels_of(target, lock: VariantLock | None = None) -> dict[str, str]:
    rendered = render(target)
    return {DOCKERFILE: rendered.digest, INPUTS: rendered.locked_hash(lock) if lock else "resolved"}


def locked(target) -> VariantLock:
    lock = VariantLock(
        reprokit="1.0",
        inputs=sections(target, render(target), "x86_64"),
        python="3.11",
        glibc="2.36",
        machine="x86_64",
        base=Base(reference=target.variant.base, digest="sha256:" + "1" * 64),
    )
    write(lock_path(target.path), Lock(recipe="paper", variants={"v": lock}))
    return lock


def test_without_a_lock_the_dockerfile_decides(tmp_path):
    target = target_of(tmp_path, **FIELDS)
    built = labels_of(target)
    assert (freshness(target, built), stale_image(target, built)) == ("no lock", None)
    changed = target_of(tmp_path, **CHANGED)
    problem, remedy, unknown = stale_image(changed, built)
    assert not unknown
    assert problem == "the image of paper:v is stale: recipe or lock have changed since it was built"
    assert remedy == "`reprokit build paper:v` renews it"
    # Images of earlier versions do not say which Dockerfile they were built from.
    assert stale_image(changed, {INPUTS: "resolved"}) is None


def test_with_a_lock_all_inputs_decide(tmp_path):
    target = target_of(tmp_path, **FIELDS)
    built = labels_of(target, locked(target))
    assert (freshness(target, built), stale_image(target, built)) == ("current", None)
    assert stale_image(target, {}).problem.endswith("since it was built")
    changed = target_of(tmp_path, **CHANGED)
    problem, remedy, unknown = stale_image(changed, built)
    assert not unknown and problem.endswith("the recipe has changed since it was locked")
    assert "`reprokit lock paper:v`" in remedy
    newly = locked(changed)
    assert stale_image(changed, built).remedy == "`reprokit build paper:v` renews it"
    assert stale_image(changed, labels_of(changed, newly)) is None


def test_an_image_with_newer_packages_than_the_lock_is_not_current(tmp_path):
    target = target_of(tmp_path, **FIELDS)
    built = {**labels_of(target, locked(target)), f"{LABEL}.drift": '["tree 1 -> 2"]'}
    assert freshness(target, built) == "drifted"


@pytest.mark.parametrize("broken", [{"blocks": ["pyhton"]}, {"blocks": ["python"]}])
def test_a_recipe_that_cannot_be_built_has_no_fresh_image(tmp_path, broken):
    built = labels_of(target_of(tmp_path, **FIELDS))
    problem, remedy, unknown = stale_image(target_of(tmp_path, **{**FIELDS, **broken}), built)
    assert unknown and problem.startswith("it is unknown whether the image of paper:v is stale: its recipe cannot be")
    assert "reprokit check paper:v" in remedy


@pytest.mark.parametrize("with_lock", [False, True])
@pytest.mark.parametrize(
    ("file", "content", "fields"),
    [
        ("a.patch", "diff", {"sources": [source("a", "/opt/a", patches=["a.patch"])], "blocks": ["git"]}),
        ("more/all.txt", "six==1.16.0", {**FIELDS, "wheels": [{"file": "more/all.txt"}]}),
        (
            "environment.yml",
            "dependencies: [ffmpeg=6.0]",
            {"conda": [{"file": "environment.yml"}], "blocks": ["conda"]},
        ),
        ("blocks/own.j2", "{#\ndoes: x\n#}\n{% block final %}\nRUN true\n{% endblock %}", {"blocks": ["own"]}),
    ],
)
@pytest.mark.slow
def test_a_file_that_is_missing_makes_it_unknown(tmp_path, file, content, fields, with_lock):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    target = target_of(tmp_path, **fields)
    built = labels_of(target, locked(target) if with_lock else None)
    assert stale_image(target, built) is None
    (tmp_path / file).unlink()
    found = stale_image(target, built)
    assert found and found.unknown and found.line.startswith("it is unknown whether the image of paper:v is stale")
