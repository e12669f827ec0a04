"""Inputs that begin valid and are spoilt, and what must hold for whatever reads them."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from reprokit.errors import ReprokitError

MEMORY = 512 << 20
SECONDS = 10.0
# `make fuzz` says how many and is random, with its seed printed; otherwise each run has the same inputs.
_MANY = os.environ.get("REPROKIT_FUZZ", "")
fuzzed = settings(
    max_examples=int(_MANY or (500 if os.environ.get("CI") else 200)),
    derandomize=not _MANY,
    database=None,
    # The suite's profile comes too late where pytest is given this folder: then it imports this module first.
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

TEXTS = (
    "", " ", "x", "../../evil", "/etc/passwd", "a\0b", "a\nb", "\x1b[31m", "\ud800", "\u202e", "2.0~/x", "1.2.3+cu999",
    "9" * 5000, "x" * 70_000, "http://[::1", "https://a:99999999/b", "https://\u0130/x", "https://u:p@h/x", "data:,x",
    "-rf", "$(id)", "1e999", "999999999999GiB", "sha256:" + "0" * 64, "sha256:" + "0" * 63, "0" * 64, "0" * 40, "null",
    "*", "(a+)+$", "[", "{{x}}", "%n",
)  # fmt: skip
VALUES = (
    None, True, -1, 0, 1, 1 << 31, 1 << 63, 1 << 200, -1e308, 1.5, float("inf"), float("nan"), [], {}, [[]], [None],
    {"": {}}, {"x": "x"}, [0] * 2000, {str(number): 0 for number in range(2000)},
)  # fmt: skip
BYTES = (
    b"", b"\0", b"\xff", b"\xff" * 8, b"\0" * 512, b"\n", b" ", b"-", b"9" * 12, b"\x80" + b"\xff" * 11,
    b"0777777777777", b"../../x\0", b"x" * 600, b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"{", b"[" * 3000, b'"', b"=",
    b"7 a=b\n", b"\r\n", b"\xc3", b"L", b"K", b"x", b"g", b"S",
)  # fmt: skip
_place, _texts, _values = st.integers(0, 1 << 16), st.sampled_from(TEXTS), st.sampled_from(VALUES)
_tree_edits = st.lists(
    st.tuples(_place, st.sampled_from(["text", "value", "drop", "twice", "key", "swap"]), _texts, _values, _place),
    min_size=1, max_size=3,
)  # fmt: skip
_byte_edits = st.lists(
    st.tuples(_place, st.sampled_from(["flip", "put", "insert", "cut", "end", "copy"]), st.sampled_from(BYTES), _place),
    min_size=1, max_size=3,
)  # fmt: skip


def trees(*valid: Any) -> st.SearchStrategy[Any]:
    """JSON or YAML values in which some parts are dropped, doubled, renamed, exchanged or made nonsense."""
    return st.builds(_tree, st.sampled_from(valid), _tree_edits)


def spoilt(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Bytes of which some are flipped, overwritten, inserted, cut out or copied elsewhere."""
    return st.builds(_bytes, st.sampled_from(valid), _byte_edits)


def lines(*valid: str) -> st.SearchStrategy[str]:
    """Text with some words replaced, and some bytes spoilt."""
    words = st.lists(st.tuples(_place, _texts), max_size=2)
    return st.builds(_words, spoilt(*(text.encode() for text in valid)), words)


def _words(content: bytes, edits: list[tuple[int, str]]) -> str:
    text = content.decode("utf-8", "replace")
    for place, word in edits:
        found = list(re.finditer(r"[^\s\"',:|]+", text))
        if found:
            start, end = found[place % len(found)].span()
            text = text[:start] + word.encode("utf-8", "replace").decode() + text[end:]
    return text


def _bytes(valid: bytes, edits: list[tuple[int, str, bytes, int]]) -> bytes:
    raw = bytearray(valid)
    for place, how, piece, more in edits:
        at = place % (len(raw) + 1)
        if how == "flip" and at < len(raw):
            raw[at] ^= 1 << more % 8
        elif how == "put":
            raw[at : at + len(piece)] = piece
        elif how == "insert":
            raw[at:at] = piece
        elif how == "cut":
            del raw[at : at + more % 1024]
        elif how == "end":
            del raw[at:]
        elif how == "copy":
            raw[at:at] = raw[more % (len(raw) + 1) :][:512]
    return bytes(raw)


def _tree(valid: Any, edits: list[tuple[int, str, str, Any, int]]) -> Any:
    root = [copy.deepcopy(valid)]
    for place, how, text, value, other in edits:
        found = list(_places(root))
        inside, key = found[place % len(found)]
        if how == "text":
            inside[key] = text
        elif how == "value":
            inside[key] = copy.deepcopy(value)
        elif how == "drop" and inside is not root:
            del inside[key]
        elif how == "twice" and isinstance(inside, list):
            inside.insert(key, copy.deepcopy(inside[key]))
        elif how == "key" and isinstance(inside, dict):
            inside[text] = inside.pop(key)
        elif how == "swap":
            there, name = found[other % len(found)]
            inside[key] = copy.deepcopy(there[name])
    return root[0]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


class Watch:
    """Refuses what a parser must not do, while `bounded` runs: take memory or time, raise, write outside `folder`."""

    def __init__(self, folder: Path, refs: int) -> None:
        self._folder = str(folder)
        self._refs = refs
        self._writing: list[str] = []

    def __call__(self, parse: Callable[[], object]) -> None:
        """Whatever the input, the parser ends in a value or an error of ours, soon."""
        began, before = time.process_time(), self._peak(anew=True)
        _watching.append(self)
        try:
            parse()
        except ReprokitError as error:
            assert str(error.message).strip()
        finally:
            _watching.remove(self)
        took, wrote = time.process_time() - began, self._writing.copy()
        self._writing.clear()
        assert took < SECONDS, f"it took {took:.0f} s"
        assert (taken := self._peak() - before) < MEMORY, f"it took {taken >> 20} MiB"
        assert not wrote

    def _peak(self, anew: bool = False) -> int:
        if anew:  # the process's peak becomes what it has now
            os.write(self._refs, b"5")
        # getrusage's is at least that of the process that started this one.
        with Path("/proc/self/status").open() as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))

    def saw(self, event: str, path: object) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            name = str(Path.cwd() / os.fsdecode(path))
            if not name.startswith((self._folder, "/dev/null", "/proc/self")):
                self._writing.append(f"{event} {name}")


_watching: list[Watch] = []
_MAKING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate"}


@functools.cache
def _listen() -> None:
    """Audit hooks stay for the life of the process."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if not _watching:
            return
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _watching[-1].saw(event, arguments[0])
        elif event in _MAKING:
            _watching[-1].saw(event, arguments[1 if event in ("os.rename", "os.symlink", "os.link") else 0])

    sys.addaudithook(heard)


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[Watch]:
    """Watches what is parsed in the block; only files below `folder` may be written."""
    _listen()
    refs = os.open("/proc/self/clear_refs", os.O_WRONLY)
    try:
        yield Watch(folder, refs)
    finally:
        os.close(refs)
