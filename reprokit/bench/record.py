"""One benchmark result with everything needed to believe it, and the file that results are appended to.

A record names what was measured, on what, and by which bytes. It holds no host name and no path of the host,
so that results can be published as they are.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprokit.errors import EngineError, UsageError
from reprokit.untrusted import files
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.files import Folder

SCHEMA = 1
_MOST = 256 << 20  # bytes of one file: a record takes some 2 KB


@dataclass(frozen=True)
class Record:
    """`samples` are in `unit`; `input_hash` is that of all the image was built from; `time` is UTC, ISO 8601.

    `environment` is what the program said of itself (versions, build key), `files` the SHA-256 of the inputs
    it read, `threads` the processors that the container may use, `clocks` in MHz where they are known.
    `image_state` is `built here`, `trusted` or `unverified`, empty in older records.
    """

    metric: str
    unit: str
    samples: tuple[float, ...]
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


def append(root: Path, path: str, records: Iterable[Record]) -> None:
    """Append to the file `path` below `root`, all or nothing: many may write at once, and a full disk changes nothing.

    `root` may be a stranger's checkout: no link in it is followed. Raises UsageError for one, EngineError where the
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
    """The records of `file`. Raises UsageError naming `file:line` for what is no record."""
    try:
        text = files.read(file, _MOST).decode("utf-8")
    except FileNotFoundError:
        raise UsageError("no results here yet", str(file), "run it first without --report") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the results cannot be read: {error}", str(file)) from None
    lines = text.split("\n")
    return [_from_json(line, f"{file}:{n}") for n, line in enumerate(lines, 1) if line.strip()]


_FIELDS = {f.name: f for f in dataclasses.fields(Record)}
_KINDS: dict[str, type] = {"str": str, "int": int, "Mapping[str, Any]": dict, "Mapping[str, str]": dict}


def _from_json(line: str, where: str) -> Record:
    try:
        data = parsed(line)
    except ValueError:
        raise UsageError("not a record: no JSON", where, "remove what was cut off") from None
    if not isinstance(data, dict) or "schema" not in data:
        raise UsageError("not a record of reprokit", where)
    if data["schema"] != SCHEMA:
        raise UsageError(f"schema {data['schema']!r} is not known here", where, "use a newer reprokit")
    for name, known in _FIELDS.items():
        required = known.default is dataclasses.MISSING and known.default_factory is dataclasses.MISSING
        if required and name not in data:
            raise UsageError(f"not a record: it has no {name}", where)
        kind = _KINDS.get(str(known.type))
        if kind and name in data and (not isinstance(data[name], kind) or isinstance(data[name], bool)):
            raise UsageError(f"not a record: {name} is {data[name]!r}", where)
    samples = data["samples"]
    if not isinstance(samples, list) or not samples or not all(_finite(sample) for sample in samples):
        raise UsageError("not a record: samples are not a list of numbers", where)
    return Record(**{**{k: v for k, v in data.items() if k in _FIELDS}, "samples": tuple(samples)})


def _finite(sample: Any) -> bool:
    return isinstance(sample, int | float) and not isinstance(sample, bool) and math.isfinite(sample)
