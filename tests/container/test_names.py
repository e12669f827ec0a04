from __future__ import annotations

from dataclasses import replace

import pytest

from reprokit.container.names import RecipeContainer, find, known, settings_of
from reprokit.container.settings import ContainerSettings
from reprokit.errors import UsageError

FAITH = RecipeContainer("reprokit-faith-cuda", "faith", "cuda", "sha256:1", 1000, "running", 0, ContainerSettings())
CPU = replace(FAITH, name="reprokit-faith-cpu", variant="cpu")
MINE = replace(FAITH, name="mine")
GRAPH = replace(FAITH, name="reprokit-featgraph-cpu", recipe="featgraph", variant="cpu")
THEIRS = replace(GRAPH, name="reprokit-thgnn-cuda", recipe="thgnn", owner=1001)
ALL = [FAITH, CPU, MINE, GRAPH, THEIRS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mine", MINE),
        ("reprokit-faith-cpu", CPU),
        ("faith:cpu", CPU),
        ("faith:cuda", FAITH),  # `mine` is of it, too, but has a name of its own
        ("featgraph", GRAPH),
    ],
)
def test_what_users_call_it(text, expected):
    assert find(ALL, text, 1000) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("faith", "2 containers|3 containers"),
        ("feetgraph", "did you mean featgraph"),
        ("thgnn", "another user"),
        ("reprokit-thgnn-cuda", "another user"),
        ("", "no container"),
    ],
)
def test_what_is_no_container_of_theirs(text, words):
    with pytest.raises(UsageError, match=words):
        find(ALL, text, 1000)


def test_one_entry_of_the_engines_list():
    labels = {
        "reprokit.recipe": "faith",
        "reprokit.variant": "cuda",
        "reprokit.owner": "7",
        "reprokit.image": "sha256:9",
    }
    listed = {"Names": ["/reprokit-faith-cuda"], "State": "exited", "Created": 5}
    assert known(labels, listed) == RecipeContainer(
        "reprokit-faith-cuda", "faith", "cuda", "sha256:9", 7, "exited", 5, ContainerSettings()
    )
    assert settings_of({"reprokit.settings": "of another version"}) == ContainerSettings()
