"""Reading a recipe: YAML, `extends`, the schema, and errors with file, line, field and spelling."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from reprokit import paths
from reprokit.errors import UsageError, unread
from reprokit.recipe import yaml
from reprokit.recipe.explain import explained
from reprokit.recipe.model import ClaimBaseline, Recipe
from reprokit.recipe.spelling import nearest
from reprokit.untrusted import files
from reprokit.untrusted.limits import VALUES
from reprokit.untrusted.time_limit import processor_time

_MOST = 1 << 20  # bytes; the bundled recipes have less than 20 KiB
_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")  # of a metric; a claim may have words instead
_SECONDS = 3.0  # the bundled recipes take less than 0.1 s


def load_file(path: Path) -> Recipe:
    """Read one recipe file. Raises UsageError."""
    return load_text(recipe_text(path), str(path), path.stem)


def recipe_text(path: Path) -> str:
    """The text of a recipe file, perhaps a stranger's. Raises UsageError.

    Inside a folder of recipes no link is followed; the folder itself may be a link. Other files are opened as named.
    """
    root = next((folder for folder in paths.recipe_dirs() if path.is_relative_to(folder)), None)
    try:
        if root is None or paths.is_bundled(path):  # an installer may link the files of a package
            return files.read(path, _MOST).decode("utf-8")
        with files.Folder(root) as folder:
            return folder.read(str(path.relative_to(root)), _MOST).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the recipe: {unread(error)}", str(path)) from None


def load_text(text: str, where: str, name: str) -> Recipe:
    """Read a recipe from text; `name` is its file's name. Raises UsageError."""
    with processor_time(_SECONDS, "the recipe", where):
        try:
            return _read(text, where, name)
        except RecursionError:
            raise UsageError("the recipe is nested too deeply", where) from None


def _read(text: str, where: str, name: str) -> Recipe:
    from pydantic import ValidationError

    document = yaml.read(text, where)
    if not isinstance(document.data, dict):
        raise UsageError("a recipe is a mapping of fields", where, "see `reprokit new` for a starting recipe")
    origins: dict[yaml.Path, yaml.Path] = {}
    data = dict(document.data)
    if isinstance(data.get("variants"), dict):
        data["variants"] = _extend_all(data["variants"], document, origins)
        VALUES.check(_count(data["variants"], {}), "values in the variants with all that they extend", where)
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        raise explained(error, document, Recipe, "`reprokit show --schema` lists all fields", origins) from None
    if recipe.name != name:
        raise UsageError(
            f"the recipe is named {recipe.name!r}, but its file is {name}.yaml",
            f"{where}:{document.line(('name',))}",
            f"rename the file to {recipe.name}.yaml",
        )
    _check_names(recipe, document)
    _check_claims(recipe, document)
    return recipe


def _check_names(recipe: Recipe, document: yaml.Document) -> None:
    """Check the names that refer to other parts of the recipe."""
    if recipe.workspace and recipe.workspace != recipe.name.replace("-", "_"):
        raise UsageError(
            f"the workspace {recipe.workspace!r} belongs to another recipe",
            f"{document.where}:{document.line(('workspace',))}",
            "remove `workspace`: a recipe uses the folder of its own name; mount other folders with -v",
        )
    named: list[tuple[str, yaml.Path]] = [(recipe.default, ("default",))] if recipe.default else []
    for index, smoke in enumerate(recipe.smoke):
        named += [(name, ("smoke", index, "variants", i)) for i, name in enumerate(smoke.variants)]
    for key, benchmark in recipe.benchmarks.items():
        named += [(name, ("benchmarks", key, "variants", i)) for i, name in enumerate(benchmark.variants)]
    for name, path in named:
        _check_name(name, recipe.variants, path, "a variant", document)
    for key, variant in recipe.variants.items():
        names = [source.name for source in variant.sources]
        for index, name in enumerate(names):
            if name in names[:index]:
                at = document.line(("variants", key, "sources", index))
                raise UsageError(f"two sources of {key} are called {name!r}", f"{document.where}:{at}", "rename one")


def _check_claims(recipe: Recipe, document: yaml.Document) -> None:
    """Refuse claims about a benchmark, metric, parameter or variant that the recipe does not have.

    A metric that no benchmark measures is written in words.
    """
    for index, claim in enumerate(recipe.claims):
        path: yaml.Path = ("claims", index)
        base = claim.baseline or ClaimBaseline(value=1)
        if claim.benchmark:
            _check_name(claim.benchmark, recipe.benchmarks, (*path, "benchmark"), "a benchmark", document)
        if base.variant:
            _check_name(base.variant, recipe.variants, (*path, "baseline", "variant"), "a variant", document)
        about = [b for name, b in recipe.benchmarks.items() if claim.benchmark in ("", name)]
        metrics = dict.fromkeys(metric for b in about for metric in b.measures)
        complete = all(b.parse.format == "lines" or b.parse.metrics for b in about)
        for metric, field in ((claim.metric, ("metric",)), (base.metric, ("baseline", "metric"))):
            if about and complete and _NAME.fullmatch(metric):
                _check_name(metric, metrics, (*path, *field), "a metric of its benchmarks", document)
        for metric, params, field in (
            (claim.metric, claim.params, ("params",)),
            (base.metric or claim.metric, base.params, ("baseline", "params")),
        ):
            measuring = [b for b in about if metric in b.measures]
            own = dict.fromkeys(name for b in measuring for name in b.parameters)
            for name in params if measuring and all(b.parse.format == "lines" for b in measuring) else ():
                _check_name(name, own, (*path, *field, name), f"a parameter of {metric}", document)


def _check_name(name: str, names: Collection[str], path: yaml.Path, what: str, document: yaml.Document) -> None:
    if name not in names:
        raise UsageError(
            f"{'.'.join(map(str, path))} names {name!r}, which is not {what}{nearest(name, names)}",
            f"{document.where}:{document.line(path)}",
            f"there are {', '.join(names)}" if names else "",
        )


def host_name(recipe: str) -> str:
    """The host name of a recipe's containers."""
    return recipe.replace(".", "-").replace("_", "-")


def _extend_all(
    variants: dict[str, Any], document: yaml.Document, origins: dict[yaml.Path, yaml.Path]
) -> dict[str, Any]:
    done: dict[str, Any] = {}

    def extended(name: str, seen: tuple[str, ...]) -> Any:
        if name in done:
            return done[name]
        own = variants[name]
        parent = own.get("extends") if isinstance(own, dict) else None
        if isinstance(parent, str):
            where = f"{document.where}:{document.line(('variants', name, 'extends'))}"
            if parent not in variants:
                raise UsageError(
                    f"variants.{name}.extends names {parent!r}, which is not a variant{nearest(parent, variants)}",
                    where,
                )
            if parent in (*seen, name):
                raise UsageError(f"variants.{name}.extends leads back to itself", where)
            own = _merged(extended(parent, (*seen, name)), own, ("variants", parent), ("variants", name), origins)
        done[name] = own
        return own

    return {name: extended(name, ()) for name in variants}


def _count(value: Any, counts: dict[int, int]) -> int:
    """The number of keys and values. Inherited values count for each variant, as each gets a copy.

    `counts` caches the counts of values by their address.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counts:
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        counts[id(value)] = sum(_count(member, counts) for member in inner)
    return counts[id(value)]


def _merged(parent: Any, own: Any, parent_path: yaml.Path, path: yaml.Path, origins: dict[yaml.Path, yaml.Path]) -> Any:
    """`own` over `parent`: mappings key by key, null removes a key, everything else is replaced."""
    if not (isinstance(parent, dict) and isinstance(own, dict)):
        return own
    result = {}
    for key in (*parent, *(k for k in own if k not in parent)):
        if key in own:
            if own[key] is not None:
                result[key] = _merged(parent.get(key), own[key], (*parent_path, key), (*path, key), origins)
        else:
            result[key] = parent[key]
            inherited = (*parent_path, key)
            origins.setdefault((*path, key), origins.get(inherited, inherited))
    return result
