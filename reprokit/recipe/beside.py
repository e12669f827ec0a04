"""Files of a recipe's folder that the recipe names."""

from __future__ import annotations

from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.untrusted import files

MOST = 1 << 20  # bytes of a text


def read(target: Target, name: str, where: str, most: int) -> bytes:
    """A file below the recipe's folder; `where` names it. Raises UsageError, also for links."""
    folder = target.path.parent
    try:
        with files.Folder(folder) as opened:
            return opened.read(name, most)
    except UsageError as error:
        raise UsageError(f"cannot read {name[:200]!r}: {error.message}", where, error.hint) from None
    except OSError as error:
        hint = f"put it beside the recipe, into {folder}"
        raise UsageError(f"cannot read {name[:200]!r}: {error.strerror}", where, hint) from None


def text(target: Target, name: str, where: str) -> str:
    """The text of a file, as `read`."""
    return read(target, name, where, MOST).decode("utf-8-sig", "replace")
