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


def test_where_the_user_stands_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_RECIPES", str(tmp_path / "more"))
    write(tmp_path / "recipes", "faith", "Mine")
    write(tmp_path / "more", "extra")
    (tmp_path / "more" / "extra.lock.yaml").write_text("")
    assert find.load_recipe("faith").paper.title == "Mine"
    assert {"extra", "faith", "featgraph"} <= set(find.recipe_names()) and "extra.lock" not in find.recipe_names()


def test_a_historic_variant_is_meant_only_by_its_own_name():
    def meant(*names):
        return [t.label for t in find.current_targets(names)]

    assert meant("taco") == ["taco:cpu", "taco:cuda-debian"]
    assert meant("taco:as-published") == ["taco:as-published"]


def test_a_misspelt_recipe_names_the_right_one():
    with pytest.raises(UsageError) as caught:
        find.targets("featgrph")
    assert "unknown recipe 'featgrph'; did you mean featgraph?" in caught.value.message
    assert "fused-attention" in caught.value.hint


def test_a_misspelt_variant_names_the_right_one():
    with pytest.raises(UsageError, match=r"no variant 'cude'; did you mean cuda\?") as caught:
        find.target("featgraph:cude")
    assert "cuda-debian" in caught.value.hint


def test_a_name_alone_means_the_default_variant_or_all():
    assert find.target("featgraph").label == "featgraph:cpu"
    assert [t.label for t in find.targets("featgraph")] == [
        "featgraph:cpu",
        "featgraph:cuda-debian",
        "featgraph:cuda",
        "featgraph:as-published",
    ]
