"""Packages of conda as requirements of PyPI."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_a_package_of_conda_that_pypi_is_not_known_to_have_is_a_question_and_never_installed(decided):
    listed = [
        "python=3.9",
        "nodejs=18",
        "numpy=1.21",
        "moose",
        "libgcc-ng=9.3.0",
        "r-ggplot2",
        *(f"zz-{i}" for i in range(30)),
    ]
    found = decided({"environment.yml": f"dependencies: [{', '.join(listed)}]\n", "a.py": "import numpy\n"})
    assert set(found.requirements) == {"numpy"} and [c.value for c in found.apt] == ["nodejs"]
    (question,) = (q for q in found.questions if "conda installs" in q.text)
    assert question.text.startswith("conda installs moose, r-ggplot2, zz-0, ") and " and 12 more: " in question.text
    assert str(question.origin) == "environment.yml:1"
