"""The base and its Python: the nearest that files require, and that has wheels of what they pin."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError

OURS = '[project]\nname = "tool"\nrequires-python = "{}"\ndependencies = ["numpy"]\n'
KERNELS = "from torch.utils.cpp_extension import CUDAExtension\nsetup(name='t', ext_modules=[CUDAExtension('k', [])])\n"
DEBIAN_11, DEBIAN_12, FOCAL, BIONIC = "debian:11 3.9", "debian:12 3.11", "ubuntu:20.04 3.8", "ubuntu:18.04 3.6"


def _base(decision) -> str:
    return f"{decision.base.distro} {decision.base.python}"


def setup(**keywords: object) -> str:
    return f"from setuptools import setup\nsetup({', '.join(f'{k}={v!r}' for k, v in keywords.items())})\n"


@pytest.mark.parametrize(
    ("day", "requires", "classifiers", "dockerfile", "base", "why"),
    [
        ("2022-03-01", ">=3.7", [], "", DEBIAN_11, "debian:11 was stable"),
        ("2024-03-01", ">=3.7", [], "", DEBIAN_12, "debian:12 was stable"),
        ("2020-12-01", ">=3.6", [], "", DEBIAN_11, "debian:10 was stable on 2020-12-01, and its archive"),
        ("2024-03-01", ">=3.7", ["3.8", "3.9"], "", DEBIAN_11, "the Python of debian:11 fits better"),
        ("2022-03-01", ">=3.11", [], "", DEBIAN_12, "fits better"),
        ("2022-03-01", ">=3.7", [], "FROM debian\nRUN conda create python=3.11\n", DEBIAN_12, "fits better"),
        ("2020-12-01", ">=3.6,<3.9", [], "", FOCAL, ""),
    ],
)
def test_the_python_is_the_nearest_that_can_be_had(decided, day, requires, classifiers, dockerfile, base, why):
    tested = [f"Programming Language :: Python :: {version}" for version in classifiers]
    files = {"setup.py": setup(name="tool", python_requires=requires, classifiers=tested), "Dockerfile": dockerfile}
    decision = decided({name: text for name, text in files.items() if text}, day)
    assert _base(decision) == base and why in decision.base_choice.why


@pytest.mark.parametrize(
    ("base", "requirements"),
    [
        (DEBIAN_11, "torch==1.7.1+cu110; torch==1.3.1; numpy==1.19.*; tensorflow==2.8.0; tensorflow-gpu==2.3.1"),
        (DEBIAN_11, "tokenizers==0.10.3; scipy==1.5.4; pandas==1.1.5, scikit-learn==0.24.2"),
        (DEBIAN_12, "torch>=1.7; torch==2.0.1; numpy==1.24.1, torch==2.0.1; torch==99.1; tensorflow==2.13.0"),
        (DEBIAN_12, "jax==0.4.10; apex==0.1; scipy>=1.5; accelerate==0.20.3; unknown-thing==0.1; torch==1!2.0"),
    ],
)
@pytest.mark.slow
def test_the_python_has_wheels_of_exact_versions(decided, base, requirements):
    """On a day on which debian:12 was stable."""
    for text in requirements.split("; "):
        files = {"requirements.txt": text.replace(", ", "\n"), "train.py": "import torch, numpy\n"}
        assert _base(decided(files, "2024-03-01")) == base, text


@pytest.mark.parametrize(
    ("base", "requirements"),
    [
        (BIONIC, ["tensorflow==1.15.4", "tensorflow>=1.15.2,<2.0", "tensorflow-gpu==1.8.0"]),
        (DEBIAN_11, ["tensorflow==2.0.0", "torch==1.0.1", "torch>=1.4,<1.7", "tensorflow<0.2"]),
    ],
)
def test_a_framework_of_a_major_version_that_debian_has_no_python_for_takes_ubuntu(decided, base, requirements):
    for text in requirements:
        decision = decided({"requirements.txt": text, "a.py": "import torch\n"}, "2020-09-26")
        assert _base(decision) == base, text
        lost = [(each.value, str(each.origin)) for each in decision.base_choice.lost]
        assert lost == ([("debian:11", "requirements.txt:1")] if base == BIONIC else []), text


@pytest.mark.parametrize(
    ("base", "files"),
    [
        (DEBIAN_11, {"environment.yml": "dependencies: [python=3.8, numpy]\n"}),
        (DEBIAN_12, {"environment.yml": "dependencies: [python=3.12, numpy]\n"}),
        (DEBIAN_12, {"README.md": "Use Python 3.6.\n", "Dockerfile": "FROM python:3.12\n"}),
        (DEBIAN_11, {"README.md": "```\npip install torch==1.9.1+cu111\n```\n"}),
        (DEBIAN_11, {"install.sh": "pip install torch==1.9.1+cu111\n"}),
        (DEBIAN_12, {"install.sh": "pip install torch==1.9.1\n", "README.md": "PyTorch 2.0.0\n"}),
        (DEBIAN_12, {"README.md": "Use Python 3.6.\n", "setup.py": "setup(name='t', python_requires='>=3.9')\n"}),
        (DEBIAN_12, {"README.md": "PyTorch 1.9.1\n", "requirements.txt": "torch>=2.0\n"}),
        # Of an exact Python the minor counts.
        (DEBIAN_11, {"environment.yml": "dependencies: [python=3.9, numpy]\n"}),
        (DEBIAN_11, {"environment.yml": "dependencies: [python=3.9.7, numpy]\n"}),
        (DEBIAN_11, {"environment.yml": "dependencies: [python==3.9.7, numpy]\n"}),
        (DEBIAN_11, {"environment.yml": "dependencies: [python=3.9.7=h12debd9_1, numpy]\n"}),
    ],
)
def test_the_nearest_to_a_python_that_cannot_be_had_is_taken(decided, base, files):
    """On a day on which debian:12 was stable; its Python is 3.11."""
    decision = decided({**files, "a.py": "import torch\n"}, "2024-09-01")
    assert _base(decision) == base
    assert "3.9" not in files.get("environment.yml", "") or not decision.base_choice.lost


@pytest.mark.parametrize(
    ("bound", "base", "more"),
    [
        # Metadata bounds the patch that the distribution has.
        (">=3.9.2", DEBIAN_11, {}),
        (">=3.9.5", DEBIAN_12, {}),
        (">=3.8.5,<3.9", FOCAL, {}),
        # The metadata of a part bounds nothing.
        (">=3.8,<3.12", DEBIAN_11, {"plugins/other/pyproject.toml": OURS.format(">=3.13").replace("tool", "other")}),
    ],
)
def test_metadata_bounds_the_python(decided, bound, base, more):
    assert _base(decided({"pyproject.toml": OURS.format(bound), **more})) == base


@pytest.mark.parametrize(
    ("files", "value", "why", "origin"),
    [
        (
            {"environment.yml": "dependencies: [python=3.7, numpy]\n", "README.md": "It needs Python 3.7.\n"},
            *("Python ==3.7.*", "no distribution here has it; 3.9 is the nearest", "environment.yml:1"),
        ),
        (
            {"pyproject.toml": OURS.format(">=3.9"), "environment.yml": "dependencies: [python=3.8.5]\n"},
            *("Python ==3.8.5.*", "only ubuntu:20.04 has it", "environment.yml:1"),
        ),
    ],
)
def test_the_reason_of_an_exact_python_that_lost_is_true(decided, files, value, why, origin):
    [lost] = decided(files, "2020-12-01").base_choice.lost
    assert (lost.value, lost.why, str(lost.origin)) == (value, why, origin)


def test_bounds_that_no_python_meets_are_all_named(decided):
    with pytest.raises(UsageError, match="no distribution has a Python that fits '<3'"):
        decided({"setup.py": setup(name="tool", python_requires="<3")})
    files = {"pyproject.toml": OURS.format(">=3.12"), "setup.cfg": "[options]\npython_requires = <3.10\n"}
    with pytest.raises(UsageError, match=r"fits '>=3\.12' and '<3\.10'") as caught:
        decided(files)
    assert caught.value.where == "pyproject.toml:3, setup.cfg:2"


def test_kernels_stay_on_a_base_that_has_cuda(decided):
    torch = {"requirements.txt": "torch==0.4.1\n"}
    decision = decided({"setup.py": KERNELS, **torch}, "2020-09-26")
    assert decision.base.distro == "debian:11" and "cuda" in decision.pins
    assert decided({"setup.py": "", **torch}, "2020-09-26").base.distro == "ubuntu:18.04"


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
)
def test_what_the_build_requires_chooses_the_base_or_is_asked(decided, required, base, lost, asked):
    decision = decided({"CMakeLists.txt": f"project(tool LANGUAGES CXX CUDA)\n{required}\n"})
    assert decision.base.distro == base
    questions = [question.text for question in decision.questions if "is required" in question.text]
    reasons = [*(each.why for each in decision.base_choice.lost), *questions]
    expected = [f"{one} is required, and debian:11 has " for one in (lost, asked) if one]
    assert len(reasons) == len(expected) and all(map(str.startswith, reasons, expected))
    assert (decision.base_choice.why == "debian:11 would fit better, and lacks what the build requires") == bool(lost)


def test_a_minimum_of_cmake_that_a_wheel_meets_or_that_a_part_states_does_not_choose_the_base(decided):
    required = "cmake_minimum_required(VERSION 3.20)\n"
    for files in ({"CMakeLists.txt": required, "requirements.txt": "cmake>=3.20\n"}, {"cpp/CMakeLists.txt": required}):
        assert decided(files).base.distro == "debian:11"
