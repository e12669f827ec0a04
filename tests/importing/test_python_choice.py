"""Which Python has wheels of what files pin."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError

OURS = """[project]
name = "tool"
requires-python = "{}"
dependencies = ["numpy"]
"""


@pytest.mark.parametrize(
    ("requires", "base"),
    [
        ("torch>=1.7\n", "debian:12 3.11"),
        ("torch==1.7.1+cu110\n", "debian:11 3.9"),
        ("torch==1.3.1\n", "debian:11 3.9"),
        ("torch==2.0.1\n", "debian:12 3.11"),
        ("numpy==1.19.*\n", "debian:11 3.9"),
        ("numpy==1.24.1\ntorch==2.0.1\n", "debian:12 3.11"),
        ("torch==99.1\n", "debian:12 3.11"),
        ("tensorflow==2.8.0\n", "debian:11 3.9"),
        ("tensorflow-gpu==2.3.1\n", "debian:11 3.9"),
        ("tensorflow==2.13.0\n", "debian:12 3.11"),
        ("tokenizers==0.10.3\n", "debian:11 3.9"),
        ("jax==0.4.10\n", "debian:12 3.11"),
        ("apex==0.1\n", "debian:12 3.11"),
        ("scipy==1.5.4\n", "debian:11 3.9"),
        ("pandas==1.1.5\nscikit-learn==0.24.2\n", "debian:11 3.9"),
        ("scipy>=1.5\n", "debian:12 3.11"),
        ("accelerate==0.20.3\n", "debian:12 3.11"),
        ("unknown-thing==0.1\n", "debian:12 3.11"),
        ("torch==1!2.0\n", "debian:12 3.11"),
    ],
)
@pytest.mark.slow
def test_the_python_has_wheels_of_exact_versions(decided, requires, base):
    """On a day on which debian:12 was stable."""
    found = decided({"requirements.txt": requires, "train.py": "import torch, numpy\n"}, "2024-03-01")
    assert f"{found.base.distro} {found.base.python}" == base


def test_the_metadata_of_a_part_bounds_nothing(decided):
    part = {"plugins/other/pyproject.toml": '[project]\nname = "other"\nrequires-python = ">=3.13"\n'}
    found = decided({"pyproject.toml": OURS.format(">=3.8,<3.12"), "tool/__init__.py": "", **part})
    assert f"{found.base.distro} {found.base.python}" == "debian:11 3.9"


def test_bounds_that_no_python_meets_together_are_all_named(decided):
    files = {"pyproject.toml": OURS.format(">=3.12"), "setup.cfg": "[options]\npython_requires = <3.10\n"}
    with pytest.raises(UsageError, match=r"fits '>=3\.12' and '<3\.10'") as caught:
        decided(files)
    assert caught.value.where == "pyproject.toml:3, setup.cfg:2"


@pytest.mark.parametrize("python", ["python=3.9", "python=3.9.7", "python==3.9.7", "python=3.9.7=h12debd9_1"])
def test_of_an_exact_python_the_minor_counts(decided, python):
    """On a day on which debian:12 was stable."""
    found = decided({"environment.yml": f"dependencies: [{python}, numpy]\n"}, "2024-03-01")
    assert f"{found.base.distro} {found.base.python}" == "debian:11 3.9" and not found.base_choice.lost


def test_the_reason_of_an_exact_python_that_lost_is_true(decided):
    files = {"pyproject.toml": OURS.format(">=3.9"), "environment.yml": "dependencies: [python=3.8.5]\n"}
    [lost] = decided(files).base_choice.lost
    assert (lost.value, lost.why) == ("Python ==3.8.5.*", "only ubuntu:20.04 has it")


@pytest.mark.parametrize(
    ("bound", "base"),
    [(">=3.9.2", "debian:11 3.9"), (">=3.9.5", "debian:12 3.11"), (">=3.8.5,<3.9", "ubuntu:20.04 3.8")],
)
def test_metadata_bounds_the_patch_that_the_distribution_has(decided, bound, base):
    found = decided({"pyproject.toml": OURS.format(bound)})
    assert f"{found.base.distro} {found.base.python}" == base


@pytest.mark.parametrize(
    ("files", "base"),
    [
        ({"environment.yml": "dependencies: [python=3.8, numpy]\n"}, "debian:11 3.9"),
        ({"environment.yml": "dependencies: [python=3.12, numpy]\n"}, "debian:12 3.11"),
        ({"README.md": "Use Python 3.6.\n", "Dockerfile": "FROM python:3.12\n"}, "debian:12 3.11"),
        ({"README.md": "```\npip install torch==1.9.1+cu111\n```\n"}, "debian:11 3.9"),
        ({"install.sh": "pip install torch==1.9.1+cu111\n"}, "debian:11 3.9"),
        ({"install.sh": "pip install torch==1.9.1\n", "README.md": "PyTorch 2.0.0\n"}, "debian:12 3.11"),
        (
            {"README.md": "Use Python 3.6.\n", "setup.py": "setup(name='t', python_requires='>=3.9')\n"},
            "debian:12 3.11",
        ),
        ({"README.md": "PyTorch 1.9.1\n", "requirements.txt": "torch>=2.0\n"}, "debian:12 3.11"),
    ],
)
def test_the_nearest_to_a_python_that_cannot_be_had_is_taken(decided, files, base):
    """On a day on which debian:12 was stable; its Python is 3.11."""
    found = decided({**files, "a.py": "import torch\n"}, "2024-09-01")
    assert f"{found.base.distro} {found.base.python}" == base


@pytest.mark.parametrize(
    ("requires", "base"),
    [
        ("tensorflow==1.15.4\n", "ubuntu:18.04 3.6"),
        ("tensorflow>=1.15.2,<2.0\n", "ubuntu:18.04 3.6"),
        ("tensorflow-gpu==1.8.0\n", "ubuntu:18.04 3.6"),
        ("tensorflow==2.0.0\n", "debian:11 3.9"),
        ("torch==1.0.1\n", "debian:11 3.9"),
        ("torch>=1.4,<1.7\n", "debian:11 3.9"),
        ("tensorflow<0.2\n", "debian:11 3.9"),
    ],
)
def test_a_framework_of_a_major_version_that_debian_has_no_python_for_takes_ubuntu(decided, requires, base):
    found = decided({"requirements.txt": requires, "a.py": "import torch\n"}, "2020-09-26")
    assert f"{found.base.distro} {found.base.python}" == base
    lost = [(o.value, str(o.origin)) for o in found.base_choice.lost]
    assert lost == ([("debian:11", "requirements.txt:1")] if base.startswith("ubuntu") else [])


def test_kernels_stay_on_a_base_that_has_cuda(decided):
    setup = (
        "from torch.utils.cpp_extension import CUDAExtension\nsetup(name='t', ext_modules=[CUDAExtension('k', [])])\n"
    )
    found = decided({"setup.py": setup, "requirements.txt": "torch==0.4.1\n"}, "2020-09-26")
    assert found.base.distro == "debian:11" and "cuda" in found.pins
    assert decided({"setup.py": "", "requirements.txt": "torch==0.4.1\n"}, "2020-09-26").base.distro == "ubuntu:18.04"
