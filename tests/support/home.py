"""A home folder for the suite alone: no test reads or changes the data of the user who runs it."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.paths import ROOT

# Below the home, and below these folders where the variables are set.
_BASES = {
    ".cache": "XDG_CACHE_HOME",
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
}
# Where this machine's packages come from, what was downloaded before, and the Docker CLI's own programs.
_LINKED = (".pip", ".config/pip", ".config/uv", ".npmrc", ".cache/pip", ".cache/uv", ".npm", ".docker/cli-plugins")
# The settings of the run itself.
_KEPT = ("REPROKIT_REQUIRE_ENGINE", "REPROKIT_FUZZ")
# What reprokit writes there. Of the state only what other programs do not write all the time.
_WATCHED = (".cache/reprokit", ".config/reprokit", ".local/share/reprokit", ".local/state/reprokit/trust")
_SHOWN = 20

_Entries = dict[str, tuple[int, int, int]]
_watched: list[Path] = []
_before: _Entries = {}
_changed: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give this process and its children a new home. Workers inherit that of the process that started them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    real = Path.home()
    _watched.extend(_folders_of_the_user(real))
    _before.update(_entries(_watched))
    home = Path(tempfile.mkdtemp(prefix="reprokit-home-"))
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    for name in _LINKED:
        if (there := _below(real, name)).exists():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).symlink_to(there)
    for name in list(os.environ):
        if name in (*_BASES.values(), "DOCKER_CONFIG") or (name.startswith("REPROKIT_") and name not in _KEPT):
            del os.environ[name]
    os.environ |= {
        "HOME": str(home),
        # The mirrors of the user have no part in the tests either.
        "REPROKIT_CONFIG": str(ROOT / "tests" / "support" / "hosts.yaml"),
        # Compiled once a change, not once a run.
        "FUSED_ATTENTION_CACHE": str(ROOT / ".pytest_cache" / "extension"),
    }


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that changed the user's own folders."""
    after = _entries(_watched)
    _changed.extend(sorted(path for path in _before.keys() | after.keys() if _before.get(path) != after.get(path)))
    if _changed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _changed:
        terminalreporter.section("changed in your own home, by a test or by a reprokit that ran meanwhile")
        for path in _changed[:_SHOWN]:
            terminalreporter.write_line(f"error: {path}", red=True)


def _folders_of_the_user(home: Path) -> list[Path]:
    """reprokit's folders in `home`, and in the home that programs without $HOME take from the list of users."""
    found = {_below(home, name) for name in _WATCHED}
    with suppress(KeyError):
        found |= {Path(pwd.getpwuid(os.geteuid()).pw_dir, name) for name in _WATCHED}
    if own := os.environ.get("REPROKIT_HOME"):
        found.add(Path(own).expanduser())
    return sorted(found)


def _below(home: Path, name: str) -> Path:
    """`name` below `home`, or below the folder that a variable names instead."""
    for base, variable in _BASES.items():
        if name.startswith(base) and os.environ.get(variable):
            return Path(os.environ[variable] + name.removeprefix(base))
    return home / name


def _entries(folders: list[Path]) -> _Entries:
    """All that is in the folders, with what each change of it changes."""
    found = {}
    for top in folders:
        for folder, folders_in, files in os.walk(top):
            for name in (".", *folders_in, *files):
                with suppress(FileNotFoundError):
                    info = os.lstat(path := f"{folder}/{name}")
                    found[path] = (info.st_mtime_ns, info.st_size, info.st_ino)
    return found
