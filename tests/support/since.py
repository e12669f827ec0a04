"""`pytest --since REV`: leaves out expensive tests if nothing that they depend on has changed since that commit."""

from __future__ import annotations

import subprocess
from pathlib import PurePosixPath

import pytest
import yaml

from tests.support.paths import ROOT

RULES = ROOT / "tests" / "depends.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--since", default="", metavar="REV", help=f"run what changes since REV concern: {RULES.name}")


def is_in(path: str, places: list[str]) -> bool:
    """Whether a path of the checkout is one of the places, or in one."""
    names = [PurePosixPath(path), *PurePosixPath(path).parents]
    return any(name.match(place) for name in names for place in places)


def unchanged(rules: dict, changed: list[str], path: str, is_long: bool) -> bool:
    """Whether a test file belongs to a group that no change concerns."""
    if any(is_in(each, rules["everything"]) for each in changed):
        return False
    for group in rules["groups"]:
        if is_in(path, group["tests"]) and (is_long or not group.get("long")):
            return not any(is_in(each, group["depends"]) for each in changed)
    return False


def changed_since(revision: str) -> list[str] | None:
    """The paths that differ from an ancestor of this commit; None if there is no such ancestor."""
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "merge-base", "--is-ancestor", revision, "HEAD"], capture_output=True).returncode:
        return None
    command = [*git, "diff", "--name-only", "--no-renames", "-z", revision]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    revision = config.getoption("--since")
    changed = changed_since(revision) if revision else None
    if changed is None:
        return
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    spared = [
        item
        for item in items
        if unchanged(rules, changed, str(item.path.relative_to(ROOT)), bool(item.get_closest_marker("long")))
    ]
    items[:] = [item for item in items if item not in set(spared)]
    config.hook.pytest_deselected(items=spared)
