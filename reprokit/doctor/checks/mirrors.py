"""Whether the user's mirrors answer, and how fast; without mirrors, the public archives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from reprokit.compat.model import Finding
from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info, warning
from reprokit.supply.fetch.http import Client
from reprokit.supply.mirrors.effective import PUBLIC, WAYS, Line, MirrorAnswer, ask, lines, silent_kinds
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store

_ASK_S = 4.0
_SLOW = 200e3  # bytes a second: an hour for 700 MB
_MOST = 24  # mirrors


def find(host: Examined) -> Iterator[Finding]:
    if host.node:
        return  # downloads happen on the machine that builds
    mirrors = Mirrors(Store())
    found = list({(line.kind, line.value): line for line in lines(mirrors) if line.kind not in WAYS}.values())
    chosen = [line for line in found if line.source != PUBLIC] or _one_each(found)
    client = Client(replace(mirrors.settings, connect_s=_ASK_S, stall_s=_ASK_S))
    asked = [(line, Bounded(partial(ask, line, client), _ASK_S)) for line in chosen[:_MOST]]
    for _, question in asked:
        question.start()
    answers = [_answer(line, question) for line, question in asked]
    for answer in answers:
        yield from _judged(answer)
    if silent := silent_kinds(answers):
        yield warning(
            "mirrors.silent", f"mirrors={', '.join(silent)}", f"no mirror of {', '.join(silent)} answers",
            "`reprokit config` shows where each comes from; what the store holds needs none (`reprokit fetch`)",
        )  # fmt: skip


def _one_each(found: list[Line]) -> list[Line]:
    """The first public archive of each kind."""
    return list({line.kind: line for line in reversed(found)}.values())


def _answer(line: Line, asked: Bounded[MirrorAnswer]) -> MirrorAnswer:
    try:
        return asked.result()
    except NoAnswer as error:
        return MirrorAnswer(line, error=str(error))


def _judged(answer: MirrorAnswer) -> Iterator[Finding]:
    line = answer.line
    subject = f"mirror.{line.kind}={line.shown}"
    if "CERTIFICATE_VERIFY_FAILED" in answer.error or "certificate" in answer.error.lower():
        remedy = "if a proxy of your site signs TLS, name its certificates: `export SSL_CERT_FILE=/path/to/ca.pem`"
        yield warning("mirrors.certificate", subject, answer.error, remedy)
    elif answer.error:
        yield warning(
            "mirrors.fails", subject, answer.error, f"correct or remove it ({line.source}); `reprokit help mirrors`"
        )
    elif answer.rate and answer.rate < _SLOW:
        yield warning(
            "mirrors.slow", subject, f"slow: {answer.in_words}", "put a nearer mirror first: `reprokit help mirrors`"
        )
    else:
        yield info("mirrors", subject, answer.in_words)
