"""The decision over statements: what wins, why, and what is asked."""

from __future__ import annotations

import pytest

from reprokit.compat.facts import bundled
from reprokit.importing.decision import Decision, Versions
from reprokit.importing.draft import draft

EXTENSIONS = "from setuptools import Extension, setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
LEFT_OUT = ", and left out: an index may have another project of that name"
NEVER_HEARD_OF = "the module never_heard_of is imported: which distribution has it?"


def setup(**keywords: object) -> str:
    return f"from setuptools import setup\nsetup({', '.join(f'{k}={v!r}' for k, v in keywords.items())})\n"


def built(calls: str) -> str:
    return f"{EXTENSIONS}setup(name='tool', ext_modules=[{calls}])\n"


def asked(decision: Decision) -> list[str]:
    return [f"{question.origin}: {question.text}" for question in decision.questions]


def values(decision: Decision) -> dict[str, str]:
    return {name: choice.value for name, choice in decision.requirements.items()}


@pytest.mark.slow
def test_files_that_agree_are_joined_and_the_weightier_wins_otherwise(decided):
    needs = ["numpy>=1.18", "torch>=1.8,<1.11", "scipy==1.7.3"]
    files = {
        "setup.py": setup(name="tool", install_requires=needs),
        "requirements.txt": "numpy==1.21.5\nscipy==1.5.0\n",
        "README.md": "PyTorch 1.4\n",
    }
    decision = decided(files)
    assert values(decision).items() >= {
        ("numpy", "numpy==1.21.5,>=1.18"),
        ("scipy", "scipy==1.7.3"),
        ("torch", "torch<1.11,>=1.8"),
    }
    assert [str(o) for o in decision.requirements["numpy"].origins] == ["setup.py:2", "requirements.txt:1"]
    assert [(str(x.origin), x.value, x.why) for x in decision.requirements["scipy"].lost] == [
        ("requirements.txt:2", "scipy==1.5.0", "contradicts setup.py:2, which counts more")
    ]
    assert "tool" not in decision.requirements


def test_of_two_files_of_a_format_the_one_nearer_to_the_root_counts_more(decided):
    files = {"paper_code/requirements.txt": "torch==1.1.0\n", "requirements.txt": "torch==1.7.0\n"}
    choice = decided({**files, "a.py": "import torch\n"}).requirements["torch"]
    assert choice.value == "torch==1.7.0"
    assert [lost.why for lost in choice.lost] == ["contradicts requirements.txt:1, which counts more"]


WORKFLOW = """\
on: push
jobs:
  oldest:
    runs-on: ubuntu-latest
    steps:
      - run: pip install numpy==1.17
"""


@pytest.mark.parametrize(
    ("files", "expected", "lost"),
    [
        (
            {"requirements.txt": "numpy>=1.17\n"},
            "numpy>=1.17",
            ["numpy==1.17: CI tries several versions, and requirements.txt:1 counts more"],
        ),
        (
            {"README.md": "It needs NumPy 1.20+.\n"},
            "numpy>=1.20",
            ["numpy==1.17: CI tries several versions, and README.md:1 counts more"],
        ),
        ({"requirements.txt": "numpy\n"}, "numpy==1.17", []),
        (
            {".github/workflows/ci.yml": f"{WORKFLOW}      - run: pip install numpy==1.21\n"},
            "numpy",
            ["numpy==1.17: CI tries several versions", "numpy==1.21: CI tries several versions"],
        ),
    ],
)
def test_a_version_that_ci_tries_narrows_no_range(decided, files, expected, lost):
    choice = decided({".github/workflows/ci.yml": WORKFLOW, "tool.py": "import numpy\n", **files}).requirements["numpy"]
    assert choice.value == expected and [f"{each.value}: {each.why}" for each in choice.lost] == lost
    assert expected != "numpy" or [str(origin) for origin in choice.origins] == [".github/workflows/ci.yml:6"]


@pytest.mark.parametrize(
    ("requires", "dependencies", "day", "expected"),
    [
        # The NumPy with which wheels for others are built does not count.
        (["numpy==1.19.3"], ["numpy>=1.22.4"], "2022-03-01", {"numpy": "numpy>=1.22.4"}),
        (["numpy>=2.0.0rc1,<2.3"], ["numpy>=1.22.4"], "2022-03-01", {"numpy": "numpy>=1.22.4"}),
        (
            ["numpy==1.19.3", "oldest-supported-numpy", "cython==0.29.24"],
            [],
            "2022-03-01",
            {"numpy": "numpy", "cython": "cython==0.29.24"},
        ),
        # The Python can import setuptools.
        (["setuptools"], [], "2018-12-10", {"setuptools": "setuptools>=41.1"}),
        (["setuptools>=30"], [], "2025-12-10", {"setuptools": "setuptools>=30,>=66.1"}),
        (["setuptools==40.6.2"], [], "2018-12-10", {"setuptools": "setuptools==40.6.2"}),
    ],
)
def test_requirements_of_the_build(decided, requires, dependencies, day, expected):
    text = f"[build-system]\nrequires = {requires}\n[project]\nname = 'tool'\ndependencies = {dependencies}\n"
    found = values(decided({"pyproject.toml": text}, day))
    assert {name: found[name] for name in expected} == expected and "oldest-supported-numpy" not in found


def test_imports_are_required_where_nothing_else_is_stated(decided):
    decision = decided(
        {
            "train.py": "import cv2, yaml, helper, os\nfrom sklearn import svm\nimport never_heard_of\n"
            "try:\n  import jax\nexcept ImportError:\n  pass\n",
            "helper.py": "import numpy\n",
            "tests/test_it.py": "import hypothesis\ndef test(): pass\n",
            "docs/conf.py": "import sphinx_rtd_theme\n",
        }
    )
    names = {"opencv-python-headless", "pyyaml", "scikit-learn", "numpy", "hypothesis", "pytest"}
    assert set(decision.requirements) == names
    assert str(decision.requirements["scikit-learn"].origins[0]) == "train.py:2"
    assert asked(decision) == [f"train.py:3: {NEVER_HEARD_OF}"]
    assert decision.python_paths == ("",) and [choice.value for choice in decision.apt] == ["libglib2.0-bin"]


def test_one_distribution_of_a_module_is_enough(decided):
    decision = decided(
        {
            "requirements.txt": "opencv-python\npynvml\nsklearn==0.0\nchinesecalendar\nfaiss-gpu\n",
            "run.py": "import cv2, pynvml, sklearn, chinese_calendar, faiss, jax\nfrom google.protobuf import text",
        }
    )
    names = {"opencv-python", "pynvml", "scikit-learn", "chinesecalendar", "faiss-gpu", "jax", "jaxlib", "protobuf"}
    assert set(decision.requirements) == names and not decision.questions
    assert decision.requirements["scikit-learn"].value == "scikit-learn"
    shared = {"a.py": "from google import protobuf as p\n", "b.py": "from google.protobuf import text_format\n"}
    assert set(decided(shared).requirements) == {"protobuf"} and not decided(shared).questions


@pytest.mark.parametrize(
    ("files", "names", "questions"),
    [
        (
            {
                "setup.py": setup(name="tool-x"),
                "rpc/job.proto": "",
                "test_a.py": "import tool_x, job_pb2_grpc, other_pb2\n",
            },
            "setuptools wheel",
            [
                "test_a.py:1: the module other_pb2 is imported: which distribution has it?",
                "test_a.py:1: protoc makes modules that are imported from rpc/job.proto: with which command?",
            ],
        ),
        (  # a compiled module
            {
                "setup.py": built("Extension('libcore', ['a.c']), CUDAExtension('kernels', ['a.cu'])"),
                "tool/__init__.py": "import libcore, kernels, never_heard_of\n",
            },
            "setuptools torch wheel",
            [f"tool/__init__.py:1: {NEVER_HEARD_OF}"],
        ),
        (  # modules of Python 2
            {
                "train.py": "import cPickle, numpy\nimport urllib2\nimport commands\ndef late():\n    import Queue\n",
                "commands.py": "",
            },
            "numpy",
            [
                "train.py:1: the code needs changes: no distribution here has Python 2, whose modules it imports "
                "(cPickle, urllib2)"
            ],
        ),
        (
            {".gitmodules": '[submodule "x"]\n\tpath = lib/x\n[submodule "y"]\n\tpath = y\n\turl = ../y\n'},
            "",
            ["None: the submodule lib/x has no address in .gitmodules"],
        ),
        (  # a README that installs its own project by conda
            {
                "setup.py": "from setuptools import setup\nsetup(name='Tool-Kit', packages=['tool'])\n",
                "tool/__init__.py": "",
                "README.md": "```\nconda install -c us tool-kit tool\nconda install moose\n```\n",
            },
            "setuptools wheel",
            [
                "README.md:3: conda installs moose: PyPI may have others of that name; "
                "add what the code needs to `wheels` or `apt`"
            ],
        ),
        (
            {"pyproject.toml": '[build-system]\nrequires = ["maturin>=1"]\n[project]\nname = "t"\n'},
            "maturin setuptools wheel",
            ["pyproject.toml:2: it is built with Rust: no block has cargo, and crates are not downloaded"],
        ),
        (
            {
                "pyproject.toml": '[build-system]\nrequires = ["scikit-build@git+https://forge.test/a/b.git", '
                '"clip @ git+https://forge.test/c"]\n[project]\nname = "t"\n'
            },
            "scikit-build setuptools wheel",
            [
                f"pyproject.toml:2: clip is installed from git+https://forge.test/c{LEFT_OUT}",
                "pyproject.toml:2: scikit-build is installed from git+https://forge.test/a/b.git; "
                "a release of the index is taken",
            ],
        ),
        (  # conda's folders in the output of pip freeze
            {
                "requirements.txt": "numpy @ file:///tmp/build/1/work\nscipy @ file:///croot/scipy/work\n"
                "my-own @ file:///home/me/my-own\n",
                "run.py": "import numpy\n",
            },
            "numpy scipy",
            [
                f"requirements.txt:3: my-own is installed from file:///home/me/my-own{LEFT_OUT}",
                "requirements.txt:1: numpy, scipy: installed from folders that are not here; "
                "releases of the index are taken",
            ],
        ),
        (
            {"train.py": "import torch\n", "ops/k.cu": "", "tests/t.cu": "", "third_party/x/y.cu": ""},
            "torch",
            ["ops/k.cu:1: CUDA code that no setup.py is known to compile: when and how is it compiled?"],
        ),
        (
            {"CMakeLists.txt": "project(t LANGUAGES CUDA)\n"},
            "",
            ["CMakeLists.txt:1: the recipe does not build what CMakeLists.txt makes; build it in the workspace"],
        ),
    ],
)
def test_what_no_file_settles_is_asked_about(decided, files, names, questions):
    decision = decided(files)
    assert asked(decision) == questions
    assert sorted(decision.requirements) == names.split()


def test_a_package_of_conda_that_pypi_is_not_known_to_have_is_a_question_and_never_installed(decided):
    listed = ["python=3.9", "nodejs=18", "numpy=1.21", "moose", "libgcc-ng=9.3.0", "r-ggplot2"]
    listed += [f"zz-{number}" for number in range(30)]
    decision = decided({"environment.yml": f"dependencies: [{', '.join(listed)}]\n", "a.py": "import numpy\n"})
    assert set(decision.requirements) == {"numpy"} and [choice.value for choice in decision.apt] == ["nodejs"]
    (question,) = (text for text in asked(decision) if "conda installs" in text)
    assert (
        question.startswith("environment.yml:1: conda installs moose, r-ggplot2, zz-0, ")
        and " and 12 more: " in question
    )


def test_extras_are_left_out_unless_the_tests_or_the_code_need_them(decided):
    extras = {"test": ["pytest-mock"], "docs": ["sphinx"], "plot": ["matplotlib>=3"], "gpu": ["cupy"]}
    files = {
        "setup.py": setup(name="tool", install_requires=["numpy"], extras_require=extras),
        "tool/__init__.py": "import matplotlib\n",
        "tests/test_a.py": "import tool\ndef test(): pass\n",
    }
    decision = decided(files)
    assert set(decision.requirements) == {"numpy", "pytest-mock", "pytest", "matplotlib", "setuptools", "wheel"}
    assert decision.requirements["matplotlib"].value == "matplotlib>=3" and decision.modules == ("tool",)
    del files["tests/test_a.py"]
    assert "sphinx" not in decided(files).requirements


def test_what_only_an_optional_part_needs_is_marked(decided):
    extras = {"sim": ["mujoco_py<2"], "test": ["mock"]}
    files = {
        "setup.py": setup(name="tool", install_requires=["numpy"], extras_require=extras),
        "README.md": "```\npip install mujoco_py\n```\n",
        "tool/__init__.py": "import numpy\n",
        "tool/sim.py": "import mujoco_py, pymc3\n",
        "tests/test_a.py": "import hypothesis\ndef test(): pass\n",
    }
    decision = decided(files)
    assert decision.optional == {"mujoco-py", "pymc3", "hypothesis", "mock"} < set(decision.requirements)
    assert decision.imports == {"mujoco_py": "mujoco-py", "numpy": "numpy", "pymc3": "pymc3"}
    assert decided(files | {"setup.py": ""}).optional == frozenset()


def test_folders_that_only_documents_or_ci_use_do_not_decide(decided):
    files = {
        "setup.py": setup(name="tool", install_requires=["numpy"]),
        "tool/__init__.py": "",
        "util/readthedocs/requirements.txt": "docutils<0.18\n",
        "docs/Dockerfile": "FROM debian\nENV A=b\nRUN apt-get install nodejs\n",
        ".ci/release.py": "import requests\n",
        "bench/plot.py": "import matplotlib\n",
    }
    decision = decided(files)
    assert set(decision.requirements) == {"numpy", "setuptools", "wheel"}
    assert not (decision.apt or decision.env or decision.imports)


def test_notebooks_that_are_the_only_code_are_it(decided):
    cell = "!pip install torch==1.9.0\\nimport torch, never_heard_of"
    files = {"notebooks/a.ipynb": f'{{"cells": [{{"cell_type": "code", "source": "{cell}"}}]}}'}
    for more in ({}, {"binder/requirements.txt": "numpy\n", "setup.py": ""}):
        decision = decided(files | more)
        assert values(decision)["torch"] == "torch==1.9.0" and decision.imports == {"torch": "torch"}
        assert asked(decision) == [f"notebooks/a.ipynb:2: {NEVER_HEARD_OF}"]
    for module in ("numpy", "torch"):
        decision = decided(files | {"run.py": f"import {module}\n", "requirements.txt": f"{module}\n"})
        assert decision.imports == {module: module} and values(decision) == {module: module}


def test_versions_of_lock_files_keep_their_lines_and_markers_count_for_the_chosen_python(decided):
    lock = "".join(f'[[package]]\nname = "attrs"\nversion = "{version}"\n' for version in ("21.2", "22.1"))
    markers = "attrs\na; python_version<'3.8'\nb; sys_platform=='win32'\nc; python_version>='3.8'\n"
    decision = decided({"poetry.lock": lock, "requirements.txt": markers})
    locked = [(choice.value, str(choice.origins[0])) for choice in decision.locked["attrs"]]
    assert locked == [("21.2", "poetry.lock:1"), ("22.1", "poetry.lock:4")]
    assert list(decision.requirements) == ["attrs", "c"]


def test_a_python_of_poetry_may_have_a_patch_release(decided):
    for python, required in ((">=3.9.1", True), ("3.9", True), ("3.8", False)):
        poetry = f'[tool.poetry.dependencies]\npython = "~3.9"\nidna = {{version = "3.3", python = "{python}"}}\n'
        assert ("idna" in decided({"pyproject.toml": poetry}).requirements) is required


# What is compiled


def test_libraries_that_extensions_link_are_packages_of_the_distribution(decided):
    code = "import sys\nfrom setuptools import Extension, setup\n"
    code += "ask(os.environ.get('CONFIG', 'curl-config')), has_header(['lmdb.h', 'own.h'])\n"
    code += "setup(name='t', ext_modules=[Extension('k', ['k.c'], libraries=['fftw3', 'm'], extra=['-fopenmp'])])\n"
    found = decided({"setup.py": code}).apt
    assert {c.value for c in found} == {"libcurl4-openssl-dev", "liblmdb-dev", "libgomp1", "libfftw3-dev"}
    assert {str(c.origins[0]) for c in found} == {"setup.py:3", "setup.py:4"}


def test_what_is_compiled_gets_the_packages_of_its_headers(decided):
    sources = {
        "a.c": '#include <hdf5.h>\n#include "mpi.h"\n#include "own.h"\n',
        "b.pxd": "cdef extern from 'libxml/tree.h' nogil:\n  pass\n",
        "tests/c.c": "#include <png.h>\n",
        **{"include/own.h": "", "hdf5.h": ""},
    }
    found = decided({**sources, "setup.py": built("Extension('core', ['a.c'])")}).apt
    assert [(c.value, str(c.origins[0])) for c in found] == [("libopenmpi-dev", "a.c:2"), ("libxml2-dev", "b.pxd:1")]
    assert not decided({**sources, "setup.py": setup(name="tool")}).apt


def test_kernels_get_the_compiler_of_the_distribution(decided):
    decision = decided({"setup.py": built("CUDAExtension('k', ['k.cu'])"), "README.md": "CUDA 10.2\n"})
    cuda = decision.pins["cuda"]
    assert cuda.value == "11.2" and decision.pins["gcc"].value == "10"
    assert [(x.value, str(x.origin)) for x in cuda.lost] == [("CUDA ==10.2.*", "README.md:1")]
    assert "11.6 was the newest on 2022-03-01" in cuda.why
    assert "cuda" not in decided({"setup.py": EXTENSIONS + setup(name="tool"), "README.md": "CUDA 10.2\n"}).pins


def test_kernels_that_a_branch_chooses_are_found_and_asked_about(decided):
    code = (
        "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDA_HOME, CppExtension, CUDAExtension\n"
    )
    code += "kind = CUDAExtension if CUDA_HOME else CppExtension\nsetup(name='t', ext_modules=[kind('k', ['k.cu'])])\n"
    decision = decided({"setup.py": code})
    assert decision.pins["cuda"].value == "11.2"
    (question,) = [text for text in asked(decision) if "compiled for CUDA or for the CPU" in text]
    assert question.startswith("setup.py:3: ") and question.endswith("here for CUDA 11.2")


# The project


@pytest.mark.parametrize(
    ("code", "packages", "modules"),
    [
        (
            setup(name="tool", packages=["curl", "curl.inner", "elsewhere", "", "no-module"]),
            "src/curl winbuild tools tests",
            ("curl", "elsewhere"),
        ),
        (setup(name="tool"), "src/curl winbuild tools tests", ("curl", "winbuild")),
        # A src that is a package itself is no folder of packages.
        (
            "from setuptools import find_packages, setup\nsetup(name='src', packages=find_packages())\n",
            "src src/models src/data",
            ("src",),
        ),
        # A project without packages installs the modules that it compiles.
        (built("Extension(name='core', sources=['a.cpp'])"), "", ("core",)),
        (built("Extension('tool._core', ['a.c']), Extension('alone', ['b.c'])"), "tool", ("tool",)),
        (built("CUDAExtension('kernels', ['a.cu']), Extension('core', ['a.c'])"), "", ("core",)),
        (built("cythonize('a.pyx')"), "", ()),
    ],
)
@pytest.mark.slow
def test_modules_that_must_import(decided, code, packages, modules):
    files = {f"{name}/__init__.py": "" for name in packages.split()}
    assert decided({"setup.py": code, **files}).modules == modules


def test_a_project_deep_within_is_not_the_one_that_is_built(decided):
    deep = {"workloads/torch/model/setup.py": setup(name="model", install_requires=["torch==1.1"])}
    decision = decided({"requirements.txt": "torch>=1.4\n", **deep, "run.py": "import torch\n"})
    assert decision.project is None and decision.python_paths == ("",)
    assert values(decision)["torch"] == "torch>=1.4"
    assert decided({"python/tool/setup.py": setup(name="tool")}).project_folder == "python/tool"


def test_a_project_in_src_is_imported_from_there(decided):
    assert decided({"setup.py": setup(name="tool"), "src/tool/__init__.py": ""}).python_paths == ("src",)
    files = {"a/setup.py": setup(name="a"), "a/src/a/__init__.py": "", "setup.py": ""}
    assert decided(files).python_paths == ("a/src",)


OPS = {
    "models/ops/setup.py": "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
    "setup(name='Ops', packages=['functions'], ext_modules=[CUDAExtension('ops_cuda', ['a.cu'])])\n",
    "models/ops/functions/__init__.py": "import torch\n",
    "models/ops/a.cu": "",
}


def test_an_extension_beside_scripts_or_the_project_is_asked_about_and_its_module_is_not(decided):
    """The scripts need what they import, are on the path, and their reader learns what is not built."""
    code = {"main.py": "import torch, models.a\n", "models/a.py": "import scipy\n", "models/b.py": "import ops_cuda\n"}
    decision = decided({**OPS, **code, "requirements.txt": "tqdm\n"})
    assert {"torch", "scipy", "tqdm"} <= set(decision.requirements) and not decision.optional
    assert decision.python_paths == ("models/ops", "") and "cuda" in decision.pins
    question = "the recipe does not build the extensions of models/ops; build them in the workspace"
    assert asked(decision) == [f"models/ops/setup.py:3: {question}"]
    project = {"setup.py": setup(name="tool"), "tool/__init__.py": "import ops_cuda\n"}
    assert asked(decided({**OPS, **project})) == [f"models/ops/setup.py:3: {question}"]


@pytest.mark.parametrize(
    ("more", "taken", "other"), [("", "alpha", "core"), ("install_requires=['numpy']", "core", "alpha")]
)
def test_of_several_projects_the_one_that_states_the_most_is_taken_and_the_others_named(decided, more, taken, other):
    files = {f"packages/{n}/setup.py": f"setup(name='{n}', {more if n == 'core' else ''})\n" for n in ("alpha", "core")}
    decision = decided(files)
    assert decision.project_folder == f"packages/{taken}"
    assert asked(decision) == [
        f"None: several folders are projects: packages/{taken} is taken, and not packages/{other}"
    ]


def test_a_project_of_the_repository_is_not_taken_from_the_index(decided):
    files = {
        "setup.py": "setup(name='tool', install_requires=['our-part', 'transformers'])\n",
        "tool/__init__.py": "import our_part\n",
        "env/part/setup.py": "setup(name='our_part')\n",
        "env/part/our_part/__init__.py": "",
        "fork/setup.py": "setup(name='transformers')\n",
    }
    decision = decided(files)
    assert "our-part" not in decision.requirements and "transformers" in decision.requirements
    assert asked(decision) == [
        "setup.py:1: our-part is the project of env/part: the recipe does not install it",
        "setup.py:1: transformers is the project of fork: a release of the index is taken",
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts = --cov --cov-report a -n 2 # '\nrequired_plugins =\n  pytest-mpi>=0.2\n"),
        ("tox.ini", "[tox]\n[pytest]\naddopts = --cov 'x -n 2\nrequired_plugins = pytest-mpi>=0.2\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --cov=tool --dist=load\nrequired_plugins = pytest-mpi>=0.2\n"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\naddopts = ['--cov', '-n2']\nrequired_plugins = 'pytest-mpi>=0.2'\n",
        ),
    ],
)
@pytest.mark.slow
def test_plugins_that_settings_need_are_installed_beside_tests(decided, path, text):
    files = {"setup.py": setup(name="tool", install_requires=["numpy"]), path: text}
    decision = decided(files | {"test_a.py": "def test(): pass\n"})
    plugins = {name: str(choice.origins[0]) for name, choice in decision.requirements.items() if "-" in name}
    mpi, added = (text[: text.index(word)].count("\n") + 1 for word in ("pytest-mpi", "--cov"))
    lines = {"pytest-mpi": mpi, "pytest-cov": added, "pytest-xdist": added}
    assert plugins == {name: f"{path}:{line}" for name, line in lines.items()}
    assert plugins.keys() <= decision.optional and values(decision)["pytest-mpi"] == "pytest-mpi>=0.2"
    assert "pytest-cov" not in decided(files).requirements


def test_a_module_that_is_only_named_like_a_test_is_none(decided):
    files = {
        "setup.py": setup(name="tool"),
        "a/test_time.py": "class TestTimePool(Module):\n    def forward(self): pass\n",
    }
    decision = decided(files)
    assert not decision.tests and "pytest" not in decision.requirements
    for code in ("async def test_a(): pass\n", "class A:\n\n    def test_a(self): pass\n"):
        assert decided(files | {"a/a_test.py": code}).tests


# What is not used


def test_what_is_read_and_not_used_is_listed_with_its_line(decided):
    decision = decided(
        {
            "requirements.txt": "numpy\n",
            "Dockerfile": "FROM debian\nRUN pip install attrs==22.1.0 && apt install -y python3.9 git\nENV PATH=/x\n",
            ".github/workflows/t.yml": "jobs: {t: {steps: [{run: apt-get install -y ffmpeg}]}}\n",
            "README.md": "```\nconda install pyyaml=5.4\nexport TORCH_CUDA_ARCH_LIST=8.0\n```\n",
            "CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 80)\nfind_package(Unknown 1 REQUIRED)\n"
            "find_package(glog REQUIRED)",
            "run.py": "import numpy\n",
        }
    )
    assert {(unused.value, str(unused.origin)) for unused in decision.unused} == {
        ("attrs==22.1.0", "Dockerfile:2"),
        ("apt python3.9", "Dockerfile:2"),
        ("apt ffmpeg", ".github/workflows/t.yml:1"),
        ("pyyaml==5.4.*", "README.md:2"),
        ("TORCH_CUDA_ARCH_LIST=8.0", "README.md:3"),
        ("GPU architecture 8.0", "CMakeLists.txt:1"),
        ("the library Unknown 1", "CMakeLists.txt:2"),
    }
    text = draft(decision, Versions({"numpy": "1.22.2"}), "", "", bundled())
    why = "no code imports it, and other files declare what is needed"
    assert f"# not used: attrs==22.1.0 (Dockerfile:2): {why}\n" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("binder/requirements.txt", "tqdm\nrich\n"),
        ("sub/setup.py", setup(name="s", install_requires=["tqdm", "rich"])),
    ],
)
def test_files_that_are_passed_over_as_a_whole_have_one_line_each(decided, name, text):
    decision = decided({"pyproject.toml": '[project]\nname = "t"\ndependencies = ["numpy"]\n', name: text})
    assert [(u.value, u.why) for u in decision.unused] == [(f"what {name} installs", "it is not for t itself")]


def test_beside_a_folder_of_repo2docker_its_files_in_the_root_do_not_count(decided):
    files = {"runtime.txt": "python-3.9\n", "apt.txt": "graphviz\n", "run.py": "import numpy\n"}
    decision = decided(files)
    assert decision.base.python == "3.9" and [choice.value for choice in decision.apt] == ["graphviz"]
    decision = decided(files | {".binder/runtime.txt": "python-3.11\n"})
    assert decision.base.python == "3.11" and not decision.apt
    assert {(u.value, str(u.origin)) for u in decision.unused} == {
        ("python ==3.9.*", "runtime.txt:1"),
        ("apt graphviz", "apt.txt:1"),
    }
    assert {u.why for u in decision.unused} == {"repo2docker reads its own folder instead"}


def test_lists_are_bounded(decided):
    many = "".join(f"RUN pip install p{number}\n" for number in range(100))
    unused = decided({"requirements.txt": "numpy\n", "Dockerfile": f"FROM debian\n{many}"}).unused
    assert [each.value for each in unused][-2:] == ["p39", "60 more statements"]
    questions = asked(decided({"Dockerfile": "FROM debian\n" + "".join(f"RUN apk add p{n}\n" for n in range(70))}))
    assert len(questions) == 61 and questions[-1] == "Dockerfile:62: and 10 more, the first of them"
