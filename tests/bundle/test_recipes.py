"""Recipes in bundles with the files that they name: patches, requirements, environments, own blocks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from reprokit import paths
from reprokit.bundle.model import BesideFile, RecipeText
from reprokit.bundle.read import opened
from reprokit.bundle.recipes import MOST_BESIDE, Recipes, beside, collected, put_unknown
from reprokit.errors import UsageError
from reprokit.image.lock.read import sections
from reprokit.image.render import render
from reprokit.recipe.find import load_recipe, recipe_file, target
from reprokit.supply.lock.file import lock_path, read, write
from reprokit.supply.store import Store
from tests.support.rendering import PAPER, source
from tests.support.stores import a_lock, export_inputs, import_from

BLOCK = "{#\ndoes: a mark.\n#}\n{% block final %}\nRUN touch /mark\n{% endblock %}\n"
FILES = {
    "patches/latin-1.patch": b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\xe9\n+\xe8\n",
    "requirements.txt": b"-r more/base.txt\nnumpy==1.23.5\n",
    "more/base.txt": b"six==1.16.0\n",
    "environment.yml": b"channels: [conda-forge]\ndependencies: [ffmpeg=6.0]\n",
    "blocks/mark.j2": BLOCK.encode(),
}
VARIANT = {
    "base": "debian:12",
    "pins": {"python": "3.11"},
    "sources": [source("code", "/opt/code", patches=["patches/latin-1.patch"])],
    "wheels": [{"file": "requirements.txt"}],
    "conda": [{"file": "environment.yml"}],
    "blocks": ["python", "git", "conda", "wheels", "mark"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the recipe `x`, whose variant names all the files; `incomplete` names one that is missing."""
    recipes = tmp_path / "recipes"
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [recipes])
    other = {"base": "debian:12", "wheels": [{"file": "gone.txt"}], "blocks": ["python", "wheels"]}
    data = {"name": "x", "paper": PAPER, "variants": {"v": VARIANT, "incomplete": other}}
    recipes.mkdir(parents=True, exist_ok=True)
    (recipes / "x.yaml").write_text(yaml.safe_dump(data))
    for name, content in FILES.items():
        (recipes / name).parent.mkdir(exist_ok=True)
        (recipes / name).write_bytes(content)
    of_v = target("x:v")
    made = a_lock("x").variants["cpu"].model_copy(update={"inputs": sections(of_v, render(of_v), "x86_64")})
    write(lock_path(recipes / "x.yaml"), a_lock("x").model_copy(update={"variants": {"v": made}}))
    return recipes


def texts(folder: Path) -> list[RecipeText]:
    return [RecipeText(name="x", recipe=(folder / "x.yaml").read_text(), lock=lock_path(folder / "x.yaml").read_text())]


def labels(variant: str = "v") -> dict[str, str]:
    return {"reprokit.recipe": "x", "reprokit.variant": variant}


@pytest.mark.parametrize("name", ["blocks", "x.lock"])
def test_a_recipe_is_not_put_where_others_find_blocks_or_locks(name: str):
    text = yaml.safe_dump({"name": name, "paper": PAPER, "variants": {"v": VARIANT}})
    with pytest.raises(ValidationError, match="is a name of own blocks or of a lock"):
        RecipeText(name=name, recipe=text, lock="")
    unchecked = RecipeText.model_construct(name=name, recipe=text, lock="")
    with pytest.raises(UsageError, match="is a name of own blocks or of a lock"):
        Recipes([unchecked], [], "x.rkit")


@pytest.mark.slow
def test_a_bundle_of_inputs_brings_all_files_and_the_recipe_renders_there(folder, store, tmp_path, monkeypatch):
    export_inputs(["x:v"], tmp_path / "x.rkit", store)
    with opened(tmp_path / "x.rkit") as bundle:
        assert {file.path: file.content for file in bundle.metadata.beside} == FILES
    before, fresh = render(target("x:v")), read(folder / "x.lock.yaml").variants["v"].inputs
    there, node = tmp_path / "there", Store(tmp_path / "node")
    for _ in range(2):  # equal files are no conflict
        import_from(tmp_path / "x.rkit", node, there)
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [there])
    assert recipe_file("x") == there / "x" / "x.yaml" and load_recipe("x").name == "x"
    assert {name: (there / "x" / name).read_bytes() for name in FILES} == FILES
    imported = target("x:v")
    assert render(imported) == before and sections(imported, render(imported), "x86_64") == fresh
    assert node.used_locks() == [there / "x" / "x.lock.yaml"]


def test_an_image_goes_without_files_that_are_missing_but_its_inputs_do_not(
    folder: Path, store: Store, tmp_path: Path, reported: list[str]
):
    assert {file.path for file in beside([labels(), labels()], [])} == FILES.keys() and not reported
    assert {file.path for file in beside([labels("incomplete")], [])} == FILES.keys()
    assert len(reported) == 1 and "not all files beside it: cannot read 'gone.txt'" in reported[0]
    assert beside([{}, {"reprokit.recipe": "unknown"}], []) == ()
    (folder / "more/base.txt").unlink()
    with pytest.raises(UsageError, match=r"cannot read 'more/base\.txt'"):
        export_inputs(["x:v"], tmp_path / "x.rkit", store)
    assert not (tmp_path / "x.rkit").exists()


def test_a_block_of_another_folder_is_carried_and_not_missed(folder: Path, tmp_path: Path, monkeypatch):
    (folder / "blocks").rename(tmp_path / "mine")
    monkeypatch.setenv("REPROKIT_BLOCKS", str(tmp_path / "mine"))
    files = collected(folder / "x.yaml", ["v"])
    assert {file.path for file in files} == FILES.keys()
    assert Recipes(texts(folder), files, "b").differing("x", folder / "x.yaml") == []


@pytest.mark.slow
def test_what_is_too_large_or_has_no_plain_name_is_named(folder: Path):
    (folder / "requirements.txt").write_text("-r .hidden.txt\n")
    (folder / ".hidden.txt").write_text("six==1.16.0\n")
    with pytest.raises(UsageError, match=r"cannot carry the file '\.hidden\.txt' of x"):
        collected(folder / "x.yaml", ["v"])
    (folder / "requirements.txt").write_text("six==1.16.0\n" + "# more\n" * (1 << 17))
    data = yaml.safe_load((folder / "x.yaml").read_text())
    for name in (f"p{number}.patch" for number in range(MOST_BESIDE >> 20)):
        data["variants"]["v"]["sources"][0]["patches"].append(name)
        (folder / name).write_bytes(bytes(1 << 20))
    (folder / "x.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(UsageError, match="the files beside the recipes have"):
        beside([labels()], [])


def test_a_recipe_that_is_unknown_gets_a_folder_of_its_own(folder: Path, tmp_path: Path, monkeypatch):
    recipes = Recipes(texts(folder), collected(folder / "x.yaml"), "b")
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [paths.carried_recipes()])
    line = f"the recipe x was not known here and is in {tmp_path / 'home/recipes/x'} now"
    assert put_unknown({"x": recipes}) == [line]
    there = recipe_file("x").parent
    assert [*render(target("x:v")).context.values()] == [FILES["patches/latin-1.patch"]] and put_unknown(
        {"x": recipes}
    ) == []
    (there / "more/base.txt").write_text("mine")
    (there / "blocks/mark.j2").unlink()
    (line,) = put_unknown({"x": recipes})
    assert line == f"{there / 'more/base.txt'} and {there / 'blocks/mark.j2'}: not what the image was built from"


def test_nothing_is_overwritten(folder: Path, store: Store, tmp_path: Path, monkeypatch):
    export_inputs(["x:v"], tmp_path / "x.rkit", store)
    there, node = tmp_path / "there", Store(tmp_path / "node")
    mine = there / "x" / "patches" / "latin-1.patch"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(UsageError, match="another file of this name exists") as error:
        import_from(tmp_path / "x.rkit", node, there)
    assert error.value.where == str(mine) and mine.read_text() == "mine" and not (there / "x/x.yaml").exists()
    # A load goes on, because the images are loaded by then.
    monkeypatch.setattr(paths, "carried_recipes", lambda: there)
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [there])
    (line,) = put_unknown({"x": Recipes(texts(folder), collected(folder / "x.yaml"), "b")})
    assert line == f"the recipe x was not written: another file of this name exists ({mine})"
    mine.unlink()
    # The same recipe without a folder of its own: nothing is put beside the user's other recipes.
    (there / "x.yaml").write_bytes((folder / "x.yaml").read_bytes())
    with pytest.raises(UsageError, match="without this file of it"):
        import_from(tmp_path / "x.rkit", node, there)
    assert sorted(path.name for path in there.iterdir()) == ["x", "x.yaml"]


def test_a_recipe_without_files_stays_a_single_file(folder: Path, tmp_path: Path):
    text = yaml.safe_dump({"name": "x", "paper": PAPER, "variants": {"v": {"base": "debian:12"}}})
    recipes = Recipes([RecipeText(name="x", recipe=text, lock="")], [], "b")
    recipes.put(tmp_path / "there", Store(tmp_path / "node"))
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["x.yaml"]


def test_content_is_any_bytes():
    made = BesideFile.model_validate_json('{"recipe": "x", "path": "a.patch", "content": "/+4="}')
    assert made.content == b"\xff\xee" and BesideFile.model_validate_json(made.model_dump_json()) == made
