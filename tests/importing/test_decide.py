"""The decision over statements: who wins, why, and what is asked."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError


def setup(**keywords: object) -> str:
    return f"from setuptools import setup\nsetup({', '.join(f'{k}={v!r}' for k, v in keywords.items())})\n"


@pytest.mark.slow
def test_files_that_agree_are_joined_and_the_weightier_wins_otherwise(decided):
    found = decided(
        {
            "setup.py": setup(name="tool", install_requires=["numpy>=1.18", "torch>=1.8,<1.11", "scipy==1.7.3"]),
            "requirements.txt": "numpy==1.21.5\nscipy==1.5.0\n",
            "README.md": "PyTorch 1.4\n",
        }
    )
    assert found.requirements["numpy"].value == "numpy==1.21.5,>=1.18"
    assert [str(o) for o in found.requirements["numpy"].origins] == ["setup.py:2", "requirements.txt:1"]
    scipy = found.requirements["scipy"]
    assert scipy.value == "scipy==1.7.3"
    assert [(str(x.origin), x.value, x.why) for x in scipy.lost] == [
        ("requirements.txt:2", "scipy==1.5.0", "contradicts setup.py:2, which counts more")
    ]
    assert found.requirements["torch"].value == "torch<1.11,>=1.8" and "tool" not in found.requirements


@pytest.mark.parametrize(
    ("day", "requires", "classifiers", "extra", "base", "why"),
    [
        ("2022-03-01", ">=3.7", [], "", "debian:11 3.9", "debian:11 was stable"),
        ("2024-03-01", ">=3.7", [], "", "debian:12 3.11", "debian:12 was stable"),
        ("2020-12-01", ">=3.6", [], "", "debian:11 3.9", "debian:10 was stable on 2020-12-01, and its archive"),
        ("2024-03-01", ">=3.7", ["3.8", "3.9"], "", "debian:11 3.9", "the Python of debian:11 fits better"),
        ("2022-03-01", ">=3.11", [], "", "debian:12 3.11", "fits better"),
        ("2022-03-01", ">=3.7", [], "FROM debian\nRUN conda create python=3.11\n", "debian:12 3.11", "fits better"),
        ("2020-12-01", ">=3.6,<3.9", [], "", "ubuntu:20.04 3.8", ""),
    ],
)
def test_the_python_is_the_nearest_that_can_be_had(decided, day, requires, classifiers, extra, base, why):
    tested = [f"Programming Language :: Python :: {version}" for version in classifiers]
    files = {"setup.py": setup(name="tool", python_requires=requires, classifiers=tested)}
    found = decided(files | ({"Dockerfile": extra} if extra else {}), day)
    assert f"{found.base.distro} {found.base.python}" == base and why in found.base_choice.why


def test_a_python_that_no_distribution_has_is_named(decided):
    files = {"environment.yml": "dependencies: [python=3.7, numpy]\n", "README.md": "It needs Python 3.7.\n"}
    found = decided(files, "2020-12-01")
    [lost] = found.base_choice.lost
    assert (lost.value, str(lost.origin)) == ("Python ==3.7.*", "environment.yml:1")
    assert lost.why == "no distribution here has it; 3.9 is the nearest"
    with pytest.raises(UsageError, match="no distribution has a Python that fits '<3'"):
        decided({"setup.py": setup(name="tool", python_requires="<3")})


def test_imports_are_required_where_nothing_else_is_stated(decided):
    found = decided(
        {
            "train.py": "import cv2, yaml, helper, os\nfrom sklearn import svm\nimport never_heard_of\n"
            "try:\n  import jax\nexcept ImportError:\n  pass\n",
            "helper.py": "import numpy\n",
            "tests/test_it.py": "import hypothesis\ndef test(): pass\n",
            "docs/conf.py": "import sphinx_rtd_theme\n",
        }
    )
    assert set(found.requirements) == {
        *("opencv-python-headless", "pyyaml", "scikit-learn", "numpy", "hypothesis", "pytest"),
    }
    assert str(found.requirements["scikit-learn"].origins[0]) == "train.py:2"
    assert [(q.text, str(q.origin)) for q in found.questions] == [
        ("the module never_heard_of is imported: which distribution has it?", "train.py:3")
    ]
    assert found.python_paths == ("",) and [choice.value for choice in found.apt] == ["libglib2.0-bin"]


def test_extras_are_left_out_unless_the_tests_or_the_code_need_them(decided):
    extras = {"test": ["pytest-mock"], "docs": ["sphinx"], "plot": ["matplotlib>=3"], "gpu": ["cupy"]}
    files = {
        "setup.py": setup(name="tool", install_requires=["numpy"], extras_require=extras),
        "tool/__init__.py": "import matplotlib\n",
        "tests/test_a.py": "import tool\ndef test(): pass\n",
    }
    found = decided(files)
    assert set(found.requirements) == {"numpy", "pytest-mock", "pytest", "matplotlib", "setuptools", "wheel"}
    assert found.requirements["matplotlib"].value == "matplotlib>=3" and found.modules == ("tool",)
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
    found = decided(files)
    assert found.optional == {"mujoco-py", "pymc3", "hypothesis", "mock"} < set(found.requirements)
    assert found.imports == {"mujoco_py": "mujoco-py", "numpy": "numpy", "pymc3": "pymc3"}
    assert decided(files | {"setup.py": ""}).optional == frozenset()


def test_one_distribution_of_a_module_is_enough(decided):
    found = decided(
        {
            "requirements.txt": "opencv-python\npynvml\nsklearn==0.0\nchinesecalendar\nfaiss-gpu\n",
            "run.py": "import cv2, pynvml, sklearn, chinese_calendar, faiss, jax\nfrom google.protobuf import text",
        }
    )
    names = {"opencv-python", "pynvml", "scikit-learn", "chinesecalendar", "faiss-gpu", "jax", "jaxlib", "protobuf"}
    assert set(found.requirements) == names and not found.questions
    assert found.requirements["scikit-learn"].value == "scikit-learn"


def test_modules_of_protoc_and_the_projects_own_are_no_distributions(decided):
    code = "import tool_x, job_pb2, job_pb2_grpc, other_pb2\n"
    found = decided({"setup.py": setup(name="tool-x"), "rpc/job.proto": "", "tests/test_a.py": code})
    texts = [q.text for q in found.questions]
    assert texts == [
        "the module other_pb2 is imported: which distribution has it?",
        "protoc makes modules that are imported from rpc/job.proto: with which command?",
    ]


def test_wheels_for_others_do_not_choose_the_numpy_of_the_code(decided):
    build = '[build-system]\nrequires = ["numpy==1.19.3", "oldest-supported-numpy", "cython==0.29.24"]\n'
    found = decided({"pyproject.toml": build, "setup.py": setup(name="tool", install_requires=["numpy>=1.16"])})
    values = {key: choice.value for key, choice in found.requirements.items()}
    assert (values["numpy"], values["cython"]) == ("numpy>=1.16", "cython==0.29.24")
    assert "oldest-supported-numpy" not in values
    assert decided({"pyproject.toml": build, "setup.py": setup(name="tool")}).requirements["numpy"].value == "numpy"


def test_folders_that_only_documents_or_ci_use_do_not_decide(decided):
    found = decided(
        {
            "setup.py": setup(name="tool", install_requires=["numpy"]),
            "tool/__init__.py": "",
            "util/readthedocs/requirements.txt": "docutils<0.18\n",
            "docs/Dockerfile": "FROM debian\nENV A=b\nRUN apt-get install nodejs\n",
            ".ci/release.py": "import requests\n",
            "bench/plot.py": "import matplotlib\n",
        }
    )
    assert set(found.requirements) == {"numpy", "setuptools", "wheel"} and not (found.apt or found.env or found.imports)


def test_a_project_deep_within_is_not_the_one_that_is_built(decided):
    deep = {"workloads/torch/model/setup.py": setup(name="model", install_requires=["torch==1.1"])}
    found = decided({"requirements.txt": "torch>=1.4\n", **deep, "run.py": "import torch\n"})
    assert found.project is None and found.python_paths == ("",)
    assert found.requirements["torch"].value == "torch>=1.4"
    assert decided({"python/tool/setup.py": setup(name="tool")}).project_folder == "python/tool"


def test_libraries_that_extensions_link_are_packages_of_the_distribution(decided):
    code = "import sys\nfrom setuptools import Extension, setup\n"
    code += "ask(os.environ.get('CONFIG', 'curl-config')), has_header(['lmdb.h', 'own.h'])\n"
    code += "setup(name='t', ext_modules=[Extension('k', ['k.c'], libraries=['fftw3', 'm'], extra=['-fopenmp'])])\n"
    found = decided({"setup.py": code}).apt
    assert {c.value for c in found} == {"libcurl4-openssl-dev", "liblmdb-dev", "libgomp1", "libfftw3-dev"}
    assert {str(c.origins[0]) for c in found} == {"setup.py:3", "setup.py:4"}


def test_a_module_is_imported_by_code_even_if_a_notebook_imports_it_too(decided):
    notebook = '{"cells": [{"cell_type": "code", "source": "import pandas"}]}'
    found = decided({"requirements.txt": "pandas\n", "a.ipynb": notebook, "run.py": "import pandas\n"})
    assert found.imports == {"pandas": "pandas"}


def test_notebooks_that_are_the_only_code_are_it(decided):
    cell = "!pip install torch==1.9.0\\nimport torch, never_heard_of"
    files = {"notebooks/a.ipynb": f'{{"cells": [{{"cell_type": "code", "source": "{cell}"}}]}}'}
    for more in ({}, {"binder/requirements.txt": "numpy\n", "setup.py": ""}):
        found = decided(files | more)
        assert found.requirements["torch"].value == "torch==1.9.0" and found.imports == {"torch": "torch"}
        assert [q.text for q in found.questions] == [
            "the module never_heard_of is imported: which distribution has it?"
        ]
    found = decided(files | {"run.py": "import numpy\n", "requirements.txt": "numpy\n"})
    assert found.imports == {"numpy": "numpy"} and "torch" not in found.requirements


def test_versions_of_lock_files_keep_their_lines(decided):
    lock = "".join(f'[[package]]\nname = "attrs"\nversion = "{version}"\n' for version in ("21.2", "22.1"))
    [first, second] = decided({"poetry.lock": lock, "requirements.txt": "attrs\n"}).locked["attrs"]
    assert [(c.value, str(c.origins[0])) for c in (first, second)] == [
        ("21.2", "poetry.lock:1"),
        ("22.1", "poetry.lock:4"),
    ]


def test_a_project_in_src_is_imported_from_there(decided):
    files = {"setup.py": setup(name="tool"), "src/tool/__init__.py": ""}
    assert decided(files).python_paths == ("src",)
    assert decided({"a/setup.py": setup(name="a"), "a/src/a/__init__.py": "", "setup.py": ""}).python_paths == (
        "a/src",
    )


def test_markers_count_for_the_chosen_python(decided):
    found = decided(
        {"requirements.txt": "a; python_version<'3.8'\nb; sys_platform=='win32'\nc; python_version>='3.8'\n"}
    )
    assert list(found.requirements) == ["c"]


def test_kernels_get_the_compiler_of_the_distribution(decided):
    files = {
        "setup.py": "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
        "setup(name='tool', ext_modules=[CUDAExtension('k', ['k.cu'])])\n",
        "README.md": "CUDA 10.2\n",
    }
    found = decided(files)
    assert found.pins["cuda"].value == "11.2" and found.pins["gcc"].value == "10"
    assert [(x.value, str(x.origin)) for x in found.pins["cuda"].lost] == [("CUDA ==10.2.*", "README.md:1")]
    assert "11.6 was the newest on 2022-03-01" in found.pins["cuda"].why
    assert "cuda" not in decided({"setup.py": setup(name="tool")}).pins


@pytest.mark.parametrize(
    ("required", "base", "lost", "asked"),
    [
        ("find_package(CUDAToolkit 11.2 REQUIRED)", "debian:11", "", ""),
        ("find_package(CUDAToolkit 11.3 REQUIRED)", "debian:12", "CUDA >=11.3", ""),
        ("find_package(CUDAToolkit 11.3)", "debian:11", "", ""),
        ("cmake_minimum_required(VERSION 3.20)", "debian:12", "CMake >=3.20", ""),
        ("find_package(CUDA 99 REQUIRED)", "debian:11", "", "CUDA >=99"),
        ("cmake_minimum_required(VERSION 99)", "debian:11", "", "CMake >=99"),
    ],
)  # fmt: skip
def test_what_the_build_requires_chooses_the_base_or_is_asked(decided, required, base, lost, asked):
    found = decided({"CMakeLists.txt": f"project(tool LANGUAGES CXX CUDA)\n{required}\n"})
    assert found.base.distro == base
    reasons = [*(o.why for o in found.base_choice.lost), *(q.text for q in found.questions if "is required" in q.text)]
    expected = [f"{one} is required, and debian:11 has " for one in (lost, asked) if one]
    assert len(reasons) == len(expected) and all(map(str.startswith, reasons, expected))
    assert (found.base_choice.why == "debian:11 would fit better, and lacks what the build requires") == bool(lost)


def test_a_minimum_of_cmake_that_a_wheel_meets_or_that_a_part_states_does_not_choose_the_base(decided):
    required = "cmake_minimum_required(VERSION 3.20)\n"
    for files in ({"CMakeLists.txt": required, "requirements.txt": "cmake>=3.20\n"}, {"cpp/CMakeLists.txt": required}):
        assert decided(files).base.distro == "debian:11"


def test_kernels_that_a_branch_chooses_are_found_and_asked_about(decided):
    code = (
        "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDA_HOME, CppExtension, CUDAExtension\n"
    )
    code += (
        "kind = CUDAExtension if CUDA_HOME else CppExtension\nsetup(name='tool', ext_modules=[kind('k', ['k.cu'])])\n"
    )
    found = decided({"setup.py": code})
    assert found.pins["cuda"].value == "11.2"
    (question,) = [q for q in found.questions if "compiled for CUDA or for the CPU" in q.text]
    assert question.text.endswith("here for CUDA 11.2") and str(question.origin) == "setup.py:3"
    imported = "from torch.utils.cpp_extension import CUDAExtension\n"
    assert "cuda" not in decided({"setup.py": imported + setup(name="tool")}).pins


@pytest.mark.parametrize(
    ("packages", "modules"),
    [(["curl", "curl.inner", "elsewhere", "", "no-module"], ("curl", "elsewhere")), (None, ("curl", "winbuild"))],
)
def test_modules_that_must_import_are_those_that_setup_py_names(decided, packages, modules):
    keywords = {"name": "tool"} | ({"packages": packages} if packages else {})
    files = {f"{name}/__init__.py": "" for name in ("src/curl", "winbuild", "tools", "tests")}
    assert decided({"setup.py": setup(**keywords), **files}).modules == modules


def test_a_submodule_without_an_address_is_asked_about(decided):
    found = decided({".gitmodules": '[submodule "x"]\n\tpath = lib/x\n[submodule "y"]\n\tpath = y\n\turl = ../y\n'})
    assert [q.text for q in found.questions] == ["the submodule lib/x has no address in .gitmodules"]


def test_code_of_rust_is_asked_about(decided):
    build = '[build-system]\nrequires = ["maturin>=1"]\n[project]\nname = "t"\n'
    [question] = decided({"pyproject.toml": build}).questions
    assert "built with Rust" in question.text and question.origin.line == 2


def test_the_address_of_a_known_project_becomes_its_release(decided):
    build = '[build-system]\nrequires = ["scikit-build@git+https://forge.test/a/b.git", "clip @ git+https://forge.test/c"]\n'
    found = decided({"pyproject.toml": build + '[project]\nname = "t"\n'})
    assert found.requirements["scikit-build"].value == "scikit-build" and "clip" not in found.requirements
    assert [q.text for q in found.questions] == [
        "clip is installed from git+https://forge.test/c, and left out: an index may have another project of that name",
        "scikit-build is installed from git+https://forge.test/a/b.git; a release of the index is taken",
    ]
