"""The process in which readers parse a stranger's files: too much time or memory ends it, and not reprokit.

Parsers in C can be stopped in no other way. The answers of the process are validated like all external input.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO, cast

from pydantic import TypeAdapter

from reprokit.host.command import own_module
from reprokit.importing.model import SourceFile, Statement, Statements
from reprokit.importing.readers import READERS
from reprokit.importing.requirement_lines import requirement_statements
from reprokit.recipe.fields import LONGEST_REQUIREMENT, MOST_PARENTHESES
from reprokit.untrusted.terminal import Output

MEMORY = 512 << 20
SECONDS = 4.0  # of processor time for one file: 5000 requirements take 1 to 2
MOST = 50_000  # statements of a file
_ANSWER = 64 << 20  # bytes
_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH", "PYTHONPATH")  # needed to import reprokit; other variables have secrets
_READ = TypeAdapter(tuple[float, list[Statement]])


class ReaderProcess:
    """Reads files one after the other, in a process that starts with the first file.

    `seconds` is the processor time of all files so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ReaderProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def statements(self, file: SourceFile, constraints: bool = False) -> list[Statement]:
        """The statements of the file; only an `unread` one if its reader fails.

        `constraints`: other files name it as a constraints file.
        """
        job = [file.path, file.text, file.format, file.scope, constraints]
        try:
            seconds, statements = _READ.validate_json(self._answer(json.dumps(job).encode() + b"\n"))
            self.seconds += seconds
            return statements
        except (ValueError, OSError):
            self._end()
            self.seconds += SECONDS
            return [file.states("unread", f"its parser takes more than {SECONDS:g} s or {MEMORY >> 20} MiB")]

    def _answer(self, job: bytes) -> bytes:
        if self._process is None:
            environment = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
            self._process = subprocess.Popen(
                own_module("reprokit.importing.reading"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, cwd="/", env=environment, start_new_session=True,
            )  # fmt: skip
        cast(IO[bytes], self._process.stdin).write(job)
        cast(IO[bytes], self._process.stdin).flush()
        return cast(IO[bytes], self._process.stdout).readline(_ANSWER)

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        with contextlib.suppress(OSError), self._process:
            pass
        self._process = None


def main() -> None:
    """Answer each job, a line on standard input, with a line of statements."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = Output(1, raw=True)
    for line in sys.stdin.buffer:
        began = time.process_time()
        path, text, format, scope, constraints = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # the signal ends the process
        file = SourceFile(path, text, format, scope)
        statements = list(_read(file, requirement_statements(file, constraints=True) if constraints else None))
        answer = _READ.dump_json((time.process_time() - began, statements))
        signal.setitimer(signal.ITIMER_PROF, 0)
        output.write(answer + b"\n")


def _read(file: SourceFile, statements: Statements | None) -> Iterator[Statement]:
    try:
        for count, statement in enumerate(statements or READERS[file.format].read(file)):
            if count == MOST:
                yield file.states("unread", f"what follows after {MOST} statements", statement.origin.line)
                return
            if len(statement.value) > LONGEST_REQUIREMENT or statement.value.count("(") > MOST_PARENTHESES:
                yield file.states("unread", "a value is too long", statement.origin.line)
            else:
                yield statement
    # Readers pass on the errors of libraries.
    except Exception as error:
        why = getattr(error, "message", "") or str(error)
        yield file.states("unread", why.partition("\n")[0][:200] or type(error).__name__)


if __name__ == "__main__":
    main()
