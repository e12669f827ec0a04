"""pip, asked which versions of a package there are: uv says only that one is not there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

from reprokit.supply.wheels import Platform


def versions(requirement: str, platform: Platform, indexes: Sequence[str]) -> list[str]:
    """The versions of the package for which some wheel fits, newest first; none where no index could say."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "index", "versions"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={platform.python}"]
    command += [f"--platform={tag}" for tag in platform.tags()]
    command += [f"--extra-index-url={index}" for index in indexes]
    command += ["--", re.split(r"[=<>!~\[; ]", requirement, maxsplit=1)[0]]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    return found[1].split(", ") if found else []
