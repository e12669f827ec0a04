"""Each format: what a file of it states, and in which line."""

from __future__ import annotations

import pytest

from tests.support.stated_files import CASES


@pytest.mark.parametrize("path", CASES)
def test_a_file_states_with_its_lines(stated, path):
    text, expected = CASES[path]
    more = {"more/needed.txt": "from-a-file\n", "extra/needed.txt": "from-a-file\n"} if "needed.txt" in text else {}
    found = {(s.subject, s.value, s.origin.line, s.scope) for s in stated({path: text, **more})}
    assert [one for one in expected if one not in found] == [], sorted(found)


def test_what_a_file_does_not_state_is_not_invented(stated):
    found = {(s.subject, s.value) for s in stated({path: text for path, (text, _) in CASES.items()})}
    never = {"nothing", "nowhere", "not_a_command", "own"}
    assert not {value for subject, value in found if subject in ("import", "optional", "package")} & never
    assert ("cxx", "11") not in found


def test_words_that_only_the_shell_knows_are_left_out(stated):
    found = stated({"setup.sh": 'pip install $PKG "numpy==$V" "${X}" scipy `date`\n'})
    assert [s.value for s in found if s.subject == "package"] == ["scipy"]


def test_the_environment_of_the_host_does_not_enter_a_requirement(stated, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    found = stated({"requirements.txt": "--extra-index-url https://${SECRET_TOKEN}@i.example/simple\nnumpy\n"})
    assert "hunter2" not in str(found) and [s.value for s in found if s.subject == "package"] == ["numpy"]


def test_of_several_branches_of_setup_py_the_first_that_says_something_counts(stated):
    code = (
        "import os\nif os.environ.get('DOCS'):\n    NEEDED = []\nelse:\n    NEEDED = ['pandas>=1']\n"
        "setup(name=about['title'], install_requires=NEEDED, packages=['tool'] if PLAIN else ['other'])\n"
    )
    found = {(s.subject, s.value) for s in stated({"setup.py": code})}
    assert {("package", "pandas>=1"), ("project", ""), ("module", "tool")} <= found
    found = {(s.subject, s.value) for s in stated({"setup.py": "setup(ext_modules=made(), **metadata())\n"})}
    assert {("project", ""), ("extension", "c")} <= found


def test_what_setup_py_adds_for_a_feature_is_optional(stated):
    code = (
        "needed = ['numpy']\nif with_mpi():\n    needed.append('mpi4py>=3')\nif not on_rtd:\n    needed += ['scipy']\n"
        "if sys.platform.startswith('linux'):\n    needed += ['psutil']\nsetup(name='t', install_requires=needed)\n"
    )
    found = {(s.value, s.scope) for s in stated({"setup.py": code}) if s.subject == "package"}
    assert found == {("numpy", "run"), ("scipy", "run"), ("psutil", "run"), ("mpi4py>=3", "other")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Needs Python 3.6 and later.", [">=3.6"]),
        ("* Python 3.6 or greater", [">=3.6"]),
        ("Python 3.6, 3.7 and 3.8 are supported.", []),
        ("- Added support for Python 3.6.", []),
        ("Tested with Python 3.8, 64 bit.", ["==3.8.*"]),
    ],
)
def test_a_sentence_names_one_python_or_none(stated, line, expected):
    assert [s.value for s in stated({"README.md": f"{line}\n"}) if s.subject == "python"] == expected


def test_the_first_heading_is_a_title_only_at_the_top(stated):
    late = "<img src='logo.png'>\n" + "\n" * 30 + "# Installation\n"
    assert not [s for s in stated({"README.md": late}) if s.subject == "title"]


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("Copyright (c) A. Author\n\nPermission is hereby granted, free of charge, to any person", "MIT"),
        ("Redistribution and use in source\nand binary forms ... Neither the name of the copyright", "BSD-3-Clause"),
        ("   Apache License\n   Version 2.0, January 2004\n", "Apache-2.0"),
        ("All is allowed on Sundays.\n", ""),
    ],
)
def test_a_licence_is_known_by_its_words(stated, text, licence):
    assert [s.value for s in stated({"LICENSE": text}) if s.subject == "licence"] == [licence]


def test_paths_of_wheels_are_not_read_as_requirements(stated):
    assert not [s for s in stated({"setup.sh": "pip install dist/*.whl\n"}) if s.subject in ("package", "unread")]


def test_a_key_that_picks_requirements_is_none_itself(stated):
    code = "import needs\nDEPS = ['Pillow', 'numpy>=1.2']\ndeps = {re.split('>', d)[0]: d for d in DEPS}\n"
    code += "setup(name='t', install_requires=[deps['numpy'], deps['Pillow'], needs.of['install']])\n"
    code += "extras = {k: v for k, v in needs.of.items() if k != 'install'}\n"
    assert [s.value for s in stated({"setup.py": code}) if s.subject == "package"] == ["numpy>=1.2", "Pillow"]
