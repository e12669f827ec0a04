"""The rules, one module a subject. Every module here is imported: a new rule is a new function, or a new file."""

from __future__ import annotations

import importlib
import pkgutil

from reprokit.compat.rule import CompatRule

_MODULES = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]

# In the order in which findings of one severity are shown: by file, then as the file has them.
RULES = tuple(rule for module in _MODULES for rule in vars(module).values() if isinstance(rule, CompatRule))
