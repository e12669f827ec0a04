"""After any sequence of operations the store has what locks name, and every file matches its name."""

from __future__ import annotations

import hashlib
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reprokit.supply import upkeep
from reprokit.supply.lock import file as lock_file
from reprokit.supply.store import Store
from reprokit.supply.upkeep import YOUNG_S, repair, verify
from tests.support.stores import a_lock, overwrite, plain, put

CONTENT = st.sampled_from([b"a", b"bb", b"ccc", b"dddd", b"eeeee"])


class Killed(BaseException):
    """Stands for SIGKILL: no later step runs."""


class Sequences(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self.folder.name) / "store")
        self.held: set[bytes] = set()  # what must be there
        self.maybe: set[bytes] = set()  # what a kill left or took
        self.named: dict[str, set[bytes]] = {}

    @initialize()
    def begin(self) -> None:
        self.patched = patch("reprokit.paths.recipe_dirs", lambda: [])
        self.patched.start()

    def teardown(self) -> None:
        self.patched.stop()
        self.folder.cleanup()

    @rule(content=CONTENT)
    def add(self, content: bytes) -> None:
        put(self.store, content)
        self.held.add(content)

    @rule(name=st.sampled_from("xy"), contents=st.sets(CONTENT))
    def lock(self, name: str, contents: set[bytes]) -> None:
        path = Path(self.folder.name) / f"{name}.lock.yaml"
        lock_file.write(path, a_lock(name, [plain(content) for content in contents]))
        self.store.used(path)
        self.named[name] = contents

    @rule(name=st.sampled_from("xy"))
    def unlock(self, name: str) -> None:
        (Path(self.folder.name) / f"{name}.lock.yaml").unlink(missing_ok=True)
        self.named.pop(name, None)

    @rule(everything=st.booleans(), after_s=st.sampled_from([0, YOUNG_S + 60]))
    def collect(self, everything: bool, after_s: int) -> None:
        self._free(everything, after_s)
        if everything or after_s:
            self.held &= self._kept
            self.maybe &= self._kept

    @rule(steps=st.integers(0, 4))
    def collect_and_be_killed(self, steps: int) -> None:
        left, unlink = [steps], Path.unlink

        def dying(path: Path, missing_ok: bool = False) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            unlink(path, missing_ok=missing_ok)

        with patch.object(Path, "unlink", dying), suppress(Killed):
            self._free(True, 0)
        self.maybe |= self.held - self._kept
        self.held &= self._kept

    @rule(content=CONTENT)
    def spoil_and_repair(self, content: bytes) -> None:
        path = self.store.path(hashlib.sha256(content).hexdigest())
        if not path.exists():
            return
        overwrite(path, 0, b"X")
        with self.store.alone():
            bad = verify(self.store).bad
            assert [each.path for each in bad] == [path]
            repair(self.store, bad)
        self.held.discard(content)
        self.maybe.discard(content)

    @property
    def _kept(self) -> set[bytes]:
        return set().union(*self.named.values())

    def _free(self, everything: bool, after_s: int) -> None:
        with self.store.alone():
            upkeep.free(self.store, upkeep.plan(self.store, everything, time.time() + after_s))

    @invariant()
    def what_is_there_is_right(self) -> None:
        assert verify(self.store).bad == ()
        there = {path.read_bytes() for path in (self.store.root / "sha256").glob("*/*")}
        assert self.held <= there <= self.held | self.maybe


TestSequences = pytest.mark.slow(Sequences.TestCase)
TestSequences.settings = settings(max_examples=15, stateful_step_count=20)
