"""The kinds of input: one module or folder each, named after its section of a lock.

A new kind is a module here whose `KIND` meets `kind.Kind`, a tuple of its entries in `lock.model.VariantLock`, which
registers it, and its field in `recipe/model.py`. `zenodo` finds the files of a recipe's `data`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from reprokit.supply.kinds.kind import Kind


@cache
def kind_of(name: str) -> Kind:
    """Import and return the kind of this name. Most verbs need none, so none is imported earlier."""
    return cast("Kind", import_module(f"{__name__}.{name}").KIND)


def all_kinds() -> list[Kind]:
    """All kinds, in the order of a lock."""
    from reprokit.supply.lock.model import KINDS

    return [kind_of(name) for name in KINDS]
