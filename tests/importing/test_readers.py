"""Each format: what a file of it states, and in which line."""

from __future__ import annotations

import json

import pytest

from reprokit.importing.reading import ReaderProcess
from tests.support.stated_files import CASES


@pytest.mark.parametrize("path", CASES)
def test_a_file_states_with_its_lines(stated, path):
    text, expected = CASES[path]
    more = {"more/needed.txt": "from-a-file\n", "extra/needed.txt": "from-a-file\n"} if "needed.txt" in text else {}
    statements = stated({path: text, **more}).replace("more/needed.txt:", "").replace("extra/needed.txt:", "")
    assert {*expected.split(" | ")} <= {*statements.split(" | ")}


def test_what_a_file_does_not_state_is_not_invented(stated):
    statements = stated({path: text for path, (text, _) in CASES.items()}, "import", "package", "cxx")
    values = {statement.split(" ")[2] for statement in statements.split(" | ")}
    assert not values & {"nothing", "nowhere", "not_a_command", "own", "11"}


DOCKERFILE = """\
ARG TAG=11.8.0-cudnn8-devel
FROM nvidia/cuda:${TAG} AS build
RUN --mount=type=cache,target=/x --network=none \\
    --security=insecure pip install attrs==22.1.0
RUN <<EOF
pip install packaging==21.3 \\
  idna==3.3
EOF
RUN bash -ex <<-"END" && pip install tomli==2.0.1
\tpip install mpi4py==3.1.5
\tEND
COPY <<A <<B /etc/
pip install nothing
A
RUN pip install nothing
B
RUN bash -lc "pip install \\"tabulate==0.8.9\\"" && conda run --no-capture-output -n x pip install click==8.0.1
RUN for p in einops==0.4.0 wget; do for q in "" pre-; do pip install $q$p; done; done
RUN apt-get install -y python3.9 libfoo
FROM pytorch/pytorch:1.9.0-cuda10.2-cudnn7-devel AS unused
FROM docker.io/library/python:3.10-slim
"""


def test_a_dockerfile_installs_in_many_forms(stated):
    assert stated({"Dockerfile": DOCKERFILE}, "package") == (
        "4 attrs==22.1.0 | 6 packaging==21.3 | 6 idna==3.3 | 10 mpi4py==3.1.5 | 9 tomli==2.0.1 | 17 tabulate==0.8.9"
        " | 17 click==8.0.1 | 18 einops==0.4.0 | 18 pre-einops==0.4.0 | 18 wget | 18 pre-wget | 20 torch==1.9.0"
    )
    assert stated({"Dockerfile": DOCKERFILE}, "base", "cuda", "python", "unread") == (
        "19 python ==3.9.* | 21 base docker.io/library/python:3.10-slim | 21 python ==3.10.*"
        " | 20 base pytorch/pytorch:1.9.0-cuda10.2-cudnn7-devel | 20 cuda ==10.2.*"
        " | 2 base nvidia/cuda:11.8.0-cudnn8-devel | 2 cuda ==11.8.*"
    )


def test_a_dockerfile_installs_files_that_it_copied(stated):
    dockerfile = "FROM debian\nRUN pip install -r /tmp/deps.txt -c /tmp/gone.txt && conda env create -f /x/gpu.yml\n"
    dockerfile += "RUN pip install -r https://h.test/server.txt\n"
    files = {"docker/deps.txt": "attrs\n", "a/docker/deps.txt": "click\n", "conda/gpu.yml": "dependencies: [idna]\n"}
    files["other/server.txt"] = "attrs\n"
    assert stated({"Dockerfile": dockerfile, **files}, "package", "conda", "unread") == (
        "2 unread /tmp/gone.txt, which is no file of the repository"
        " | 3 unread https://h.test/server.txt, which is no file of the repository"
        " | docker/deps.txt:1 package attrs | conda/gpu.yml:1 conda idna"
    )


def _run(step: str) -> dict[str, str]:
    return {"Dockerfile": f"FROM debian\n{step}\n", "needs.txt": "scipy\n"}


@pytest.mark.parametrize(
    "step",
    [
        *("apk add gcc", "yum install -y x", "curl -sSL https://x.example/i.sh | bash", "pip install numpy $MORE"),
        *("cat r | xargs -n 1 pip install", "while read p; do pip install $p; done < r"),
        *("make install", "pip install /tmp/a.whl"),
        *("for p in $ALL; do apt-get install $p; done", 'sh -c "pip install $X"'),
    ],
)  # fmt: skip
def test_an_install_that_cannot_be_read_is_asked_about(stated, step):
    unread = stated(_run(f"RUN true\nRUN {step}"), "unread")
    assert unread.startswith("3 what this ") and " | " not in unread


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        # A step that installs nothing, or the repository itself
        ("RUN pip install -e .[test]", ""),
        ("RUN make -j8", ""),
        ("RUN apt-get update", ""),
        ("RUN pip --version", ""),
        ("RUN bash scripts/run.sh", ""),
        ("RUN poetry install", ""),
        # Options of an install are not its packages.
        ("RUN pip --no-cache-dir install einops==0.3", "2 package einops==0.3"),
        ("RUN python3 -m pip --cache-dir /c -q install -U einops==0.3", "2 package einops==0.3"),
        (
            "RUN pip install --root-user-action ignore --use-feature fast --exists-action w --report o einops==0.3",
            "2 package einops==0.3",
        ),
        ("RUN conda create -yn streaming numpy=1.20", "2 conda numpy==1.20.*"),
        ("RUN conda install -yc conda-forge numpy=1.20", "2 conda numpy==1.20.*"),
        ("RUN conda env config vars set MODE=fast", "2 unread what this installs: conda env config vars set MODE=fast"),
        ("RUN conda install --file needs.txt", "needs.txt:1 package scipy"),
        # Quoted values
        ('ENV ARCHES="6.0 7.0+PTX" MODE=fast', "2 env ARCHES=6.0 7.0+PTX | 2 env MODE=fast"),
        ("ENV FLAGS='-a -b'", "2 env FLAGS=-a -b"),
        ("ENV A=b\\ c", "2 env A=b c"),
        ("ENV FLAGS -a -b", "2 env FLAGS=-a -b"),
        ('ENV FLAGS "-a -b"', "2 env FLAGS=-a -b"),
        ('ENV A="b', "2 env A=b"),
        (
            'ARG PKGS="numpy==1.21.0 scipy==1.7.0"\nRUN pip install ${PKGS}',
            "3 package numpy==1.21.0 | 3 package scipy==1.7.0",
        ),
        # The month in the tag of NVIDIA's image is no version of torch.
        ("FROM pytorch/pytorch:1.5-cuda10.1-cudnn7-runtime", "2 package torch==1.5"),
        ("FROM nvcr.io/nvidia/pytorch:20.12-py3", ""),
    ],
)
def test_a_step_of_a_dockerfile_states(stated, step, expected):
    assert stated(_run(step), "package", "conda", "env", "unread") == expected


POETRY_AND_UV = """\
[tool.poetry.dependencies]
own = {path = "../own"}
idna = {url = "https://i.example/idna-3.3.tar.gz"}
[[tool.poetry.source]]
name = "t"
url = "https://i.example/poetry"
[[tool.poetry.source]]
name = "PyPI"
url = "https://i.example/no"
[tool.uv]
constraint-dependencies = ["numpy<2"]
[[tool.uv.index]]
url = "https://i.example/uv"
[tool.uv.sources]
t = {index = "x"}
here = {path = "x"}
click = [{url = "https://i.example/click-8.0.1-py3-none-any.whl"}]
einops = {git = "https://github.com/a/einops.git", rev = "abc"}
"""
PIPFILE = """\
[[source]]
name = "t"
url = "https://i.example/pip"
[packages]
local = {path = "."}
"""
ENVIRONMENT = """\
dependencies:
  - scipy<1.7|>1.8
variables:
  DGLBACKEND: pytorch
"""
GITLAB = """\
image: {name: "python:3.9-slim"}
variables: {A: b}
test:
  image: nvidia/cuda:11.8.0-devel-ubuntu22.04
  before_script: pip install attrs
  script:
    - apt-get install -y libbar-dev
    - pytest tests
lint:
  script: [pip install nothing]
pages: {image: $IMAGE}
"""
CIRCLECI = """\
jobs:
  build:
    docker: [{image: "cimg/python:3.9"}]
    steps:
      - checkout
      - run: pip install tqdm==4.1
      - run:
          command: pytest tests
  lint:
    steps: [{run: pip install nothing}]
"""
C_CODE = """\
/* a */
#include <hdf5.h>
# include "mpi.h"
#include "own.h"
#ifdef _WIN32
#include <sql.h>
#endif
#include MACRO
"""
CYTHON = "cdef extern from *:\n  pass\ncdef extern from 'libxml/tree.h' nogil:\n  pass\ncdef int include\n"


def notebook(cell: str) -> str:
    """A notebook with one cell, each line of which is a line of the file."""
    lines = ",\n".join(json.dumps(line) for line in cell.splitlines(keepends=True))
    return f'{{"cells": [{{"cell_type": "code", "source": [{lines}]}}]}}'


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "pyproject.toml",
            POETRY_AND_UV,
            "2 unread own, which is installed from the path ../own | 3 package idna==3.3"
            " | 6 index https://i.example/poetry | 11 constraint numpy<2 | 13 index https://i.example/uv"
            " | 16 unread here, which is installed from the path x | 17 package click==8.0.1 | 18 source https://github.com/a/einops@abc",
        ),
        ("Pipfile", PIPFILE, "3 index https://i.example/pip | 5 unread local, which is installed from the path ."),
        (
            "environment.yml",
            ENVIRONMENT,
            "4 env DGLBACKEND=pytorch | 2 unread a choice of versions: scipy<1.7|>1.8 | 2 conda scipy",
        ),
        (
            ".gitlab-ci.yml",
            GITLAB,
            "1 base python:3.9-slim | 1 tested 3.9 | 4 base nvidia/cuda:11.8.0-devel-ubuntu22.04 | 4 cuda ==11.8.*"
            " | 5 package attrs | 7 apt libbar-dev | 8 command pytest tests",
        ),
        (
            ".circleci/config.yml",
            CIRCLECI,
            "3 base cimg/python:3.9 | 3 tested 3.9 | 6 package tqdm==4.1 | 8 command pytest tests",
        ),
        ("a.c", C_CODE, "2 library hdf5.h | 3 library mpi.h | 4 library own.h"),
        ("b.pxd", CYTHON, "3 library libxml/tree.h"),
        ("tests/c.c", "#include <png.h>\n", "1 library png.h (test)"),
        ("LICENSE", "Copyright (c) A.\n\nPermission is hereby granted, free of charge, to any person", "1 licence MIT"),
        (
            "LICENSE",
            "Redistribution and use in source\nand binary forms ... Neither the name of",
            "1 licence BSD-3-Clause",
        ),
        ("LICENSE", "   Apache License\n   Version 2.0, January 2004\n", "1 licence Apache-2.0"),
        ("LICENSE", "All is allowed on Sundays.\n", "1 licence "),
        # Words that only the shell knows are left out; a variable that a script sets once to a literal has its value.
        (
            "setup.sh",
            'pip install $PKG "numpy==$V" "${X}" scipy `date`\n',
            "1 package scipy | 1 unread what this installs: pip install scipy",
        ),
        (
            "setup.sh",
            'V=1.2\nMORE="a b"\nW=1\nW=2\npip install numpy==$V scipy==${W} $MORE ${V:-3} "$V$"\n',
            "5 package numpy==1.2 | 5 package a | 5 package b"
            " | 5 unread what this installs: pip install numpy==1.2 a b",
        ),
        ("setup.sh", "pip install dist/*.whl\n", ""),
        # A magic says what a cell is.
        ("a.ipynb", notebook("%%bash\npip install attrs\nimport nothing"), "2 package attrs"),
        ("a.ipynb", notebook("%%script bash -e\npip install attrs"), "2 package attrs"),
        ("a.ipynb", notebook("%%script python2\nimport nothing"), ""),
        ("a.ipynb", notebook("%%capture out\nimport idna\n!pip install attrs"), "2 import idna | 3 package attrs"),
        ("a.ipynb", notebook("%%writefile a.py\nimport nothing"), ""),
        ("a.ipynb", notebook("%%R\nimport nothing"), ""),
        ("a.ipynb", notebook("%%unknown\n"), ""),
        ("a.ipynb", notebook("  \n"), ""),
        # Only an export sets a variable, and the first heading is a title only at the top.
        (
            "README.md",
            "```\n@article{x,\n  year={2020}\n}\n```\n```\nrate=1e-3\nexport MODE=fast\n```\n",
            "8 env MODE=fast",
        ),
        ("README.md", "<img src='logo.png'>\n" + "\n" * 30 + "# Installation\n", ""),
    ],
)
def test_a_file_states_nothing_else(stated, path, text, expected):
    assert stated({path: text}) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # Of several branches the first that says something counts.
        (
            "import os\nif os.environ.get('DOCS'):\n    NEEDED = []\nelse:\n    NEEDED = ['pandas>=1']\n"
            "setup(name=about['title'], install_requires=NEEDED, packages=['tool'] if PLAIN else ['other'])\n",
            "1 import os (build) | 6 project  | 5 package pandas>=1 | 6 module tool",
        ),
        ("setup(ext_modules=made(), **metadata())\n", "1 project  | 1 extension c"),
        # What setup.py adds for a feature is optional.
        (
            "needed = ['numpy']\nif with_mpi():\n  needed.append('mpi4py>=3')\nif not on_rtd:\n  needed += ['scipy']\n"
            "if sys.platform.startswith('linux'):\n  needed += ['psutil']\nsetup(name='t', install_requires=needed)\n",
            "8 project t | 1 package numpy | 5 package scipy | 7 package psutil | 3 package mpi4py>=3 (other)",
        ),
        # A key that picks requirements is none itself.
        (
            "import needs\nDEPS = ['Pillow', 'numpy>=1.2']\ndeps = {re.split('>', d)[0]: d for d in DEPS}\n"
            "setup(name='t', install_requires=[deps['numpy'], deps['Pillow'], needs.of['install']])\n"
            "extras = {k: v for k, v in needs.of.items() if k != 'install'}\n",
            "1 import needs (build) | 4 project t | 4 package numpy>=1.2 | 4 package Pillow",
        ),
        # Requirements are those of the file that a `with` block opens.
        (
            "with open('README.txt') as f:\n    shown = f.read()\n"
            "with open('needs.txt', encoding='utf-8') as f:\n    needed = f.read().splitlines()\n"
            "with open('more/needs.txt') as f:\n    tried = f.read().splitlines()\n"
            "setup(name='t', long_description=shown, install_requires=needed, tests_require=tried)\n",
            "7 project t | 3 include -r needs.txt | 5 include -r more/needs.txt (test)"
            " | needs.txt:1 package numpy==1.20 | more/needs.txt:1 package mock (test)",
        ),
    ],
)
def test_the_syntax_tree_of_a_setup_py_states(stated, code, expected):
    more = {"needs.txt": "numpy==1.20\n", "more/needs.txt": "mock\n", "README.txt": ""} if "open(" in code else {}
    assert stated({"setup.py": code, **more}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Needs Python 3.6 and later.", "1 python >=3.6"),
        ("* Python 3.6 or greater", "1 python >=3.6"),
        ("Python 3.6, 3.7 and 3.8 are supported.", ""),
        ("- Added support for Python 3.6.", ""),
        ("Tested with Python 3.8, 64 bit.", "1 python ==3.8.*"),
        ("Use Python 3.8. Does not work with Python 3.12.", "1 python ==3.8.* | 1 python !=3.12.*"),
        ("It is incompatible\nwith Python 3.12. Use Python 3.8.", "2 python !=3.12.* | 2 python ==3.8.*"),
        ("We don't support Python 3.7 and PyTorch 2.0.", "1 python !=3.7.* | 1 package torch!=2.0.*"),
        ("Supports Python 3.12? Not yet.", "1 unread versions in a negation or a question: Supports Python 3.12?"),
        (
            "Do not forget to install PyTorch 1.8.",
            "1 unread versions in a negation or a question: Do not forget to install PyTorch 1.8.",
        ),
        (
            "If it does not work, install CUDA 11.1.",
            "1 unread versions in a negation or a question: If it does not work, install CUDA 11.1.",
        ),
        ("It isn't slow. Install PyTorch 1.8.", "1 package torch==1.8.*"),
        ("It does not use pandas.", ""),
    ],
)
@pytest.mark.parametrize("name", ["README.md", "README.rst"])
def test_a_readme_states(stated, name, text, expected):
    assert stated({name: f"{text}\n"}) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("numpy @ file:///tmp/build/80754af9/x/work", "package numpy @ file:///tmp/build/80754af9/x/work"),
        ("own @ git+file:///srv/own", "package own @ git+file:///srv/own"),
        ("./libs/mylib", "unread what this installs: ./libs/mylib"),
        ("-e ./vendored", "unread what this installs: ./vendored"),
        ("hg+https://i.example/a", "unread what this installs: hg+https://i.example/a"),
        ("https://h.test/own-1.0.tar.gz", "package own @ https://h.test/own-1.0.tar.gz"),
        ("https://h.test/torch-1.9.0%2Bcu111-cp38-cp38-linux_x86_64.whl", "package torch==1.9.0+cu111"),
        ("own @ https://h.test/own", "package own @ https://h.test/own"),
        ("git+http://github.com/a/b", "source https://github.com/a/b"),
        ("pandas>=1.*", "package pandas>=1"),
        ("pandas>=1.2.*,<2.*", "package pandas>=1.2,<2"),
        ("foo=1.*", "unread not a requirement: foo=1.*"),
        ("-r nothere.txt", "unread nothere.txt, which is no file of the repository"),
        ("-r https://h.test/base.txt", "unread https://h.test/base.txt, which is no file of the repository"),
        # Names of conda
        ("python==3.6.12", "python ==3.6.12"),
        ("pytorch==1.3.1", "package torch==1.3.1"),
        ("pytorch-lightning>=1", "package pytorch-lightning>=1"),
        # The repository itself is no requirement.
        *((line, "") for line in (".", "-e .", ".[test]", "-e .[test]", "-e file:.#egg=tool", "--no-build-isolation")),
    ],
)
def test_no_line_of_a_requirements_file_vanishes(stated, line, expected):
    subjects = ("package", "source", "python", "unread")
    assert stated({"requirements.txt": f"attrs\n{line}\n"}, *subjects) == "1 package attrs" + (
        expected and f" | 2 {expected}"
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("env/environment.yml", "dependencies:\n  - pip:\n    - -r ../deps/base.txt\n"),
        ("requirements/all.txt", "-r ../deps/base.txt\n"),
        ("docker/Dockerfile", "FROM debian\nRUN pip install -r deps/base.txt\n"),
        ("sub/setup.py", "setup(install_requires=read('../deps/base.txt'))\n"),
    ],
)
def test_a_file_that_another_one_names_is_read(stated, path, text):
    files = {path: text, "deps/base.txt": "einops==0.3.0\n", "sub/deps/base.txt": "nothing\n"}
    assert stated(files, "package") == "deps/base.txt:1 einops==0.3.0"


def test_the_environment_of_the_host_does_not_enter_a_requirement(stated, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setattr("reprokit.importing.collect.ReaderProcess", ReaderProcess)  # one that starts now
    statements = stated({"requirements.txt": "--extra-index-url https://${SECRET_TOKEN}@i.example/simple\nnumpy\n"})
    assert "hunter2" not in str(statements) and "2 package numpy" in statements


@pytest.mark.slow
def test_no_requirement_of_a_long_file_is_lost_unseen(stated):
    hashes = "".join(f" \\\n    --hash=sha256:{number:064x}" for number in range(30))
    text = "".join(f"package-{number}==1.{number}{hashes}\n" for number in range(300))
    lines = [f"{number * 31 + 1} package package-{number}==1.{number}" for number in range(300)]
    assert stated({"requirements.txt": text}) == " | ".join(lines)
    text = "".join(f"package-{number}\n" for number in range(5001))
    assert stated({"requirements.txt": text}, "unread") == "5001 what follows after 5000 lines"
