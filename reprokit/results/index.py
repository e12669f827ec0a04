"""An SQLite index of a large file of records, in reprokit's own folder.

The file stays the truth: an index that does not fit it is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.results import lines
from reprokit.results.likeness import IDENTITY, Group, Run, groups, identity, run_of
from reprokit.untrusted import files

# Smaller files are read in a few hundredths of a second.
LARGE = 8 << 20
_VERSION = f"4 {' '.join(IDENTITY)}"
_TABLES = """
CREATE TABLE IF NOT EXISTS source (version TEXT, inode INTEGER, mtime INTEGER, size INTEGER, lines INTEGER, hash BLOB);
CREATE TABLE IF NOT EXISTS identity (id INTEGER PRIMARY KEY, text TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS run (identity INTEGER, text TEXT);
"""


def read_groups(file: Path) -> list[Group]:
    """The groups of like records in `file`, from an index if it is large. Raises UsageError as `lines.read`."""
    try:
        large = file.stat().st_size >= LARGE
    except OSError:
        large = False
    return _indexed(file) if large else groups(lines.read(file))


def _indexed(file: Path) -> list[Group]:
    folder = paths.private(paths.private(paths.home()) / "results")
    path = folder / f"{hashlib.sha256(os.fsencode(file.absolute())).hexdigest()[:32]}.sqlite"
    for _ in range(2):
        try:
            return _queried(path, file)
        except sqlite3.DatabaseError:  # damaged, or of another version
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"the results cannot be read: {error.strerror}", str(file)) from None
    return groups(lines.read(file))  # a full disk, for example: the index only saves time


def _queried(path: Path, file: Path) -> list[Group]:
    with closing(sqlite3.connect(path, timeout=60)) as database, database:
        database.execute("PRAGMA synchronous = OFF")  # it can be made again
        database.execute("BEGIN IMMEDIATE")  # another process may update it, too
        for statement in _TABLES.strip().split("\n"):
            database.execute(statement)
        _update(database, file)
        found = {number: Group(json.loads(text)) for number, text in database.execute("SELECT id, text FROM identity")}
        rows = database.execute("SELECT identity, text FROM run ORDER BY rowid").fetchall()
    # One call of the parser takes a fifth of the time of one for each run.
    runs = json.loads(f"[{','.join(text for _, text in rows)}]")
    for (number, _), (time, *values) in zip(rows, runs, strict=True):
        found[number].add(Run(time, *map(tuple, values)))
    return list(found.values())


@dataclass
class _Position:
    """How much of the file is in the index: complete lines only, the last one also without its line end."""

    size: int = 0
    lines: int = 0


def _update(database: sqlite3.Connection, file: Path) -> None:
    """Add the lines that were appended since; start again where the file is another one."""
    with files.opened(file) as source:
        info = os.fstat(source.fileno())
        state = database.execute("SELECT version, inode, mtime, size, lines, hash FROM source").fetchone()
        at = _Position()
        if state and state[:2] == (_VERSION, info.st_ino) and state[3] <= info.st_size:
            if state[2:4] == (info.st_mtime_ns, info.st_size):
                return
            if state[3] < info.st_size and _digest(source, state[3]) == state[5]:
                at = _Position(state[3], state[4])
        if not at.size:
            database.execute("DELETE FROM identity")
            database.execute("DELETE FROM run")
        source.seek(at.size)
        database.executemany("INSERT INTO run VALUES (?, ?)", _rows(source, str(file), at, database))
        database.execute("DELETE FROM source")
        values = (_VERSION, info.st_ino, info.st_mtime_ns, at.size, at.lines, _digest(source, at.size))
        database.execute("INSERT INTO source VALUES (?, ?, ?, ?, ?, ?)", values)


def _rows(source: IO[bytes], where: str, at: _Position, database: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    known = dict(database.execute("SELECT text, id FROM identity"))
    for _, record in lines.numbered(_complete(source, where, at), where, at.lines + 1):
        text = identity(record)
        if text not in known:
            known[text] = len(known) + 1
            database.execute("INSERT INTO identity VALUES (?, ?)", (known[text], text))
        yield known[text], json.dumps(run_of(record))


def _complete(source: IO[bytes], where: str, at: _Position) -> Iterator[bytes]:
    for line in lines.split(source, where):
        if line.endswith(b"\n") or not lines.is_torn(line):
            at.size += len(line)
            at.lines += line.count(b"\n")
            yield line


def _digest(source: IO[bytes], size: int) -> bytes:
    """Of the first `size` bytes: an editor may have changed any line of them."""
    digest = hashlib.sha256()
    source.seek(0)
    while size and (block := source.read(min(size, 1 << 20))):
        digest.update(block)
        size -= len(block)
    return digest.digest()
