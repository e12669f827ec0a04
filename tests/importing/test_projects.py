"""The project of a repository, and what its recipe does not compile."""

from __future__ import annotations

import pytest

KERNELS = "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
KERNELS += "setup(name='Ops', packages=['functions'], ext_modules=[CUDAExtension('ops_cuda', ['a.cu'])])\n"
OPS = {"models/ops/setup.py": KERNELS, "models/ops/functions/__init__.py": "import torch\n", "models/ops/a.cu": ""}


def asked(decision) -> list[str]:
    return [q.text for q in decision.questions]


def test_an_extension_beside_scripts_is_not_the_whole_code(decided):
    """The scripts need what they import, are on the path, and their reader learns what is not built."""
    code = {"main.py": "import torch, models.a\n", "models/a.py": "import scipy\n", "models/b.py": "import ops_cuda\n"}
    found = decided({**OPS, **code, "requirements.txt": "tqdm\n"})
    assert {"torch", "scipy", "tqdm"} <= set(found.requirements) and not found.optional
    assert found.python_paths == ("models/ops", "") and "cuda" in found.pins
    assert asked(found) == ["the recipe does not build the extensions of models/ops; build them in the workspace"]


def test_an_extension_beside_the_project_is_asked_about_and_its_module_is_not(decided):
    project = {
        "setup.py": "from setuptools import setup\nsetup(name='tool')\n",
        "tool/__init__.py": "import ops_cuda\n",
    }
    assert asked(decided({**OPS, **project})) == [
        "the recipe does not build the extensions of models/ops; build them in the workspace"
    ]


@pytest.mark.slow
def test_cuda_code_that_nothing_compiles_is_a_question(decided):
    files = {"train.py": "import torch\n", "ops/k.cu": "", "tests/t.cu": "", "third_party/x/y.cu": ""}
    [question] = decided(files).questions
    assert question.text == "CUDA code that no setup.py is known to compile: when and how is it compiled?"
    assert str(question.origin) == "ops/k.cu:1"
    [question] = decided({"CMakeLists.txt": "project(t LANGUAGES CUDA)\n"}).questions
    assert question.text == "the recipe does not build what CMakeLists.txt makes; build it in the workspace"


@pytest.mark.parametrize(("more", "taken"), [("", "alpha"), ("install_requires=['numpy']", "core")])
def test_of_several_projects_the_one_that_states_the_most_is_taken_and_the_others_named(decided, more, taken):
    files = {f"packages/{n}/setup.py": f"setup(name='{n}', {more if n == 'core' else ''})\n" for n in ("alpha", "core")}
    found = decided(files)
    other = "alpha" if taken == "core" else "core"
    assert found.project_folder == f"packages/{taken}"
    assert asked(found) == [f"several folders are projects: packages/{taken} is taken, and not packages/{other}"]


def test_a_project_of_the_repository_is_not_taken_from_the_index(decided):
    files = {
        "setup.py": "setup(name='tool', install_requires=['our-part', 'transformers'])\n",
        "tool/__init__.py": "import our_part\n",
        "env/part/setup.py": "setup(name='our_part')\n",
        "env/part/our_part/__init__.py": "",
        "fork/setup.py": "setup(name='transformers')\n",
    }
    found = decided(files)
    assert "our-part" not in found.requirements and "transformers" in found.requirements
    assert asked(found) == [
        "our-part is the project of env/part: the recipe does not install it",
        "transformers is the project of fork: a release of the index is taken",
    ]
