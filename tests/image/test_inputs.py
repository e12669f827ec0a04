"""The hash over everything that an image is made of."""

from __future__ import annotations

from reprokit.image.base.resolve import BaseImage
from reprokit.image.inputs import Inputs
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import Distribution, GitCommit
from reprokit.supply.served_set import ServedSet
from tests.support.builds import rendered

BASE = BaseImage("debian:12", "debian:12", "sha256:" + "1" * 64, "engine", "sha256:" + "2" * 64)


def test_every_input_changes_the_hash():
    wheel = Distribution(name="six", version="1.16.0", file="six-1.16.0-py3-none-any.whl", sha256="a" * 64, size=1)
    commit = GitCommit(url="https://forge.test/a/b", commit="c" * 40, tree="d" * 40)
    plain = Inputs(rendered("FROM x\n"), BASE, ServedSet())
    others = [
        Inputs(rendered("FROM x\nENV A=1\n"), BASE, ServedSet()),
        Inputs(rendered("FROM x\n"), BaseImage("debian:12", "debian:12", "sha256:3", "registry"), ServedSet()),
        Inputs(rendered("FROM x\n"), BASE, ServedSet(wheels=[wheel])),
        Inputs(rendered("FROM x\n"), BASE, ServedSet(git=[commit])),
    ]
    assert len({plain.hash, *(i.hash for i in others)}) == 5
    moved = BaseImage("debian:bookworm", "other:name", BASE.image_id, "mirror x", BASE.digest)
    assert Inputs(rendered("FROM x\n"), moved, ServedSet()).hash == plain.hash


def test_only_declared_arguments_are_passed():
    assert Inputs(rendered("FROM x\n"), BASE, ServedSet()).arguments == {}
    declaring = rendered("ARG REPROKIT_GIT=https://\nARG REPROKIT_WHEELS=\nFROM x\n")
    found = Inputs(declaring, BASE, ServedSet()).arguments
    assert found["REPROKIT_GIT"] == "http://git.reprokit.invalid/"
    assert found["REPROKIT_WHEELS"] == f"http://wheels.reprokit.invalid/{content_key(())}/simple/"
