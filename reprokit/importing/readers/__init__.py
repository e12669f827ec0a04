"""The readers of the formats, with patterns of their files: the first matching reader reads a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers import (
    code,
    documents,
    environment,
    git_files,
    images,
    ini_files,
    lock_files,
    make_files,
    poetry,
    pyproject,
    requirements,
    setup_py,
    workflows,
)
from reprokit.untrusted import patterns

_ANY_SIZE = range(1 << 62)


class Reader:
    """Reads one format. `paths` is a pattern of paths in the repository.

    `most` is the size in bytes of the largest file that it reads. Files of other sizes than `sizes` have another
    format. `read` returns the statements of a file. It raises UsageError or ValueError for an invalid file.
    """

    def __init__(
        self, read: Callable[[SourceFile], Statements], paths: str, most: int = 1 << 20, sizes: range = _ANY_SIZE
    ) -> None:
        self.read, self.most, self.sizes, self._paths = read, most, sizes, paths

    @cached_property
    def _pattern(self):  # type: ignore[no-untyped-def]
        return patterns.compiled(f"(?s){self._paths}")

    def reads(self, path: str, size: int) -> bool:
        """Whether a file is of this format."""
        return size in self.sizes and self._pattern.fullmatch(path) is not None


READERS: dict[str, Reader] = {
    "pyproject": Reader(pyproject.read, r"(.*/)?pyproject\.toml"),
    "setup.cfg": Reader(ini_files.read_setup_cfg, r"(.*/)?setup\.cfg"),
    "setup.py": Reader(setup_py.read, r"(.*/)?setup\.py", 256 << 10),
    "lock": Reader(lock_files.read, r"(poetry|uv|pdm)\.lock|pylock\.toml|Pipfile\.lock", 16 << 20),
    "requirements": Reader(
        requirements.read,
        r"(.*/)?(requirements/[^/]*|[^/]*requirement[^/]*|constraints[^/]*)\.(txt|in|pip)",
    ),
    "environment": Reader(environment.read, r"(?i)([^/]*/){0,2}(environment|env|conda)[^/]*\.ya?ml"),
    "pipfile": Reader(poetry.read_pipfile, r"(.*/)?Pipfile"),
    "dockerfile": Reader(
        images.read_dockerfile, r"(?i)([^/]*/)?(dockerfile|containerfile|dockerfile\.[^/]*|[^/]*\.dockerfile)"
    ),
    # json5 needs a second for 100 kB.
    "devcontainer": Reader(images.read_devcontainer, r"(.*/)?\.?devcontainer\.json", 64 << 10),
    "repo2docker": Reader(
        images.read_repo2docker, r"(\.?binder/)?(runtime\.txt|apt\.txt|packages\.txt|postBuild|\.python-version)"
    ),
    "cmake": Reader(make_files.read_cmake, r"([^/]*/){0,2}CMakeLists\.txt"),
    "gitmodules": Reader(git_files.read_gitmodules, r"\.gitmodules"),
    "workflow": Reader(
        workflows.read,
        r"\.travis\.yml|\.gitlab-ci\.yml|\.circleci/config\.yml|\.github/workflows/.*\.ya?ml",
        256 << 10,
    ),
    "tox": Reader(ini_files.read_tox, r"(tox|pytest)\.ini"),
    # Scripts that set an environment up.
    "script": Reader(
        script_statements,
        r"(?i)([^/]*/){0,2}(setup|install|build|env|prepare|bootstrap|requirements|dependencies|create)[^/]*\.(sh|bash)",
        256 << 10,
    ),
    "makefile": Reader(make_files.read_makefile, r"([^/]*/)?(GNUm|M|m)akefile", 256 << 10),
    "readme": Reader(
        documents.read_readme, r"(?i)readme(\.md|\.rst|\.txt)?|(docs/)?install\.md|installation\.md", 256 << 10
    ),
    "citation": Reader(documents.read_citation, r"CITATION\.cff|(?i:license|licence|copying)(\..*)?", 256 << 10),
    # Pictures make up most of a notebook.
    "notebook": Reader(code.read_notebook, r".*\.ipynb", 16 << 20),
    "python": Reader(code.read_python, r".*\.py"),
    # Larger sources are mostly generated.
    "c": Reader(code.read_c, r".*\.(c|cc|cpp|cxx|cu|pyx|pxd|pxi)", sizes=range((256 << 10) + 1)),
    "lfs": Reader(git_files.read_lfs, r".*", sizes=range(100, 201)),
}
