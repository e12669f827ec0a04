"""Jupyter for an image that has none: wheels fetched by the host, unpacked beside the image's own packages."""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from reprokit.container.execute import execute
from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from reprokit.untrusted.documents import parsed, understood

FOLDER = "/opt/reprokit-jupyter"
_APPLICATIONS = ("jupyterlab", "notebook", "jupyter_server")
_REQUIREMENTS = ("jupyterlab", "ipykernel")

_PROBE = f"""
import importlib.util, json, platform, sys
found = [m for m in {_APPLICATIONS!r} if importlib.util.find_spec(m)]
print(json.dumps({{"application": found[0] if found else "", "python": "%d.%d" % sys.version_info[:2],
  "libc": platform.libc_ver()[1], "machine": platform.machine(),
  "site": [p for p in sys.path if p.endswith(("/site-packages", "/dist-packages"))][-1]}}))
"""


@dataclass(frozen=True)
class Python:
    """A container's `python3`: the Jupyter module it can import (or ""), version, glibc, machine, last site folder."""

    application: str
    python: str
    libc: str
    machine: str
    site: str


def probe(engine: Engine, container: str) -> Python:
    """Raises WorkFailed where the container has no working python3."""
    answer = execute(engine, container, ["python3", "-c", _PROBE], logged=False)
    if answer.exit_code:
        raise WorkFailed("Jupyter needs python3 in the image", container, "add the block `python` to the recipe")
    with understood("what the container's python3 prints", container):
        return Python(**parsed(answer.stdout.splitlines()[-1]))


def install(engine: Engine, container: str, python: Python, say: Callable[[str], None]) -> None:
    """Install Jupyter into the container. Raises SourceError where it cannot be fetched.

    A .pth file puts its folder last on Python's path, so that no dependency of Jupyter shadows a pinned package. The
    host fetches the wheels, so that the container needs neither network nor pip.
    """
    from reprokit.supply.kinds.wheels.platform import Platform
    from reprokit.supply.kinds.wheels.resolve import fetch_wheels, resolve_wheels
    from reprokit.supply.mirrors.places import Mirrors
    from reprokit.supply.store import Store

    say("the image has no Jupyter: fetching it for this container (the image is not changed)")
    store = Store()
    mirrors = Mirrors(store)
    platform = Platform(python.python, python.libc or "2.28", python.machine)
    wheels = resolve_wheels(_REQUIREMENTS, (), platform, (), mirrors, store, say)
    fetch_wheels(wheels, mirrors, store, say)
    with tempfile.TemporaryFile() as archive:
        _pack((store.path(w.sha256) for w in wheels), python.site, archive)
        archive.seek(0)
        engine.put_archive(container, "/", archive)


def _pack(wheels: Iterator[Path], site: str, archive: IO[bytes]) -> None:
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as opened:
                for entry in opened.infolist():
                    place = placed(entry.filename)
                    if place and not entry.is_dir():
                        _add(tar, f"{FOLDER}/{place}", opened.read(entry))
        _add(tar, f"{site}/reprokit-jupyter.pth", f"{FOLDER}/site\n".encode())


def placed(name: str) -> str:
    """The path of a wheel's file below FOLDER, by the wheel format's `.data` folders; "" for unneeded files."""
    parts = name.split("/")
    if ".." in parts or name.startswith("/"):
        return ""
    if not parts[0].endswith(".data"):
        return f"site/{name}"
    rest = "/".join(parts[2:])
    return {"purelib": f"site/{rest}", "platlib": f"site/{rest}", "data": rest}.get(parts[1], "")


def _add(tar: tarfile.TarFile, path: str, data: bytes) -> None:
    entry = tarfile.TarInfo(path.lstrip("/"))
    # Executable, because some packages start their own helper programs.
    entry.size, entry.mode = len(data), 0o755
    tar.addfile(entry, io.BytesIO(data))
