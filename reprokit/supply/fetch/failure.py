"""What a user reads of files that could not be had."""

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
        self.failures = tuple(sorted(failures, key=lambda failure: failure.want.name))
        super().__init__(*explained(self.failures))


def explained(failures: Sequence[Unobtainable]) -> tuple[str, str, str]:
    """Message, address and hint."""
    changed = any(failure.changed for failure in failures)
    hint = (
        "nothing of it is used; if upstream means it, `reprokit lock --update` takes the new bytes"
        if changed
        else "what came is kept: run it again, or give what a browser can get with --from DIR"
    )
    if len(failures) == 1:
        (failure,) = failures
        url, refusal = _telling(failure)
        others = [f"\n  {other}: {r.why}" for other, r in failure.refusals.items() if other != url]
        return f"{_summary(failure, refusal)}{''.join(others)}", url, hint
    lines = [f"\n  {_summary(f, _telling(f)[1])} ({_telling(f)[0]})" for f in failures[:_MOST_NAMED]]
    more = f"\n  and {len(failures) - _MOST_NAMED} more" if len(failures) > _MOST_NAMED else ""
    return f"{len(failures)} files could not be fetched:{''.join(lines)}{more}", "", hint


def not_here(wants: Sequence[LockedInput]) -> SourceError:
    """What an offline run says of files that are not in the store."""
    names = ", ".join(want.name for want in wants[:_MOST_NAMED])
    more = f" and {len(wants) - _MOST_NAMED} more" if len(wants) > _MOST_NAMED else ""
    what = "a file is" if len(wants) == 1 else f"{len(wants)} files are"
    return SourceError(f"{what} not in the store: {names}{more}", hint="`reprokit fetch` brings them")


def _telling(failure: Unobtainable) -> tuple[str, Refusal]:
    """The address that tells most: one with other bytes, else the one that was asked first."""
    ranked = sorted(failure.refusals.items(), key=lambda item: not item[1].other_bytes)
    return ranked[0] if ranked else ("", Refusal("nobody is known to have it"))


def _summary(failure: Unobtainable, refusal: Refusal) -> str:
    return f"{failure.want.name}{' has changed upstream' if refusal.other_bytes else ''}: {refusal.why}"
