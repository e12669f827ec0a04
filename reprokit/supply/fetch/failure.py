"""Errors for files that could not be fetched."""

from __future__ import annotations

from collections.abc import Sequence

from reprokit.errors import SourceError
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.download import Unobtainable
from reprokit.supply.locked_input import LockedInput

_MOST_NAMED = 10


class FetchFailed(SourceError):
    """No address gave the files of `failures`, sorted by name."""

    def __init__(self, failures: Sequence[Unobtainable]) -> None:
        self.failures = tuple(sorted(failures, key=lambda failure: failure.locked.name))
        super().__init__(*explained(self.failures))


def explained(failures: Sequence[Unobtainable]) -> tuple[str, str, str]:
    """Message, address and hint."""
    changed = any(failure.changed for failure in failures)
    hint = (
        "nothing of it is used; if the change is wanted, `reprokit lock --update` locks the new bytes"
        if changed
        else "partial files are kept: run it again, or add files that you have with --from DIR"
    )
    if len(failures) == 1:
        (failure,) = failures
        url, refusal = _cause(failure)
        others = [f"\n  {other}: {r.why}" for other, r in failure.refusals.items() if other != url]
        return f"{_summary(failure, refusal)}{''.join(others)}", url, hint
    lines = [f"\n  {_summary(f, _cause(f)[1])} ({_cause(f)[0]})" for f in failures[:_MOST_NAMED]]
    more = f"\n  and {len(failures) - _MOST_NAMED} more" if len(failures) > _MOST_NAMED else ""
    return f"{len(failures)} files could not be fetched:{''.join(lines)}{more}", "", hint


def not_stored(inputs: Sequence[LockedInput]) -> SourceError:
    """The error of an offline run for files that are not in the store."""
    names = ", ".join(locked.name for locked in inputs[:_MOST_NAMED])
    more = f" and {len(inputs) - _MOST_NAMED} more" if len(inputs) > _MOST_NAMED else ""
    what = "a file is" if len(inputs) == 1 else f"{len(inputs)} files are"
    return SourceError(f"{what} not in the store: {names}{more}", hint="`reprokit fetch` downloads them")


def _cause(failure: Unobtainable) -> tuple[str, Refusal]:
    """The most useful error: of an address with other bytes, else of the first one."""
    ranked = sorted(failure.refusals.items(), key=lambda item: not item[1].other_bytes)
    return ranked[0] if ranked else ("", Refusal("no address is known"))


def _summary(failure: Unobtainable, refusal: Refusal) -> str:
    return f"{failure.locked.name}{' has changed upstream' if refusal.other_bytes else ''}: {refusal.why}"
