"""A lock is stale exactly where the recipe says another thing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.errors import UsageError, WorkFailed
from reprokit.image.lock.read import fresh_lock, needed_lock, recipe_lock
from reprokit.image.lock.sections import sections, stale
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.supply.lock.file import lock_path, read, write
from reprokit.supply.lock.model import AptPackage, Base, Lock, VariantLock
from tests.support.rendering import source
from tests.support.rendering import target as target_of

FIELDS = {
    "pins": {"python": "3.11", "gcc": "12"},
    "apt": ["curl"],
    "wheels": ["numpy==1.26.4"],
    "sources": [source("code", "/opt/code")],
    "blocks": ["apt", "python", "wheels", "git"],
}


def lock_of(target: Target, machine: str = "x86_64") -> VariantLock:
    return VariantLock(
        reprokit="1.0",
        inputs=sections(target, render(target), machine),
        python="3.11",
        glibc="2.36",
        machine=machine,
        base=Base(reference=target.variant.base, digest="sha256:" + "1" * 64),
    )


def changed(tmp_path: Path, **fields: object) -> list[str]:
    lock = lock_of(target_of(tmp_path, **FIELDS))
    other = target_of(tmp_path, **{**FIELDS, **fields})
    return stale(other, render(other), lock)


@pytest.mark.parametrize(
    ("fields", "sections_of_it"),
    [
        ({}, []),
        ({"description": "another word", "env": {"A": "1"}}, []),
        ({"apt": ["curl", "jq"]}, ["apt"]),
        ({"wheels": ["numpy==1.26.3"]}, ["wheels"]),
        ({"wheel_indexes": ["https://wheels.test/simple"]}, ["wheels"]),
        ({"wheels": ["numpy==1.26.4", "setuptools==68.2.2"], "sdists": [{"package": "six==1.16.0"}]}, ["wheels"]),
        ({"sources": [source("code", "/opt/code", submodules=True)]}, ["git"]),
        ({"sources": [source("code", "/opt/code", commit="f" * 40)]}, ["git"]),
        ({"sources": [source("code", "/opt/elsewhere")]}, []),
        ({"services": {"db": {"image": "x:1", "ports": [1]}}}, ["services"]),
        ({"services": {"db": {"recipe": "x", "command": ["y"], "ports": [1]}}}, []),
        ({"base": "debian:11", "pins": {"python": "3.11"}}, ["base", "apt", "wheels"]),
    ],
)
def test_what_makes_which_section_stale(tmp_path, fields, sections_of_it):
    assert changed(tmp_path, **fields) == sections_of_it


CONDA = {"base": "debian:12", "pins": {"python": "3.11", "cuda": "11.8"}, "conda": ["pytorch"], "blocks": ["conda"]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"env": {"A": "1"}}, False),
        ({"pins": {"python": "3.11", "cuda": "12.4"}}, True),
        ({"base": "debian:10"}, True),
        ({"conda": ["pytorch=2"]}, True),
    ],
)
def test_conda_is_solved_for_a_c_library_and_a_cuda(tmp_path, fields, expected):
    lock = lock_of(target_of(tmp_path, **CONDA))
    other = target_of(tmp_path, **{**CONDA, **fields})
    assert ("conda" in stale(other, render(other), lock)) is expected


def test_a_block_of_another_name_makes_split_sets_stale_and_no_earlier_lock(tmp_path):
    """A split lock names blocks; a set that no block takes in would leave another block without its packages."""
    target = target_of(tmp_path, **FIELDS)
    package = {"name": "curl", "version": "1", "architecture": "all", "archive": "debian", "path": "a", "size": 1}
    split = AptPackage.model_validate({**package, "sha256": "1" * 64, "blocks": ("apt",)})
    flat = split.model_copy(update={"blocks": ()})
    made = render(target)
    other = replace(made, installs=tuple(replace(i, block=i.block.replace("apt", "own")) for i in made.installs))
    for package, changed in ((split, ["apt"]), (flat, [])):
        lock = lock_of(target).model_copy(update={"apt": (package,)})
        lock = lock.model_copy(update={"inputs": sections(target, made, "x86_64", lock.by_block)})
        assert stale(target, made, lock) == []
        assert stale(target, other, lock) == changed


def test_every_section_is_hashed_by_itself(tmp_path):
    target = target_of(tmp_path, **FIELDS)
    found = sections(target, render(target), "x86_64")
    assert len(set(found.values())) >= 5
    assert found == sections(target, render(target), "x86_64")
    assert found["apt"] != sections(target, render(target), "aarch64")["apt"]


def test_a_stale_lock_is_refused_and_a_missing_one_is_named(tmp_path):
    target = target_of(tmp_path, **FIELDS)
    assert recipe_lock(target).variants == {} and fresh_lock(target, render(target)) is None
    with pytest.raises(UsageError, match="paper:v has no lock"):
        needed_lock(target)
    lock = lock_of(target)
    write(lock_path(target.path), Lock(recipe="paper", variants={"v": lock}))
    assert needed_lock(target) == lock
    other = target_of(tmp_path, **{**FIELDS, "apt": ["jq"], "sources": [source("code", "/opt/code", commit="e" * 40)]})
    with pytest.raises(WorkFailed, match="stale: apt, git changed in the recipe") as raised:
        fresh_lock(other, render(other))
    assert "reprokit lock paper:v" in raised.value.hint


def test_the_hash_of_a_lock_is_that_of_its_inputs(tmp_path):
    lock = lock_of(target_of(tmp_path, **FIELDS))
    assert lock.hash == lock.model_copy(update={"reprokit": "2.0"}).hash
    assert lock.hash != lock.model_copy(update={"machine": "aarch64"}).hash


def test_services_are_locked_apart_from_the_image(tmp_path):
    """Another image, or none, makes the section stale; what the variant's own image is built from stays the same."""
    service = {"image": "x:1", "ports": [1]}
    with_db = target_of(tmp_path, **FIELDS, services={"db": service})
    base = Base(reference="x:1", digest="sha256:" + "2" * 64)
    lock = lock_of(with_db).model_copy(update={"services": {"db": base}})
    assert stale(with_db, render(with_db), lock) == []
    assert base in lock.bases and lock.hash == lock_of(with_db).hash
    for services in ({"db": {**service, "image": "x:2"}}, {"dc": service}, {}):
        other = target_of(tmp_path, **FIELDS, services=services)
        assert stale(other, render(other), lock) == ["services"]
    other = target_of(tmp_path, **FIELDS, services={"db": {**service, "env": {"A": "b"}, "ports": [2]}})
    assert stale(other, render(other), lock) == []
    path = lock_path(with_db.path)
    write(path, Lock(recipe="paper", variants={"v": lock}))
    assert read(path).variants["v"] == lock
    path.write_text(path.read_text().replace("db:", "'../db':"))
    with pytest.raises(UsageError, match="services"):
        read(path)
