"""`reprokit outdated`: what could not be checked is not up to date."""

from __future__ import annotations

import pytest

from reprokit.engine import Engine
from reprokit.errors import SourceError
from reprokit.image.lock import outdated, read
from reprokit.supply.kinds.kind import Moved

NEWER = Moved("wheels", "six", "1.16.0", "1.17.0", "newer")
UNKNOWN = Moved("git", "forge.test/team/tool", "a" * 40, "could not resolve host: forge.test", "unknown")


@pytest.fixture
def outcome(call, recipe, monkeypatch: pytest.MonkeyPatch):
    """`outcome(moved)`: what the verb does where these inputs are found."""
    monkeypatch.setattr(Engine, "connect", lambda: None)
    monkeypatch.setattr(read, "needed_lock", lambda target: None)
    recipe("gnn", "variants: {cpu: {base: 'debian:12'}}\n")

    def run(*moved: Moved):
        monkeypatch.setattr(outdated, "outdated", lambda *_: (list(moved), []))
        return call("outdated", "gnn")

    return run


def test_an_input_that_could_not_be_checked_is_exit_code_4(outcome):
    done = outcome(NEWER, UNKNOWN)
    assert isinstance(done.exception, SourceError) and done.exception.exit_code == 4
    assert "could not be checked: could not resolve host" in done.stdout and "unchanged upstream" not in done.stdout


def test_a_newer_version_is_no_failure(outcome):
    assert outcome(NEWER).exit_code == 0
    assert outcome().stdout == "gnn:cpu: unchanged upstream\n"
