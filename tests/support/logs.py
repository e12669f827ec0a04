"""Read the corpus of logs; add a build's output before each, and write it in the forms that logs come in.

Logs `provoked here` or `run here` are as the programs printed them. Those with an address retell a public thread: the
programs' messages in their form, with other names and paths and shorter than posted, as its text is not ours to copy.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

from tests.support.paths import ROOT

FOLDER = ROOT / "tests" / "explain" / "corpus"
# How far a named line may be from the causal one.
NEAR = 3


@dataclass(frozen=True)
class Log:
    """One log: its area and collection, where it is from, and for a failure the rule and a text of the causal line.

    `also` are other rules whose sentences state the true cause, judged by eye.
    """

    area: str
    collection: str
    name: str
    source: str
    rule: str | None
    line: str
    log: str
    also: tuple[str, ...] = ()

    @property
    def held_out(self) -> bool:
        """Whether no rule was written for it: all of `unseen`, none of `seen`, of others a third, drawn by name."""
        if self.collection.startswith(("seen", "unseen")):
            return self.collection.startswith("unseen")
        return hashlib.sha256(self.name.encode()).digest()[0] < 256 / 3

    @property
    def form(self) -> str:
        return sorted(FORMS)[hashlib.sha256(self.name.encode()).digest()[1] % len(FORMS)]

    def causal(self, text: str) -> int:
        """The number of the causal line in `text`, which holds the log."""
        return next(n for n, line in enumerate(text.split("\n"), 1) if self.line in line)

    def noisy(self) -> str:
        """The log in the noise of a build. What follows a failure stays as it was posted."""
        return noise(self.area) + self.log


def corpus() -> list[Log]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [
        Log(*path.stem.split("-"), **entry)
        for path in sorted(FOLDER.glob("*.yaml"))
        for entry in yaml.load(path.read_bytes(), loader)
    ]


def noise(area: str, lines: int = 400) -> str:
    """What a build prints before it fails, with words in it that look like errors."""
    make = {"python": _pip, "torch": _pip, "conda": _pip, "gpu": _training, "host": _training, "success": _cmake}
    produce = make.get(area, _cmake)()
    return "".join(next(produce) + "\n" for _ in range(lines))


def _cmake() -> Iterator[str]:
    yield "-- The CXX compiler identification is GNU 9.4.0"
    for header in ("stddef", "cuda_error", "errno", "nothere"):
        yield f"-- Looking for {header}.h - not found"
    yield "-- Performing Test HAVE_FLAG_WERROR - Failed"
    yield "-- Could NOT find MKL (missing: MKL_LIBRARIES)"
    number = 0
    while True:
        number += 1
        percent = number % 60
        yield f"[ {percent:2}%] Building CXX object src/CMakeFiles/core.dir/error/handler_{number}.cc.o"
        if number % 9 == 0:
            yield f"/src/core/fatal_error_{number}.cc:{number}:9: warning: unused variable 'error' [-Wunused-variable]"
            yield f"   {number} |     int error = failed(0);"
            yield "      |         ^~~~~"
        if number % 37 == 0:
            yield f"[ {percent:2}%] Built target error_{number}"


def _pip() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"Collecting package-errors-{number}==1.{number}"
        yield f"  Downloading package_errors_{number}-1.{number}-py3-none-any.whl ({number} kB)"
        yield f"Requirement already satisfied: exceptiongroup<2,>=1.{number} in /usr/lib/python3/dist-packages (1.2)"
        if number % 7 == 0:
            yield "  WARNING: The script failed-tests is installed in '/home/user/.local/bin' which is not on PATH."


def _training() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"INFO:root:step {number} loss {1 / number:.4f} error rate {1 / (number + 1):.4f}"
        if number % 20 == 0:
            yield "/opt/conda/lib/python3.8/site-packages/torch/nn/functional.py:718: UserWarning: experimental"


def plain(text: str) -> str:
    return text


def coloured(text: str) -> str:
    """Colours as gcc, ninja and pip put them, inside of words' groups too."""
    text = text.replace("error: ", "\x1b[01;31m\x1b[Kerror: \x1b[m\x1b[K").replace("ERROR: ", "\x1b[31mERROR: \x1b[0m")
    return "".join(f"\x1b[0;32m{line}\x1b[0m\r\n" for line in text.splitlines())


def progress(text: str) -> str:
    """Progress bars that a carriage return overwrites, before every line."""
    bars = "".join(f"Downloading {percent}%\r" for percent in (10, 50, 90))
    return "".join(f"{bars}{line}\n" for line in text.splitlines())


def docker_json(text: str) -> str:
    """Docker's stream of a build."""
    return "".join(json.dumps({"stream": line + "\n"}) + "\r\n" for line in text.splitlines())


def container_json(text: str) -> str:
    """The file that Docker's driver json-file writes."""
    stamp = "2026-11-22T10:00:00.000000000Z"
    rows = ({"log": line + "\n", "stream": "stderr", "time": stamp} for line in text.splitlines())
    return "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows)


def buildkit_json(text: str) -> str:
    """BuildKit's --progress=rawjson, with its texts in base64."""
    row: Callable[[str], dict[str, object]] = lambda line: {  # noqa: E731
        "logs": [{"vertex": "sha256:0", "stream": 2, "data": base64.b64encode(f"{line}\n".encode()).decode()}]
    }
    return "".join(json.dumps(row(line)) + "\n" for line in text.splitlines())


def buildkit_plain(text: str) -> str:
    """BuildKit's --progress=plain: the step's number and the seconds before each line."""
    return "".join(f"#12 {n / 10:.3f} {line}\n" for n, line in enumerate(text.splitlines()))


def stamped(text: str) -> str:
    """A CI service's time before each line."""
    return "".join(f"2026-11-22T10:00:00.0000000Z {line}\n" for line in text.splitlines())


FORMS: dict[str, Callable[[str], str]] = {
    f.__name__: f
    for f in (plain, coloured, progress, docker_json, container_json, buildkit_json, buildkit_plain, stamped)
}


def stream(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode("utf-8", "surrogateescape"))
