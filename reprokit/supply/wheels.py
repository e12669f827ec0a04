"""The wheels of a variant: resolved and fetched on the host, with the user's own pip configuration.

A build in a container knows neither the host's indexes nor its certificates; the host does. Only wheels are taken:
building an sdist here would run a stranger's code outside of any container.
"""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from reprokit.supply import pip
from reprokit.supply.lock.model import Distribution
from reprokit.supply.store import Store, key_of


@dataclass(frozen=True)
class Platform:
    """What the wheels run on: CPython `python` (such as `3.11`), glibc (such as `2.36`) and machine of the image."""

    python: str
    glibc: str = "2.28"
    machine: str = "x86_64"

    def tags(self) -> list[str]:
        """Platform tags from the newest manylinux that this glibc can load to the oldest."""
        newest = int(self.glibc.split(".")[1])
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, 4, -1)]
        legacy = {"x86_64": ("manylinux2014", "manylinux2010", "manylinux1"), "aarch64": ("manylinux2014",)}
        return [
            *tags,
            *(f"{tag}_{self.machine}" for tag in legacy.get(self.machine, ())),
            f"linux_{self.machine}",
        ]


@dataclass(frozen=True)
class WheelSet:
    """Wheels and sdists that satisfy a variant's requirements together."""

    wheels: tuple[Distribution, ...]

    @property
    def key(self) -> str:
        """Names the set by its content: it stands in the index's address, so that another set is another layer."""
        return key_of(sorted([w.file, w.sha256] for w in self.wheels))[:16]


def resolve(
    requirements: Iterable[str],
    platform: Platform,
    indexes: Iterable[str],
    store: Store,
    say: Callable[[str], None] = lambda line: None,
) -> WheelSet:
    """The wheels for these requirements, from the store where the same was asked before.

    The user's own pip configuration is asked first; `indexes` are added only where it has no such version. Raises
    SourceError naming the requirement.
    """
    wanted = sorted(set(requirements))
    if not wanted:
        return WheelSet(())
    indexes = list(indexes)
    key = key_of([wanted, asdict(platform), indexes])
    known = store.remembered("wheels", key)
    if known is not None:
        return WheelSet(tuple(Distribution.model_validate(w) for w in known))
    with store.scratch() as scratch:
        files = _download_closed(wanted, platform, indexes, Path(scratch), say)
        wheels = tuple(_publish(file, store) for file in files)
    store.remember("wheels", key, [w.model_dump() for w in wheels])
    return WheelSet(wheels)


def missing(wheels: WheelSet, store: Store) -> bool:
    """Whether files of a remembered set have left the store."""
    return not all(store.path(w.sha256).exists() for w in wheels.wheels)


def forget(requirements: Iterable[str], platform: Platform, indexes: Iterable[str], store: Store) -> None:
    """Make the next `resolve` ask again."""
    key = key_of([sorted(set(requirements)), asdict(platform), list(indexes)])
    (store.root / "index" / "wheels" / f"{key}.json").unlink(missing_ok=True)


def _download_closed(
    wanted: list[str], platform: Platform, indexes: list[str], scratch: Path, say: Callable[[str], None]
) -> list[Path]:
    """Download until no wheel needs one that is not there.

    pip judges environment markers by the Python that it runs on, whatever `--python-version` says: a dependency
    that only the image's Python has is missed. So the metadata of what came is judged again, for the image.
    """
    extra: set[str] = set()
    for attempt in itertools.count():
        # A folder of its own, as another requirement may change a version that came before.
        folder, before = scratch / str(attempt), [scratch / str(n) for n in range(attempt)]
        pip.download([*wanted, *sorted(extra)], platform.python, platform.tags(), indexes, before, folder, say)
        files = sorted(folder.glob("*.whl"))
        lacking = _lacking(wanted, files, environment(platform)) - extra
        if not lacking:
            break
        extra |= lacking
    return files


def environment(platform: Platform) -> dict[str, str]:
    """The environment that markers see in the image."""
    return {
        **{key: str(value) for key, value in default_environment().items()},
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": platform.machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{platform.python}.0" if platform.python.count(".") == 1 else platform.python,
        "python_version": ".".join(platform.python.split(".")[:2]),
        "sys_platform": "linux",
    }


def _lacking(wanted: list[str], files: list[Path], environment: dict[str, str]) -> set[str]:
    """Requirements of these wheels that no wheel among them meets by name, followed from `wanted` on."""
    needs = {parse_wheel_filename(file.name)[0]: _requires(file) for file in files}
    lacking: set[str] = set()
    queue = [Requirement(text) for text in wanted]
    seen: set[tuple[str, str]] = set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if name not in needs:
            lacking.add(f"{requirement.name}{requirement.specifier}")
            continue
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            queue += [r for r in needs[name] if not r.marker or r.marker.evaluate({**environment, "extra": extra})]
    return lacking


def _requires(file: Path) -> list[Requirement]:
    with zipfile.ZipFile(file) as wheel:
        metadata = next(n for n in wheel.namelist() if n.count("/") == 1 and n.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(wheel.read(metadata).decode("utf-8", "replace"))
    found = []
    for line in headers.get_all("Requires-Dist") or []:
        try:
            found.append(Requirement(line))
        except InvalidRequirement:  # old metadata such as `foo (>=1.0.*)`: pip judged it already
            continue
    return found


def _publish(file: Path, store: Store) -> Distribution:
    name, version, _, _ = parse_wheel_filename(file.name)
    size = file.stat().st_size
    return Distribution(name=name, version=str(version), file=file.name, sha256=store.add(file), size=size)
