"""pip, run on the host to fetch wheels for another Python and platform than its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from reprokit.errors import EngineError, ReprokitError, SourceError
from reprokit.supply.nearest import nearest_versions
from reprokit.supply.redact import redact

# What pip says when it could not talk to an index; "No matching distribution" follows and would mislead.
_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Max retries exceeded|ProxyError|ReadTimeoutError|ConnectTimeoutError"
    r"|SSLError|CERTIFICATE_VERIFY_FAILED|Temporary failure in name resolution|RemoteDisconnected|IncompleteRead"
    r"|THESE PACKAGES DO NOT MATCH THE HASHES|HTTP error \d+"
)
_UNSATISFIED = re.compile(
    r"Could not find a version that satisfies the requirement (?P<what>\S+).*?\(from versions: (?P<versions>.*)\)"
)


class _Unsatisfied(SourceError):
    pass


def download(
    requirements: list[str],
    python: str,
    platforms: list[str],
    indexes: list[str],
    at_hand: list[Path],
    folder: Path,
    say: Callable[[str], None],
) -> None:
    """Fetch wheels for `requirements` and what they need into `folder`, from the folders `at_hand` where they are.

    Raises SourceError that names the requirement, the Python, and the versions that exist, or the network's fault.
    """
    try:
        _run(requirements, python, platforms, [], at_hand, folder, say)
    except SourceError as error:
        if not indexes:
            raise
        if isinstance(error, _Unsatisfied):
            say(f"{error.message}; asking the recipe's own indexes too")
        _run(requirements, python, platforms, indexes, at_hand, folder, say)


def _run(
    requirements: list[str],
    python: str,
    platforms: list[str],
    indexes: list[str],
    at_hand: list[Path],
    folder: Path,
    say: Callable[[str], None],
) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    command += [
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={python}",
        "--progress-bar=off",
    ]
    command += [f"--platform={platform}" for platform in platforms]
    command += [f"--extra-index-url={index}" for index in indexes]
    command += [f"--find-links={path}" for path in at_hand]
    command += [f"--dest={folder}", "--", *requirements]
    # A requirements or constraints file of the user's environment has no say in a recipe.
    environment = {k: v for k, v in os.environ.items() if k not in ("PIP_REQUIREMENT", "PIP_CONSTRAINT")}
    lines: deque[str] = deque(maxlen=400)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**environment, "PYTHONUNBUFFERED": "1", "PIP_NO_COLOR": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(redact(line.rstrip()))
                if match := re.match(r"\s*Downloading (\S+) (\(.*\))", line):
                    say(f"downloading {match[1].rsplit('/', 1)[-1]} {match[2]}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise explain(list(lines), python)


def explain(lines: list[str], python: str) -> ReprokitError:
    """pip's output as one error."""
    text = "\n".join(lines)
    network = next((line.strip() for line in lines if _NETWORK.search(line)), None)
    unsatisfied = _UNSATISFIED.search(text)
    if unsatisfied and (network is None or unsatisfied["versions"] != "none"):
        return _no_such_version(unsatisfied["what"], unsatisfied["versions"], python)
    if "No space left on device" in text:
        return EngineError("the disk of the store is full", hint="free space below $REPROKIT_HOME")
    if network:
        return SourceError(
            f"pip could not reach a package index: {network[:300]}",
            hint="`pip config list` shows the indexes and proxies that it used",
        )
    if "No module named pip" in text:
        return SourceError("this Python has no pip", sys.executable, "reinstall reprokit: it asks for pip")
    conflict = re.search(r"Cannot install .* because these package versions have conflicting dependencies", text)
    if conflict:
        causes = [line.strip() for line in lines if line.startswith("    ")]
        return SourceError(f"the wheels do not fit together: {'; '.join(causes[:6])}", hint="loosen or correct a pin")
    last = next((line for line in reversed(lines) if line.startswith("ERROR:")), lines[-1] if lines else "")
    return SourceError(f"pip failed: {last.removeprefix('ERROR: ')[:400]}")


def _no_such_version(what: str, versions: str, python: str) -> SourceError:
    name = re.split(r"[=<>!~\[; ]", what, maxsplit=1)[0]
    if versions == "none":
        return _Unsatisfied(
            f"no index has a wheel of {name} for Python {python}",
            what,
            "sdists are not taken: they would run code of strangers here; is the name right?",
        )
    near = ", ".join(nearest_versions(what, versions.split(", ")))
    return _Unsatisfied(f"no wheel of {what} for Python {python}", hint=f"nearest versions that exist: {near}")
