"""The base image of a build: by digest from the engine, a registry or its mirrors, or bootstrapped; which, it says."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import SourceError
from reprokit.image import bootstrap

_REGISTRY_TIMEOUT_S = 20
_DEFAULT_REGISTRY = ("docker.io/", "index.docker.io/")


@dataclass(frozen=True)
class Base:
    """The image that a build starts from.

    `name` is what the engine knows it by, `digest` the registry's (empty where none served it), `how` one of
    `engine`, `registry`, `mirror HOST`, `bootstrapped`; `archives` are the hosts that a bootstrapped one came from.
    """

    reference: str
    name: str
    image_id: str
    how: str
    digest: str = ""
    architecture: str = "amd64"
    archives: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """One line for people."""
        if self.how == "bootstrapped":
            return (
                f"{self.reference}: bootstrapped from the distribution's packages ({self.name}), not the vendor's image"
            )
        where = {"engine": "on the engine", "registry": "from its registry"}.get(self.how, f"from the {self.how}")
        return f"{self.reference}: {where} ({self.digest or self.image_id})"


def resolve_base(engine: Engine, reference: str, say: Callable[[str], None] = lambda line: None) -> Base:
    """The base image for a recipe's reference, on the engine afterwards.

    Raises SourceError naming everything that was tried where nobody serves it and it cannot be bootstrapped.
    """
    return _local(engine, reference) or _from_registries(engine, reference, say)


def _local(engine: Engine, reference: str) -> Base | None:
    plain, _, digest = reference.partition("@")
    # The engine knows an image by name:tag or by name@digest, not by both at once; one that a mirror served has the
    # digest under the mirror's name only.
    for name in ([f"{_repository(plain)}@{digest}"] if digest else []) + [plain]:
        image = engine.image(name)
        digests = [d.partition("@")[2] for d in (image or {}).get("RepoDigests") or []]
        if image and (not digest or digest in digests):
            return _base(reference, name, image, "engine", digest or next(iter(digests), ""))
    release = bootstrap.release_of(reference)
    image = engine.image(bootstrap.name_of(release)) if release else None
    if release and image:
        return _base(reference, bootstrap.name_of(release), image, "bootstrapped", "")
    return None


def _from_registries(engine: Engine, reference: str, say: Callable[[str], None]) -> Base:
    tried: list[str] = []
    for place, name in [("registry", reference), *_mirrored(reference)]:
        try:
            digest = reference.partition("@")[2] or engine.registry_digest(name, _REGISTRY_TIMEOUT_S)
            say(f"pulling {name} ({digest[:19]})")
            fetched = f"{_repository(name.partition('@')[0])}@{digest}"
            _pull(engine, fetched, say)
            return _keep(engine, reference, fetched, place, digest)
        except SourceError as error:
            tried.append(f"{name}: {error.message}")
    release = bootstrap.release_of(reference)
    if release is None:
        raise SourceError(
            f"nobody serves the base image {reference}\n  " + "\n  ".join(tried),
            "",
            _nearest(reference) or "mirrors: REPROKIT_REGISTRY_MIRRORS=HOST[:PORT][/PREFIX],...",
        )
    say(f"no registry serves {reference} ({tried[0].partition(': ')[2]}); bootstrapping {release.name}")
    name = bootstrap.name_of(release)
    with FileLock(_lock_file(name)):  # two builds may want it at once
        if engine.image(name) is None:
            bootstrap.bootstrap(engine, release, say)
    image = engine.image(name)
    assert image is not None
    return _base(reference, name, image, "bootstrapped", "")


def _lock_file(name: str) -> Path:
    folder = paths.home() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name.replace('/', '-').replace(':', '-')}.lock"


def _keep(engine: Engine, reference: str, fetched: str, place: str, digest: str) -> Base:
    """Give a pulled image the name that the recipe calls it by."""
    plain = reference.partition("@")[0]
    repository, tag = _repository(plain), plain[len(_repository(plain)) + 1 :] or "latest"
    engine.tag(fetched, repository, tag)
    image = engine.image(f"{repository}:{tag}")
    assert image is not None
    return _base(reference, f"{repository}:{tag}", image, place, digest)


def _base(reference: str, name: str, image: dict, how: str, digest: str) -> Base:
    labels = (image.get("Config") or {}).get("Labels") or {}
    archives = tuple(filter(None, labels.get(bootstrap.ARCHIVES, "").split(",")))
    return Base(reference, name, image["Id"], how, digest, image.get("Architecture") or "amd64", archives)


def _repository(plain: str) -> str:
    """`host:5000/name:tag` without its tag."""
    head, colon, tail = plain.rpartition(":")
    return head if colon and "/" not in tail else plain


def _mirrored(reference: str) -> list[tuple[str, str]]:
    """The same image at the mirrors of `$REPROKIT_REGISTRY_MIRRORS`, which stand in for Docker Hub only."""
    mirrors = [m.strip().rstrip("/") for m in os.environ.get("REPROKIT_REGISTRY_MIRRORS", "").split(",")]
    for prefix in _DEFAULT_REGISTRY:
        reference = reference.removeprefix(prefix)
    first, slash, _ = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return []
    name = reference if slash else f"library/{reference}"
    return [(f"mirror {m}", f"{m}/{name}") for m in mirrors if m]


def _pull(engine: Engine, reference: str, say: Callable[[str], None]) -> None:
    done = 0
    for event in engine.pull(reference):
        if event.get("status") in ("Pull complete", "Already exists"):
            done += 1
            say(f"pulled {done} layers")


def _nearest(reference: str) -> str:
    from reprokit.compat.base import nvidia_references, parse_base
    from reprokit.compat.facts import bundled
    from reprokit.recipe.spelling import nearest

    base = parse_base(bundled(), reference)
    if base.kind != "nvidia_cuda":
        return ""
    listed = nvidia_references(bundled(), base)
    return "" if reference in listed else f"{reference} is not listed{nearest(reference, listed)}"
