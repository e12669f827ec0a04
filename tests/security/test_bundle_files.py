"""A bundle's workspace reaches nothing outside its folder, and is not unpacked without bound."""

from __future__ import annotations

import tarfile
from contextlib import ExitStack, nullcontext

import pytest

from reprokit.bundle import workspaces
from reprokit.bundle.load import checked
from reprokit.errors import UsageError
from reprokit.host.workspace import locate
from reprokit.untrusted.limits import WORKSPACE_ENTRIES
from tests.support.images import tar_of
from tests.support.made import Made
from tests.support.names import unique
from tests.support.strangers import User, entry, with_part, workspace

LAYER = tar_of({"a": b"a"})
LINK, FOLDER = tarfile.SYMTYPE, tarfile.DIRTYPE


def made() -> Made:
    return Made.of({f"reprokit/{unique('files')}:cpu": [LAYER]})


def opened(stack: ExitStack, path):
    return checked([path], stack, lambda path: nullcontext(lambda done, total: None))[0].bundle


def unpack(path, monkeypatch, tmp_path, yes: bool = False) -> list[str]:
    """Put the bundle's workspaces in their places; what was said."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    with ExitStack() as stack, workspaces.workspaces(opened(stack, path), yes, said.append) as put:
        said += put()
    return said


def links_of(folder) -> dict[str, str]:
    return {str(p.relative_to(folder)): str(p.readlink()) for p in folder.rglob("*") if p.is_symlink()}


@pytest.mark.parametrize(
    "links",
    [
        {f"l{n}": "l0/" + "./" * 2040 for n in range(2000)},
        {
            **{f"c{n}": f"c{n + 1}/{'a' * 4000}" for n in range(120)},
            **{f"l{n}": "c0" for n in range(3000)},
            "c120": "x",
        },
    ],
    ids=["one link", "a chain of links"],
)
@pytest.mark.slow
def test_links_that_take_many_steps_are_excluded(tmp_path, monkeypatch, links):
    path = workspace(made(), [(entry(name, LINK, to), b"") for name, to in links.items()]).write(tmp_path / "x.rkit")
    said = unpack(path, monkeypatch, tmp_path)
    assert any("more links that lead out are excluded" in line for line in said)


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
def test_no_link_leads_out_through_other_links(tmp_path, monkeypatch, links):
    (tmp_path / "home/workspaces").mkdir(parents=True)
    (tmp_path / "home/workspaces/secret").write_text("secret")
    members = [(entry("a", FOLDER), b""), (entry("a/b", FOLDER), b""), (entry("a/b/f"), b"inside")]
    members += [(entry(name, LINK, target), b"") for name, target in links.items()]
    members += [(entry("kept", LINK, "a/b/f"), b""), (entry("a/back", LINK, "../kept"), b"")]
    path = workspace(made(), members).write(tmp_path / "x.rkit")
    said = unpack(path, monkeypatch, tmp_path)
    (folder,) = (tmp_path / "home/workspaces").glob("brought-w-*")
    for link in links_of(folder):
        try:
            assert (folder / link).resolve(strict=False).is_relative_to(folder), link
        except (OSError, RuntimeError):  # a loop leads nowhere
            continue
    assert "data" not in links_of(folder)
    assert any("'data'" in line and "is excluded" in line for line in said)
    # Links that stay inside are there, and lead where they should.
    assert (folder / "a/back").read_bytes() == (folder / "kept").read_bytes() == b"inside"


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
def test_what_is_no_plain_tree_is_refused_and_leaves_nothing(tmp_path, monkeypatch, members):
    path = workspace(made(), members).write(tmp_path / "x.rkit")
    with pytest.raises(UsageError):
        unpack(path, monkeypatch, tmp_path)
    assert not [*(tmp_path / "home/workspaces").glob("*")]


def test_a_planted_link_in_the_place_of_a_workspace_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    folder = locate("brought-w", tmp_path / "home/recipes/brought-w.yaml")
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tmp_path / "elsewhere")
    path = workspace(made(), [(entry("f"), b"x")]).write(tmp_path / "x.rkit")
    with pytest.raises(UsageError, match="behind a link"):
        unpack(path, monkeypatch, tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    folder.unlink()
    unpack(path, monkeypatch, tmp_path)
    assert (folder / "f").read_bytes() == b"x"


@pytest.mark.slow
def test_more_files_than_the_limit_need_yes(tmp_path, monkeypatch):
    names = (tarfile.TarInfo(f"{number}") for number in range(WORKSPACE_ENTRIES + 1))
    path = with_part(made(), b"".join(name.tobuf() for name in names) + bytes(1024)).write(tmp_path / "x.rkit")
    said = User(tmp_path)("load", path, code=2)
    assert f"more than {WORKSPACE_ENTRIES} files" in said and "--yes allows it" in said
    assert not (tmp_path / "home/workspaces").exists()
    small = workspace(made(), [(entry("f"), b"x")]).write(tmp_path / "y.rkit")
    unpack(small, monkeypatch, tmp_path)
    assert [*(tmp_path / "home/workspaces").glob("brought-w-*/f")]


def test_more_bytes_than_the_limit_need_yes(tmp_path, monkeypatch):
    large = tarfile.TarInfo("zeros")
    large.size = 20 << 30
    path = with_part(made(), large.tobuf() + bytes(1 << 20)).write(tmp_path / "x.rkit")
    said = User(tmp_path)("load", path, code=2)
    assert "--yes allows it" in said and not (tmp_path / "home/workspaces").exists()


def test_with_yes_a_large_workspace_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "WORKSPACE_ENTRIES", 1)
    path = workspace(made(), [(entry("a"), b"a"), (entry("b"), b"b")]).write(tmp_path / "x.rkit")
    with pytest.raises(UsageError, match="more than 1 files"):
        unpack(path, monkeypatch, tmp_path)
    assert not (tmp_path / "home/workspaces").exists()
    unpack(path, monkeypatch, tmp_path, yes=True)
    assert sorted(p.name for p in (tmp_path / "home/workspaces").glob("brought-w-*/*")) == ["a", "b"]


@pytest.mark.parametrize("swapped", [True, False])
def test_a_workspace_that_is_swapped_after_the_check_is_not_taken(tmp_path, monkeypatch, swapped):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    good = workspace(made(), [(entry("f"), b"good")])
    path = good.write(tmp_path / "x.rkit")
    with ExitStack() as stack:
        bundle = opened(stack, path)
        member = bundle.members["workspaces/brought-w.tar.zst"]
        evil = workspace(made(), [(entry("f"), b"evil")]).blobs[member.path]
        assert len(evil) == member.size
        if swapped:
            with path.open("r+b") as file:
                file.seek(member.offset)
                file.write(evil)
            with pytest.raises(UsageError, match="was changed since it was verified"):
                stack.enter_context(workspaces.workspaces(bundle, False, print))
            assert not [*(tmp_path / "home/workspaces").glob("*")]
        else:
            stack.enter_context(workspaces.workspaces(bundle, False, print))()
            assert [p.read_bytes() for p in (tmp_path / "home/workspaces").glob("brought-w-*/f")] == [b"good"]
