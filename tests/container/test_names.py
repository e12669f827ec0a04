from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from reprokit.container.names import (
    ContainerOrigin,
    RecipeContainer,
    container_name,
    find,
    known_containers,
    of_purposes,
    settings_of,
)
from reprokit.container.settings import ContainerSettings
from reprokit.engine import ContainerInfo
from reprokit.errors import UsageError


def usual(recipe: str, variant: str, owner: int = 1000) -> RecipeContainer:
    name = container_name(recipe, variant, ContainerOrigin("", ""), owner)
    return RecipeContainer(name, recipe, variant, "sha256:1", owner, "running", 0, ContainerSettings())


FAITH, CPU, GRAPH = usual("faith", "cuda"), usual("faith", "cpu"), usual("featgraph", "cpu")
MINE = replace(FAITH, name="mine")
THEIRS = usual("thgnn", "cuda", 1001)
ALL = [FAITH, CPU, MINE, GRAPH, THEIRS]


def test_what_users_call_it():
    named = {"mine": MINE, CPU.name: CPU, "faith:cpu": CPU, "featgraph": GRAPH}
    named["faith:cuda"] = FAITH  # `mine` is of it, too, but has a name of its own
    assert {text: find(ALL, text, 1000) for text in named} == named
    # A short name means the variant that runs, or else the default.
    stopped = replace(FAITH, state="exited")
    assert find([stopped, CPU, MINE], "faith", 1000, None, "cuda") == CPU
    assert find([FAITH, CPU, MINE], "faith", 1000, None, "cuda") == FAITH
    assert find([stopped, replace(CPU, state="exited"), MINE], "faith", 1000, None, "cpu").variant == "cpu"


def test_what_is_no_container_of_theirs():
    messages = {"faith": "has 3 containers", "feetgraph": "did you mean featgraph", "": "no container"}
    for text, words in (messages | {"thgnn": "another user", THEIRS.name: "another user"}).items():
        with pytest.raises(UsageError, match=words):
            find(ALL, text, 1000)


def test_one_entry_of_the_engines_list():
    values = {"container": "reprokit-faith-cuda", "recipe": "faith", "variant": "cuda", "owner": "7"}
    labels = {f"reprokit.{key}": value for key, value in values.items()} | {"reprokit.image": "sha256:9"}
    listed = {"Id": "1", "Names": ["/reprokit-faith-cuda"], "State": "exited", "Created": 5, "Labels": labels}
    found = [listed, {**listed, "Names": ["/reprokit-faith-cuda.old-2"]}]
    found += [{**listed, "Names": [f"/{name}"]} for name in ("another", "another.old-1", "reprokit-faith-cuda.old")]
    assert known_containers(SimpleNamespace(containers=lambda labels: list(map(ContainerInfo.of, found)))) == [
        RecipeContainer(name, "faith", "cuda", "sha256:9", 7, "exited", 5, ContainerSettings())
        for name in ("reprokit-faith-cuda", "reprokit-faith-cuda.old-2")
    ]
    assert settings_of({"reprokit.settings": "of another version"}) == ContainerSettings()


A, B = (
    ContainerOrigin("/a/workspaces/faith", "/a/recipes/faith.yaml"),
    ContainerOrigin("/b/workspaces/faith", "/b/recipes/faith.yaml"),
)


def of(origin: ContainerOrigin, name: str = "", **fields: object) -> RecipeContainer:
    settings = ContainerSettings(workspace=origin.workspace, recipe_file=origin.recipe_file)
    return replace(FAITH, name=name or container_name("faith", "cuda", origin, 1000), settings=settings, **fields)


def test_a_recipes_name_means_the_container_of_this_checkout():
    mine, theirs = of(A), of(B)
    bench = of(A, f"{mine.name}-bench")
    for text in ("faith", "faith:cuda"):
        assert find([theirs, bench, mine], text, 1000, A) == mine
        assert find([theirs, bench, mine], text, 1000, B) == theirs
    assert find([theirs, bench], "faith", 1000, A) == bench
    # Another checkout's by its own name, and by the recipe's where the user stands in no checkout.
    assert find([theirs, mine], theirs.name, 1000, A) == theirs
    assert find([theirs], "faith", 1000) == theirs


def test_the_containers_of_a_recipes_benchmarks_belong_to_its_own():
    mine, theirs = of(A), of(B)
    bench, kept = of(A, f"{mine.name}-bench-gpu0"), of(A, f"{mine.name}.old-1")
    every = [mine, theirs, bench, kept, of(B, f"{theirs.name}-bench"), replace(bench, owner=1001)]
    assert of_purposes(every, mine) == [bench]
    assert of_purposes(every, bench) == of_purposes(every, kept) == []


def test_another_checkouts_container_is_named_and_not_used():
    message = f"no container of 'faith' belongs to this checkout: {of(A).name} (running) is of /a"
    other_file = replace(A, recipe_file="/elsewhere/recipes/faith.yaml")
    for checkout in (B, replace(A, workspace=B.workspace), other_file, ContainerOrigin("", A.recipe_file)):
        with pytest.raises(UsageError) as error:
            find([of(A)], "faith", 1000, checkout)
        assert message in error.value.message and of(A).name in error.value.hint


def test_names_differ_in_everything_that_containers_are_kept_apart_by():
    parts = [("faith", "cuda", A, 1), ("faith", "cuda", B, 1), ("faith", "cuda", A, 2)]
    # Dashes of one part cannot pass for those of the next.
    parts += [("faith", "cuda-x", A, 1), ("faith-cuda", "x", A, 1)]
    names = [container_name(*each) for each in parts]
    assert len({*names}) == len(names) and names == [container_name(*each) for each in parts]
    assert all(name.startswith("reprokit-faith-cuda-") and len(name) < 40 for name in names)
