"""`reprokit doctor`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.compat.model import Finding
    from reprokit.doctor.examined import Examined
    from reprokit.recipe.find import Target

# Python needs the rest of the 10 s.
_WITHIN_S = 9.0
_LOGIN_S = 4.0
_CHECKS_S = 6.5


def doctor(
    name: Annotated[str | None, options.recipes("A recipe that this machine is for.", "[NAME[:VARIANT]]")] = None,
    fix: bool = options.flag("--fix", "Carry out the safe fixes, once you agree."),
    yes: bool = options.flag("--yes", "Agree to the fixes."),
    report: Annotated[
        Path | None, options.file("Write a report without secrets, to paste into an issue.", "--report")
    ] = None,
    json: options.Json = False,
    on: options.On = None,
) -> None:
    """Look at this machine or a node: engine, GPUs, memory, disk, network; name faults and remedies.

    It ends within 10 seconds, whatever hangs. Exit code 1 if a finding is an error, 4 if the node is down.
    """
    from reprokit import consent
    from reprokit.display import notify
    from reprokit.errors import UsageError
    from reprokit.recipe import find

    if fix and json and not yes:
        raise UsageError("--fix --json cannot ask", hint="add --yes")
    target = find.target(name) if name else None
    with ExitStack() as stack:
        findings, host = _examine(stack, on, target)
        fixes = list(dict.fromkeys(f.fix for f in findings if f.fix)) if fix and host else []
        if fixes and host:
            if not json:
                _print(findings, on)
            consent.require(f"doctor will run: {'; '.join(fixes)}", "--yes", yes)
            for command in fixes:
                notify(f"running: {command}")
                if code := host.shell.carry_out(command):
                    notify(f"that failed with exit code {code}")
            findings, host = _examine(stack, on, target)
        elif fix:
            notify("no finding has a safe fix")
        if json:
            dump(_as_json(findings, target))
        else:
            _print(findings, on)
        if report:
            _write(report, findings, host)
    if host is None:
        raise typer.Exit(4)
    if not _ok(findings):
        raise typer.Exit(1)


def _examine(stack: ExitStack, on: str | None, target: Target | None) -> tuple[list[Finding], Examined | None]:
    """The findings, and the machine, None if the node cannot be reached."""
    from reprokit.doctor.checks import CHECKS
    from reprokit.doctor.examine import examine
    from reprokit.doctor.examined import Examined, examined_node
    from reprokit.doctor.findings import error
    from reprokit.doctor.shell import LocalShell
    from reprokit.engine import Engine
    from reprokit.errors import EngineError, SourceError

    began = time.monotonic()
    if on is None:
        host = Examined(LocalShell(), Engine.connect, target)
    else:
        from reprokit.nodes.config import find

        try:
            host = stack.enter_context(examined_node(find(on), _LOGIN_S, target))
        except (SourceError, EngineError) as reason:
            return [error("node.unreachable", f"node={on}", reason.message, reason.hint)], None
    return examine(host, CHECKS, min(_CHECKS_S, _WITHIN_S - (time.monotonic() - began))), host


def _ok(findings: Sequence[Finding]) -> bool:
    return all(finding.severity != "error" for finding in findings)


def _as_json(findings: Sequence[Finding], target: Target | None) -> dict[str, Any]:
    """`{"ok", "findings"}`, each as in `check`, with the command that would fix it or null."""
    from reprokit.commands._findings import as_json
    from reprokit.compat.facts import bundled

    named = {"recipe": target.label} if target else {}
    return {
        "ok": _ok(findings),
        "findings": [{**named, **as_json(bundled(), finding), "fix": finding.fix or None} for finding in findings],
    }


def _print(findings: Sequence[Finding], on: str | None) -> None:
    from reprokit.commands._findings import show, summary
    from reprokit.compat.facts import bundled
    from reprokit.tables import paragraph

    for finding in findings:
        if finding.severity == "info":
            reason = f": {finding.reason}" if finding.reason else ""
            paragraph(f"{', '.join(finding.subjects)}{reason}", "info     ", " " * 11)
        else:
            show(bundled(), [finding])
    echo(f"{on or 'this machine'}: {summary(findings)}")


def _write(path: Path, findings: Sequence[Finding], host: Examined | None) -> None:
    from reprokit import config
    from reprokit.display import notify
    from reprokit.doctor.bounded import NoAnswer
    from reprokit.doctor.report import report, scrubber
    from reprokit.errors import ReprokitError
    from reprokit.host.disk import unwritable

    try:
        scrub = scrubber(host, config.load()) if host else None
    except (NoAnswer, OSError, ReprokitError):
        scrub = None
    if scrub is None:
        notify("the names that a report must not show are unknown: it has the rules only")
    where = "a node" if host is None or host.node else "this machine"
    try:
        path.write_text(report(findings, where, scrub), encoding="utf-8")
    except OSError as error:
        raise unwritable(error, "the report", path) from None
    notify(f"wrote {path}; read it before you paste it")
