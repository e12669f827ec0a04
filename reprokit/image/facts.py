"""The facts about a variant that templates use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from packaging.requirements import Requirement

from reprokit.errors import UsageError
from reprokit.image.shell import unpacking
from reprokit.recipe.fields import exact_version, git_requirement, repository_name
from reprokit.recipe.find import Target
from reprokit.recipe.model import RecipeFile, Variant
from reprokit.supply.kinds.apt.install import repository


def template_facts(target: Target) -> dict[str, Any]:
    """The facts about a variant: plain values, each written through a filter.

    Raises UsageError for everything that templates refuse. `check` relies on that: compiling the templates of all
    blocks would take a quarter of its time.
    """
    variant = target.variant
    facts = {
        "pins": dict(variant.pins),
        "major": {name: value.split(".")[0] for name, value in variant.pins.items()},
        "apt": list(variant.apt),
        "indexes": list(variant.wheel_indexes),
        "wheels": [_requirement(text) for text in target.requirements],
        "sdists": [{**_requirement(sdist.package), "requires": sdist.requires} for sdist in variant.sdists],
        "sources": {s.name: {**s.model_dump(), "git": f"https://{repository_name(s.git)}"} for s in variant.sources},
        "ssh_addresses": _ssh_addresses(variant),
        "patches": {f"patches/{path}": hashlib.sha256(content).hexdigest() for path, content in target.patches.items()},
        "files": [_file(file) for file in variant.files],
        "conda": [_conda(spec) for spec in target.conda],
        "conda_channels": list(variant.conda_channels),
        "kept_paths": _kept_paths(target),
        "base": repository(variant.base),
        "python": _python(target),
    }
    for text in _texts([facts, [use.options for use in target.uses], variant.env, variant.build_args]):
        if not text.isprintable():
            raise UsageError(f"{text!r} contains a control character, which is not allowed in a Dockerfile")
    return facts


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _ssh_addresses(variant: Variant) -> list[tuple[str, str]]:
    """The prefixes of addresses on the hosts of ssh:// sources, each with its host. Submodules have such addresses."""
    addresses = set()
    for source in variant.sources:
        scheme, _, place = source.git.partition("://")
        if scheme == "ssh":
            login, host = place.partition("/")[0], repository_name(source.git).partition("/")[0]
            addresses |= {(f"ssh://{login}/", f"{host}/"), (f"{login}:", f"{host}/")}
    return sorted(addresses)


def _file(file: RecipeFile) -> dict[str, Any]:
    command, package = unpacking(file.name, "/tmp/file") if file.unpack else ((), "")
    return {**file.model_dump(), "unpack": command, "package": package}


def _requirement(text: str) -> dict[str, Any]:
    """A requirement for templates: `version` is empty for a range, `git` has the parts of a git address."""
    requirement = Requirement(text)
    git = git_requirement(text)
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return {
        "text": str(requirement),
        "name": requirement.name,
        "version": exact_version(requirement) or "",
        "marker": str(requirement.marker or ""),
        "bare": requirement.name + extras,
        "git": asdict(git) if git else {},
        "archive": git.archive if git else "",
    }


def _conda(spec: str) -> dict[str, str]:
    """The parts of a specification; `version` is empty unless it is NAME=VERSION."""
    exact = re.fullmatch(r"([^=<>!~]+)==?([^=*]+)(=.*)?", spec)
    name = re.split("[=<>!~]", spec, maxsplit=1)[0]
    return {"text": spec, "name": name, "version": exact[2] if exact else ""}


def _kept_paths(target: Target) -> list[str]:
    """Paths of the sources that stay in the image, without those inside another one."""
    kept = [s.path for s in target.variant.sources if s.keep]
    return [path for path in kept if not any(path.startswith(other + "/") for other in kept)]


def _python(target: Target) -> str:
    pin = target.variant.pins.get("python", "")
    if pin and not re.fullmatch(r"\d+\.\d+(\.\d+)?", pin):
        where = target.where(("pins", "python"))
        raise UsageError(f"the pin python {pin!r} needs a minor version", where, 'write for example "3.11"')
    return "python" + ".".join(pin.split(".")[:2])
