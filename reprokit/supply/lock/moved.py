"""What `reprokit outdated` reports: inputs of a lock that upstream no longer has as they were locked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, order=True)
class Moved:
    """One input that moved. `kind` is its section of the lock (`apt`, `wheels`, `git`, `files`, ...).

    `locked` and `upstream` are versions, commits or checksums; `upstream` is empty where nothing is left. `what`:
    upstream has something `newer`; it `vanished`; it `changed` under the same name; it was `yanked` by its publisher.
    """

    kind: str
    name: str
    locked: str
    upstream: str
    what: Literal["newer", "vanished", "changed", "yanked"]
