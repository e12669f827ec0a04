"""A lock as a file: `NAME.lock.yaml` beside the recipe, with one package a line for readable diffs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml as pyyaml

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.filelocks import file_lock
from reprokit.host import disk
from reprokit.recipe import yaml
from reprokit.supply.lock.model import Lock
from reprokit.supply.store import Store, key_of
from reprokit.untrusted import files

if TYPE_CHECKING:
    from pydantic import ValidationError

SUFFIX = ".lock.yaml"
_MOST = 64 << 20  # bytes; a package takes some 250
_HEAD = "# All that the variants of {name} take in, by checksum. Written by `reprokit lock {name}`; not for editing.\n"
_ELSEWHERE = "copy the recipe and its lock to recipes/ in a folder that you can write, and lock it there"
_LAST = ("blocks", "size", "sha256")
_Dumper: Any = getattr(pyyaml, "CSafeDumper", pyyaml.SafeDumper)


class _LineDumper(_Dumper):  # type: ignore[misc]
    """Writes each entry of a set on one line, even if it contains a list."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> pyyaml.MappingNode:
        flow = True if "blocks" in mapping else flow_style
        node: pyyaml.MappingNode = super().represent_mapping(tag, mapping, flow)
        return node


def lock_path(recipe: Path) -> Path:
    """The path of the lock of this recipe file."""
    return recipe.with_name(recipe.stem + SUFFIX)


def read(path: Path) -> Lock:
    """Read a lock. Raises UsageError naming file and line, FileNotFoundError if there is none."""
    return parse(lock_text(path), str(path), path.name.removesuffix(SUFFIX))


def lock_text(path: Path) -> str:
    """The text of a lock, which may be a stranger's. Raises UsageError, also for a link; FileNotFoundError."""
    try:
        if paths.is_bundled(path):  # an installer may link the files of a package
            return files.read(path, _MOST).decode("utf-8")
        with files.Folder(path.parent) as folder:
            return folder.read(path.name, _MOST).decode("utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the lock: {error}", str(path)) from None


def parse(text: str, where: str, name: str) -> Lock:
    """Read a lock from text; `name` is the recipe in its file name. Raises UsageError."""
    from pydantic import ValidationError

    document = yaml.read(text, where)
    if not isinstance(document.data, dict):
        raise UsageError("a lock is a mapping of fields", where, _again(name))
    try:
        # As JSON, because a strict model takes JSON's lists as tuples and Python's not.
        lock = Lock.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise _explained(error, document, name) from None
    if lock.recipe != name:
        at = f"{where}:{document.line(('recipe',))}"
        raise UsageError(f"this is the lock of {lock.recipe!r}, in a file named after {name!r}", at, _again(name))
    return lock


def write(path: Path, lock: Lock) -> None:
    """Write a lock; readers meanwhile see the old one. Raises as `unwritable`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.Folder(path.parent) as folder, folder.replacing(path.name) as file:
            file.write(text_of(lock).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise disk.unwritable(error, "the lock", path, _ELSEWHERE) from None


def check_writable(path: Path) -> None:
    """Raises EngineError if the folder of the lock is read-only."""
    disk.check_writable(path.parent, "the lock", _ELSEWHERE)


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Hold this while a lock is read, changed and written: other processes may change other parts of it."""
    file = paths.home() / "locks" / f"lock-{key_of(str(path.resolve()))[:16]}.lock"
    with file_lock(file, f"another reprokit is writing {path}; waiting for it"):
        yield


def complete(path: Path, store: Store) -> None:
    """Write each sha256 that a fetch computed into the lock. Read-only locks stay as they are."""
    with changing(path):
        lock = read(path)
        completed = lock.completed(store)
        if completed != lock and os.access(path.parent, os.W_OK):
            write(path, completed)


def text_of(lock: Lock) -> str:
    """The file's text; equal locks give equal bytes."""
    data = {"version": lock.version, **lock.model_dump(mode="json", exclude_defaults=True)}
    return _HEAD.format(name=lock.recipe) + pyyaml.dump(
        _checksums_last(data),
        Dumper=_LineDumper,
        sort_keys=False,
        default_flow_style=None,
        width=1 << 20,
        allow_unicode=True,
    )


def _checksums_last(value: Any) -> Any:
    """The same value with checksums last: they are read least."""
    if isinstance(value, dict):
        keys = [key for key in value if key not in _LAST] + [key for key in _LAST if key in value]
        return {key: _checksums_last(value[key]) for key in keys}
    return [_checksums_last(inner) for inner in value] if isinstance(value, list) else value


def _explained(error: ValidationError, document: yaml.Document, name: str) -> UsageError:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return UsageError(f"{field}: {message}{more}", f"{document.where}:{document.line(first['loc'])}", _again(name))


def _again(name: str) -> str:
    return f"`reprokit lock {name}` writes it again"
