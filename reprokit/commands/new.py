"""`reprokit new`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import echo

if TYPE_CHECKING:
    from reprokit.importing.decision import ImportedRecipe
    from reprokit.importing.repair import WheelChanges


def new(
    name: str = typer.Argument(metavar="NAME", help="Lower-case letters, digits, `.`, `_` and `-`."),
    source: str = typer.Option("", "--from", metavar="SOURCE", help="A git address or a folder to read; never run."),
    commit: str = typer.Option("", "--commit", metavar="COMMIT", help="Commit, tag or branch of SOURCE."),
    as_of: str = typer.Option(
        "",
        "--as-of",
        metavar="DATE|commit|now",
        help="Day for versions that no file states (default: the commit's date).",
    ),
    repair: bool = options.flag(
        "--repair", "Build and try the recipe, and change what `explain` proposes, 8 times at most."
    ),
) -> None:
    """Write a recipe: a commented start, or what a repository states."""
    from reprokit.errors import UsageError
    from reprokit.host.disk import write_new
    from reprokit.recipe.find import recipe_files, refuse_twin
    from reprokit.recipe.start import starting_recipe

    text = starting_recipe(name)
    path = Path("recipes") / f"{name}.yaml"
    for taken in (path, path.with_suffix(".md")) if repair else (path,):
        if taken.exists():
            raise UsageError(f"the recipe {name} exists already", str(taken), "choose another name, or edit the file")
    if other := recipe_files().get(name):
        hint = "choose another name; to change that one, copy it and its lock to recipes/"
        raise UsageError(f"a recipe named {name} exists already", str(other), hint)
    refuse_twin(name, path)
    result = None
    if source:
        result = imported(name, source, commit, as_of)
        text = result[0].text
    elif commit or as_of or repair:
        option = "--commit" if commit else "--as-of" if as_of else "--repair"
        raise UsageError(
            f"{option} needs a repository", hint=f"reprokit new {name} --from https://HOST/OWNER/REPOSITORY"
        )
    write_new(path, text, "the recipe", "start in a folder that you can write", usual=True)
    if repair and result:
        from reprokit.smoke.repair import repair as repaired

        echo(f"wrote {path}")
        echo(repaired(path, source, *result))
        return
    echo(f"wrote {path}; next: reprokit check {name} && reprokit build {name}")


def imported(name: str, source: str, commit: str, as_of: str) -> tuple[ImportedRecipe, WheelChanges]:
    """The recipe of a repository, with a summary of what was decided, and what finds versions for its repair."""
    from reprokit.compat.facts import bundled
    from reprokit.importing.tree import moment_of, opened
    from reprokit.supply.mirrors import Mirrors
    from reprokit.supply.store import Store

    try:
        from reprokit.importing.recipe_of import recipe_of
        from reprokit.importing.repair import WheelChanges
    except ModuleNotFoundError as error:
        from reprokit.errors import UsageError
        from reprokit.installation import extra_command

        raise UsageError(f"--from needs {error.name}", hint=f"install it: `{extra_command('import')}`") from None
    mirrors = Mirrors(Store())
    tree = opened(source, commit, mirrors)
    moment = moment_of(as_of, tree.date, source)
    recipe = recipe_of(name, tree, moment, mirrors, bundled())
    if not as_of and not tree.date:
        echo(f"  question: the commit's date is not known, so versions are those of {moment.day}; --as-of sets a date")
    decision, versions = recipe.decision, recipe.versions
    echo(f"{decision.base_choice.value}: {decision.base_choice.why}")
    for choice in (decision.base_choice, *decision.pins.values(), *decision.requirements.values()):
        for lost in choice.lost:
            echo(f"  {choice.value} won over {lost.value} ({lost.origin}): {lost.why}")
    for question in (*versions.questions, *decision.questions):
        echo(f"  question: {question.text}" + (f" ({question.origin})" if question.origin else ""))
    for line in recipe.fitted:
        echo(f"  to pass check: {line}")
    echo(f"{len(versions.pins)} wheels and {len(versions.sdists)} sdists as of {decision.day}")
    return recipe, WheelChanges(moment.time, versions.later, mirrors, bundled())
