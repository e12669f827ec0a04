"""What templates know of a variant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from packaging.requirements import Requirement

from reprokit.errors import UsageError
from reprokit.image.blocks import Use, requirements_of, uses
from reprokit.image.context import patch_files
from reprokit.image.shell import unpacking
from reprokit.recipe.environment import conda_specs
from reprokit.recipe.fields import exact_version, git_requirement, repository_name
from reprokit.recipe.find import Target, where_in
from reprokit.recipe.model import Variant
from reprokit.recipe.packages import RecipeFile
from reprokit.supply.kinds.apt.install import repository


def judged(target: Target) -> tuple[tuple[Use, ...], dict[str, Any]]:
    """The blocks of a variant and what templates know of it. Raises UsageError, also for all that templates refuse.

    `check` relies on that: compiling the templates of all blocks would take a quarter of its time.
    """
    used = uses(target)
    facts = _facts_of(target, used)
    variant = target.variant
    for text in _texts([facts, [use.options for use in used], variant.env, variant.build_args]):
        if not text.isprintable():
            raise UsageError(f"{text!r} contains a control character, which is not allowed in a Dockerfile")
    return used, facts


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _facts_of(target: Target, used: Sequence[Use]) -> dict[str, Any]:
    """Plain values, each of which is written through a filter; `used` are the variant's blocks."""
    variant = target.variant
    return {
        "pins": dict(variant.pins),
        "major": {name: value.split(".")[0] for name, value in variant.pins.items()},
        "apt": list(variant.apt),
        "indexes": list(variant.wheel_indexes),
        "wheels": [_requirement(text) for text in requirements_of(target, used)],
        "sdists": [{**_requirement(sdist.package), "requires": sdist.requires} for sdist in variant.sdists],
        "sources": {s.name: {**s.model_dump(), "git": f"https://{repository_name(s.git)}"} for s in variant.sources},
        "ssh_addresses": _ssh_addresses(variant),
        "patches": {path: hashlib.sha256(content).hexdigest() for path, content in patch_files(target)},
        "files": [_file(file) for file in variant.files],
        "conda": [_conda(spec) for spec in conda_specs(target)],
        "conda_channels": list(variant.conda_channels),
        "kept_paths": _kept_paths(target),
        "base": repository(variant.base),
        "python": _python(target),
    }


def _ssh_addresses(variant: Variant) -> list[tuple[str, str]]:
    """How addresses on the hosts of ssh:// sources may begin, and the host. Submodules are at such addresses."""
    found = set()
    for source in variant.sources:
        scheme, _, place = source.git.partition("://")
        if scheme == "ssh":
            login, host = place.partition("/")[0], repository_name(source.git).partition("/")[0]
            found |= {(f"ssh://{login}/", f"{host}/"), (f"{login}:", f"{host}/")}
    return sorted(found)


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
        where = where_in(target, ("pins", "python"))
        raise UsageError(f"the pin python {pin!r} needs a minor version", where, 'write for example "3.11"')
    return "python" + ".".join(pin.split(".")[:2])
