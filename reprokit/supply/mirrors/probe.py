"""Each mirror asked once: whether it answers, how soon, how fast."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from reprokit.config.archives import probe_path
from reprokit.config.templates import fill
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.kinds.wheels.index import is_page, path_of
from reprokit.supply.mirrors.effective import Line

_AT_ONCE = 8
_MOST_BYTES = 1 << 20
_MOST_S = 5
_A_HOST = "github.com"
_ENOUGH_BYTES = 1 << 16  # less than that tells nothing of a rate


@dataclass(frozen=True)
class Answer:
    """`latency_s` up to the answer's head, `rate` in bytes/s where enough came to tell, `error` why there is none."""

    line: Line
    latency_s: float | None = None
    rate: float | None = None
    error: str = ""


def ask_each(lines: Sequence[Line], client: Client) -> list[Answer]:
    """The answers in the order of the lines, several asked at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda line: _ask(line, client), lines))


def silent_kinds(answers: Sequence[Answer]) -> list[str]:
    """The kinds of which every mirror failed."""
    kinds = dict.fromkeys(answer.line.kind for answer in answers)
    return [kind for kind in kinds if all(a.error for a in answers if a.line.kind == kind)]


def address_of(line: Line) -> str:
    """What is asked of a mirror: a file that every mirror of its kind has, else its host's front page.

    Of a folder here it is the part that does not depend on the input.
    """
    fixed = line.value.partition("{")[0]
    if fixed.startswith("file:"):
        return fixed
    if line.kind == "registry":
        host = line.value.partition("/")[0]
        plain = host.partition(":")[0] in ("localhost", "127.0.0.1")  # as the engine asks
        return f"{'http' if plain else 'https'}://{host}/v2/"
    if line.kind == "apt":
        archive = line.archive or "debian"
        fields = {"archive": archive, "path": probe_path(archive), "as_of": ""}
        return fill(line.value, fields) or _front(line.value)
    if line.kind == "conda":
        return (fill(line.value, {"channel": "conda-forge"}) or line.value).rstrip("/") + "/noarch/repodata.json"
    if line.kind == "wheels" and fixed == line.value:
        return line.value if is_page(line.value) else f"{line.value.rstrip('/')}/pip/"
    return _front(line.value)


def _front(template: str) -> str:
    address = urlsplit(template.replace("{host}", _A_HOST))
    return f"{address.scheme}://{address.netloc}/"


def _ask(line: Line, client: Client) -> Answer:
    url = address_of(line)
    if url.startswith("file:"):
        return Answer(line, error="" if path_of(url).exists() else "it is not there")
    began = time.monotonic()
    try:
        with client.ask(url) as answer:
            latency = time.monotonic() - began
            # Whoever says what it has not, or not to everybody, is there.
            if answer.status >= 500 or (answer.status in (403, 404, 410) and line.kind in ("apt", "conda")):
                return Answer(line, latency, error=f"HTTP {answer.status}")
            count = 0
            while (block := answer.read()) and count < _MOST_BYTES and time.monotonic() - began < _MOST_S:
                count += len(block)
    except Refusal as refusal:
        return Answer(line, error=refusal.why)
    seconds = time.monotonic() - began - latency
    return Answer(line, latency, count / seconds if count >= _ENOUGH_BYTES and seconds else None)
