"""Lines of requirements files: each is read, or said."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("line", "subject", "value"),
    [
        ("numpy @ file:///tmp/build/80754af9/x/work", "package", "numpy @ file:///tmp/build/80754af9/x/work"),
        ("own @ git+file:///srv/own", "package", "own @ git+file:///srv/own"),
        ("./libs/mylib", "unread", "what this installs: ./libs/mylib"),
        ("-e ./vendored", "unread", "what this installs: ./vendored"),
        ("hg+https://i.example/a", "unread", "what this installs: hg+https://i.example/a"),
        ("https://h.test/own-1.0.tar.gz", "package", "own @ https://h.test/own-1.0.tar.gz"),
        ("https://h.test/torch-1.9.0%2Bcu111-cp38-cp38-linux_x86_64.whl", "package", "torch==1.9.0+cu111"),
        ("own @ https://h.test/own", "package", "own @ https://h.test/own"),
        ("git+http://github.com/a/b", "source", "https://github.com/a/b"),
        ("pandas>=1.*", "package", "pandas>=1"),
        ("pandas>=1.2.*,<2.*", "package", "pandas>=1.2,<2"),
        ("foo=1.*", "unread", "not a requirement: foo=1.*"),
        ("-r nothere.txt", "unread", "nothere.txt, which is no file of the repository"),
        ("-r https://h.test/base.txt", "unread", "https://h.test/base.txt, which is no file of the repository"),
    ],
)
def test_no_line_of_a_requirements_file_vanishes(stated, line, subject, value):
    found = [s for s in stated({"requirements.txt": f"attrs\n{line}\n"}) if s.origin.line == 2]
    assert (subject, value) in [(s.subject, s.value) for s in found]


@pytest.mark.parametrize("line", [".", "-e .", ".[test]", "-e .[test]", "-e file:.#egg=tool", "--no-build-isolation"])
def test_the_repository_itself_is_no_requirement(stated, line):
    assert [s.value for s in stated({"requirements.txt": f"attrs\n{line}\n"})] == ["attrs"]


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
    found = stated({path: text, "deps/base.txt": "einops==0.3.0\n", "sub/deps/base.txt": "nothing\n"})
    assert [(s.value, s.origin.file) for s in found if s.subject == "package"] == [("einops==0.3.0", "deps/base.txt")]


def test_a_dockerfile_that_installs_a_file_of_a_server_installs_none_of_that_name(stated):
    dockerfile = "FROM debian\nRUN pip install -r https://h.test/deps.txt\n"
    found = stated({"Dockerfile": dockerfile, "other/deps.txt": "attrs\n"})
    assert [s.value for s in found if s.subject in ("package", "unread")] == [
        "https://h.test/deps.txt, which is no file of the repository"
    ]


def test_the_folders_of_conda_in_pip_freeze_become_releases_with_one_question(decided):
    lines = "numpy @ file:///tmp/build/1/work\nscipy @ file:///croot/scipy/work\nmy-own @ file:///home/me/my-own\n"
    found = decided({"requirements.txt": lines, "run.py": "import numpy\n"})
    assert {"numpy", "scipy"} <= set(found.requirements) and "my-own" not in found.requirements
    texts = [(q.text, str(q.origin)) for q in found.questions]
    assert (
        "numpy, scipy: installed from folders that are not here; releases of the index are taken",
        "requirements.txt:1",
    ) in texts
    own = (
        "my-own is installed from file:///home/me/my-own, and left out: an index may have another project of that name"
    )
    assert (own, "requirements.txt:3") in texts


def test_names_of_conda_in_a_requirements_file_are_read_as_such(stated):
    found = stated({"requirements.txt": "python==3.6.12\npytorch==1.3.1\npytorch-lightning>=1\n"})
    assert [(s.subject, s.value) for s in found] == [
        ("python", "==3.6.12"),
        ("package", "torch==1.3.1"),
        ("package", "pytorch-lightning>=1"),
    ]
