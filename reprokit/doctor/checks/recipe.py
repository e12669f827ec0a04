"""The machine against what a recipe needs: the rules of `check`, in its words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from reprokit.compat.model import Finding
from reprokit.doctor.bounded import NoAnswer
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
    # One program that hangs hides nothing of the rest.
    sizes: list[int | None] = [None, None]
    found = recipe_findings(variant, has_gpu, gpus, *sizes)
    yield from found
    hanging: NoAnswer | None = None
    questions = (partial(memory.total, host), partial(disk.free_bytes, host, root or ENGINE_ROOT))
    for place, ask in enumerate(questions):
        try:
            sizes[place] = ask()
        except NoAnswer as error:
            hanging = error
        more = [each for each in recipe_findings(variant, has_gpu, gpus, *sizes) if each not in found]
        yield from more
        found += more
    if hanging:
        raise hanging
    if not found:
        yield info("recipe", f"recipe={host.target.label}", "this machine has what the recipe requires")
