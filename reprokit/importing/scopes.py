"""What a file or a group of requirements is for, by its name."""

from __future__ import annotations

from reprokit.importing.model import Scope

_TEST = ("test", "tests", "testing", "unittest", "pytest", "dev", "develop", "development", "ci", "all_dev")
_OTHER = ("doc", "docs", "documentation", "readthedocs", "rtd", "website", "lint", "linting", "style", "format",
          "typing", "mypy", "release", "quality", "pre-commit", "precommit", "build", "publish", "optional", "external",
          "extra", "extras")  # fmt: skip
_EXAMPLE = ("example", "examples", "demo", "demos", "tutorial", "tutorials", "notebooks", "bench", "benchmark",
            "benchmarks", "perf")  # fmt: skip
# Folders of tests and of what runs them.
_TEST_FOLDERS = {*_TEST[:4], "ci", "continuous_integration"}


_DATA = ("data", "fixtures", "testdata", "test_data", "resources", "cases", "snippets", "samples")
# Code of others that repositories carry.
VENDORED = {"third_party", "thirdparty", "3rdparty", "3rd_party", "external", "extern", "vendor", "vendored", "_vendor",
            "_vendored", "submodules", "site-packages"}  # fmt: skip
# Folders of repo2docker, and the files of the root that it ignores beside one of them.
BINDER = ("binder/", ".binder/")
BINDER_REPLACES = ("runtime.txt", "apt.txt", "postBuild")


def scope_of_group(name: str) -> Scope:
    """The scope of an extra or a dependency group, by its name. Unknown names are optional features."""
    words = _words(name)
    return "test" if words & set(_TEST) and not words & set(_OTHER) else "other"


def scope_of_path(path: str) -> Scope:
    """What a file is for, by its folders and, for lists of requirements, by its name."""
    *parents, name = path.lower().split("/")
    stem, folders = name.rpartition(".")[0], {folder.removeprefix(".") for folder in parents}
    if folders & _TEST_FOLDERS and folders & set(_DATA):
        return "other"
    for group, scope in ((_OTHER, "other"), (_EXAMPLE, "example"), (_TEST_FOLDERS, "test")):
        if folders & set(group):
            return scope  # type: ignore[return-value]
    if name.endswith((".txt", ".in", ".pip")):
        words = _words(stem)
        if words & set(_OTHER):
            return "other"
        if words & set(_TEST):
            return "test"
        if words & set(_EXAMPLE):
            return "example"
    return "test" if stem == "conftest" or stem.startswith("test_") or stem.endswith("_test") else "run"


def _words(name: str) -> set[str]:
    return set(name.lower().replace("-", " ").replace("_", " ").replace(".", " ").split())
