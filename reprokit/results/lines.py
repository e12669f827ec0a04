"""The files of records, `results/NAME.jsonl`: one JSON object a line. An index can be made from them at any time."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from reprokit.errors import UsageError, WorkFailed
from reprokit.host import disk
from reprokit.recipe.fields import MOST_DIGITS
from reprokit.results.record import ADAPTER, SCHEMA, Record
from reprokit.untrusted import files
from reprokit.untrusted.documents import first_fault, measure, parsed
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import DOCUMENT, RESULT_VALUES, RESULTS

FOLDER = "results"
_TOO_LARGE = 10**MOST_DIGITS
_REMOVE = "remove this line"
_TAIL = 1 << 20  # bytes, read in hundredths of a second
_LEAST_VALUES = 10  # of a line, so that empty lines are not read for long


def append(root: Path, path: str, records: Iterable[Record]) -> None:
    """Append to the file `path` below `root`, all or nothing, also with several writers or a full disk.

    An incomplete last line, which a crash leaves, is removed. `root` may be a stranger's checkout, so no link in it is
    followed. Raises UsageError for one, as `unwritable`, and WorkFailed for a record that could not be read again.
    """
    lines = b"".join(_checked(record, str(root / path)) for record in records)
    try:
        with Folder(root) as folder, _locked(folder, path) as handle:
            size = _repaired(handle, str(root / path))
            try:
                written = os.write(handle, lines)
                if written != len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except BaseException:
                os.ftruncate(handle, size)
                raise
    except OSError as error:
        raise disk.unwritable(error, "the results", root / path) from None


def _checked(record: Record, where: str) -> bytes:
    """The line of a record. A line that is too large or no JSON would stop all verbs that read the file."""
    try:
        line = f"{record.to_json()}\n".encode()
        _from_json(line, where)
    except UsageError as error:
        hint = "" if error.hint == _REMOVE else error.hint
        raise WorkFailed(f"the results cannot be recorded: {error.message}", where, hint) from None
    except ValueError:
        raise WorkFailed("the results cannot be recorded: a number is not finite", where) from None
    return line


def check_writable(file: Path, option: str = "") -> None:
    """Check before measuring. Raises EngineError or UsageError if results cannot be written.

    A relative path is a default, in which no link is followed; `option` is the option of another path.
    """
    if not file.is_absolute():
        with files.current(option) as folder:
            folder.refuse_links(str(file))
    if file.is_dir():
        raise disk.unwritable(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)), "the results", file)
    disk.check_writable(file, "the results", "start in a folder that you can write")


def remove(root: Path, path: str, records: Iterable[Record]) -> None:
    """Remove these records, but not lines that were appended since. A crash leaves the old file.

    Raises as `append`.
    """
    unwanted = Counter(record.to_json() for record in records)
    where = str(root / path)
    try:
        with Folder(root) as folder, _locked(folder, path) as handle, folder.replacing(path) as new:
            with os.fdopen(os.dup(handle), "rb") as old:
                new.writelines(_without(unwanted, split(old, where), where))
            new.flush()
            os.fsync(new.fileno())
    except OSError as error:
        raise disk.unwritable(error, "the results", root / path) from None


def _without(unwanted: Counter[str], lines: Iterable[bytes], where: str) -> Iterator[bytes]:
    for number, line in enumerate(lines, 1):
        text = next((record.to_json() for _, record in numbered([line], where, number)), "")
        if unwanted[text]:
            unwanted[text] -= 1
        else:
            yield line


@contextmanager
def _locked(folder: Folder, path: str) -> Iterator[int]:
    """The descriptor of the file, locked against other writers. `remove` may replace the file during the wait."""
    while True:
        handle = folder.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            now = folder.open(path, os.O_RDWR | os.O_CREAT)
            same = os.path.sameopenfile(handle, now)
            os.close(now)
            if same:
                yield handle
                return
        finally:
            os.close(handle)


def _repaired(handle: int, where: str) -> int:
    """Remove an incomplete last line, or end it if only its line end is missing; returns the size."""
    size = start = os.fstat(handle).st_size
    blocks: list[bytes] = []
    while start and not (blocks and b"\n" in blocks[-1]):
        DOCUMENT.check(size - start, "bytes in the last line", where)
        step = min(start, 1 << 16)
        start -= step
        blocks.append(os.pread(handle, step, start))
    tail = b"".join(reversed(blocks))
    last = tail.rpartition(b"\n")[2]
    if not last:
        return size
    if is_torn(last):
        os.ftruncate(handle, size - len(last))
        return size - len(last)
    os.write(handle, b"\n")
    return size + 1


def is_torn(line: bytes) -> bool:
    """Whether a line without a line end is incomplete."""
    try:
        parsed(line.decode("utf-8"))
    except ValueError:
        return True
    return False


def read(file: Path) -> list[Record]:
    """The records of `file`. Raises UsageError naming `file:line` for a line that is no record."""
    try:
        with files.opened(file) as source:
            return [record for _, record in numbered(split(source, str(file)), str(file))]
    except FileNotFoundError:
        raise UsageError("no results yet", str(file), "`reprokit bench NAME` measures some") from None
    except OSError as error:
        raise UsageError(f"the results cannot be read: {error.strerror}", str(file)) from None


def latest(file: Path) -> list[Record]:
    """The records in the last megabyte of `file`, none if it does not exist. Raises UsageError as `read`."""
    try:
        with files.opened(file) as source:
            if source.seek(0, os.SEEK_END) > _TAIL:
                source.seek(-_TAIL, os.SEEK_END)
                source.readline(_TAIL)
            else:
                source.seek(0)
            return [record for _, record in numbered(split(source, str(file)), str(file))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"the results cannot be read: {error.strerror}", str(file)) from None


def split(file: IO[bytes], where: str) -> Iterator[bytes]:
    """The lines from the file's position on, with their ends. Raises UsageError for more than the limits."""
    longest, most, most_values = DOCUMENT.most, RESULTS.most, RESULT_VALUES.most
    size, values = file.tell(), 0
    while line := file.readline(longest + 1):
        size += len(line)
        values += line.count(b",") + _LEAST_VALUES
        if len(line) > longest or size > most or values > most_values:
            DOCUMENT.check(len(line), "bytes in a line", where)
            RESULTS.check(size, "bytes in a file of records", where)
            RESULT_VALUES.check(values, "values in a file of records", where)
        yield line


def numbered(lines: Iterable[bytes], where: str, first: int = 1) -> Iterator[tuple[int, Record]]:
    """The records with their line numbers. An incomplete last line is skipped: its writer crashed, or still writes.

    Raises UsageError naming `where:line` for another line that is no record.
    """
    for number, line in enumerate(lines, first):
        if line.strip() and (line.endswith(b"\n") or not is_torn(line)):
            yield number, _from_json(line, f"{where}:{number}")


def _from_json(line: bytes, where: str) -> Record:
    measure(line, where)
    try:
        record = ADAPTER.validate_json(line)
    except ValidationError:
        record = _slowly(line, where)
    # NaN is not JSON, but parsers read it.
    if record.schema != SCHEMA or b"NaN" in line or b"Infinity" in line:
        record = _slowly(line, where)
    for values in (record.params, record.variables, record.clocks, record.environment):
        if values:
            _check_numbers(values.values(), where)
    return record


def _check_numbers(values: Iterable[Any], where: str) -> None:
    """Raises UsageError for an integer of too many digits, or a number that is not finite."""
    for value in values:
        kind = type(value)
        if kind is str:
            continue
        if kind is dict:
            _check_numbers(value.values(), where)
        elif kind is list:
            _check_numbers(value, where)
        elif kind is int and abs(value) >= _TOO_LARGE:
            raise UsageError(f"not a record: it holds an integer of more than {MOST_DIGITS} digits", where)
        elif kind is float and not math.isfinite(value):
            raise _not_finite(where)


def _not_finite(where: str) -> UsageError:
    return UsageError("not a record: it holds a number that is not finite", where, _REMOVE)


def _slowly(line: bytes, where: str) -> Record:
    """Read a line that the fast parser refuses, or raise its error. Lone surrogates become `?`."""
    try:
        data = parsed(line.decode("utf-8"))
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError | UnicodeDecodeError):  # Python reads no more than 4300 digits
            raise UsageError(f"not a record: {str(error).partition(';')[0]}", where) from None
        raise UsageError("not a record: no JSON", where, _REMOVE) from None
    if not isinstance(data, dict) or "schema" not in data:
        raise UsageError("not a record of reprokit", where, _REMOVE)
    if data["schema"] != SCHEMA:
        raise UsageError(f"unknown schema {data['schema']!r:.40}", where, "use a newer reprokit")
    try:
        return ADAPTER.validate_json(json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except ValidationError as error:
        raise UsageError(f"not a record: {': '.join(first_fault(error))}", where, _REMOVE) from None
    except ValueError:
        raise _not_finite(where) from None
