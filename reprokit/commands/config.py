"""`reprokit config`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprokit.commands import _options as options
from reprokit.tables import table
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.supply.mirrors.effective import Line


def config(
    check: bool = options.flag("--check", "Ask each mirror once; exit 4 where none of a kind answers."),
    init: bool = options.flag("--init", "Write a commented file to start from."),
    json: options.Json = False,
) -> None:
    """Show the mirrors and proxies in force, and the source of each."""
    from reprokit.errors import SourceError, UsageError
    from reprokit.supply.mirrors import Mirrors
    from reprokit.supply.mirrors.effective import PUBLIC, WAYS, lines
    from reprokit.supply.store import Store

    if init:
        if check or json:
            raise UsageError("--init cannot be combined with other options")
        _init()
        return
    store = Store()
    mirrors = Mirrors(store)
    in_force = lines(mirrors)
    if not check:
        if json:
            dump([*map(_as_json, in_force)])
        else:
            table(("kind", "value", "source"), [(line.kind, line.shown, line.source) for line in in_force])
        return

    from reprokit.supply.fetch.http import Client
    from reprokit.supply.mirrors.effective import ask_each, silent_kinds

    with Client(mirrors.settings) as client:
        answers = ask_each([line for line in in_force if line.kind not in WAYS and line.source != PUBLIC], client)
    if json:
        measured = [{"latency_s": a.latency_s, "rate": a.rate, "error": a.error or None} for a in answers]
        dump([_as_json(answer.line) | numbers for answer, numbers in zip(answers, measured, strict=True)])
    else:
        rows = [(answer.line.kind, answer.line.shown, answer.in_words) for answer in answers]
        table(("kind", "value", "answer"), rows)
    if silent := silent_kinds(answers):
        raise SourceError(
            f"no mirror of {', '.join(silent)} answers", hint="`reprokit config` shows where each comes from"
        )


def _init() -> None:
    from reprokit import paths
    from reprokit.config import starting_text
    from reprokit.errors import UsageError
    from reprokit.host.disk import write_new

    path = paths.config_file()
    if path.exists():
        raise UsageError("the configuration is already there", str(path), "edit it")
    write_new(path, starting_text(), "the configuration", "choose another file with REPROKIT_CONFIG")
    path.chmod(0o600)  # mirrors may need passwords
    echo(f"wrote {path}; next: edit it, then reprokit config --check")


def _as_json(line: Line) -> dict[str, Any]:
    return {"kind": line.kind, "archive": line.archive or None, "value": line.redacted, "source": line.source}
