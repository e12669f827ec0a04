"""The interface of a kind of input; lock, fetch, gateway and `outdated` use nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import SplitResult

from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, key_of

if TYPE_CHECKING:
    from reprokit.compat.model import ResolvedVersion
    from reprokit.engine import Engine
    from reprokit.recipe.find import Target
    from reprokit.recipe.model import Variant
    from reprokit.supply.gateway import Handler
    from reprokit.supply.kinds.apt.install import AptInstall, FollowedSets
    from reprokit.supply.kinds.wheels.platform import Platform
    from reprokit.supply.lock.model import GitCommit, VariantLock
    from reprokit.supply.mirrors import Mirrors


@dataclass(frozen=True)
class InputRequest:
    """What a variant requires, for an image of the `machine`, such as `x86_64`.

    `installs` are the apt installs of its blocks. `platform` is None if the variant needs no Python packages. Entries
    of `old` stay in a new lock if they fit, except for those named in `freed`. With `as_of` (ISO 8601), kinds whose
    sources list upload times resolve to the versions of that time. `sections` are those of the new lock that were
    resolved before. `followed` are sets of apt packages of another lock.
    """

    target: Target
    machine: str
    installs: Sequence[AptInstall] = ()
    platform: Platform | None = None
    old: VariantLock | None = None
    freed: Collection[str] = ()
    as_of: str = ""
    sections: Mapping[str, Any] = field(default_factory=dict)
    followed: FollowedSets | None = None


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
    """The tools of all kinds. `base` is called only if a kind needs the base image."""

    mirrors: Mirrors
    engine: Engine
    base: Callable[[], PreparedBase]

    @property
    def store(self) -> Store:
        return self.mirrors.store


@dataclass(frozen=True, order=True)
class UpstreamChange:
    """A locked input that upstream has changed. `kind` is its section of the lock.

    `locked` and `upstream` are versions, commits or checksums; `upstream` is empty if nothing is left. `what`:
    upstream has a `newer` one; it `vanished`; it `changed` under the same name; its publisher `yanked` it; `unknown`
    if upstream does not answer, with the reason as `upstream`.
    """

    kind: str
    name: str
    locked: str
    upstream: str
    what: Literal["newer", "vanished", "changed", "yanked", "unknown"]


class InputServer(Protocol):
    """One set of a gateway: requests to `host`, which does not exist on any network, come here.

    Several sets of a kind share the host; the first part of their addresses' path is then `key`.
    """

    @property
    def host(self) -> str: ...
    @property
    def key(self) -> str: ...

    @property
    def address(self) -> str:
        """The value of the build argument; empty if the build requests the original addresses."""
        ...

    def prepare(self, store: Store, scratch: Path) -> None:
        """Get ready to answer. `scratch` is an empty folder that lives as long as the gateway. Raises SourceError."""
        ...

    def answer(self, handler: Handler, address: SplitResult) -> None:
        """Answer one request; names that are not served are 404 and counted in `handler.gateway.missing`."""
        ...


@dataclass(frozen=True)
class SbomEntry:
    """A package, commit or file in an SBOM: the parts of its package URL, its `component` type, and its sha256.

    One that is `build_only` is not in the image.
    """

    type: str
    namespace: str | None
    name: str
    version: str | None
    qualifiers: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""
    component: Literal["library", "file", "container"] = "library"
    build_only: bool = False


@dataclass(frozen=True)
class Kind:
    """One kind of input, to be subclassed; methods that make no sense for a kind keep these defaults.

    `name` is its section of the lock, `counted` the users' word for its entries. If `always`, builds without a lock
    have it too. `pins` are those that its packages meet. If `in_base`, it is resolved in the base image. If `first`, it
    is resolved before the others, which can depend on its section. If `dated`, its sources list upload times.
    """

    name: str
    counted: str
    always: bool = False
    pins: tuple[str, ...] = ()
    in_base: bool = False
    first: bool = False
    dated: bool = False

    def resolved_from(self, request: InputRequest) -> list[Any]:
        """Plain data that the section is resolved from: the section is stale when it changes."""
        raise NotImplementedError

    def names(self, variant: Variant, lock: VariantLock | None) -> Collection[str]:
        """Names for `--update` that stand for the whole section."""
        return ()

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        """The fields of the lock. Raises SourceError or UsageError naming what cannot be resolved."""
        raise NotImplementedError

    def unlocked(self, request: InputRequest, mirrors: Mirrors) -> tuple[Any, ...]:
        """The entries for a build without a lock, if `always`. Raises SourceError, UsageError."""
        raise NotImplementedError

    def versions(self, target: Target, lock: VariantLock | None, origin: str) -> Mapping[str, ResolvedVersion]:
        """The versions by pin or project that the facts can judge; `lock` is None if its section is stale."""
        return {}

    def kept(self, lock: VariantLock) -> Mapping[str, Any]:
        """This kind's fields of a lock, unchanged."""
        return {self.name: getattr(lock, self.name)}

    def follows(self, old: VariantLock, sections: Mapping[str, Any]) -> bool:
        """Whether the section changes with the `sections` that were resolved before it."""
        return False

    def updatable(self, lock: VariantLock | None) -> Collection[str]:
        """Entries that `--update` can free alone."""
        return ()

    def upstream_changes(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[UpstreamChange]:
        """Locked entries that upstream has changed or removed. Raises SourceError if upstream does not answer."""
        return ()

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        """Addresses of a file, in the order to try."""
        return ()

    def sbom_entries(self, lock: VariantLock) -> Iterable[SbomEntry]:
        """This kind's entries of a lock for the SBOM. If entries have the same package URL, the last counts."""
        raise NotImplementedError

    def fetch(self, entries: Sequence[Any], mirrors: Mirrors, offline: bool) -> int:
        """Fetch entries that are not files into the store; returns how many were missing. Raises SourceError."""
        return 0

    def server(self, entries: Sequence[Any]) -> InputServer:
        """Serve these entries, which are in the store."""
        raise NotImplementedError

    def other_servers(self, entries: Sequence[Any]) -> Mapping[str, InputServer]:
        """Serve all entries in other forms, by build argument."""
        return {}


def refs_of(commits: Iterable[GitCommit]) -> dict[tuple[str, str], str]:
    """The locked commits of tags and branches by address and name."""
    return {(entry.url, entry.ref): entry.commit for entry in commits if entry.ref}


def content_key(entries: Iterable[Any], name: str = "name") -> str:
    """A name for a set of files by content, whatever the order. Addresses contain it: another set is another layer."""
    return key_of(sorted([getattr(entry, name), entry.sha256] for entry in entries))[:16]
