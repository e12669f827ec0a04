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
        "5 project tool | 7 python >=3.8 | 8 tested 3.9 | 10 package numpy>=1.20 | "
        "11 package torch; python_version < '3.12' | 2 package cython (build) | 14 package pytest-cov (test) | "
        "15 package matplotlib (other) | 18 package mock (test)",
    ),
    "sub/pyproject.toml": (
        POETRY,
        "4 python >=3.8,<4.0 | 5 package requests[socks]>=2.20,<3.0 | 6 package torch>=1.8.1,<1.9.0 | "
        "7 source https://github.com/a/thing@abc | 9 package mock (test)",
    ),
    "setup.cfg": (
        "[metadata]\nname = tool\n[options]\npython_requires = >=3.7\ninstall_requires =\n  attrs  # why\n  toml>=0.9\n"
        "[options.extras_require]\ntesting = pytest\n",
        "4 python >=3.7 | 7 package toml>=0.9 | 9 package pytest (test)",
    ),
    "setup.py": (
        SETUP,
        "11 project tool | 11 python >=3.7 | 5 package scipy | 9 package tqdm>=4 | 12 package attrs | "
        "1 package from-a-file | 8 package pytest (test) | 13 extension torch-cuda | 1 import numpy (build)",
    ),
    "requirements.txt": (
        "-r more/needed.txt\n--extra-index-url https://i.example/simple\nnumpy==1.19 ; python_version<'3.9'\n"
        "https://x.example/tool-1.0-py3-none-any.whl\ngit+https://github.com/a/b@main#egg=b\n!!\n",
        "1 package from-a-file | 2 index https://i.example/simple | "
        '3 package numpy==1.19; python_version < "3.9" | '
        "4 package tool @ https://x.example/tool-1.0-py3-none-any.whl | 5 source https://github.com/a/b@main | "
        "6 unread not a requirement: !!",
    ),
    "Pipfile": (
        '[packages]\nflask = ">=1"\nb = {git = "https://github.com/a/b.git", ref = "v1"}\n'
        '[requires]\npython_version = "3.8"\n',
        "2 package flask>=1 | 3 source https://github.com/a/b@v1 | 5 python ==3.8.*",
    ),
    "poetry.lock": ('[[package]]\nname = "attrs"\nversion = "21.2.0"\n', "1 locked attrs==21.2.0"),
    "Pipfile.lock": ('{"default":\n {"attrs": {"version": "==21.2.0"}}}', "2 locked attrs==21.2.0"),
    "Dockerfile": (
        DOCKERFILE,
        "7 base nvidia/cuda:11.3.1-devel-ubuntu20.04 | 3 apt libsndfile1 | 6 package torch==1.10.0+cu113 | "
        "9 package einops | 6 index https://download.pytorch.org/whl/torch_stable.html | 8 env MODE=fast | "
        "1 package from-a-file | 10 cuda ==11.3.* | 10 conda faiss-gpu",
    ),
    "environment.yml": (
        ENVIRONMENT,
        "3 python ==3.8.* | 4 conda numpy==1.19.2 | 5 cuda >=10.2 | 7 package einops==0.3 | "
        "8 source https://github.com/a/b@0123456",
    ),
    "README.md": (
        README,
        "1 title The Tool | 3 python >=3.8 | 3 cuda ==11.1.* | 3 package torch>=1.8 | 3 gcc ==9.* | "
        "6 python ==3.8.* | 7 package tqdm | 8 command python train.py --epochs 3",
    ),
    ".github/workflows/test.yml": (
        WORKFLOW,
        "4 tested 3.10 | 7 tested 3.11 | 9 apt libfoo-dev | 10 command pytest tests",
    ),
    "CMakeLists.txt": (
        CMAKE,
        "1 cmake >=3.12 | 2 extension cuda | 3 cxx 14 | 4 architecture 8.0 | 5 library Boost 1.65 | "
        "6 library OpenMP (other)",
    ),
    "a.ipynb": (NOTEBOOK, "12 package seaborn | 13 import pandas | 19 tested 3.9"),
    "tool/code.py": (CODE, "2 import numpy | 3 import scipy"),
    ".devcontainer/devcontainer.json": (
        '{\n // a comment\n "image": "debian:12",\n "postCreateCommand": "pip install einops",\n}\n',
        "3 base debian:12 | 4 package einops",
    ),
    "binder/runtime.txt": ("python-3.7\n", "1 python ==3.7.*"),
    "apt.txt": ("# why\nlibgl1\n", "2 apt libgl1"),
    ".gitmodules": ('[submodule "x"]\n\tpath = lib/x\n\turl = ../x\n', "3 submodule lib/x ../x"),
    "Makefile": (
        "env:\n\tpip install numpy==1.20\nk.o: k.cu\n\tnvcc -arch=sm_86 k.cu\n",
        "2 package numpy==1.20 | 4 architecture 8.6",
    ),
    "setup.sh": ("set -e\nif true; then\n  sudo apt install -y git\nfi\n", "3 apt git"),
    "tox.ini": (
        "[tox]\nenvlist = py{36,310}-torch\n[testenv]\ndeps =\n  pytest<8\n",
        "2 tested 3.10 | 5 package pytest<8 (test)",
    ),
    "weights.bin": (f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1500000\n", "1 lfs 2 MB"),
    "CITATION.cff": ("title: The Tool\nauthors: []\n", "1 title The Tool"),
}
