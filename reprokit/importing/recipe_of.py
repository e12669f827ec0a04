"""From a repository to a recipe, step by step: read, decide, resolve, write."""

from __future__ import annotations

from dataclasses import replace

from packaging.utils import canonicalize_name

from reprokit.compat.distributions import bundled_distributions
from reprokit.compat.facts import Facts
from reprokit.display import notify
from reprokit.errors import SourceError, UsageError
from reprokit.importing.collect import collect
from reprokit.importing.decide import decide
from reprokit.importing.decision import Decision, ImportedRecipe, Question, Versions
from reprokit.importing.draft import draft
from reprokit.importing.python_choice import candidates
from reprokit.importing.repair import Fit, WheelChanges
from reprokit.importing.system_choice import TorchBuild, torch_build, without_index
from reprokit.importing.tree import Moment, Tree
from reprokit.importing.versions import versions_of
from reprokit.recipe.load import load_text
from reprokit.supply.kinds.wheels.listing import reached
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.resolve import no_connection
from reprokit.supply.kinds.wheels.uv import Unreachable, Unsatisfied
from reprokit.supply.mirrors import Mirrors

_PYTHONS = 3


def recipe_of(name: str, tree: Tree, moment: Moment, mirrors: Mirrors, facts: Facts) -> ImportedRecipe:
    """Write the recipe of a repository. Its files are read, never run.

    Raises UsageError if no Python fits or no file states a requirement, SourceError if no set of versions fits.
    """
    statements = collect(tree)
    if all(statement.format == "c" for statement in statements):
        what = f"none of its {len(tree.contents.sizes)} files says what the code needs"
        raise UsageError(what, tree.address or "--from", f"reprokit new {name} writes a start to fill in")
    notify(f"read {len(tree.contents.sizes)} files: {len(statements)} statements")
    paths, submodules = tree.contents.sizes.keys(), tree.contents.submodules
    failures: list[tuple[str, Unsatisfied]] = []
    for base, choice in candidates(statements, facts, moment.day)[:_PYTHONS]:
        notify(f"trying {choice.value}")
        decision = decide(statements, paths, submodules, name, base, choice, moment.day, facts, bundled_distributions())
        try:
            versions = _versions(decision, moment, mirrors, facts)
        except Unsatisfied as error:
            failures.append((choice.value, error))
            continue
        apt = {choice.value: choice for choice in (*versions.apt, *decision.apt)}
        decision = _with_version(replace(decision, apt=tuple(apt.values())), tree)
        earlier = tuple(Question(f"{value} was tried first: {error.message}") for value, error in failures)
        versions = replace(versions, questions=(*earlier, *versions.questions))
        build, questions = _torch_build(decision, versions, mirrors, facts)
        versions = replace(versions, questions=(*versions.questions, *questions))
        text = draft(decision, versions, tree.address, tree.commit, facts, build)
        variant_name = next(iter(load_text(text, f"recipes/{name}.yaml", name).variants))
        resolved = WheelChanges(moment.time, versions.later, mirrors, facts)
        text, fitted = Fit(facts, resolved.of).fitted(text, name, variant_name)
        return ImportedRecipe(text, decision, versions, tuple(fitted))
    value, first = failures[0]
    raise SourceError(f"no versions fit for {value}: {first.message}", first.where, first.hint) from None


def _torch_build(
    decision: Decision, versions: Versions, mirrors: Mirrors, facts: Facts
) -> tuple[TorchBuild, list[Question]]:
    """The build of torch, from an index that can be reached if possible."""
    build = torch_build(decision, versions, facts)
    if not build.index or not mirrors.pip.index or mirrors.store.lost.last_failure(mirrors.pip.index):
        return build, []
    why = no_connection(build.index, mirrors)
    if not why:
        return build, []
    build, question = without_index(build, why, decision, facts)
    return build, [question]


def _with_version(decision: Decision, tree: Tree) -> Decision:
    """The decision with the version of the commit's tag, or a question if only git's history has the version."""
    if decision.version or not decision.counts_version:
        return decision
    if tree.release:
        return replace(decision, version=tree.release)
    text = "the project counts its version from git's history; `--commit TAG` gives it, 0.0.0 stands for it here"
    return replace(decision, questions=(*decision.questions, Question(text)))


def _versions(decision: Decision, moment: Moment, mirrors: Mirrors, facts: Facts) -> Versions:
    """The versions; a question about each if no index can be reached."""
    distro = facts.distros.distros[decision.base.distro]
    try:
        if not (mirrors.pip.indexes or mirrors.pip.find_links):
            raise Unreachable("no package index is configured")
        # uv retries an index that is down, which takes seconds.
        reached(mirrors, next(iter(decision.requirements), "pip"))
        platform = Platform(decision.base.python, distro.glibc)
        return versions_of(decision, platform, mirrors, moment.time)
    except Unreachable as error:
        notify(f"{error.message}; the recipe asks for the versions")
        pins: dict[str, str] = {}
        questions = [Question(f"{error.message}: `reprokit new` with it resolves the versions that are not exact")]
        for project, choice in decision.requirements.items():
            exact = choice.value.partition("==")[2].removeprefix("=")
            if exact and "," not in exact and "*" not in exact:
                pins[canonicalize_name(project)] = exact
            else:
                questions.append(Question(f"which version of {choice.value}?", next(iter(choice.origins), None)))
        return Versions(pins, (), tuple(questions))
