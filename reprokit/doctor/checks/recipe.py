"""The machine against what a recipe needs: the rules of `check`, in its words."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.checks import disk, memory
from reprokit.doctor.examined import Examined, NotAsked, text
from reprokit.doctor.findings import info
from reprokit.doctor.gpus import GpuState
from reprokit.host.disk import ENGINE_ROOT
from reprokit.host.fit import recipe_findings


def find(host: Examined) -> Iterator[Finding]:
    if host.target is None:
        return
    try:
        root = text(host.info().get("DockerRootDir"))
        cdi = bool(host.engine().host.cdi_devices(host.info()))
    except NotAsked:
        root, cdi = "", False
    try:
        state: GpuState | None = host.gpus()
    except NotAsked:  # the check `gpu` reports that
        state = None
    has_gpu = state is None or cdi or bool(state.devices or state.rows)
    variant, gpus = host.target.variant, state.gpus if state else []
    free = disk.free_bytes(host, root or ENGINE_ROOT)
    found = recipe_findings(variant, has_gpu, gpus, memory.total(host), free)
    yield from found
    if not found:
        yield info("recipe", f"recipe={host.target.label}", "this machine has what the recipe requires")
