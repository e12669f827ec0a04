"""`environment.yml` of conda, beside a recipe, as specifications and requirements. It is only parsed."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import TypeAdapter, ValidationError

from reprokit.errors import UsageError
from reprokit.recipe import beside, yaml
from reprokit.recipe import fields as f
from reprokit.recipe.find import Target, where_in
from reprokit.recipe.packages import EnvironmentFile, RequirementsFile

_SPEC = TypeAdapter[str](f.CondaSpec)
_KNOWN = ("name", "prefix", "channels", "dependencies")
# What conda's channel `defaults` is on Linux.
_DEFAULTS = ("main", "r")


def conda_specs(target: Target) -> list[str]:
    """The variant's `conda`, with the specifications of files in place of their names. Raises UsageError."""
    found: list[str] = []
    for index, entry in enumerate(target.variant.conda):
        if isinstance(entry, EnvironmentFile):
            found += _specs(target, entry.file, where_in(target, ("conda", index)))
        else:
            found.append(entry)
    return found


def pip_requirements(text: str, path: str) -> Iterator[tuple[str, int]]:
    """The requirements of `pip:`, each with its line."""
    document = yaml.read(text, path)
    for index, entry in _dependencies(document):
        if isinstance(entry, dict):
            for number, line in enumerate(entry["pip"]):
                yield str(line), document.line(("dependencies", index, "pip", number))


def _specs(target: Target, name: str, where: str) -> Iterator[str]:
    path = target.path.parent / name
    document = yaml.read(beside.text(target, name, where), str(path))
    for channel in _channels(document):
        if channel not in target.variant.conda_channels:
            at = f"{path}:{document.line(('channels',))}"
            hint = f"if you trust it, write `conda_channels: [..., {channel}]`; the order is the recipe's"
            raise UsageError(f"an environment.yml adds no channel of its own: {channel[:100]}", at, hint)
    for index, entry in _dependencies(document):
        at = f"{path}:{document.line(('dependencies', index))}"
        if isinstance(entry, str):
            yield _spec(entry, at)
        elif not any(isinstance(other, RequirementsFile) and other.file == name for other in target.variant.wheels):
            raise UsageError("no block installs its `pip:`", at, f"write `wheels: [{{file: {name}}}]` too")


def _channels(document: yaml.Document) -> Iterator[str]:
    listed = document.data.get("channels", []) if isinstance(document.data, dict) else []
    for channel in listed if isinstance(listed, list) else [listed]:
        if channel == "defaults":
            yield from _DEFAULTS
        elif channel != "nodefaults":
            yield str(channel)


def _dependencies(document: yaml.Document) -> Iterator[tuple[int, str | dict[str, list[object]]]]:
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("dependencies"), list):
        raise UsageError("the file has no list `dependencies`", document.where)
    if unknown := next((key for key in data if key not in _KNOWN), None):
        at = f"{document.where}:{document.line((unknown,))}"
        raise UsageError(f"`{unknown[:60]}` of an environment.yml is not supported", at, "write it into the recipe")
    for index, entry in enumerate(data["dependencies"]):
        if not isinstance(entry, str) and not (
            isinstance(entry, dict) and set(entry) == {"pip"} and isinstance(entry["pip"], list)
        ):
            at = f"{document.where}:{document.line(('dependencies', index))}"
            raise UsageError(f"{str(entry)[:60]!r} is not a specification", at, "write NAME=VERSION")
        if entry != "pip":
            yield index, entry


def _spec(text: str, where: str) -> str:
    name, _, version = text.strip().lower().partition(" ")
    try:
        return _SPEC.validate_python(name + ("=" if version[:1].isdigit() else "") + version.replace(" ", ""))
    except ValidationError:
        hint = "write NAME=VERSION or a range; a channel is named in `conda_channels`"
        raise UsageError(f"{text[:100]!r} is not a specification of conda", where, hint) from None
