"""Bundles: workspaces and files beside a recipe stay in their folders; `export -o` writes through nothing planted."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from reprokit import paths
from reprokit.bundle import workspaces
from reprokit.bundle.load import checked
from reprokit.bundle.model import BesideFile, RecipeText
from reprokit.bundle.read import Bundle, opened
from reprokit.bundle.recipes import Recipes, of_images
from reprokit.display import reporting
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, UsageError
from reprokit.host.workspace import locate
from reprokit.image.render import render
from reprokit.recipe.blocks import own_block_files
from reprokit.recipe.find import recipe_files, target
from reprokit.supply.store import Store
from tests.support.images import tar_of
from tests.support.made import Made
from tests.support.names import unique
from tests.support.rendering import PAPER, source
from tests.support.strangers import User, entry, with_part, workspace

LINK, FOLDER = tarfile.SYMTYPE, tarfile.DIRTYPE
Member = tuple[tarfile.TarInfo, bytes]


def made() -> Made:
    return Made.of({f"reprokit/{unique('files')}:cpu": [tar_of({"a": b"a"})]})


def verified(stack: ExitStack, path: Path) -> Bundle:
    return checked([path], stack)[0].bundle


def unpack(path: Path, yes: bool = False) -> list[str]:
    """Put the bundle's workspaces in their places; returns the lines for the user."""
    lines: list[str] = []
    with ExitStack() as stack, reporting(lines.append), workspaces.workspaces(verified(stack, path), yes) as put:
        lines += put()
    return lines


@pytest.fixture
def folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of unpacked workspaces, which does not exist yet."""
    monkeypatch.chdir(tmp_path)
    return home / "workspaces"


@pytest.mark.slow
@pytest.mark.parametrize(
    "links",
    [
        {f"l{n}": "l0/" + "./" * 2040 for n in range(2000)},
        {f"c{n}": f"c{n + 1}/{'a' * 4000}" for n in range(120)} | {f"l{n}": "c0" for n in range(3000)} | {"c120": "x"},
    ],
    ids=["one link", "a chain of links"],
)
@pytest.mark.usefixtures("folder")
def test_links_that_take_many_steps_are_excluded(tmp_path, links: dict[str, str]):
    path = workspace(made(), [(entry(name, LINK, to), b"") for name, to in links.items()]).write(tmp_path / "x.rkit")
    assert any("more links that lead out are excluded" in line for line in unpack(path))


@pytest.mark.parametrize(
    "links",
    [
        {"a/b/up": "../..", "data": "a/b/up/../secret"},
        {"a/b/up": "../..", "data": "a/b/up/a/b/up/.."},
        {"one": ".", "a/two": "../one/one/../..", "data": "a/two/secret"},
        {"up": "a/b/up", "a/b/up": "../../..", "data": "up/secret"},
        {"loop": "loop/loop", "data": "loop/../../secret"},
        {"data": "/etc/passwd"},
        {"data": "a/../../secret"},
        {"data": "../secret"},
        {"absolute": "/", "data": "absolute/etc"},
    ],
)
def test_no_link_leads_out_through_other_links(tmp_path, folder, links: dict[str, str]):
    folder.mkdir(parents=True)
    (folder / "secret").write_text("secret")
    members = [(entry("a", FOLDER), b""), (entry("a/b", FOLDER), b""), (entry("a/b/f"), b"inside")]
    members += [(entry(name, LINK, to), b"") for name, to in links.items()]
    members += [(entry("kept", LINK, "a/b/f"), b""), (entry("a/back", LINK, "../kept"), b"")]
    lines = unpack(workspace(made(), members).write(tmp_path / "x.rkit"))
    (place,) = folder.glob("brought-w-*")
    for link in [path for path in place.rglob("*") if path.is_symlink()]:
        with contextlib.suppress(OSError, RuntimeError):  # a loop leads nowhere
            assert link.resolve(strict=False).is_relative_to(place), link
    assert not (place / "data").is_symlink()
    assert any("'data'" in line and "is excluded" in line for line in lines)
    # Links that stay inside are there, and lead where they should.
    assert (place / "a/back").read_bytes() == (place / "kept").read_bytes() == b"inside"


@pytest.mark.parametrize(
    "members",
    [
        [(entry("a", LINK, "/tmp"), b""), (entry("a/x"), b"x")],
        [(entry("a", LINK, "."), b""), (entry("a", FOLDER), b""), (entry("a/x"), b"x")],
        [(entry("a", FOLDER), b""), (entry("a", LINK, "."), b"")],
        [(entry("a"), b"x"), (entry("a", LINK, "."), b"")],
        [(entry("./a"), b"x"), (entry("a"), b"y")],
        [(entry("x" * 300), b"x")],
        [(entry("/".join(["d"] * n), FOLDER), b"") for n in range(1, 80)],
    ],
)
def test_what_is_no_plain_tree_is_refused_and_leaves_nothing(tmp_path, folder, members: list[Member]):
    with pytest.raises(UsageError):
        unpack(workspace(made(), members).write(tmp_path / "x.rkit"))
    assert not [*folder.glob("*")]


def test_a_planted_link_in_the_place_of_a_workspace_is_left(tmp_path, home, folder):
    place = locate("brought-w", home / "recipes/brought-w.yaml")
    folder.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere")
    path = workspace(made(), [(entry("f"), b"x")]).write(tmp_path / "x.rkit")
    with pytest.raises(UsageError, match="behind a link"):
        unpack(path)
    assert not (tmp_path / "elsewhere").exists()
    place.unlink()
    unpack(path)
    assert (place / "f").read_bytes() == b"x"


def test_a_large_workspace_needs_yes(tmp_path, folder, monkeypatch):
    zeros = tarfile.TarInfo("zeros")
    zeros.size = 20 << 30
    path = with_part(made(), zeros.tobuf() + bytes(1 << 20)).write(tmp_path / "x.rkit")
    with pytest.raises(UsageError, match=r"more than 50000 files or 2\.1 GB") as error:
        unpack(path)
    assert "--yes allows it" in error.value.hint
    monkeypatch.setattr(workspaces, "WORKSPACE_ENTRIES", 1)
    workspace(made(), [(entry("a"), b"a"), (entry("b"), b"b")]).write(path)
    with pytest.raises(UsageError, match="more than 1 files"):
        unpack(path)
    assert not folder.exists()
    unpack(path, yes=True)
    assert sorted(p.name for p in folder.glob("brought-w-*/*")) == ["a", "b"]


@pytest.mark.parametrize("swapped", [True, False])
def test_a_workspace_that_is_swapped_after_the_check_is_not_taken(tmp_path, folder, swapped: bool):
    path = workspace(made(), [(entry("f"), b"good")]).write(tmp_path / "x.rkit")
    with ExitStack() as stack:
        bundle = verified(stack, path)
        member = bundle.members["workspaces/brought-w.tar.zst"]
        evil = workspace(made(), [(entry("f"), b"evil")]).blobs[member.path]
        assert len(evil) == member.size
        if not swapped:
            stack.enter_context(workspaces.workspaces(bundle, False))()
            assert [p.read_bytes() for p in folder.glob("brought-w-*/f")] == [b"good"]
            return
        with path.open("r+b") as file:
            file.seek(member.offset)
            file.write(evil)
        with pytest.raises(UsageError, match="was changed since it was verified"):
            stack.enter_context(workspaces.workspaces(bundle, False))
        assert not [*folder.glob("*")]


# --- Files beside a recipe

BLOCK = b"{#\ndoes: a mark.\n#}\n{% block final %}\nRUN touch /mark\n{% endblock %}\n"
MARK = ("git", "mark")


def text(name: str = "evil", patches: tuple[str, ...] = ("a.patch",), blocks: tuple[str, ...] = ("git",)) -> str:
    variant = {"base": "debian:12", "sources": [source("code", "/opt/code", patches=list(patches))]}
    return yaml.safe_dump({"name": name, "paper": PAPER, "variants": {"v": {**variant, "blocks": list(blocks)}}})


def beside(path: str, content: bytes = b"x", recipe: str = "evil") -> dict[str, str]:
    return {"recipe": recipe, "path": path, "content": base64.b64encode(content).decode()}


def recipes(recipe: str, *files: dict[str, str], name: str = "evil") -> Recipes:
    described = [BesideFile.model_validate_strings(file) for file in files]
    return Recipes([RecipeText(name=name, recipe=recipe, lock="")], described, "x.rkit")


def bundle_with(folder: Path, *files: dict[str, str]) -> Path:
    name = f"reprokit/{unique('beside')}:v"
    made = Made.of({name: [tar_of({"a": b"a"})]}, recipe="evil", variant="v", recipe_text=text())
    made.metadata["beside"] = list(files)
    return made.write(folder / "x.rkit")


@pytest.mark.parametrize(
    "path",
    ["../a.patch", "/etc/a.patch", "a/../../b", ".envrc", "a/.git/config", "a//b", "./a", "a/", "", "a\nb", "a\\b"],
)
def test_no_path_leads_out_or_is_hidden(tmp_path, path: str):
    with pytest.raises(UsageError, match=r"reprokit\.json is not valid"), opened(bundle_with(tmp_path, beside(path))):
        pass
    with opened(bundle_with(tmp_path, beside("a.patch"))) as bundle:  # the control
        assert of_images(bundle.metadata, bundle.where)["evil"].files["evil"]["a.patch"] == b"x"


@pytest.mark.parametrize(
    "path", ["conftest.py", "Makefile", "blocks/cuda.j2", "victim.yaml", "evil.yaml", "evil.lock.yaml"]
)
def test_what_the_recipe_does_not_name_is_refused(path: str):
    """It replaces neither itself nor its lock, even if it names them."""
    with pytest.raises(UsageError, match=f"names no file {path}"):
        recipes(text(), beside("a.patch"), beside(path, BLOCK))
    if path.startswith("evil"):
        with pytest.raises(UsageError, match=f"names no file {path}"):
            recipes(text(patches=(path,)), beside(path, b"name: evil\n"))


def test_a_file_is_no_folder_and_occurs_once_in_its_recipe(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        recipes(text(patches=("a", "a/b")), beside("a"), beside("a/b"))
    for second in (beside("a.patch", b"other"), beside("a.patch", recipe="stranger")):
        path = bundle_with(tmp_path, beside("a.patch"), second)
        with pytest.raises(UsageError, match="occurs twice, or belongs to no recipe"), opened(path):
            pass


def test_every_bit_is_hashed(tmp_path):
    path = bundle_with(tmp_path, beside("a.patch", b"content of a patch"))
    raw, content = path.read_bytes(), base64.b64encode(b"content of a patch")
    assert raw.count(content) == 1
    path.write_bytes(raw.replace(content, base64.b64encode(b"kontent of a patch")))
    with pytest.raises(UsageError, match="contradicts the rest"), ExitStack() as stack:
        verified(stack, path)


@pytest.mark.slow
def test_a_stranger_plants_no_recipe_and_no_block_for_other_recipes(tmp_path, monkeypatch):
    store = Store(tmp_path / "store")
    named = beside("victim.yaml", text("victim").encode())
    recipes(text(patches=("victim.yaml",), blocks=MARK), named, beside("blocks/mark.j2", BLOCK)).put(tmp_path, store)
    recipes(text("plain", patches=()), name="plain").put(tmp_path, store)
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [tmp_path])
    assert list(recipe_files()) == ["evil", "plain"] and (tmp_path / "evil" / "victim.yaml").exists()
    assert "RUN touch /mark" in render(target("evil:v")).dockerfile
    assert own_block_files(paths.recipe_dirs()) == {} == own_block_files([target("plain:v").path.parent])
    # The block is as confined as any other.
    (tmp_path / "evil" / "blocks" / "mark.j2").write_bytes(BLOCK.replace(b"RUN touch /mark", b"USER root"))
    with pytest.raises(UsageError, match="USER"):
        render(target("evil:v"))


def test_a_planted_link_is_not_followed(tmp_path):
    (outside := tmp_path / "outside").mkdir()
    (tmp_path / "there" / "evil").mkdir(parents=True)
    (tmp_path / "there" / "evil" / "p").symlink_to(outside)
    with pytest.raises(UsageError, match="a link is in the way"):
        recipes(text(patches=("p/a.patch",)), beside("p/a.patch")).put(tmp_path / "there", Store(tmp_path / "store"))
    assert not list(outside.iterdir())


# --- What a checkout plants where `export -o` writes before its file is complete


@pytest.fixture(scope="module")
def image(engine: Engine) -> Iterator[str]:
    """Links of the image stand where enroot has files of its own."""
    name, content = unique("export"), io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for path in ("fstab", "environment"):
            tar.addfile(entry(f"etc/{path}", LINK, "../evil"))
        evil = entry("evil")
        evil.size = 4
        tar.addfile(evil, io.BytesIO(b"evil"))
    content.seek(0)
    engine.import_image(content, f"reprokit/{name}", "cpu", [])
    yield f"reprokit/{name}:cpu"
    with contextlib.suppress(ReprokitError):
        engine.remove_image(f"reprokit/{name}:cpu", force=True)


@pytest.mark.parametrize("form", ["rkit", "docker", "oci-dir", "squashfs"])
def test_a_planted_partial_file_leads_nowhere(image: str, user: User, tmp_path, form: str):
    outside, partial = tmp_path / "outside", user.here / ".x.out.partial"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("the user's")
    for planted in ("folder", "file", "new", "another name of the file"):
        if planted == "another name of the file":
            partial.hardlink_to(outside / "file")
        else:
            partial.symlink_to(outside / planted)
        assert user("export", image, "-o", "x.out", "--format", form, code=2).count("error:") == 1
        assert list((outside / "folder").iterdir()) == [] and not (outside / "new").exists()
        assert (outside / "file").read_text() == "the user's"
        partial.unlink(missing_ok=True)
    user("export", image, "-o", "x.out", "--format", form)  # the control
    out = user.here / "x.out"
    assert out.exists() and not out.is_symlink()
    if form == "squashfs":  # enroot mounts what /etc/fstab says on the host
        root = tmp_path / "root"
        subprocess.run(["unsquashfs", "-q", "-n", "-d", str(root), str(out)], check=True, capture_output=True)
        for path in (root / "etc" / "fstab", root / "etc" / "environment"):
            assert not path.is_symlink() and b"evil" not in path.read_bytes()


def test_a_link_planted_after_the_check_leads_nowhere(image: str, user: User, tmp_path, monkeypatch):
    """sqfstar would make the file that the link names."""
    for name in ("outside", "programs"):
        (tmp_path / name).mkdir()
    script, link = tmp_path / "programs" / "sqfstar", f"{tmp_path}/outside/new {user.here}/.x.out.partial"
    script.write_text(f'#!/bin/sh\nln -sfn {link}\nexec {shutil.which("sqfstar")} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    user("export", image, "-o", "x.out", "--format", "squashfs")
    assert list((tmp_path / "outside").iterdir()) == []
