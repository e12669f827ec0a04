"""A file of each format that the importer reads, and what it states: subject, value, line and scope."""

from __future__ import annotations

import json

PYPROJECT = """\
[build-system]
requires = ["setuptools>=61", "cython"]

[project]
name = "tool"
version = "1.2"
requires-python = ">=3.8"
classifiers = ["Programming Language :: Python :: 3.9"]
dependencies = [
  "numpy>=1.20",
  "torch; python_version < '3.12'",
]
[project.optional-dependencies]
test = ["pytest-cov"]
plot = ["matplotlib"]

[dependency-groups]
base = ["mock"]
dev = [{include-group = "base"}, "tox"]
"""
POETRY = """\
[tool.poetry]
name = "tool"
[tool.poetry.dependencies]
python = "~2.7 || ^3.8"
requests = {version = "^2.20", extras = ["socks"]}
torch = "~1.8.1"
thing = {git = "https://github.com/a/thing.git", rev = "abc"}
[tool.poetry.dev-dependencies]
mock = "*"
"""
SETUP = """\
import os, numpy
from setuptools import setup
from torch.utils.cpp_extension import CUDAExtension
os.system("touch /tmp/pwned")
base = ["scipy"]
def load(path="more/needed.txt"):
    return open(path).read().split()
kwargs = dict(extras_require={"test": ["pytest"]})
base += ["tqdm>=4"]
setup(
    name="to" + "ol", python_requires=f">=3.{7}",
    install_requires=base + ["attrs"] + load(),
    ext_modules=[CUDAExtension("k", ["k.cu"])],
    **kwargs,
)
"""
DOCKERFILE = """\
ARG CUDA=11.3.1
FROM nvidia/cuda:${CUDA}-devel-ubuntu20.04 AS build
RUN apt-get update && apt-get install -y --no-install-recommends \\
    # a comment within
    libsndfile1 cmake=3.16* \\
 && pip install "torch==1.10.0+cu113" -f https://download.pytorch.org/whl/torch_stable.html
FROM build
ENV DATA=/data MODE=fast
RUN ["python3", "-m", "pip", "install", "einops"]
RUN python3 -m pip install -r extra/needed.txt && conda install -c conda-forge "cudatoolkit=11.3" faiss-gpu
"""
ENVIRONMENT = """\
name: tool
dependencies:
  - python=3.8
  - conda-forge::numpy=1.19.2=py38_0
  - cudatoolkit>=10.2
  - pip:
    - einops==0.3
    - -e git+https://github.com/a/b.git@0123456#egg=b
"""
README = """\
# The *Tool*

Needs Python 3.8+, CUDA 11.1 and PyTorch >= 1.8 (tested with gcc 9).

```bash
$ conda create -n tool python=3.8
$ pip install -e ".[test]" tqdm
python train.py --epochs 3
```

```python
import not_a_command
```
"""
WORKFLOW = """\
on: push
jobs:
  test:
    strategy: {matrix: {python-version: [3.9, 3.10]}}
    steps:
      - uses: actions/setup-python@v5
        with: {python-version: 3.11}
      - run: |
          sudo apt-get install -y libfoo-dev
          pytest tests
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.12...3.20)
project(tool LANGUAGES CXX CUDA)
set(CMAKE_CXX_STANDARD 14)  # set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CUDA_ARCHITECTURES "70;80")
find_package(Boost 1.65 REQUIRED COMPONENTS system)
find_package(OpenMP)
"""
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "source": ["import nothing"]},
            {"cell_type": "code", "source": ["%pip install seaborn\n", "import pandas as pd\n"]},
        ],
        "metadata": {"language_info": {"version": "3.9.7"}},
    },
    indent=1,
)
CODE = '''\
"""from nowhere import nothing"""
import numpy as np, os.path
from scipy.sparse import (
    csr_matrix,
)
from . import own
try:
    import apex
except ImportError:
    apex = None
def late():
    import cupy
'''

CASES = {
    "pyproject.toml": (
        PYPROJECT,
        [
            ("project", "tool", 5, "run"),
            ("python", ">=3.8", 7, "run"),
            ("tested", "3.9", 8, "run"),
            ("package", "numpy>=1.20", 10, "run"),
            ("package", "torch; python_version < '3.12'", 11, "run"),
            ("package", "cython", 2, "build"),
            ("package", "pytest-cov", 14, "test"),
            ("package", "matplotlib", 15, "other"),
            ("package", "mock", 18, "test"),
        ],
    ),
    "sub/pyproject.toml": (
        POETRY,
        [
            ("python", ">=3.8,<4.0", 4, "run"),
            ("package", "requests[socks]>=2.20,<3.0", 5, "run"),
            ("package", "torch>=1.8.1,<1.9.0", 6, "run"),
            ("source", "https://github.com/a/thing@abc", 7, "run"),
            ("package", "mock", 9, "test"),
        ],
    ),
    "setup.cfg": (
        "[metadata]\nname = tool\n[options]\npython_requires = >=3.7\ninstall_requires =\n  attrs  # why\n  toml>=0.9\n"
        "[options.extras_require]\ntesting = pytest\n",
        [("python", ">=3.7", 4, "run"), ("package", "toml>=0.9", 7, "run"), ("package", "pytest", 9, "test")],
    ),
    "setup.py": (
        SETUP,
        [
            ("project", "tool", 11, "run"),
            ("python", ">=3.7", 11, "run"),
            ("package", "scipy", 5, "run"),
            ("package", "tqdm>=4", 9, "run"),
            ("package", "attrs", 12, "run"),
            ("package", "from-a-file", 1, "run"),
            ("package", "pytest", 8, "test"),
            ("extension", "torch-cuda", 13, "run"),
            ("import", "numpy", 1, "build"),
        ],
    ),
    "requirements.txt": (
        "-r more/needed.txt\n--extra-index-url https://i.example/simple\nnumpy==1.19 ; python_version<'3.9'\n"
        "https://x.example/tool-1.0-py3-none-any.whl\ngit+https://github.com/a/b@main#egg=b\n!!\n",
        [
            ("package", "from-a-file", 1, "run"),
            ("index", "https://i.example/simple", 2, "run"),
            ("package", 'numpy==1.19; python_version < "3.9"', 3, "run"),
            ("package", "tool @ https://x.example/tool-1.0-py3-none-any.whl", 4, "run"),
            ("source", "https://github.com/a/b@main", 5, "run"),
            ("unread", "not a requirement: !!", 6, "run"),
        ],
    ),
    "Pipfile": (
        '[packages]\nflask = ">=1"\nb = {git = "https://github.com/a/b.git", ref = "v1"}\n'
        '[requires]\npython_version = "3.8"\n',
        [
            ("package", "flask>=1", 2, "run"),
            ("source", "https://github.com/a/b@v1", 3, "run"),
            ("python", "==3.8.*", 5, "run"),
        ],
    ),
    "poetry.lock": ('[[package]]\nname = "attrs"\nversion = "21.2.0"\n', [("locked", "attrs==21.2.0", 1, "run")]),
    "Pipfile.lock": ('{"default":\n {"attrs": {"version": "==21.2.0"}}}', [("locked", "attrs==21.2.0", 2, "run")]),
    "Dockerfile": (
        DOCKERFILE,
        [
            ("base", "nvidia/cuda:11.3.1-devel-ubuntu20.04", 7, "run"),
            ("apt", "libsndfile1", 3, "run"),
            ("package", "torch==1.10.0+cu113", 6, "run"),
            ("package", "einops", 9, "run"),
            ("index", "https://download.pytorch.org/whl/torch_stable.html", 6, "run"),
            ("env", "MODE=fast", 8, "run"),
            ("package", "from-a-file", 1, "run"),
            ("cuda", "==11.3.*", 10, "run"),
            ("conda", "faiss-gpu", 10, "run"),
        ],
    ),
    "environment.yml": (
        ENVIRONMENT,
        [
            ("python", "==3.8.*", 3, "run"),
            ("conda", "numpy==1.19.2", 4, "run"),
            ("cuda", ">=10.2", 5, "run"),
            ("package", "einops==0.3", 7, "run"),
            ("source", "https://github.com/a/b@0123456", 8, "run"),
        ],
    ),
    "README.md": (
        README,
        [
            ("title", "The Tool", 1, "run"),
            ("python", ">=3.8", 3, "run"),
            ("cuda", "==11.1.*", 3, "run"),
            ("package", "torch>=1.8", 3, "run"),
            ("gcc", "==9.*", 3, "run"),
            ("python", "==3.8.*", 6, "run"),
            ("package", "tqdm", 7, "run"),
            ("command", "python train.py --epochs 3", 8, "run"),
        ],
    ),
    ".github/workflows/test.yml": (
        WORKFLOW,
        [
            ("tested", "3.10", 4, "run"),
            ("tested", "3.11", 7, "run"),
            ("apt", "libfoo-dev", 9, "run"),
            ("command", "pytest tests", 10, "run"),
        ],
    ),
    "CMakeLists.txt": (
        CMAKE,
        [
            ("cmake", ">=3.12", 1, "run"),
            ("extension", "cuda", 2, "run"),
            ("cxx", "14", 3, "run"),
            ("architecture", "8.0", 4, "run"),
            ("library", "Boost 1.65", 5, "run"),
            ("library", "OpenMP", 6, "other"),
        ],
    ),
    "a.ipynb": (
        NOTEBOOK,
        [("package", "seaborn", 12, "run"), ("import", "pandas", 13, "run"), ("tested", "3.9", 19, "run")],
    ),
    "tool/code.py": (
        CODE,
        [
            ("import", "numpy", 2, "run"),
            ("import", "scipy", 3, "run"),
            ("optional", "apex", 8, "run"),
            ("optional", "cupy", 12, "run"),
        ],
    ),
    ".devcontainer/devcontainer.json": (
        '{\n // a comment\n "image": "debian:12",\n "postCreateCommand": "pip install einops",\n}\n',
        [("base", "debian:12", 3, "run"), ("package", "einops", 4, "run")],
    ),
    "binder/runtime.txt": ("python-3.7\n", [("python", "==3.7.*", 1, "run")]),
    "apt.txt": ("# why\nlibgl1\n", [("apt", "libgl1", 2, "run")]),
    ".gitmodules": (
        '[submodule "x"]\n\tpath = lib/x\n\turl = ../x\n',
        [("submodule", "lib/x ../x", 3, "run")],
    ),
    "Makefile": (
        "env:\n\tpip install numpy==1.20\nk.o: k.cu\n\tnvcc -arch=sm_86 k.cu\n",
        [("package", "numpy==1.20", 2, "run"), ("architecture", "8.6", 4, "run")],
    ),
    "setup.sh": ("set -e\nif true; then\n  sudo apt install -y git\nfi\n", [("apt", "git", 3, "run")]),
    "tox.ini": (
        "[tox]\nenvlist = py{36,310}-torch\n[testenv]\ndeps =\n  pytest<8\n",
        [("tested", "3.10", 2, "run"), ("package", "pytest<8", 5, "test")],
    ),
    "weights.bin": (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1500000\n",
        [("lfs", "2 MB", 1, "run")],
    ),
    "CITATION.cff": ("title: The Tool\nauthors: []\n", [("title", "The Tool", 1, "run")]),
}  # fmt: skip
