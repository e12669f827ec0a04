"""The user's configuration: variables, file and presets in their order, and errors that name their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.config import KINDS, Fetch, load, presets
from reprokit.errors import UsageError
from tests.support.paths import ROOT

FILE = """\
presets: [ustc]
mirrors:
  registry: [docker.example.org/hub]
  apt:
    - http://mirror.example.org/{archive}/{path}
    - nvidia-cuda: https://mirror.example.org/nvidia/{path}
  git: ["file:///srv/git/{owner}/{repo}.git"]
fetch: {parallel: 3, stall: 10, slowest: 16KiB}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return path


def test_variables_come_before_the_file_and_the_file_before_its_presets(file: Path):
    found = load(file, {"REPROKIT_APT_MIRRORS": "http://one.test/{path}, llvm=http://two.test/{path}"})
    apt = [(e.value, e.source) for e in found.entries if e.kind == "apt"]
    assert apt[:4] == [
        ("http://one.test/{path}", "$REPROKIT_APT_MIRRORS"),
        ("llvm=http://two.test/{path}", "$REPROKIT_APT_MIRRORS"),
        ("http://mirror.example.org/{archive}/{path}", f"{file}:5"),
        ("nvidia-cuda=https://mirror.example.org/nvidia/{path}", f"{file}:6"),
    ]
    assert {source for _, source in apt[4:]} == {"preset ustc"}
    assert found.of("registry") == ("docker.example.org/hub",)
    assert found.fetch == Fetch(parallel=3, stall=10, slowest=16384)


def test_no_file_or_an_empty_one_and_no_variable_say_nothing(file: Path, tmp_path: Path):
    assert load(tmp_path / "none.yaml", {}).entries == ()
    file.write_text("# all as it comes\n")
    assert load(file, {}).entries == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("presets: [tsingua]", 1, "no such preset: 'tsingua'; did you mean tsinghua?"),
        ("mirrors:\n  wheel: [https://m.test]", 2, "unknown field mirrors.wheel; did you mean wheels?"),
        ("mirrors:\n  apt:\n    - llvn: http://m.test/{path}", 3, "'llvn' is not an archive; did you mean llvm?"),
        (
            "mirrors:\n  git:\n    - file:///srv/{ownr}/{repo}",
            3,
            "{ownr} is not a placeholder of git; did you mean owner?",
        ),
        ("mirrors:\n  registry: [http://m.test]", 2, "is not a registry; write HOST[:PORT][/PREFIX]"),
        ("mirrors:\n  conda: https://m.test/{channel}", 2, "mirrors.conda must be a list"),
        ("workspace_roots: ['~no-such-user/ws']", 1, "there is no home folder ~no-such-user"),
        ("fetch: {parallel: 0}", 1, "fetch.parallel"),
        ("- apt", 1, "the file"),
    ],
)
def test_a_wrong_file_is_named_by_line_and_field(file: Path, text: str, line: int, words: str):
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        load(file, {})
    assert error.value.where == f"{file}:{line}"
    assert words in error.value.message
    assert error.value.hint


def test_a_wrong_variable_is_named_and_its_password_is_not(file: Path):
    with pytest.raises(UsageError) as error:
        load(file, {"REPROKIT_FILES_MIRRORS": "https://me:secret@m.test/{pth}"})
    assert error.value.where == "$REPROKIT_FILES_MIRRORS"
    assert "did you mean path?" in error.value.message
    assert "secret" not in error.value.message
    assert "secret" not in repr(load(file, {"REPROKIT_WHEELS_MIRRORS": "https://me:secret@m.test/simple"}))


def test_a_file_that_cannot_be_read(file: Path):
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot read the configuration"):
        load(file, {})
    file.unlink()
    file.mkdir()
    with pytest.raises(UsageError, match=r"cannot read the configuration: Is a directory$"):
        load(file, {})


def test_presets_are_by_name_and_name_their_archives():
    assert sorted(presets()) == ["tsinghua", "ustc"]
    for lists in presets().values():
        assert lists.wheels and lists.conda
        assert all("=" in template for template in lists.apt)
        assert {kind for kind in KINDS if getattr(lists, kind)} == {"apt", "wheels", "conda"}


def test_the_page_that_users_read_shows_a_valid_file(file: Path):
    page = (ROOT / "docs" / "mirrors.md").read_text(encoding="utf-8")
    file.write_text(page.partition("```yaml\n")[2].partition("```")[0])
    assert {entry.kind for entry in load(file, {}).entries} == set(KINDS)
