"""The NVIDIA Container Toolkit and CDI: installed, known to the engine, and of the driver's version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.container.gpu import TOOLKIT
from reprokit.doctor.examined import Examined, text
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.gpus import version
from reprokit.doctor.shell import Reported

_SCRIPT = """
nvidia-ctk --version 2>/dev/null | say ctk
for name in nvidia-ctk nvidia-container-runtime nvidia-container-runtime-hook nvidia-container-cli; do
  command -v "$name" | say program
done
cat "$ROOT"/etc/cdi/*nvidia* "$ROOT"/var/run/cdi/*nvidia* 2>/dev/null \\
  | grep -oE 'lib(cuda|nvidia-ml)\\.so\\.[0-9]+\\.[0-9.]*[0-9]' | sort -u | head -n 20 | say cdi_library
"""
_GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


def find(host: Examined) -> Iterator[Finding]:
    state = host.gpus()
    if not state.module and not state.rows:
        return
    found = host.ask(_SCRIPT)
    driver = state.module or state.rows[0].gpu.driver
    toolkit = re.search(r"version (\d+(\.\d+)+)", found.one("ctk"))
    subject = f"nvidia-container-toolkit={toolkit[1] if toolkit else 'none'}"
    if programs := ", ".join(found.all("program")):
        yield info("gpu_toolkit", subject, f"in {programs}")
    yield from _stale(found, driver)
    engine_info = host.info()
    cdi = host.engine().host.cdi_devices(engine_info)
    if not programs and cdi:
        yield info("gpu_toolkit", subject, "not needed: CDI files from elsewhere describe the GPUs")
    elif not programs:
        yield error("gpu_toolkit.missing", subject, "without it containers get no GPU", TOOLKIT)
    runtimes = engine_info.get("Runtimes")
    names = [text(name) for name in runtimes if "nvidia" in name] if isinstance(runtimes, dict) else []
    ways = [*(["CDI"] if cdi else []), *(f"runtime {name}" for name in names)]
    yield info("gpu_toolkit.engine", f"engine.gpu={', '.join(ways) or 'hook only'}", ", ".join(cdi))
    if engine_info.get("CDISpecDirs") and not cdi and toolkit:
        reason = "the engine has CDI on, and no file describes this machine's GPUs"
        yield warning("gpu_toolkit.cdi", "engine.cdi=empty", reason, f"write one: `{_GENERATE}`", _GENERATE)


def _stale(found: Reported, driver: str) -> Iterator[Finding]:
    """CDI files of an earlier driver, whose libraries are gone."""
    named = {version(line.partition(".so.")[2]) for line in found.all("cdi_library")} - {""}
    if named and driver and driver not in named:
        reason = f"the CDI files are for driver {', '.join(sorted(named))}, this is {driver}: containers do not start"
        yield error("gpu_toolkit.stale", f"driver={driver}", reason, f"write them anew: `{_GENERATE}`", _GENERATE)
