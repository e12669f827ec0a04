"""Base images as the engine saves and loads them."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError
from reprokit.image.base.resolve import carried_name
from reprokit.supply.transfer.manifest import Image
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT
from reprokit.untrusted.tar import members


def refuse_foreign_names(images: Mapping[Image, Path], archive: Path) -> None:
    """Raises UsageError where a saved image would take another name on the engine than the one that it travels under.

    Loading gives an image every name that its archive says, be it that of an image which is there.
    """
    for entry, path in images.items():
        try:
            names = names_in(path)
        except (tarfile.TarError, EOFError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(f"{entry.path}: no image of an engine: {error}", str(archive)) from None
        if names != {carried_name(entry.digest)}:
            found = ", ".join(sorted(names)) or "none"
            raise UsageError(f"{entry.path}: the image in it has other names: {found}", str(archive))


def names_in(path: Path) -> set[str]:
    """All names in what an engine saved, in Docker's form and in OCI's.

    Raises tarfile's errors, EOFError, ValueError, UsageError.
    """
    names: set[str] = set()
    with path.open("rb") as file:
        for member in members(file, str(path)):
            if member.name in _NAMES:
                if not member.isreg():
                    raise ValueError(f"{member.name} is no file")
                DOCUMENT.check(member.size, f"bytes in {member.name}")
                names |= _NAMES[member.name](parsed(file.read(member.size)))
    return names


def _of_manifest(value: Any) -> set[str]:
    return {name for image in value for name in image.get("RepoTags") or ()}


def _of_repositories(value: Any) -> set[str]:
    return {f"{repository}:{tag}" for repository, tags in value.items() for tag in tags}


def _of_index(value: Any) -> set[str]:
    annotations = [image.get("annotations") or {} for image in value["manifests"]]
    found = {each.get("io.containerd.image.name", "") for each in annotations} - {""}
    return {name.removeprefix("docker.io/") for name in found}


_NAMES: dict[str, Callable[[Any], set[str]]] = {
    "manifest.json": _of_manifest,
    "repositories": _of_repositories,
    "index.json": _of_index,
}


def load_images(images: Mapping[Image, Path], connect: Callable[[], Engine], say: Callable[[str], None]) -> int:
    """Give base images to the engine; returns how many it did not have. Where there is none it is said.

    Raises EngineError where the engine then has other layers than the archive said.
    """
    try:
        engine = connect()
    except EngineError as error:
        say(f"{len(images)} base images stay out: {error.message}; import again where an engine is")
        return 0
    count = 0
    for entry, path in images.items():
        name = carried_name(entry.digest)
        if _layers(engine, name) == entry.layers:
            continue
        say(f"giving the base image {entry.digest[:19]} to the engine")
        with path.open("rb") as stream:
            engine.load(stream)
        if _layers(engine, name) != entry.layers:
            if engine.image(name):
                engine.remove_image(name)
            raise EngineError("the engine has other layers than the archive's image", name, "export it again")
        count += 1
    return count


def _layers(engine: Engine, name: str) -> tuple[str, ...] | None:
    image = engine.image(name)
    return tuple((image.get("RootFS") or {}).get("Layers") or ()) if image else None
