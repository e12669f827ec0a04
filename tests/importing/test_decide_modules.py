"""The modules of the repository's own: what must import, and what is nobody else's."""

from __future__ import annotations

import pytest

EXTENSION = "from setuptools import Extension, setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"


def built(calls: str) -> str:
    return f"{EXTENSION}setup(name='tool', ext_modules=[{calls}])\n"


@pytest.mark.parametrize(
    ("calls", "more", "modules"),
    [
        ("Extension(name='core', sources=['a.cpp'])", [], ("core",)),
        ("Extension('tool._core', ['a.c']), Extension('alone', ['b.c'])", ["tool/__init__.py"], ("tool",)),
        ("CUDAExtension('kernels', ['a.cu']), Extension('core', ['a.c'])", [], ("core",)),
        ("cythonize('a.pyx')", [], ()),
    ],
)
@pytest.mark.slow
def test_a_project_without_packages_installs_the_modules_that_it_compiles(decided, calls, more, modules):
    assert decided({"setup.py": built(calls), **dict.fromkeys(more, "")}).modules == modules


def test_a_compiled_module_is_not_asked_about(decided):
    files = {
        "setup.py": built("Extension('libcore', ['a.c']), CUDAExtension('kernels', ['a.cu'])"),
        "tool/__init__.py": "import libcore, kernels, never_heard_of\n",
    }
    asked = [q.text for q in decided(files).questions if "is imported" in q.text]
    assert asked == ["the module never_heard_of is imported: which distribution has it?"]


def test_a_module_of_a_shared_package_may_be_imported_from_it(decided):
    found = decided({"a.py": "from google import protobuf as p\n", "b.py": "from google.protobuf import text_format\n"})
    assert set(found.requirements) == {"protobuf"} and not found.questions


def test_modules_of_python_2_are_one_question(decided):
    code = "import cPickle, numpy\nimport urllib2\nimport commands\ndef late():\n    import Queue\n"
    found = decided({"train.py": code, "commands.py": ""})
    text = "the code needs changes: no distribution here has Python 2, whose modules it imports (cPickle, urllib2)"
    assert [(q.text, str(q.origin)) for q in found.questions] == [(text, "train.py:1")]
    assert set(found.requirements) == {"numpy"}


def test_a_src_that_is_a_package_itself_is_no_folder_of_packages(decided):
    setup = "from setuptools import find_packages, setup\nsetup(name='src', packages=find_packages())\n"
    files = {"src/__init__.py": "", "src/models/__init__.py": "", "src/data/__init__.py": ""}
    assert decided({"setup.py": setup, **files}).modules == ("src",)
