"""What the syntax tree of a setup.py shows."""

from __future__ import annotations


def test_requirements_are_those_of_the_file_that_a_with_block_opens(stated):
    code = (
        "from setuptools import setup\n"
        "with open('README.txt') as f:\n    shown = f.read()\n"
        "with open('needs.txt', encoding='utf-8') as f:\n    needed = f.read().splitlines()\n"
        "with open('more/needs.txt') as f:\n    tried = f.read().splitlines()\n"
        "setup(name='t', long_description=shown, install_requires=needed, tests_require=tried)\n"
    )
    found = stated({"setup.py": code, "needs.txt": "numpy==1.20\n", "more/needs.txt": "mock\n", "README.txt": ""})
    assert {(s.value, s.scope) for s in found if s.subject == "package"} == {("numpy==1.20", "run"), ("mock", "test")}
    assert not [s for s in found if s.subject == "unread"]
