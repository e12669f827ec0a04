"""Repositories: git objects that are small packed and huge unpacked, and files that their parsers do not survive."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import SourceError, UsageError
from reprokit.importing.collect import collect
from reprokit.importing.tree import CommitTree, FolderTree
from reprokit.recipe.model import Source
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.resolve import lock_git
from reprokit.supply.kinds.git.serve import archive_of
from reprokit.supply.kinds.git.store import folder_of, unpack
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.rendering import source
from tests.support.repositories import Repositories
from tests.support.stores import fetch

COMMIT, BLOB, OFFSET_DELTA = 1, 3, 6
Limit = Callable[..., None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """`limit(NAME=value)` sets a limit; `limit(NAME=None)` removes it."""

    def change(**limits: int | None) -> None:
        for name, value in limits.items():
            if value is None:
                monkeypatch.delenv(f"REPROKIT_LIMIT_{name}")
            else:
                monkeypatch.setenv(f"REPROKIT_LIMIT_{name}", str(value))

    return change


def variable(value: int, first_bits: int, first: int = 0) -> bytes:
    """A number in bytes whose highest bit says that more follow; `first_bits` of it are in the first byte."""
    data, head, value = b"", first | value & (1 << first_bits) - 1, value >> first_bits
    while value:
        data, head, value = data + bytes([head | 128]), value & 127, value >> 7
    return data + bytes([head])


def a_pack(path: Path, kind: int, size: int, deltas: int = 0) -> str:
    """What `unpack` says to a pack of `size` zeros, and deltas that each copy all of them (gitformat-pack(5))."""
    data = bytearray(b"PACK" + struct.pack(">II", 2, deltas + 1) + variable(size, 4, kind << 4))
    data += zlib.compress(bytes(size), 9)
    start = 12
    for number in range(deltas):
        copy = b"\xf0" + struct.pack("<I", size)[:3] + b"\x08" + b"%08d" % number
        delta = variable(size, 7) + variable(size + 8, 7) + copy
        distance, back = [len(data) - start & 127], len(data) - start
        while back := back >> 7:
            back -= 1
            distance.insert(0, back & 127 | 128)
        data += variable(len(delta), 4, OFFSET_DELTA << 4) + bytes(distance) + zlib.compress(delta, 9)
    path.write_bytes(data + hashlib.sha1(data).digest())
    return unpack(path, Commit("https://h.test/a/b", "1" * 40), (), path.with_suffix(".git"))


@pytest.mark.long
def test_packs_of_zeros(tmp_path: Path, limit: Limit):
    limit(UNPACKED=64 << 20)
    with pytest.raises(UsageError, match="more than 67108864 bytes unpacked from") as caught:
        a_pack(tmp_path / "pack", BLOB, 65 << 20)
    assert "REPROKIT_LIMIT_UNPACKED=134217728" in caught.value.hint
    limit(UNPACKED=None, GIT_MEMORY=64 << 20)
    with pytest.raises(UsageError, match="git takes more than 67108864 bytes of memory") as caught:
        a_pack(tmp_path / "memory", COMMIT, 65 << 20)
    assert "REPROKIT_LIMIT_GIT_MEMORY=134217728" in caught.value.hint
    # The control: a file is streamed; only the commit is not in the pack.
    assert "object missing" in a_pack(tmp_path / "control", BLOB, 65 << 20)


@pytest.mark.long
def test_a_small_pack_of_large_deltas(tmp_path: Path, limit: Limit):
    """5 kB make 1.5 GB. A small pack has a sixtieth of git's time."""
    limit(GIT_SECONDS=60)
    with pytest.raises(UsageError, match="git takes more than 1 seconds of processor time") as caught:
        a_pack(tmp_path / "pack", BLOB, 15 << 20, deltas=100)
    assert "REPROKIT_LIMIT_GIT_SECONDS=120" in caught.value.hint
    limit(GIT_SECONDS=6000)  # the control
    with pytest.raises(UsageError, match=r"bytes unpacked from \d+ bytes"):
        a_pack(tmp_path / "control", BLOB, 15 << 20, deltas=100)


@pytest.mark.long
def test_a_server_that_sends_a_small_pack_of_a_large_file(repositories: Repositories, store: Store, limit: Limit):
    """600 kB make 600 MB. The whole fetch has a minute, a small pack a second of it."""
    repositories.make("team/tool", {"a": ""})
    author, size = b"committer t <t@example.org> 0 +0000", 600 << 20
    stream = b"commit refs/heads/bomb\n%b\ndata 0\nM 644 inline zeros\ndata %d\n" % (author, size)
    command = ["git", "-C", repositories.root / "team/tool.git", "-c", "core.compression=1", "fast-import", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        importing.stdin.write(stream)
        for _ in range(size >> 20):
            importing.stdin.write(bytes(1 << 20))
        importing.stdin.close()
    assert importing.returncode == 0
    head = repositories.git("team/tool", "rev-parse", "bomb")
    for name, value, words, higher in (
        ("UNPACKED", 64 << 20, "more than 67108864 bytes unpacked from", "6291"),  # the size of the file and its tree
        ("GIT_SECONDS", 60, "git takes more than 1 seconds of processor time", "120"),
    ):
        limit(**{name: value})
        with pytest.raises(UsageError, match=words) as caught:
            fetch(store, "team/tool", head)
        assert f"REPROKIT_LIMIT_{name}={higher}" in caught.value.hint
        assert not list(store.root.rglob("*.git"))
        limit(**{name: None})
    assert folder_of(fetch(store, "team/tool", head), store).is_dir()  # the control


@pytest.mark.long
def test_every_program_of_git_has_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nulimit -S -d\nulimit -S -t\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert git("--version").split() == [str(512 << 10), "600"]
    program.write_text("#!/bin/sh\nkill -XCPU $$\n")
    with pytest.raises(UsageError, match="git takes more than 600 seconds of processor time") as caught:
        git("--version")
    assert "REPROKIT_LIMIT_GIT_SECONDS=1200" in caught.value.hint
    program.write_text("#!/bin/sh\necho 'remote: Out of memory' >&2\nexit 1\n")
    with pytest.raises(GitFailed, match="Out of memory"):  # the server's
        git("--version")


@pytest.mark.long
def test_a_tree_with_more_paths_than_can_be_listed(repositories: Repositories, store: Store, limit: Limit):
    """Ten names for the same folder, six levels deep."""
    repositories.make("team/tool", {"a": ""})
    inner = repositories.git("team/tool", "rev-parse", "HEAD^{tree}")
    for _ in range(6):
        lines = "".join(f"040000 tree {inner}\t{n}\n" for n in range(10))
        command = ["git", "-C", str(repositories.root / "team/tool.git"), "mktree"]
        inner = subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout.strip()
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    head = repositories.git("team/tool", *identity, "commit-tree", "-m", "bomb", inner)
    repositories.git("team/tool", "update-ref", "refs/heads/bomb", head)
    commit = fetch(store, "team/tool", head)
    with pytest.raises(SourceError, match="git printed more than 64 MiB"):
        CommitTree(folder_of(commit, store), commit.url, head)
    limit(ENTRIES=1000)
    with pytest.raises(UsageError, match="more than 1000 files in an archive"):
        archive_of(commit, store)


@pytest.mark.long
def test_submodules_that_double(repositories: Repositories, store: Store, limit: Limit):
    """Each of four repositories has the next one at two paths: 30 submodules in 5 repositories."""
    address, head = "", ""
    for n in range(5):
        inner = (f"team/m{n - 1}", address)
        head = repositories.make(f"team/m{n}", {"a": "1"}, {"left": inner, "right": inner} if n else {})
        address = f"https://forge.test/team/m{n}"
    top = Source(**{**source("m", "/m"), "git": address, "commit": head, "submodules": True})
    commits = lock_git(top, Mirrors(store, Configuration()))
    assert len(commits) == 5
    assert archive_of(commits[0].address, store).is_file()  # the control
    limit(SUBMODULES=29)
    with pytest.raises(UsageError, match="more than 29 submodules"):
        archive_of(commits[0].address, store)


# --- Files that `new --from` passes over

READ = """
from reprokit.importing.collect import collect
from reprokit.importing.tree import FolderTree
for statement in collect(FolderTree(Path(sys.argv[1]))):
    if statement.subject in ("unread", "import"):
        print(statement.subject, statement.origin.file)
"""
MULTIPLIED = f"V={'v' * 1000}\nfor i in 1 2 3 4; do pip install $i{'$V' * 120_000}; done\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "unit", "count"),
    [
        ("setup.sh", "a|", 125_000),  # its parser in C would take more than 16 GB
        ("setup.sh", MULTIPLIED, 1),
        ("install.sh", "<<E\n", 62_500),
        ("requirements.txt", "a[", 500_000),
        ("poetry.lock", "a.", 8_000_000),
        ("Pipfile", "a.", 500_000),
        ("README.md", "![", 500_000),
    ],
    ids=range(7),
)
def test_a_file_that_takes_too_long(run: Callable[..., str], tmp_path: Path, path: str, unit: str, count: int):
    (folder := tmp_path / "repository").mkdir()
    (folder / path).write_text(unit * count)
    (folder / "plain.py").write_text("import numpy\n")
    assert set(run(folder, python=READ).splitlines()) == {f"unread {path}", "import plain.py"}


def values(folder: Path, subject: str) -> list[str]:
    return [s.value for s in collect(FolderTree(folder)) if s.subject == subject]


@pytest.mark.long
def test_values_that_multiply(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM debian:12\nARG A=aa\n" + "ARG A=$A$A\n" * 100 + "RUN pip install b$A\n")
    assert values(tmp_path, "base") == ["debian:12"]
    (tmp_path / "Dockerfile").unlink()
    loops = "".join(f"for {name} in 1 2 3 4 5 6 7 8 9; do " for name in "abcdefgh")
    (tmp_path / "setup.sh").write_text(f"{loops}pip install n$a$b$c$d$e$f$g$h" + "; done" * 8 + "\npip install scipy\n")
    assert values(tmp_path, "package") == ["scipy"]
    assert set(values(tmp_path, "unread")) == {"what this installs: pip install"}
    assert len(collect(FolderTree(tmp_path))) < 200
    marker = "(" * 900 + "os_name == 'a'" + ")" * 900
    (tmp_path / "setup.sh").unlink()
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "a"\ndependencies = ["b", "c; {marker}"]\n')
    assert values(tmp_path, "package") == ["b"] and values(tmp_path, "unread")


@pytest.mark.long
def test_many_slow_files(tmp_path: Path):
    for number in range(20):
        (tmp_path / f"a{number}").mkdir()
        (tmp_path / f"a{number}" / "setup.sh").write_text("a|" * 125_000)
    with pytest.raises(UsageError, match="seconds of processor time") as caught:
        collect(FolderTree(tmp_path))
    assert "REPROKIT_LIMIT_SOURCE_SECONDS" in caught.value.hint


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
decision = decide(statements, tree.contents.sizes, {}, "a", base, choice, day, bundled(), bundled_distributions())
print(len(decision.requirements))
"""
LOWER = "".join(f"numpy>=1.{i},<2.{30_000 - i}\n" for i in range(30_000))


@pytest.mark.long
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


class CountingTree(FolderTree):
    """A folder that counts reads: of a commit each read is a program."""

    reads = 0

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        self.reads += 1
        return super().read(paths)


@pytest.mark.long
def test_many_included_files_of_a_commit_start_few_programs(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text("".join(f"-r c{i}.in\n" for i in range(40)))
    for number in range(40):
        (tmp_path / f"c{number}.in").write_text(f"a{number}\n-r c{(number + 1) % 40}.in\n-r deep0.in\n")
        (tmp_path / f"deep{number}.in").write_text(f"b{number}\n-r deep{number + 1}.in\n")
    statements = collect(tree := CountingTree(tmp_path))
    assert {s.value for s in statements if s.subject == "package"} >= {f"a{number}" for number in range(40)}
    assert tree.reads <= 10
    assert [s.value for s in statements if s.subject == "unread"] == ["deep7.in: included too deep"]
