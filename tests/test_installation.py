"""The command that adds an extra: of this copy, never of the other project called reprokit."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit import installation
from tests.support.paths import ROOT

REQUIRES = ["docker>=7.2", 'scipy>=1.11; extra == "results"', 'tomli>=2; python_version < "3"']
EDITABLE: dict[str, Any] = {"url": "", "dir_info": {"editable": True}}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """`installed(origin, tool_file)`: the words of the command, for reprokit from there."""
    clone = tmp_path / "my clone"
    clone.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    def extra(origin: dict[str, Any] | None, tool_file: str = "") -> list[str]:
        if tool_file:
            (tmp_path / tool_file).touch()
        if origin is not None:
            origin = {**origin, "url": origin["url"] or clone.as_uri()}
        read = {"direct_url.json": json.dumps(origin) if origin else None}.get
        monkeypatch.setattr(
            installation, "distribution", lambda name: SimpleNamespace(read_text=read, requires=REQUIRES)
        )
        return shlex.split(installation.extra_command("results").replace(str(clone), "CLONE"))

    return extra


PIP = [sys.executable, "-m", "pip", "install"]


@pytest.mark.parametrize(
    ("origin", "tool_file", "words"),
    [
        (EDITABLE, "", [*PIP, "-e", "CLONE[results]"]),
        ({"url": "", "dir_info": {}}, "", [*PIP, "CLONE[results]"]),
        (EDITABLE, "pipx_metadata.json", ["pipx", "install", "--force", "--editable", "CLONE[results]"]),
        ({"url": ""}, "uv-receipt.toml", ["uv", "tool", "install", "--force", "CLONE[results]"]),
        (
            {"url": "https://forge.example/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "",
            [*PIP, "reprokit-papers[results] @ git+https://forge.example/r@abc"],
        ),
        ({"url": "file:///gone/reprokit.whl"}, "", [*PIP, "scipy>=1.11"]),
        (None, "", [*PIP, "scipy>=1.11"]),
    ],
)
def test_an_extra_comes_from_where_this_copy_came_from(installed, origin, tool_file: str, words: list[str]) -> None:
    assert installed(origin, tool_file) == words


def test_in_the_clone_with_its_own_pip_the_command_is_short(installed, monkeypatch, tmp_path: Path) -> None:
    assert f'name = "{installation.DISTRIBUTION}"' in (ROOT / "pyproject.toml").read_text()
    monkeypatch.chdir(tmp_path / "my clone")
    (tmp_path / "pip").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert installed(EDITABLE) == ["pip", "install", "-e", ".[results]"]
