"""Profilers for images without one: this machine's Nsight tools, mounted, and py-spy, which the host downloads."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from reprokit.engine import Engine
from reprokit.host.mounts import BindMount
from reprokit.image.request import MACHINES
from reprokit.profiling.tools import HOME
from reprokit.tarfiles import tar_of

PY_SPY = f"{HOME}/py-spy"  # in the container
# NVIDIA's installers make a folder for each version, with all libraries of the tool in it.
_PLACES = {
    "nsys": (("opt/nvidia/nsight-systems/*", "usr/local/cuda*/nsight-systems-*"), "bin/nsys"),
    "ncu": (("opt/nvidia/nsight-compute/*", "usr/local/cuda*/nsight-compute-*"), "ncu"),
}


def nsight(root: Path = Path("/")) -> dict[str, tuple[BindMount, str]]:
    """The newest `nsys` and `ncu` of this machine: a mount for each, and its path in the container."""
    tools = {}
    for name, (patterns, program) in _PLACES.items():
        folders = [folder for pattern in patterns for folder in root.glob(pattern) if (folder / program).is_file()]
        if folders:
            newest = max(folders, key=lambda folder: [int(number) for number in re.findall(r"\d+", folder.name)])
            mount = BindMount(str(newest.resolve()), f"/.reprokit-{name}", True)
            tools[name] = mount, f"{mount.target}/{program}"
    return tools


def py_spy(engine: Engine) -> bytes:
    """Fetch py-spy; returns a tar with its program at `PY_SPY`. Raises SourceError."""
    from reprokit.supply.fetch.pool import fetch_all
    from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
    from reprokit.supply.kinds.wheels.resolve import resolve_wheels
    from reprokit.supply.mirrors import Mirrors
    from reprokit.supply.store import Store

    store = Store()
    mirrors = Mirrors(store)
    machine = MACHINES.get(engine.version().architecture, "x86_64")
    # The wheel's program suits every version of Python.
    (wheel,) = resolve_wheels(WheelRequest(("py-spy",), Platform("3.10", machine=machine)), mirrors)
    fetch_all([wheel.locked_input()], mirrors)
    with zipfile.ZipFile(store.path(wheel.sha256)) as opened:
        program = next(entry for entry in opened.namelist() if entry.endswith(".data/scripts/py-spy"))
        return tar_of({PY_SPY: opened.read(program)}, 0o755)
