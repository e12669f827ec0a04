"""pip, run by this Python: isolated and from a neutral folder, so that no file where the user stands is imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels.platform import Platform

_NEUTRAL = "/"
_DEFAULT_INDEX = """
import sys
sys.path.insert(0, sys.argv[1])
from pip._internal.models.index import PyPI
print(PyPI.simple_url)
"""


def configuration() -> str:
    """What `pip config list` prints. Raises SourceError."""
    done = _run(str(_package()), "--disable-pip-version-check", "config", "list")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise SourceError(f"pip cannot read its configuration: {last}", hint="see `pip config debug`")
    return done.stdout


def default_index() -> str:
    """The simple index that pip asks where no setting names one. Raises SourceError."""
    return _run("-c", _DEFAULT_INDEX, str(_package().parent)).stdout.strip()


def versions(
    requirement: str, platform: Platform, indexes: Sequence[str], variables: Mapping[str, str] = {}
) -> list[str]:
    """The versions of the package for which some wheel fits, newest first; none where no index could say.

    `variables` are added to pip's environment.
    """
    command = [str(_package()), "--disable-pip-version-check", "--no-input", "index", "versions"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={platform.python}"]
    command += [f"--platform={tag}" for tag in platform.tags()]
    command += [f"--extra-index-url={index}" for index in indexes]
    command += ["--", re.split(r"[=<>!~\[; ]", requirement, maxsplit=1)[0]]
    found = re.search(r"^Available versions: (.*)$", _run(*command, variables=variables).stdout, re.MULTILINE)
    return found[1].split(", ") if found else []


def _package() -> Path:
    """The folder of this Python's pip; the current folder is not searched. Raises SourceError."""
    here = Path.cwd()
    spec = PathFinder.find_spec("pip", [place for place in sys.path if place and Path(place).resolve() != here])
    if spec is None or spec.origin is None:
        raise SourceError("this Python has no pip", sys.executable, "reinstall reprokit: it asks for pip")
    return Path(spec.origin).parent


def _run(*arguments: str, variables: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    if file := environment.get("PIP_CONFIG_FILE"):
        environment["PIP_CONFIG_FILE"] = str(Path(file).absolute())
    return subprocess.run(
        [sys.executable, "-I", *arguments],
        cwd=_NEUTRAL,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
