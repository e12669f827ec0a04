"""What a lock names, brought to where a build takes it from: the store, and the engine for the base."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.engine import Engine
from reprokit.image.inputs import Inputs
from reprokit.image.render import Rendered
from reprokit.image.run import Options
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway, Policy, pass_all
from reprokit.supply.lock.model import VariantLock
from reprokit.supply.store import Store


def bring(
    engine: Engine,
    target: Target,
    rendered: Rendered,
    lock: VariantLock,
    options: Options,
    store: Store,
    say: Callable[[str], None],
) -> Inputs:
    """Everything of the lock in the store, and its base on the engine."""
    raise NotImplementedError


def policy(target: Target, inputs: Inputs, options: Options) -> Policy:
    """What else a build may ask for: nothing where it is locked."""
    return pass_all


def undeclared(gateway: Gateway) -> tuple[str, ...]:
    """What a recorded build asked for beside its lock."""
    return ()
