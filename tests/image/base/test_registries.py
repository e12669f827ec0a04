"""Registries: which mirrors stand in for whom, and that a dead one is asked last the next time."""

from __future__ import annotations

import pytest

from reprokit.errors import SourceError
from reprokit.image.base.registries import ask, mirrored, registries, registry_of


@pytest.fixture(autouse=True)
def _home(home) -> None:
    """Failures of registries are kept in the user's store."""


@pytest.fixture(autouse=True)
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", "one.test:5000/hub/, two.test")


def test_mirrors_stand_in_for_docker_hub_only():
    assert registries("debian:12") == [
        ("registry", "debian:12"),
        ("mirror one.test:5000/hub", "one.test:5000/hub/library/debian:12"),
        ("mirror two.test", "two.test/library/debian:12"),
    ]
    assert mirrored("docker.io/nvidia/cuda:1")[1] == ("two.test", "two.test/nvidia/cuda:1")
    assert mirrored("nvcr.io/nvidia/cuda:1") == mirrored("localhost/x:1") == []


@pytest.mark.parametrize(
    ("reference", "host"),
    [
        ("debian", "docker.io"),
        ("nvidia/cuda:1", "docker.io"),
        ("index.docker.io/x", "docker.io"),
        ("a.test/x", "a.test"),
        ("localhost/x", "localhost"),
        ("host:5000/x:1", "host:5000"),
    ],
)
def test_the_registry_of_a_name(reference: str, host: str):
    assert registry_of(reference) == host


def ask_twice(name: str, why: str) -> None:
    """Ask for debian:12 while the registry of `name` fails; the others answer with the image's name there."""

    def answer(place: str, asked_name: str) -> str:
        if asked_name == name:
            raise SourceError(why, asked_name)
        return asked_name

    for _ in range(2):
        tried: list[str] = []
        assert ask(name, tried, answer) == "one.test:5000/hub/library/debian:12"
        assert tried == [f"{name}: {why}"]


def test_a_dead_registry_is_asked_last():
    ask_twice("debian:12", "no answer within 20 s")
    assert [name for name, _ in registries("debian:12")] == ["mirror one.test:5000/hub", "mirror two.test", "registry"]
    # It served again.
    assert ask("debian:12", [], lambda place, name: name if place == "registry" else _fail(name)) == "debian:12"
    assert registries("debian:12")[0][0] == "registry"


def _fail(name: str) -> str:
    raise SourceError("manifest unknown", name)


@pytest.mark.parametrize("why", ["manifest unknown", "pull access denied for x", "unauthorized: log in"])
def test_one_that_has_not_the_image_is_not_dead(why: str):
    ask_twice("debian:12", why)
    assert registries("debian:12")[0][0] == "registry"
