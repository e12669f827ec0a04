"""Repositories whose files take their parsers very long, or all memory: `new --from` passes them over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.importing.collect import collect
from reprokit.importing.tree import FolderTree

pytestmark = pytest.mark.long

READ = """
from reprokit.importing.collect import collect
from reprokit.importing.tree import FolderTree
for statement in collect(FolderTree(Path(sys.argv[1]))):
    if statement.subject in ("unread", "import"):
        print(statement.subject, statement.origin.file)
"""


@pytest.mark.parametrize(
    ("path", "unit", "size"),
    [
        ("setup.sh", "a|", 250_000),  # its parser in C would take more than 16 GB
        ("install.sh", "<<E\n", 250_000),
        ("Dockerfile", "RUN a \\\n", 1_000_000),
        ("requirements.txt", "a[", 1_000_000),
        ("poetry.lock", "a.", 16_000_000),
        ("Pipfile", "a.", 1_000_000),
        ("README.md", "![", 1_000_000),
    ],
)
def test_a_file_that_takes_too_long(run: Callable[..., str], tmp_path: Path, path: str, unit: str, size: int):
    (folder := tmp_path / "repository").mkdir()
    (folder / path).write_text(unit * (size // len(unit)))
    (folder / "plain.py").write_text("import numpy\n")
    assert set(run(folder, python=READ).splitlines()) == {f"unread {path}", "import plain.py"}


def test_variables_of_a_dockerfile_that_double(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM debian:12\nARG A=aa\n" + "ARG A=$A$A\n" * 100 + "RUN pip install b$A\n")
    found = collect(FolderTree(tmp_path))
    assert [s.value for s in found if s.subject == "base"] == ["debian:12"]


def test_values_of_any_length(tmp_path: Path):
    marker = "(" * 900 + "os_name == 'a'" + ")" * 900
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "a"\ndependencies = ["b", "c; {marker}"]\n')
    found = collect(FolderTree(tmp_path))
    assert [s.value for s in found if s.subject == "package"] == ["b"] and "unread" in {s.subject for s in found}


def test_many_slow_files(tmp_path: Path):
    for number in range(20):
        folder = tmp_path / f"a{number}"
        folder.mkdir()
        (folder / "setup.sh").write_text("a|" * 125_000)
    with pytest.raises(UsageError, match="seconds of processor time") as caught:
        collect(FolderTree(tmp_path))
    assert "REPROKIT_LIMIT_SOURCE_SECONDS" in caught.value.hint


def test_loops_of_a_script_that_multiply(tmp_path: Path):
    loops = "".join(f"for {name} in 1 2 3 4 5 6 7 8 9; do " for name in "abcdefgh")
    (tmp_path / "setup.sh").write_text(f"{loops}pip install n$a$b$c$d$e$f$g$h" + "; done" * 8 + "\npip install scipy\n")
    found = collect(FolderTree(tmp_path))
    assert [s.value for s in found if s.subject == "package"] == ["scipy"]
    assert {s.value for s in found if s.subject == "unread"} == {"what this installs: pip install"} and len(found) < 200


def test_variables_of_a_script_that_multiply(run: Callable[..., str], tmp_path: Path):
    (folder := tmp_path / "repository").mkdir()
    (folder / "setup.sh").write_text(f"V={'v' * 1000}\nfor i in 1 2 3 4; do pip install $i{'$V' * 120_000}; done\n")
    (folder / "plain.py").write_text("import numpy\n")
    assert set(run(folder, python=READ).splitlines()) == {"unread setup.sh", "import plain.py"}


DECIDE = """
from datetime import date
from reprokit.compat.distributions import bundled_distributions
from reprokit.compat.facts import bundled
from reprokit.importing.collect import collect
from reprokit.importing.decide import decide
from reprokit.importing.python_choice import candidates
from reprokit.importing.tree import FolderTree
tree = FolderTree(Path(sys.argv[1]))
statements, day = collect(tree), date(2022, 3, 1)
base, choice = candidates(statements, bundled(), day)[0]
found = decide(statements, tree.contents.sizes, {}, "a", base, choice, day, bundled(), bundled_distributions())
print(len(found.requirements))
"""
LOWER = "".join(f"numpy>=1.{i},<2.{30_000 - i}\n" for i in range(30_000))


@pytest.mark.parametrize(
    ("files", "requirements"),
    [
        ({"requirements.txt": LOWER}, 1),
        ({"requirements.txt": "".join(f"a{i % 400}>=1.{i},<2.{30_000 - i}\n" for i in range(30_000))}, 400),
        ({"requirements.txt": "".join(f"-c c{i}.in\na{i}\n" for i in range(2000)),
          **{f"c{i}.in": f"a{i}<3\n" for i in range(2000)}}, 2000),
        ({"environment.yml": f"dependencies: [{', '.join(f'a{i}=1.{i}' for i in range(40_000))}]\n"}, 0),
    ],
    ids=["one project", "many projects", "constraints", "conda"],
)  # fmt: skip
def test_many_requirements(run: Callable[..., str], tmp_path: Path, files: dict[str, str], requirements: int):
    (folder := tmp_path / "repository").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    assert run(folder, python=DECIDE).splitlines()[-1] == str(requirements)


def test_many_included_files_of_a_commit_start_few_programs(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text("".join(f"-r c{i}.in\n" for i in range(40)))
    for number in range(40):
        (tmp_path / f"c{number}.in").write_text(f"a{number}\n-r c{(number + 1) % 40}.in\n-r deep0.in\n")
        (tmp_path / f"deep{number}.in").write_text(f"b{number}\n-r deep{number + 1}.in\n")
    found = collect(tree := Counted(tmp_path))
    assert {s.value for s in found if s.subject == "package"} >= {f"a{number}" for number in range(40)}
    assert tree.reads <= 10
    assert [s.value for s in found if s.subject == "unread"] == ["deep7.in: included too deep"]


class Counted(FolderTree):
    """A folder that counts how often files are asked of it: of a commit each time is a program."""

    reads = 0

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        self.reads += 1
        return super().read(paths)
