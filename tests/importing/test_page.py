"""The page of a repaired recipe."""

from __future__ import annotations

from datetime import date

import pytest

from reprokit.importing.decision import Choice, Decision, PythonBase, Question, Versions
from reprokit.importing.model import Origin
from reprokit.importing.page import page
from reprokit.importing.recipe_of import ImportedRecipe
from reprokit.importing.repair import Round
from tests.support.repairs import CURL, H5PY, failure

BASE = Choice("debian:12 with Python 3.11", (Origin("setup.py", 3),), "debian:12 was stable")
QUESTION = Question("which distribution has evil?", Origin("train.py", 3))
FOUND = ImportedRecipe(
    "", Decision("tool", date(2024, 1, 1), PythonBase("debian:12", "3.11"), BASE, questions=(QUESTION,)), Versions({})
)


@pytest.mark.slow
def test_it_names_what_was_found_changed_and_what_still_fails():
    curl = failure(CURL)
    rounds = [
        Round((curl,), curl.causes[0], ("apt: libcurl4-openssl-dev",)),
        Round((failure(H5PY, "import"),), refused=("h5py: no",)),
    ]
    text = page("tool", "https://forge.test/a/tool", FOUND, rounds, "It still fails: import")
    assert "debian\\:12 was stable (setup.py\\:3)" in text and "which distribution has evil? (train.py\\:3)" in text
    assert "1. build failed: the header curl/curl.h is not on the include path" in text
    assert "   - apt\\: libcurl4-openssl-dev" in text
    fails = text.partition("## Still fails")[2]
    assert "import\\: ModuleNotFoundError" in fails and "not changed\\: h5py\\: no" in fails


def test_a_success_has_nothing_left():
    assert page("tool", "x", FOUND, [], "It works", works=True).endswith("## Still fails\n\nNothing.\n")
    interrupted = page("tool", "x", FOUND, [], "The repair was interrupted")
    assert interrupted.endswith("## Still fails\n\nNot known: the last attempt did not end.\n")


def test_text_of_a_log_is_no_markup():
    evil = failure("a.c:1:10: fatal error: <img/src=x>[a](https://evil.example)`x`: No such file or directory")
    text = page("tool", "x", FOUND, [Round((evil,), evil.causes[0], ("apt: x",))], "It works")
    assert "<img" not in text and "[a]" not in text and "&lt;img" in text and "\\[a\\](" in text
