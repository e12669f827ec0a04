"""One benchmark result with everything needed to believe it, and the file that results are appended to.

A record names what was measured, on which hardware, and with which inputs. It contains no host name and no path of the
host, so that results can be published.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import ConfigDict, Field, FiniteFloat, ValidationError

from reprokit.errors import EngineError, UsageError
from reprokit.untrusted import files
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.files import Folder

SCHEMA = 1
_MOST = 256 << 20  # bytes of one file: a record takes some 2 KB


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(strict=True))
class Record:
    """`samples` are in `unit`; `input_hash` covers all inputs of the image; `time` is UTC, ISO 8601.

    `environment` is what the program reports of itself (versions, build key), `files` the SHA-256 of its input files,
    `threads` the processors that the container may use, `clocks` known clock rates in MHz. `image_state` is
    `built here`, `trusted` or `unverified`, empty in older records.
    """

    metric: str
    unit: str
    samples: Annotated[tuple[FiniteFloat, ...], Field(strict=False, min_length=1)]
    params: Mapping[str, Any]
    recipe: str
    variant: str
    benchmark: str
    command: str
    input_hash: str
    image_digest: str
    cpu: str
    threads: int
    gpu: str
    driver: str
    reprokit: str
    time: str
    clocks: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    image_state: str = ""
    schema: int = SCHEMA

    def to_json(self) -> str:
        """One line."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False)


_NAMES = frozenset(each.name for each in dataclasses.fields(Record))


def append(root: Path, path: str, records: Iterable[Record]) -> None:
    """Append to the file `path` below `root`, all or nothing, also with several writers or a full disk.

    `root` may be a stranger's checkout, so no link in it is followed. Raises UsageError for one, EngineError where the
    file cannot be written.
    """
    lines = "".join(record.to_json() + "\n" for record in records).encode()
    try:
        with Folder(root) as folder:
            handle = folder.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                lines = b"\n" + lines
            try:
                written = os.write(handle, lines)
                if written != len(lines):
                    raise OSError("no space left")
            except BaseException:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)
    except OSError as error:
        raise EngineError(f"the records could not be written: {error.strerror or error}", str(root / path)) from None


def read(file: Path) -> list[Record]:
    """The records of `file`. Raises UsageError naming `file:line` for a line that is no record."""
    try:
        text = files.read(file, _MOST).decode("utf-8")
    except FileNotFoundError:
        raise UsageError("no results yet", str(file), "run it first without --report") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the results cannot be read: {error}", str(file)) from None
    lines = text.split("\n")
    return [_from_json(line, f"{file}:{n}") for n, line in enumerate(lines, 1) if line.strip()]


def _from_json(line: str, where: str) -> Record:
    try:
        data = parsed(line)
    except ValueError:
        raise UsageError("not a record: no JSON", where, "remove the incomplete line") from None
    if not isinstance(data, dict) or "schema" not in data:
        raise UsageError("not a record of reprokit", where)
    if data["schema"] != SCHEMA:
        raise UsageError(f"unknown schema {data['schema']!r}", where, "use a newer reprokit")
    try:
        return Record(**{name: value for name, value in data.items() if name in _NAMES})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        wrong = f"it has no {name}" if first["type"] == "missing" else f"{name} is {first['input']!r}"
        raise UsageError(f"not a record: {wrong}", where) from None
