"""The containers of benchmarks and smoke tests: apart from the one that a user works in, and true to the image."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.container.gpu import parse_gpus
from reprokit.container.lifecycle import ensure_running
from reprokit.container.names import container_name
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.recipe.find import Target


def own_container(engine: Engine, target: Target, purpose: str, gpus: str | None, say: Callable[[str], None]) -> str:
    """A running container of the target's image for `purpose` alone; one of an older image is replaced.

    What a user installed or changed by hand in their own container is not in it, so that what is measured is
    what the image's hash stands for.
    """
    name = f"{container_name(target.recipe.name, target.variant_name)}-{purpose}"
    # On a machine that others use too, each has their own.
    uid = engine.host.caller().uid
    name += f"-{uid}" if uid else ""
    return ensure_running(engine, target, RunOptions(name=name, gpus=gpus, replace_stale=True), say)


def gpus_for(engine: Engine, target: Target, asked: str | None) -> str | None:
    """`--gpus` for a container that is to run with or without: none where the recipe or the host has none.

    None leaves it to the recipe, which goes on without where its GPU is optional. Raises UsageError.
    """
    if asked is not None:
        return "none" if parse_gpus(asked).none else asked
    wanted = target.variant.requires.gpu
    if wanted == "none" or not engine.host.has_gpu(engine.host.gpu_support(engine.info())):
        return "none"
    return "all" if wanted == "required" else None
