"""What upstream no longer has as a lock says, or has something newer for."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image.base.locked import moved_base
from reprokit.image.blocks import wheel_requirements
from reprokit.image.lock.supplies import Supplier
from reprokit.image.platform import platform_of
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.supply.kinds.apt.resolve import moved_apt
from reprokit.supply.kinds.files import moved_files
from reprokit.supply.kinds.git.resolve import moved_git
from reprokit.supply.kinds.wheels.resolve import moved_wheels
from reprokit.supply.lock.model import VariantLock
from reprokit.supply.lock.moved import Moved
from reprokit.supply.locked_input import of_base
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store

Say = Callable[[str], None]


def outdated(
    engine: Engine, target: Target, lock: VariantLock, store: Store, mirrors: Mirrors, say: Say
) -> tuple[list[Moved], list[ReprokitError]]:
    """Everything that moved, by section, and the errors of sections that could not be asked about."""
    variant = target.variant

    def apt() -> list[Moved]:
        if not lock.apt:
            return []
        supplier = Supplier(store, mirrors, say)
        supplier.files(of_base(lock.base))
        return moved_apt(engine, supplier.base(engine, lock), render(target).installs, lock.apt, store, say)

    def wheels() -> list[Moved]:
        if not lock.wheels:
            return []
        platform = platform_of(target, lock.machine)
        wanted = wheel_requirements(target)
        return moved_wheels(lock.wheels, wanted, variant.sdists, platform, variant.wheel_indexes, mirrors, say)

    found: list[Moved] = []
    errors: list[ReprokitError] = []
    for ask in (
        lambda: moved_base(engine, lock.base, store, say),
        apt,
        wheels,
        lambda: moved_git(variant.sources, lock.git, mirrors, say),
        lambda: moved_files(lock.files, mirrors.settings, say),
    ):
        try:
            found += ask()
        except ReprokitError as error:
            errors.append(error)
    return found, errors
