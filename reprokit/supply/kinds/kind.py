"""What a kind of input must offer, so that lock, fetch, gateway and `outdated` need not know it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import SplitResult

from reprokit.recipe.model import Variant
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, key_of

if TYPE_CHECKING:
    from reprokit.engine import Engine
    from reprokit.supply.gateway import Handler
    from reprokit.supply.kinds.apt.install import AptInstall
    from reprokit.supply.kinds.wheels.platform import Platform
    from reprokit.supply.lock.model import RecordFile, VariantLock
    from reprokit.supply.mirrors.places import Mirrors

Say = Callable[[str], None]


@dataclass(frozen=True)
class InputRequest:
    """What a variant requires: its recipe, and what the recipe's blocks add.

    `platform` is None where the variant needs no Python packages. `machine` is the image's, such as `x86_64`. Entries
    of `old` stay in a new lock where they fit, except for those named in `freed`.
    """

    variant: Variant
    machine: str
    requirements: Sequence[str] = ()
    installs: Sequence[AptInstall] = ()
    platform: Platform | None = None
    old: VariantLock | None = None
    freed: Collection[str] = ()


class PreparedBase(Protocol):
    """The base on the engine; `archives` are the hosts that its packages came from."""

    @property
    def reference(self) -> str: ...
    @property
    def image_id(self) -> str: ...
    @property
    def archives(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Tools:
    """What kinds work with. `base` is called only where a kind needs the base image."""

    store: Store
    mirrors: Mirrors
    say: Say
    engine: Engine
    base: Callable[[], PreparedBase]


@dataclass(frozen=True, order=True)
class Moved:
    """A locked input that upstream has changed. `kind` is its section of the lock.

    `locked` and `upstream` are versions, commits or checksums; `upstream` is empty where nothing is left. `what`:
    upstream has a `newer` one; it `vanished`; it `changed` under the same name; its publisher `yanked` it.
    """

    kind: str
    name: str
    locked: str
    upstream: str
    what: Literal["newer", "vanished", "changed", "yanked"]


class InputServer(Protocol):
    """One kind's part of a gateway: requests to `host`, which does not exist on any network, come here."""

    host: str

    def arguments(self) -> Mapping[str, str]:
        """The build arguments that hold its address."""
        ...

    def prepare(self, store: Store, scratch: Path) -> None:
        """Get ready to answer. `scratch` is an empty folder that lives as long as the gateway. Raises SourceError."""
        ...

    def answer(self, handler: Handler, address: SplitResult) -> None:
        """Answer one request; names that are not served are 404 and recorded with `handler.gateway.not_there`."""
        ...


@dataclass(frozen=True)
class Kind:
    """One kind of input, to be subclassed; methods that make no sense for a kind keep these defaults.

    `name` is its section of the lock, `counted` what users call its entries. `always` is true where the gateway serves
    it in builds without a lock too.
    """

    name: str
    counted: str
    always: bool = field(default=False)

    def asked(self, request: InputRequest) -> list[Any]:
        """Plain data that the section is resolved from: the section is stale when it changes."""
        raise NotImplementedError

    def names(self, variant: Variant, lock: VariantLock | None) -> Collection[str]:
        """Names for `--update` that stand for the whole section."""
        return ()

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        """The fields of the lock. Raises SourceError or UsageError naming what cannot be resolved."""
        raise NotImplementedError

    def kept(self, lock: VariantLock) -> Mapping[str, Any]:
        """The fields of a lock that are this kind's, as they are."""
        return {self.name: getattr(lock, self.name)}

    def singles(self, lock: VariantLock | None) -> Collection[str]:
        """Entries that `--update` can free alone."""
        return ()

    def moved(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[Moved]:
        """What upstream no longer has as it is locked. Raises SourceError where upstream cannot be asked."""
        return ()

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        """Addresses of a file, in the order to try."""
        return ()

    def check_installed(self) -> None:
        """Raises UsageError where this kind needs an extra of reprokit that is not installed."""

    def fetch(self, entries: Sequence[Any], tools: Any, offline: bool) -> int:
        """Fetch entries that are not files into the store; returns how many were missing. Raises SourceError."""
        return 0

    def server(self, entries: Sequence[Any]) -> InputServer:
        """Serve these entries, which are in the store."""
        raise NotImplementedError


class DataArchive(Protocol):
    """A source of a recipe's data, which lists files with sizes and checksums."""

    def find(self, record: str, name: str, mirrors: Mirrors) -> RecordFile:
        """The file `name` of a record. Raises SourceError."""
        ...


def content_key(entries: Iterable[Any], name: str = "name") -> str:
    """A name for a set of files by content, whatever the order. Addresses hold it: another set is another layer."""
    return key_of(sorted([getattr(entry, name), entry.sha256] for entry in entries))[:16]
