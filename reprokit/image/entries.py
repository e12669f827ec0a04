"""Lists of image IDs that reprokit keeps as its own state, where no image can write."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.filelocks import file_lock
from reprokit.host.disk import unwritable
from reprokit.untrusted.files import Folder

_MOST_BYTES = 16 << 20


class Entry(Protocol):
    """A frozen dataclass of strings; `engine` is the engine that has the image."""

    @property
    def id(self) -> str: ...
    @property
    def engine(self) -> str: ...


E = TypeVar("E", bound=Entry)


class EntryList(Generic[E]):
    """Entries by image ID in one file. `what` names them in errors."""

    def __init__(self, file: str, kind: type[E], what: str) -> None:
        self._file, self._kind, self._what = file, kind, what

    def read(self) -> dict[str, E]:
        """All entries. A damaged list has none. Raises EngineError if the file cannot be read."""
        if not _folder().is_dir():
            return {}
        self._check()
        try:
            with Folder(_folder()) as folder:
                text = folder.read(self._file, _MOST_BYTES)
        except FileNotFoundError:
            return {}
        except OSError as error:
            where = str(_folder() / self._file)
            raise EngineError(f"cannot read the list of {self._what}: {error.strerror}", where) from None
        try:
            return {entry.id: entry for entry in (self._kind(**fields) for fields in json.loads(text))}
        except (ValueError, TypeError):
            return {}

    @contextmanager
    def changing(self, engine: Engine) -> Iterator[dict[str, E]]:
        """The entries, written when the block ends, without those of images that `engine` no longer has.

        Raises EngineError as `read`, and as `unwritable`.
        """
        try:
            _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check()
            waiting = f"another reprokit is changing the list of {self._what}; waiting for it"
            with file_lock(_folder() / "lock", waiting), Folder(_folder()) as folder:
                entries = self.read()
                # After the entries were read, so that each entry's image already exists.
                present = {image.id for image in engine.images([], steps=True)}
                name = engine_name(engine)
                entries = {i: entry for i, entry in entries.items() if i in present or entry.engine != name}
                yield entries
                values: list[Any] = [*entries.values()]
                with folder.replacing(self._file) as file:
                    os.fchmod(file.fileno(), 0o600)
                    file.write(json.dumps([asdict(entry) for entry in values], indent=1).encode())
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            hint = "choose another folder with REPROKIT_HOME"
            raise unwritable(error, f"the list of {self._what}", _folder() / self._file, hint) from None

    def _check(self) -> None:
        """Raises EngineError if another user could have changed the list."""
        info = _folder().stat()
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o022:
            hint = "remove that folder; all images are unverified then"
            raise EngineError(f"other users can change the list of {self._what}", str(_folder()), hint)


def engine_name(engine: Engine) -> str:
    """A name that distinguishes engines, whatever their address."""
    return engine.info().id or engine.url


def now() -> str:
    """UTC in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _folder() -> Path:
    return paths.state() / "trust"
