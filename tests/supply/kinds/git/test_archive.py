"""Archives of locked commits, which a build gets in place of a forge's."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.recipe.model import Source
from reprokit.supply.kinds.git.archive import archive_of
from reprokit.supply.kinds.git.resolve import lock_git
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.rendering import source
from tests.support.repositories import TOOL, Repositories


def test_an_archive_has_submodules_and_runs_no_filter(
    places: Mirrors, repositories: Repositories, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repositories.make("team/inner", {"deep.txt": "deep"})
    files = {"a.txt": "a", ".gitattributes": "* filter=evil\n"}
    commit = repositories.make("team/tool", files, {"3rd": ("team/inner", "https://forge.test/team/inner")})
    lock_git(Source(**{**source("tool", "/t"), "git": TOOL, "commit": commit, "submodules": True}), places, print)
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[filter "evil"]\n\tsmudge = touch {tmp_path}/ran; cat\n\trequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    packed = archive_of(Commit(TOOL, commit), store)
    with tarfile.open(packed) as tar:
        found = {m.name: tar.extractfile(m).read() for m in tar if m.isreg()}  # type: ignore[union-attr]
    assert found[f"{commit}/a.txt"] == b"a" and found[f"{commit}/3rd/deep.txt"] == b"deep"
    assert not (tmp_path / "ran").exists()
    assert packed.read_bytes()[4:8] == bytes(4), "gzip's date: the same commit is the same bytes"
    with pytest.raises(SourceError, match="cannot be read"):
        archive_of(Commit(TOOL, "0" * 40), store)


def test_a_tag_at_another_commit_has_another_address():
    def address(commit: str, *others: GitCommit) -> str:
        tag = GitCommit(url=TOOL, commit=commit * 40, tree="0" * 40, ref="v1")
        return ServedSet(git=[tag, *others]).arguments()["REPROKIT_ARCHIVES"]

    source = GitCommit(url=TOOL, commit="3" * 40, tree="0" * 40)
    assert address("1") != address("2") and address("1") == address("1", source)
