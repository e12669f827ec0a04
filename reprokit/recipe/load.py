"""A recipe from its file: YAML, `extends`, the schema, and errors that name file, line, field and spelling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.model import Model, Recipe
from reprokit.recipe.spelling import nearest

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


_MOST = 1 << 20  # bytes; ours are below 20 KiB, and a stranger's file should not fill the memory


def load_file(path: Path) -> Recipe:
    """Read one recipe file. Raises UsageError."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST + 1)
        if len(raw) > _MOST:
            raise UsageError(f"a recipe of more than {_MOST >> 10} KiB is none", str(path))
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the recipe: {error}", str(path)) from None
    return load_text(text, str(path), path.stem)


def load_text(text: str, where: str, name: str) -> Recipe:
    """Read a recipe from text; `name` is what its file is called. Raises UsageError."""
    from pydantic import ValidationError

    document = yaml.read(text, where)
    if not isinstance(document.data, dict):
        raise UsageError("a recipe is a mapping of fields", where, "see `reprokit new` for a starting recipe")
    origins: dict[yaml.Path, yaml.Path] = {}
    data = dict(document.data)
    if isinstance(data.get("variants"), dict):
        data["variants"] = _extend_all(data["variants"], document, origins)
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        raise _explain(error, document, origins) from None
    if recipe.name != name:
        raise UsageError(
            f"the recipe calls itself {recipe.name!r} in a file called {name!r}",
            f"{where}:{document.line(('name',))}",
            f"name the file {recipe.name}.yaml",
        )
    _check_names(recipe, document)
    return recipe


def _check_names(recipe: Recipe, document: yaml.Document) -> None:
    """Names that must exist elsewhere in the recipe, or must not."""
    named: list[tuple[str, yaml.Path]] = [(recipe.default, ("default",))] if recipe.default else []
    for index, smoke in enumerate(recipe.smoke):
        named += [(name, ("smoke", index, "variants", i)) for i, name in enumerate(smoke.variants)]
    for key, benchmark in recipe.benchmarks.items():
        named += [(name, ("benchmarks", key, "variants", i)) for i, name in enumerate(benchmark.variants)]
    for name, path in named:
        if name not in recipe.variants:
            field = ".".join(str(p) for p in path if p != path[-1] or len(path) == 1)
            raise UsageError(
                f"{field} names {name!r}, which is no variant{nearest(name, recipe.variants)}",
                f"{document.where}:{document.line(path)}",
                f"variants: {', '.join(recipe.variants)}",
            )
    for key, variant in recipe.variants.items():
        names = [source.name for source in variant.sources]
        for index, name in enumerate(names):
            if name in names[:index]:
                at = document.line(("variants", key, "sources", index))
                raise UsageError(f"two sources of {key} are called {name!r}", f"{document.where}:{at}", "rename one")


def _extend_all(variants: dict[str, Any], document: yaml.Document, origins: dict) -> dict[str, Any]:
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
                    f"variants.{name}.extends names {parent!r}, which is no variant{nearest(parent, variants)}", where
                )
            if parent in (*seen, name):
                raise UsageError(f"variants.{name}.extends goes round in a circle", where)
            own = _merged(extended(parent, (*seen, name)), own, ("variants", parent), ("variants", name), origins)
        done[name] = own
        return own

    return {name: extended(name, ()) for name in variants}


def _merged(parent: Any, own: Any, parent_path: yaml.Path, path: yaml.Path, origins: dict) -> Any:
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


def _explain(error: ValidationError, document: yaml.Document, origins: dict) -> UsageError:
    first, *others = (_one(e, document, origins) for e in error.errors())
    message, where, hint = first
    more = [f"{w}: {m}" for m, w, _ in others[:4]]
    if len(others) > 4:
        more.append(f"and {len(others) - 4} more")
    return UsageError("\n  also ".join([message, *more]), where, hint)


def _one(error: ErrorDetails, document: yaml.Document, origins: dict) -> tuple[str, str, str]:
    path = _document_path(error["loc"], document.data)
    for length in range(len(path), 0, -1):  # an inherited value stands where the parent wrote it
        if path[:length] in origins:
            path = (*origins[path[:length]], *path[length:])
            break
    field = ".".join(str(p) for p in path) or "recipe"
    where = f"{document.where}:{document.line(path)}"
    kind = error["type"]
    if kind == "extra_forbidden":
        known = _known_fields(path[:-1])
        return f"unknown field {field}{nearest(str(path[-1]), known)}", where, "`reprokit schema` lists all fields"
    if kind == "missing":
        return f"{field} is missing", where, ""
    written = document.text(path)
    if kind == "string_type" and written is not None:
        became = f", which YAML reads as {error['input']!r}" if str(error["input"]) != written else ", not as text"
        return (
            f"{field} is written {written} without quotes{became}",
            where,
            f'versions are strings: write "{written}"',
        )
    message = error["msg"].removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        message = f"{error['input']!r} has a form or characters that are not allowed here"
    return f"{field}: {message}", where, ""


def _document_path(loc: tuple[Any, ...], data: Any) -> yaml.Path:
    """A pydantic location without the parts that stand for no key: union branches, `[key]`, model names."""
    path: list[str | int] = []
    for part in loc:
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        if inside:
            data = data[part]
        elif part == "[key]" or (isinstance(part, str) and "(" in part):
            continue
        else:
            data = None
        path.append(part)
    return tuple(path)


def _known_fields(path: yaml.Path) -> list[str]:
    """The fields of the model at `path`, for spelling."""
    from typing import get_args

    model: Any = Recipe
    for part in path:
        if isinstance(model, type) and issubclass(model, Model):
            by_name = {(field.alias or name): field for name, field in model.model_fields.items()}
            if part not in by_name:
                return []
            model = by_name[str(part)].annotation
        else:
            inner = [a for a in get_args(model) if a is not type(None)]
            model = inner[-1] if inner else None
    while get_args(model) and not isinstance(model, type):
        model = get_args(model)[0]
    if isinstance(model, type) and issubclass(model, Model):
        return [field.alias or name for name, field in model.model_fields.items()]
    return []
