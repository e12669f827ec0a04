"""Containers for benchmarks and smoke tests, separate from the one that the user works in."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.container.gpu import parse_gpus
from reprokit.container.lifecycle import ensure_running
from reprokit.container.names import container_name
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.recipe.find import Target


def own_container(engine: Engine, target: Target, purpose: str, gpus: str | None, say: Callable[[str], None]) -> str:
    """A running container of the target's image for `purpose` only; one of an older image is replaced.

    It has none of the user's changes to their own container, so that results belong to the image's input hash.
    """
    name = f"{container_name(target.recipe.name, target.variant_name)}-{purpose}"
    # Each user of a shared machine has their own.
    uid = engine.host.caller().uid
    name += f"-{uid}" if uid else ""
    return ensure_running(engine, target, RunOptions(name=name, gpus=gpus, replace_stale=True), say)


def gpus_for(engine: Engine, target: Target, asked: str | None) -> str | None:
    """`--gpus` for such a container: "none" where the recipe or the host has no GPU.

    None means as the recipe says, without a GPU where it is optional and unavailable. Raises UsageError.
    """
    if asked is not None:
        return "none" if parse_gpus(asked).none else asked
    required = target.variant.requires.gpu
    if required == "none" or not engine.host.has_gpu(engine.host.gpu_support(engine.info())):
        return "none"
    return "all" if required == "required" else None
