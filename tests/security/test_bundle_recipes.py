"""The files beside a stranger's recipe stay in the recipe's own folder, and are no more than the recipe names."""

from __future__ import annotations

import base64
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
import yaml

from reprokit import paths
from reprokit.bundle.load import checked
from reprokit.bundle.model import BesideFile, RecipeText
from reprokit.bundle.read import opened
from reprokit.bundle.recipes import Recipes, of_images
from reprokit.errors import UsageError
from reprokit.image.render import render
from reprokit.recipe.blocks import own_block_files
from reprokit.recipe.find import recipe_files, target
from reprokit.supply.store import Store
from tests.support.images import tar_of
from tests.support.made import Made
from tests.support.names import unique
from tests.support.rendering import PAPER, source

BLOCK = b"{#\ndoes: a mark.\n#}\n{% block final %}\nRUN touch /mark\n{% endblock %}\n"


def text(name: str = "evil", patches: tuple[str, ...] = ("a.patch",), blocks: tuple[str, ...] = ("git",)) -> str:
    variant = {"base": "debian:12", "sources": [source("code", "/opt/code", patches=list(patches))]}
    return yaml.safe_dump({"name": name, "paper": PAPER, "variants": {"v": {**variant, "blocks": list(blocks)}}})


def beside(path: str, content: bytes = b"x", recipe: str = "evil") -> dict[str, str]:
    return {"recipe": recipe, "path": path, "content": base64.b64encode(content).decode()}


def recipes(recipe: str, *files: dict[str, str], name: str = "evil") -> Recipes:
    found = [BesideFile.model_validate_strings(file) for file in files]
    return Recipes([RecipeText(name=name, recipe=recipe, lock="")], found, "x.rkit")


def bundle(folder: Path, *files: dict[str, str], recipe: str = "") -> Path:
    name = f"reprokit/{unique('beside')}:v"
    made = Made.of({name: [tar_of({"a": b"a"})]}, recipe="evil", variant="v", recipe_text=recipe or text())
    made.metadata["beside"] = list(files)
    return made.write(folder / "x.rkit")


def test_the_files_that_a_recipe_names_are_taken(tmp_path: Path):
    with opened(bundle(tmp_path, beside("a.patch"))) as found:
        assert of_images(found.metadata, found.where)["evil"].files["evil"]["a.patch"] == b"x"


@pytest.mark.parametrize(
    "path",
    ["../a.patch", "/etc/a.patch", "a/../../b", ".envrc", "a/.git/config", "a//b", "./a", "a/", "", "a\nb", "a\\b"],
)
def test_no_path_leads_out_or_is_hidden(tmp_path: Path, path: str):
    with pytest.raises(UsageError, match=r"reprokit\.json is not valid"), opened(bundle(tmp_path, beside(path))):
        pass


@pytest.mark.parametrize(
    "path", ["conftest.py", "Makefile", "blocks/cuda.j2", "victim.yaml", "evil.yaml", "evil.lock.yaml"]
)
def test_what_the_recipe_does_not_name_is_refused(path: str):
    with pytest.raises(UsageError, match=f"names no file {path}"):
        recipes(text(), beside("a.patch"), beside(path, BLOCK))


@pytest.mark.parametrize("path", ["evil.yaml", "evil.lock.yaml"])
def test_a_recipe_replaces_neither_itself_nor_its_lock(path: str):
    with pytest.raises(UsageError, match=f"names no file {path}"):
        recipes(text(patches=(path,)), beside(path, b"name: evil\n"))


def test_a_file_cannot_be_a_folder_too():
    with pytest.raises(UsageError, match="cannot be written"):
        recipes(text(patches=("a", "a/b")), beside("a"), beside("a/b"))


@pytest.mark.parametrize("second", [beside("a.patch", b"other"), beside("a.patch", recipe="stranger")])
def test_none_occurs_twice_or_belongs_to_nothing(tmp_path: Path, second: dict[str, str]):
    path = bundle(tmp_path, beside("a.patch"), second)
    with pytest.raises(UsageError, match="occurs twice, or belongs to no recipe"), opened(path):
        pass


def test_every_bit_is_hashed(tmp_path: Path):
    path = bundle(tmp_path, beside("a.patch", b"content of a patch"))
    raw = path.read_bytes()
    content = base64.b64encode(b"content of a patch")
    assert raw.count(content) == 1
    path.write_bytes(raw.replace(content, base64.b64encode(b"kontent of a patch")))
    with pytest.raises(UsageError, match="contradicts the rest"), ExitStack() as stack:
        checked([path], stack, lambda path: nullcontext(lambda done, total: None))


@pytest.mark.slow
def test_names_of_other_recipes_and_blocks_are_only_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A stranger plants no recipe of another name, and no block for other recipes."""
    made = recipes(
        text(patches=("victim.yaml",), blocks=("git", "mark")),
        beside("victim.yaml", text("victim").encode()),
        beside("blocks/mark.j2", BLOCK),
    )
    made.put(tmp_path, Store(tmp_path / "store"))
    recipes(text("plain", patches=()), name="plain").put(tmp_path, Store(tmp_path / "store"))
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [tmp_path])
    assert list(recipe_files()) == ["evil", "plain"] and (tmp_path / "evil" / "victim.yaml").exists()
    assert "RUN touch /mark" in render(target("evil:v")).dockerfile
    assert own_block_files(paths.recipe_dirs()) == {} == own_block_files([target("plain:v").path.parent])


def test_a_planted_link_is_not_followed(tmp_path: Path):
    outside = tmp_path / "outside"
    (tmp_path / "there" / "evil").mkdir(parents=True)
    outside.mkdir()
    (tmp_path / "there" / "evil" / "p").symlink_to(outside)
    with pytest.raises(UsageError, match="a link is in the way"):
        recipes(text(patches=("p/a.patch",)), beside("p/a.patch")).put(tmp_path / "there", Store(tmp_path / "store"))
    assert not list(outside.iterdir())


@pytest.mark.slow
def test_an_own_block_of_a_bundle_is_as_confined_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = recipes(
        text(patches=(), blocks=("git", "mark")),
        beside("blocks/mark.j2", BLOCK.replace(b"RUN touch /mark", b"USER root")),
    )
    made.put(tmp_path, Store(tmp_path / "store"))
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [tmp_path])
    with pytest.raises(UsageError, match="USER"):
        render(target("evil:v"))
