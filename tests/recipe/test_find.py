"""Names of recipes and variants as users write them."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.recipe import find

TEXT = """\
name: {name}
paper: {{title: {title}, venue: V, year: 2020, licence: MIT}}
variants: {{a: {{base: debian:12}}}}
"""


def write(folder, name, title="T"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(TEXT.format(name=name, title=title))


def test_the_current_folder_comes_first_and_gives_the_default_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_RECIPES", str(tmp_path / "more"))
    write(tmp_path / "more", "extra")
    (tmp_path / "more" / "extra.lock.yaml").write_text("")
    assert {"extra", "faith"} <= set(find.default_names(False))
    (tmp_path / "recipes").mkdir()
    with pytest.raises(UsageError, match="this folder has no recipe"):
        find.default_names(False)
    write(tmp_path / "recipes", "faith", "Mine")
    write(tmp_path / "recipes" / "mk", "mk")
    assert find.default_names(False) == ["faith", "mk"]
    assert {"extra", "faith", "mk", "featgraph"} <= set(find.default_names(True))
    assert find.target("faith").recipe.paper.title == "Mine"
    assert {"extra", "faith", "featgraph"} <= set(find.recipe_names()) and "extra.lock" not in find.recipe_names()


def test_the_variants_that_a_name_means():
    assert find.target("featgraph").label == "featgraph:cpu"
    names = ("cpu", "cuda-debian", "cuda", "as-published")
    assert [t.label for t in find.targets("featgraph")] == [f"featgraph:{name}" for name in names]
    # A historic variant is meant only by its own name.
    assert [t.label for t in find.current_targets(["taco"])] == ["taco:cpu", "taco:cuda-debian"]
    assert [t.label for t in find.current_targets(["taco:as-published"])] == ["taco:as-published"]


def test_a_misspelt_name_names_the_right_one():
    with pytest.raises(UsageError) as caught:
        find.targets("featgrph")
    assert "unknown recipe 'featgrph'; did you mean featgraph?" in caught.value.message
    assert "fused-attention" in caught.value.hint
    with pytest.raises(UsageError, match=r"no variant 'cude'; did you mean cuda\?") as caught:
        find.target("featgraph:cude")
    assert "cuda-debian" in caught.value.hint


def test_a_recipe_by_the_path_of_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "paper: one", "mine")
    write(tmp_path, "faith", "Mine")
    for text in ("./paper: one/mine.yaml", "paper: one/mine.yaml:a", f"{tmp_path}/paper: one/mine.yaml"):
        assert find.target(text).path == tmp_path / "paper: one" / "mine.yaml"
        assert find.target(text).label == "mine:a" and find.is_recipe(text)
        assert find.plain(text) in ("mine", "mine:a")
    assert find.target("faith.yaml").recipe.paper.title == "Mine" != find.target("faith").recipe.paper.title
    assert [t.label for t in find.current_targets(["faith.yaml"])] == ["faith:a"]
    for text, message in (("gone.yaml", "no such recipe file"), ("x.lock.yaml", "is a lock"), ("faith.yaml:b", "'b'")):
        with pytest.raises(UsageError, match=message):
            find.target(text)
    assert not find.is_recipe("debian:12") and find.plain("debian:12") == "debian:12"
