"""How this copy of reprokit was installed, and the command that adds one of its extras.

PyPI has an unrelated project `reprokit`, so the distribution has another name, and commands name it with the place
that it came from.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement

DISTRIBUTION = "reprokit-papers"
COMMAND = "reprokit"


def extra_command(extra: str) -> str:
    """The command that installs the extra into the environment that runs reprokit."""
    origin = _origin()
    if not origin:  # from an index, a folder of wheels or a deleted wheel
        return shlex.join([*_pip(), *_requirements(extra)])
    editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
    source = _source(origin, extra)
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return shlex.join(["pipx", "install", "--force", *(["--editable"] if editable else []), source])
    if (Path(sys.prefix) / "uv-receipt.toml").exists():
        return shlex.join(["uv", "tool", "install", "--force", *editable, source])
    return shlex.join([*_pip(), *editable, source])


def _origin() -> Mapping[str, Any]:
    """The distribution's `direct_url.json` (PEP 610); that of the checkout if none is installed. Empty if unknown."""
    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        root = Path(__file__).parent.parent
        is_clone = (root / "pyproject.toml").is_file()
        return {"url": root.as_uri(), "dir_info": {"editable": True}} if is_clone else {}
    origin = json.loads(text) if text else {}
    url = urlsplit(origin.get("url", ""))
    return {} if url.scheme == "file" and not Path(unquote(url.path)).exists() else origin


def _source(origin: Mapping[str, Any], extra: str) -> str:
    """The argument of pip: a path for a folder or wheel, else `NAME[EXTRA] @ URL`."""
    url = str(origin["url"])
    if url.startswith("file:"):
        path = Path(unquote(urlsplit(url).path))
        return f"{'.' if path == Path.cwd() else path}[{extra}]"
    vcs = origin.get("vcs_info", {})
    address = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
    return f"{DISTRIBUTION}[{extra}] @ {address}"


def _requirements(extra: str) -> list[str]:
    """The extra's own requirements, without its marker; none if reprokit is not installed."""
    try:
        texts = distribution(DISTRIBUTION).requires or []
    except PackageNotFoundError:
        return []
    every = map(Requirement, texts)
    mine = [each for each in every if each.marker and not each.marker.evaluate({"extra": ""})]
    return [f"{each.name}{each.specifier}" for each in mine if each.marker and each.marker.evaluate({"extra": extra})]


def _pip() -> list[str]:
    """`pip install` if it is this environment's, else with the Python that runs reprokit."""
    pip = shutil.which("pip")
    mine = pip is not None and Path(pip).parent == Path(sys.executable).parent
    return [*(["pip"] if mine else [sys.executable, "-m", "pip"]), "install"]


def other_command() -> Path | None:
    """The `reprokit` that comes first on PATH, if another project installed it."""
    first = shutil.which(COMMAND)
    if first is None:
        return None
    try:
        with Path(first).open("rb") as file:
            script = file.read(1 << 16)
    except OSError:
        return None
    return None if b"reprokit.__main__" in script else Path(first).absolute()
