"""Whatever a file states is used, asked about, or listed with its line."""

from __future__ import annotations

import pytest

from reprokit.compat.facts import bundled
from reprokit.importing.decision import Versions
from reprokit.importing.draft import draft

FILES = {
    "requirements.txt": "numpy\n",
    "Dockerfile": "FROM debian\nRUN pip install attrs==22.1.0 && apt-get install -y python3.9 git\nENV PATH=/x\n",
    ".github/workflows/t.yml": "jobs: {t: {steps: [{run: apt-get install -y ffmpeg}]}}\n",
    "README.md": "```\nconda install pyyaml=5.4\nexport TORCH_CUDA_ARCH_LIST=8.0\n```\n",
    "CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 80)\nfind_package(Unknown 1 REQUIRED)\nfind_package(glog REQUIRED)",
    "run.py": "import numpy\n",
}


def test_what_is_read_and_not_used_is_listed_with_its_line(decided):
    found = decided(FILES)
    assert {(u.value, str(u.origin)) for u in found.unused} == {
        ("attrs==22.1.0", "Dockerfile:2"),
        ("apt python3.9", "Dockerfile:2"),
        ("apt ffmpeg", ".github/workflows/t.yml:1"),
        ("pyyaml==5.4.*", "README.md:2"),
        ("TORCH_CUDA_ARCH_LIST=8.0", "README.md:3"),
        ("GPU architecture 8.0", "CMakeLists.txt:1"),
        ("the library Unknown 1", "CMakeLists.txt:2"),
    }
    text = draft(found, Versions({"numpy": "1.22.2"}), "", "", bundled())
    why = "no code imports it, and other files declare what is needed"
    assert f"# not used: attrs==22.1.0 (Dockerfile:2): {why}\n" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("binder/requirements.txt", "tqdm\nrich\n"),
        ("sub/setup.py", "from setuptools import setup\nsetup(name='s', install_requires=['tqdm', 'rich'])"),
    ],
)
def test_files_that_are_passed_over_as_a_whole_have_one_line_each(decided, name, text):
    found = decided({"pyproject.toml": '[project]\nname = "t"\ndependencies = ["numpy"]\n', name: text})
    assert [(u.value, u.why) for u in found.unused] == [(f"what {name} installs", "it is not for t itself")]


def test_beside_a_folder_of_repo2docker_its_files_in_the_root_do_not_count(decided):
    files = {"runtime.txt": "python-3.9\n", "apt.txt": "graphviz\n", "run.py": "import numpy\n"}
    assert decided(files).base.python == "3.9" and [c.value for c in decided(files).apt] == ["graphviz"]
    found = decided(files | {".binder/runtime.txt": "python-3.11\n"})
    assert found.base.python == "3.11" and not found.apt
    why = "repo2docker reads its own folder instead"
    assert {(u.value, str(u.origin), u.why) for u in found.unused} == {
        ("python ==3.9.*", "runtime.txt:1", why),
        ("apt graphviz", "apt.txt:1", why),
    }


def test_the_list_is_bounded(decided):
    many = "".join(f"RUN pip install p{number}\n" for number in range(100))
    found = decided({"requirements.txt": "numpy\n", "Dockerfile": f"FROM debian\n{many}"})
    assert [u.value for u in found.unused][-2:] == ["p39", "60 more statements"]


def test_questions_beyond_the_limit_are_counted(decided):
    found = decided({"Dockerfile": "FROM debian\n" + "".join(f"RUN apk add p{number}\n" for number in range(70))})
    assert len(found.questions) == 61 and found.questions[-1].text == "and 10 more, the first of them"
    assert str(found.questions[-1].origin) == "Dockerfile:62"
