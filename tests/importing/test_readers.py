"""Each format: what a file of it states, and in which line."""

from __future__ import annotations

import json

import pytest

from tests.support.stated_files import CASES


@pytest.mark.parametrize("path", CASES)
def test_a_file_states_with_its_lines(stated, path):
    text, expected = CASES[path]
    more = {"more/needed.txt": "from-a-file\n", "extra/needed.txt": "from-a-file\n"} if "needed.txt" in text else {}
    found = {(s.subject, s.value, s.origin.line, s.scope) for s in stated({path: text, **more})}
    assert [one for one in expected if one not in found] == [], sorted(found)


def test_what_a_file_does_not_state_is_not_invented(stated):
    found = {(s.subject, s.value) for s in stated({path: text for path, (text, _) in CASES.items()})}
    never = {"nothing", "nowhere", "not_a_command", "own"}
    assert not {value for subject, value in found if subject in ("import", "optional", "package")} & never
    assert ("cxx", "11") not in found


def test_words_that_only_the_shell_knows_are_left_out(stated):
    found = stated({"setup.sh": 'pip install $PKG "numpy==$V" "${X}" scipy `date`\n'})
    assert [s.value for s in found if s.subject == "package"] == ["scipy"]


def test_a_variable_that_a_script_sets_once_to_a_literal_has_its_value(stated):
    found = stated({"setup.sh": 'V=1.2\nMORE="a b"\nW=1\nW=2\npip install numpy==$V scipy==${W} $MORE ${V:-3} "$V$"\n'})
    assert [s.value for s in found if s.subject == "package"] == ["numpy==1.2", "a", "b"]
    assert [s.value for s in found if s.subject == "unread"] == ["what this installs: pip install numpy==1.2 a b"]


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
    found = stated({"Dockerfile": DOCKERFILE})
    packages = {(s.value, s.origin.line) for s in found if s.subject == "package"}
    assert packages == {
        *{("attrs==22.1.0", 4), ("packaging==21.3", 6), ("idna==3.3", 6), ("mpi4py==3.1.5", 10), ("tomli==2.0.1", 9)},
        *{("tabulate==0.8.9", 17), ("click==8.0.1", 17), ("torch==1.9.0", 20)},
        *{("einops==0.4.0", 18), ("wget", 18), ("pre-einops==0.4.0", 18), ("pre-wget", 18)},
    }
    images = [s.value for s in found if s.subject == "base"]
    assert images == [
        *("docker.io/library/python:3.10-slim", "pytorch/pytorch:1.9.0-cuda10.2-cudnn7-devel"),
        "nvidia/cuda:11.8.0-cudnn8-devel",
    ]
    assert [s.value for s in found if s.subject == "cuda"] == ["==10.2.*", "==11.8.*"]
    pythons = {(s.value, s.origin.line) for s in found if s.subject == "python"}
    assert pythons == {("==3.10.*", 21), ("==3.9.*", 19)} and not [s for s in found if s.subject == "unread"]


def test_a_dockerfile_installs_files_that_it_copied(stated):
    dockerfile = "FROM debian\nRUN pip install -r /tmp/deps.txt -c /tmp/gone.txt && conda env create -f /x/gpu.yml\n"
    files = {"docker/deps.txt": "attrs\n", "a/docker/deps.txt": "click\n", "conda/gpu.yml": "dependencies: [idna]\n"}
    found = stated({"Dockerfile": dockerfile, **files})
    assert {(s.subject, s.value, str(s.origin)) for s in found if s.subject in ("package", "conda", "unread")} == {
        *{("package", "attrs", "docker/deps.txt:1"), ("conda", "idna", "conda/gpu.yml:1")},
        ("unread", "/tmp/gone.txt, which is no file of the repository", "Dockerfile:2"),
    }


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
    [unread] = [s for s in stated({"Dockerfile": f"FROM debian\nRUN true\nRUN {step}\n"}) if s.subject == "unread"]
    assert unread.value.startswith("what this ") and unread.origin.line == 3


@pytest.mark.parametrize(
    "step",
    ["pip install -e .[test]", "make -j8", "apt-get update", "pip --version", "bash scripts/run.sh", "poetry install"],
)
def test_a_step_that_installs_nothing_or_the_code_itself_is_not_asked_about(stated, step):
    assert not [s for s in stated({"Dockerfile": f"FROM debian\nRUN {step}\n"}) if s.subject == "unread"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%%bash\npip install attrs\nimport nothing", {("package", "attrs", 2)}),
        ("%%script bash -e\npip install attrs", {("package", "attrs", 2)}),
        ("%%script python2\nimport nothing", set()),
        ("%%capture out\nimport idna\n!pip install attrs", {("import", "idna", 2), ("package", "attrs", 3)}),
        ("%%writefile a.py\nimport nothing", set()),
        ("%%R\nimport nothing", set()),
        ("%%unknown\n", set()),
        ("  \n", set()),
    ],
)
def test_a_magic_says_what_a_cell_is(stated, cell, expected):
    source = ",\n".join(json.dumps(line) for line in cell.splitlines(keepends=True))
    found = stated({"a.ipynb": f'{{"cells": [{{"cell_type": "code", "source": [{source}]}}]}}'})
    assert {(s.subject, s.value, s.origin.line) for s in found} == expected


def test_what_poetry_uv_and_pipenv_install_from_elsewhere(stated):
    found = stated(
        {
            "pyproject.toml": (
                '[tool.poetry.dependencies]\nown = {path = "../own"}\nidna = {url = "https://i.example/idna-3.3.tar.gz"}\n'
                '[[tool.poetry.source]]\nname = "t"\nurl = "https://i.example/poetry"\n'
                '[[tool.poetry.source]]\nname = "PyPI"\nurl = "https://i.example/no"\n'
                '[tool.uv]\nconstraint-dependencies = ["numpy<2"]\n'
                '[[tool.uv.index]]\nurl = "https://i.example/uv"\n[tool.uv.sources]\nt = {index = "x"}\n'
                'here = {path = "x"}\nclick = [{url = "https://i.example/click-8.0.1-py3-none-any.whl"}]\n'
                'einops = {git = "https://github.com/a/einops.git", rev = "abc"}\n'
            ),
            "Pipfile": '[[source]]\nname = "t"\nurl = "https://i.example/pip"\n[packages]\nlocal = {path = "."}\n',
        }
    )
    assert {(s.subject, s.value, s.origin.line) for s in found if s.origin.file == "pyproject.toml"} == {
        *{("unread", "own, which is installed from the path ../own", 2), ("package", "idna==3.3", 3)},
        *{("index", "https://i.example/poetry", 6), ("index", "https://i.example/uv", 13)},
        *{("constraint", "numpy<2", 11), ("unread", "here, which is installed from the path x", 16)},
        *{("package", "click==8.0.1", 17), ("source", "https://github.com/a/einops@abc", 18)},
    }
    assert {(s.subject, s.value, s.origin.line) for s in found if s.origin.file == "Pipfile"} == {
        *{("index", "https://i.example/pip", 3), ("unread", "local, which is installed from the path .", 5)},
    }


def test_an_environment_of_conda_has_variables_and_choices_of_versions(stated):
    found = stated({"environment.yml": "dependencies:\n  - scipy<1.7|>1.8\nvariables:\n  DGLBACKEND: pytorch\n"})
    assert {(s.subject, s.value, s.origin.line) for s in found} == {
        *{("conda", "scipy", 2), ("unread", "a choice of versions: scipy<1.7|>1.8", 2)},
        ("env", "DGLBACKEND=pytorch", 4),
    }


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


def test_other_ci_services_test_too(stated):
    found = {(s.subject, s.value, s.origin.line) for s in stated({".gitlab-ci.yml": GITLAB})}
    assert found == {
        *{("base", "python:3.9-slim", 1), ("tested", "3.9", 1), ("package", "attrs", 5), ("apt", "libbar-dev", 7)},
        *{("base", "nvidia/cuda:11.8.0-devel-ubuntu22.04", 4), ("cuda", "==11.8.*", 4), ("command", "pytest tests", 8)},
    }
    others = [s for s in stated({".circleci/config.yml": CIRCLECI}) if s.origin.file == ".circleci/config.yml"]
    found = {(s.subject, s.value, s.origin.line) for s in others}
    assert found == {
        *{
            ("base", "cimg/python:3.9", 3),
            ("tested", "3.9", 3),
            ("package", "tqdm==4.1", 6),
            ("command", "pytest tests", 8),
        },
    }


def test_the_environment_of_the_host_does_not_enter_a_requirement(stated, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    found = stated({"requirements.txt": "--extra-index-url https://${SECRET_TOKEN}@i.example/simple\nnumpy\n"})
    assert "hunter2" not in str(found) and [s.value for s in found if s.subject == "package"] == ["numpy"]


def test_of_several_branches_of_setup_py_the_first_that_says_something_counts(stated):
    code = (
        "import os\nif os.environ.get('DOCS'):\n    NEEDED = []\nelse:\n    NEEDED = ['pandas>=1']\n"
        "setup(name=about['title'], install_requires=NEEDED, packages=['tool'] if PLAIN else ['other'])\n"
    )
    found = {(s.subject, s.value) for s in stated({"setup.py": code})}
    assert {("package", "pandas>=1"), ("project", ""), ("module", "tool")} <= found
    found = {(s.subject, s.value) for s in stated({"setup.py": "setup(ext_modules=made(), **metadata())\n"})}
    assert {("project", ""), ("extension", "c")} <= found


def test_what_setup_py_adds_for_a_feature_is_optional(stated):
    code = (
        "needed = ['numpy']\nif with_mpi():\n    needed.append('mpi4py>=3')\nif not on_rtd:\n    needed += ['scipy']\n"
        "if sys.platform.startswith('linux'):\n    needed += ['psutil']\nsetup(name='t', install_requires=needed)\n"
    )
    found = {(s.value, s.scope) for s in stated({"setup.py": code}) if s.subject == "package"}
    assert found == {("numpy", "run"), ("scipy", "run"), ("psutil", "run"), ("mpi4py>=3", "other")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Needs Python 3.6 and later.", [">=3.6"]),
        ("* Python 3.6 or greater", [">=3.6"]),
        ("Python 3.6, 3.7 and 3.8 are supported.", []),
        ("- Added support for Python 3.6.", []),
        ("Tested with Python 3.8, 64 bit.", ["==3.8.*"]),
    ],
)
def test_a_sentence_names_one_python_or_none(stated, line, expected):
    assert [s.value for s in stated({"README.md": f"{line}\n"}) if s.subject == "python"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use Python 3.8. Does not work with Python 3.12.", ["==3.8.*", "!=3.12.*"]),
        ("It is incompatible\nwith Python 3.12. Use Python 3.8.", ["!=3.12.*", "==3.8.*"]),
        ("We don't support Python 3.7 and PyTorch 2.0.", ["!=3.7.*", "torch!=2.0.*"]),
        ("Supports Python 3.12? Not yet.", ["? 1"]),
        ("Do not forget to install PyTorch 1.8.", ["? 1"]),
        ("If it does not work, install CUDA 11.1.", ["? 1"]),
        ("It isn't slow. Install PyTorch 1.8.", ["torch==1.8.*"]),
        ("It does not use pandas.", []),
    ],
)
@pytest.mark.parametrize("name", ["README.md", "README.rst"])
def test_a_sentence_that_denies_a_version_does_not_require_it(stated, name, text, expected):
    found = stated({name: f"{text}\n"})
    assert [f"? {s.origin.line}" if s.subject == "unread" else s.value for s in found] == expected


def test_the_first_heading_is_a_title_only_at_the_top(stated):
    late = "<img src='logo.png'>\n" + "\n" * 30 + "# Installation\n"
    assert not [s for s in stated({"README.md": late}) if s.subject == "title"]


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("Copyright (c) A. Author\n\nPermission is hereby granted, free of charge, to any person", "MIT"),
        ("Redistribution and use in source\nand binary forms ... Neither the name of the copyright", "BSD-3-Clause"),
        ("   Apache License\n   Version 2.0, January 2004\n", "Apache-2.0"),
        ("All is allowed on Sundays.\n", ""),
    ],
)
def test_a_licence_is_known_by_its_words(stated, text, licence):
    assert [s.value for s in stated({"LICENSE": text}) if s.subject == "licence"] == [licence]


def test_paths_of_wheels_are_not_read_as_requirements(stated):
    assert not [s for s in stated({"setup.sh": "pip install dist/*.whl\n"}) if s.subject in ("package", "unread")]


def test_a_key_that_picks_requirements_is_none_itself(stated):
    code = "import needs\nDEPS = ['Pillow', 'numpy>=1.2']\ndeps = {re.split('>', d)[0]: d for d in DEPS}\n"
    code += "setup(name='t', install_requires=[deps['numpy'], deps['Pillow'], needs.of['install']])\n"
    code += "extras = {k: v for k, v in needs.of.items() if k != 'install'}\n"
    assert [s.value for s in stated({"setup.py": code}) if s.subject == "package"] == ["numpy>=1.2", "Pillow"]
