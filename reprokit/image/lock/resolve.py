"""`reprokit lock`: everything that a variant takes in, resolved, with what need not change left as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from reprokit import __version__
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image.base.locked import lock_base, locked_base
from reprokit.image.base.resolve import BaseImage as OnEngine
from reprokit.image.blocks import wheel_requirements
from reprokit.image.lock.sections import SECTIONS, sections, stale
from reprokit.image.lock.supplies import Supplier
from reprokit.image.platform import MACHINES, platform_of
from reprokit.image.render import Rendered, render
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe
from reprokit.recipe.spelling import nearest
from reprokit.supply.kinds.apt.resolve import lock_apt
from reprokit.supply.kinds.files import lock_file
from reprokit.supply.kinds.git.resolve import lock_git
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.resolve import lock_wheels
from reprokit.supply.lock.model import AptPackage, Base, CondaPackage, Distribution, GitCommit, PlainFile, VariantLock
from reprokit.supply.locked_input import of_base
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store

Say = Callable[[str], None]
# Pins of what comes with apt: asked to be updated, they mean that section.
_OF_APT = ("gcc", "clang", "cmake", "llvm", "python", "cuda")


@dataclass(frozen=True)
class Update:
    """What `--update` frees: whole sections, and single wheels."""

    sections: frozenset[str] = frozenset()
    wheels: frozenset[str] = frozenset()


def update_of(names: Sequence[str], target: Target, lock: VariantLock | None) -> Update:
    """What these names mean: `all`, a section, a pin, or what a section names. Raises UsageError."""
    freed: set[str] = set()
    wheels: set[str] = set()
    locked = {
        "apt": {p.name for p in lock.apt} if lock else set(),
        "git": {source.name for source in target.variant.sources},
        "files": {file.name for file in target.variant.files},
        "conda": {spec.partition("=")[0] for spec in target.variant.conda},
    }
    known_wheels = {w.name for w in lock.wheels} if lock else set()
    for name in names:
        if name == "all":
            freed |= set(SECTIONS)
        elif name in SECTIONS:
            freed.add(name)
        elif canonicalize_name(name) in known_wheels:
            wheels.add(canonicalize_name(name))
        elif section := next((s for s, members in locked.items() if name in members), None):
            freed.add(section)
        elif name in _OF_APT and name in target.variant.pins:
            freed.add("apt")
        elif name in ("distro", "base"):
            freed.add("base")
        else:
            known = {"all", *SECTIONS, *known_wheels, *(n for members in locked.values() for n in members)}
            raise UsageError(
                f"the lock of {target.label} has no {name!r}{nearest(name, known)}",
                hint=f"--update takes all, a section ({', '.join(SECTIONS)}) or what a section names",
            )
    return Update(frozenset(freed), frozenset(wheels))


class Locker:
    """Resolves one variant. What `old` says is kept for every section that is neither stale nor freed by `update`."""

    def __init__(
        self,
        engine: Engine,
        target: Target,
        store: Store,
        mirrors: Mirrors,
        old: VariantLock | None = None,
        update: Update = Update(),
        say: Say = lambda line: None,
    ) -> None:
        self.engine, self.target, self.store, self.mirrors = engine, target, store, mirrors
        self.old, self.update, self.say = old, update, say
        self.rendered: Rendered = render(target)
        redo = set(SECTIONS) if old is None else {*stale(target, self.rendered, old), *update.sections}
        # Packages are resolved against those of the base: another base is another closure.
        self.redo = redo | {"apt"} if "base" in redo else redo

    def lock(self) -> VariantLock:
        """The variant's lock. Raises SourceError naming what could not be resolved, EngineError without an engine."""
        base = self.base()
        # Made of its packages, or pulled: apt is asked in it.
        Supplier(self.store, self.mirrors, self.say).files(of_base(base))
        here = locked_base(self.engine, base, self.store, self.say)
        machine = MACHINES.get(here.architecture, here.architecture)
        inputs = sections(self.target, self.rendered, machine)
        platform = self.platform(machine)
        apt, as_of = self.apt(here)
        return VariantLock(
            reprokit=__version__,
            inputs=inputs,
            python=platform.python if platform else "",
            glibc=platform.glibc if platform else "",
            machine=machine,
            base=base,
            apt_as_of=as_of,
            apt=apt,
            wheels=self.wheels(platform) if platform else (),
            git=self.git(),
            files=self.files(),
            conda=self.conda(platform) if platform else (),
        )

    def kept(self, section: str) -> VariantLock | None:
        """The old lock where this section of it stands."""
        return None if section in self.redo else self.old

    def platform(self, machine: str) -> Platform | None:
        """What wheels and conda packages must fit, None where the variant has none: its Python may not be known."""
        variant = self.target.variant
        if wheel_requirements(self.target) or variant.sdists or variant.conda:
            return platform_of(self.target, machine)
        return None

    def base(self) -> Base:
        if old := self.kept("base"):
            return old.base
        return lock_base(self.engine, self.target.variant.base, self.store, self.say)

    def apt(self, here: OnEngine) -> tuple[tuple[AptPackage, ...], str]:
        if old := self.kept("apt"):
            return old.apt, old.apt_as_of
        return lock_apt(self.engine, here, self.rendered.installs, self.store, self.say)

    def wheels(self, platform: Platform) -> tuple[Distribution, ...]:
        freed = self.update.wheels
        if (old := self.kept("wheels")) and not freed:
            return old.wheels
        keep = self.old.wheels if self.old and "wheels" not in self.update.sections else ()
        variant, wanted = self.target.variant, wheel_requirements(self.target)
        return lock_wheels(
            wanted, variant.sdists, platform, variant.wheel_indexes, self.mirrors, self.store, self.say, keep, freed
        )

    def git(self) -> tuple[GitCommit, ...]:
        if old := self.kept("git"):
            return old.git
        found: set[GitCommit] = set()
        for source in self.target.variant.sources:
            found |= set(lock_git(source, self.store, self.say, self.mirrors))
        return tuple(sorted(found, key=lambda c: (c.url, c.commit)))

    def files(self) -> tuple[PlainFile, ...]:
        if old := self.kept("files"):
            return old.files
        return tuple(lock_file(file, self.store, self.mirrors, self.say) for file in self.target.variant.files)

    def conda(self, platform: Platform) -> tuple[CondaPackage, ...]:
        if old := self.kept("conda"):
            return old.conda
        variant = self.target.variant
        if not variant.conda:
            return ()
        from reprokit.supply.kinds.conda.solve import lock_conda  # its solver is an extra that few recipes need

        cuda = variant.pins.get("cuda", "")
        return lock_conda(variant.conda, variant.conda_channels, self.mirrors, platform, self.say, cuda)


def data_of(
    recipe: Recipe, old: Sequence[PlainFile], unknown: bool, store: Store, mirrors: Mirrors, say: Say
) -> tuple[PlainFile, ...]:
    """The files of the recipe's benchmarks; those of `unknown` checksum only on demand, as they are big."""
    known = {file.name: file for file in old}
    found = []
    for data in recipe.data:
        kept = known.get(data.name)
        if kept and kept.urls == tuple(data.urls) and data.sha256 in (None, kept.sha256):
            found.append(kept)
        elif data.sha256 or unknown:
            found.append(lock_file(data, store, mirrors, say))
        else:
            say(f"data {data.name} is not locked: its checksum is not known, and `--data` would download it")
    return tuple(found)
