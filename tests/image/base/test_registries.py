"""Registries: which mirrors stand in for whom, and that a dead one is asked last the next time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reprokit.errors import SourceError
from reprokit.image.base.registries import ask, mirrored, places, registry_of

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(autouse=True)
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", "one.test:5000/hub/, two.test")


def test_mirrors_stand_in_for_docker_hub_only():
    assert places("debian:12") == [
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


def all_but(*names_and_why: str) -> Callable[[str, str], str]:
    """A question that each registry answers with the image's name there, except for these."""
    *names, why = names_and_why

    def answer(place: str, name: str) -> str:
        if name in names:
            raise SourceError(why, name)
        return name

    return answer


def fail(name: str, why: str) -> None:
    for _ in range(2):
        tried: list[str] = []
        assert ask(name, tried, all_but(name, why)) == "one.test:5000/hub/library/debian:12"
        assert tried == [f"{name}: {why}"]


def test_a_dead_registry_is_asked_last():
    fail("debian:12", "no answer within 20 s")
    assert [place for place, _ in places("debian:12")] == ["mirror one.test:5000/hub", "mirror two.test", "registry"]
    mirrors = [name for _, name in places("debian:12")[:2]]
    assert ask("debian:12", [], all_but(*mirrors, "manifest unknown")) == "debian:12"  # it served
    assert places("debian:12")[0][0] == "registry"


@pytest.mark.parametrize("why", ["manifest unknown", "pull access denied for x", "unauthorized: log in"])
def test_one_that_has_not_the_image_is_not_dead(why: str):
    fail("debian:12", why)
    assert places("debian:12")[0][0] == "registry"
