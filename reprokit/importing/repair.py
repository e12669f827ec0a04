"""The repair loop: try a recipe, make the changes that the explanation of its failure proposes, try again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import Facts
from reprokit.compat.solve import ChangedPin, solve
from reprokit.compat.stack import of_project, stack_of, stated_wheels
from reprokit.errors import SourceError
from reprokit.explain.model import Cause
from reprokit.importing.changes import RecipeChange, changed, installed, permitted, release_of
from reprokit.importing.decision import Choice, ImportedRecipe
from reprokit.importing.system_choice import torch_block
from reprokit.importing.versions import ANY_TIME, just_after
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.listing import Listing
from reprokit.supply.kinds.wheels.platform import AsOf, Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import resolve_versions
from reprokit.supply.mirrors import Mirrors
from reprokit.untrusted.terminal import markdown


@dataclass(frozen=True)
class WheelChanges:
    """Resolves a requirement, with the `time` and `later` of the recipe's other wheels."""

    time: str
    later: Mapping[str, str]
    mirrors: Mirrors
    facts: Facts

    def of(self, variant: Variant, requirement: Requirement) -> list[RecipeChange] | str:
        """The changes to entries of `wheels` and to pins of the same names, or why no versions fit."""
        name, have = canonicalize_name(requirement.name), installed(variant)
        if not (self.mirrors.pip.indexes or self.mirrors.pip.find_links):
            return f"{requirement}: no package index is configured"
        platform = Platform(variant.pins["python"], self.facts.distros.distros[variant.pins["distro"]].glibc)
        others = {other: version for other, version in have.items() if other != name}
        failures: list[SourceError] = []
        # If the project has no release by that day, take its first one, else any.
        times = [self._first(name, platform), ANY_TIME] if self.time else []
        for later in (self.later, *({**self.later, name: time} for time in times if time)):
            # Keep the other wheels, even those uploaded after the day; if that fails, let them change.
            stay = (
                [f"{other}=={version}" for other, version in others.items()],
                {**dict.fromkeys(others, "false"), **later},
            )
            for required, allowed in (stay, ([*others], later)):
                request = WheelRequest(
                    [str(requirement), *required],
                    platform,
                    variant.sdists,
                    variant.wheel_indexes,
                    AsOf(self.time, allowed),
                )
                try:
                    wheels = resolve_versions(request, self.mirrors, others)
                except uv.Unsatisfied as error:
                    failures.append(error)
                    continue
                except SourceError as error:
                    return f"{requirement}: {error.message}"
                return _changes_of_wheels(
                    variant, have, {canonicalize_name(p.name): p.version for p in wheels}, self.facts
                )
        # In the second attempt the other wheels could change, as of the day.
        return f"{requirement}: {failures[1].message}"

    def _first(self, name: str, platform: Platform) -> str:
        """Just after the upload of the first wheel after the day; empty if there is none."""
        try:
            files = [f for f in Listing(self.mirrors).files(name) if f.is_wheel and f.fits(platform)]
        except SourceError:
            return ""
        first = min((f.uploaded for f in files if f.uploaded > self.time), default="")
        return just_after(first) if first else ""


def _changes_of_wheels(
    variant: Variant, have: Mapping[str, str], resolved: Mapping[str, str], facts: Facts
) -> list[RecipeChange]:
    apart = {canonicalize_name(sdist.package.partition("==")[0]) for sdist in variant.sdists}
    entries = [entry for entry in variant.wheels if isinstance(entry, str)]
    names: list[str] = [canonicalize_name(entry.partition("==")[0]) for entry in entries]
    changes = []
    for name, version in resolved.items():
        if name in apart or have.get(name) == version:
            continue
        if name in names:
            changes.append(RecipeChange("replace", f"/variants/*/wheels/{names.index(name)}", f"{name}=={version}"))
        elif name not in have:
            changes.append(RecipeChange("add", "/variants/*/wheels/-", f"{name}=={version}"))
        pin = name.replace("-", "_")
        if pin in variant.pins:
            changes.append(RecipeChange("replace", f"/variants/*/pins/{pin}", version))
        if name == "torch":
            block = torch_block(version, facts)
            indexes = [n for n, used in enumerate(variant.blocks) if used.name == "torch"]
            changes += [RecipeChange("replace", f"/variants/*/blocks/{n}", block) for n in indexes if block]
    return changes


# Pins that only another import can change: all other versions were resolved for them.
_FIXED = ("base", "distro", "python")


@dataclass(frozen=True)
class Fit:
    """Changes pins until `check` passes. `versions` returns a requirement's changes to a variant, or why none fit."""

    facts: Facts
    versions: Callable[[Variant, Requirement], list[RecipeChange] | str]

    def fitted(self, text: str, name: str, variant_name: str, kept: Sequence[str] = ()) -> tuple[str, list[str]]:
        """The recipe with pins that pass `check`, and a line for each change, or the reason for no change.

        `kept` are paths of pins that were just set.
        """
        lines = []
        variant = load_text(text, f"recipes/{name}.yaml", name).variants[variant_name]
        stack = stack_of(variant, resolved=stated_wheels(_texts(variant.wheels)))
        errors = [finding for finding in evaluate(self.facts, stack) if finding.severity == "error"]
        if not errors:
            return text, []
        # Conflicting wheels may change, like pins.
        named = {subject.partition("=")[0] for finding in errors for subject in finding.subjects}
        wheels = {name: wheel.version for name, wheel in stack.resolved.items() if name in named}
        stack = replace(stack, pins={**wheels, **stack.pins})
        fixed = {path.rpartition("/")[2] for path in kept if "/pins/" in path} | set(_FIXED)
        solution = solve(self.facts, stack, fixed & set(stack.pins))
        if solution.pins is None:
            return text, [f"these pins cannot go together: {', '.join(solution.core)}"]
        for change in solution.changes:
            changes = self._changes(variant, change)
            if isinstance(changes, str):
                lines.append(f"`check` asks for {change.pin} {change.new}: {changes}")
                continue
            why = f"not {change.old}: {change.because.reason}"
            text = changed(text, variant_name, [c.as_json() for c in changes], why)
            variant = load_text(text, f"recipes/{name}.yaml", name).variants[variant_name]
            lines.append(f"{change.pin}: {change.old} -> {change.new}, because {change.because.reason}")
        return text, lines

    def _changes(self, variant: Variant, change: ChangedPin) -> list[RecipeChange] | str:
        entries = (entry.partition("==")[0] for entry in _texts(variant.wheels) if "==" in entry)
        project = next((name for name in entries if of_project(name) == change.pin), "")
        if not project and change.pin != "torch":
            return [RecipeChange("replace", f"/variants/*/pins/{change.pin}", change.new)]
        return self.versions(variant, Requirement(f"{project or 'torch'}=={release_of(change.new)}"))


def _texts(wheels: Collection[object]) -> list[str]:
    return [entry for entry in wheels if isinstance(entry, str)]


ROUNDS = 8


@dataclass(frozen=True)
class Failure:
    """A failed step: `check`, `lock`, `build` or a smoke command, with its causes, the likeliest first."""

    step: str
    message: str
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class Round:
    """One failed attempt. `changes` were made because of `cause`; `refused` were proposed and not made."""

    failures: tuple[Failure, ...]
    cause: Cause | None = None
    changes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass
class RepairLoop:
    """`attempt` tries the recipe that `write` wrote last. `versions` returns a requirement's changes, or why none fit.

    `keep` saves the rounds after each one, so that an interruption loses nothing.
    """

    name: str
    variant_name: str
    text: str
    attempt: Callable[[], Sequence[Failure]]
    versions: Callable[[Variant, Requirement], list[RecipeChange] | str]
    fit: Fit
    write: Callable[[str], None]
    keep: Callable[[Sequence[Round]], None]

    def run(self) -> list[Round]:
        """The failed rounds. The last one has no changes if the recipe still fails."""
        rounds: list[Round] = []
        seen = {self._state(self.text)}
        for number in range(ROUNDS):
            failures = tuple(self.attempt())
            if not failures:
                break
            latest, text = self._round(failures, seen, last=number == ROUNDS - 1)
            rounds.append(latest)
            self.keep(rounds)
            if not latest.changes:
                break
            self.text = text
            seen.add(self._state(text))
            self.write(text)
        return rounds

    def _round(self, failures: tuple[Failure, ...], seen: set[str], last: bool) -> tuple[Round, str]:
        refused: list[str] = []
        if last:
            return Round(failures, refused=(f"{ROUNDS} rounds are over",)), self.text
        for cause in _causes(failures):
            changes: list[RecipeChange] = []
            for proposed in cause.recipe_change:
                completed = self._complete(permitted(proposed, self._variant(self.text)))
                if isinstance(completed, str):
                    refused.append(completed)
                else:
                    changes += completed
            if not changes:
                continue
            why = f"repaired: {cause.cause} ({cause.rule})"
            text = changed(self.text, self.variant_name, [c.as_json() for c in self._with_blocks(changes)], why)
            text, fitted = self.fit.fitted(text, self.name, self.variant_name, [c.path for c in changes])
            if self._state(text) in seen:
                refused.append(f"{'; '.join(map(str, changes))}: these inputs failed before")
                continue
            return Round(failures, cause, (*map(str, changes), *fitted), tuple(refused)), text
        return Round(failures, refused=tuple(refused)), self.text

    def _complete(self, change: RecipeChange | str) -> list[RecipeChange] | str:
        if isinstance(change, str):
            return change
        if change.requirement is None:
            return [change]
        return self.versions(self._variant(self.text), change.requirement) or f"{change}: nothing changes"

    def _with_blocks(self, changes: Sequence[RecipeChange]) -> Iterator[RecipeChange]:
        """The changes, with the blocks that newly filled lists need."""
        yield from changes
        variant = self._variant(self.text)
        used = [block.name for block in variant.blocks]
        for field, place in (("apt", 0), ("wheels", used.index("python") + 1 if "python" in used else len(used))):
            if field not in used and any(change.path == f"/variants/*/{field}/-" for change in changes):
                yield RecipeChange("add", f"/variants/*/blocks/{place}", field)

    def _variant(self, text: str) -> Variant:
        return load_text(text, f"recipes/{self.name}.yaml", self.name).variants[self.variant_name]

    def _state(self, text: str) -> str:
        """The inputs of the variant's build, as text."""
        return self._variant(text).model_dump_json()


def _causes(failures: Sequence[Failure]) -> Iterator[Cause]:
    """The exact and likely causes, those of the first failure first."""
    for failure in failures:
        yield from (cause for cause in failure.causes if cause.kind in ("exact", "likely"))


_MOST = 400


def page(
    name: str, source: str, imported: ImportedRecipe, rounds: Sequence[Round], state: str, works: bool = False
) -> str:
    """The report in Markdown. Text of the repository and of logs is escaped: it has no markup or links.

    `state` describes the end of the last attempt; `works` if it succeeded.
    """
    decision, versions = imported.decision, imported.versions
    parts = [
        f"# {markdown(name)}, read and repaired",
        f"Read from {markdown(source)}; versions as of {decision.day}. {markdown(state)}.",
        "## Found",
        _list(
            [
                _explained(decision.base_choice),
                *(f"{pin} {_explained(choice)}" for pin, choice in decision.pins.items()),
                *(f"to pass check: {line}" for line in imported.fitted),
            ]
        ),
        f"{len(versions.pins)} wheels, {len(versions.sdists)} sdists, {len(decision.apt)} packages of the distribution."
        " The recipe names the file and line of each.",
    ]
    questions = [*versions.questions, *decision.questions]
    if questions:
        lines = [question.text + (f" ({question.origin})" if question.origin else "") for question in questions]
        parts += ["## Not settled by any file", _list(lines)]
    parts.append("## Changed")
    changes = [line for number, attempt in enumerate(rounds, 1) for line in _changed_lines(number, attempt)]
    parts.append("\n".join(changes) if changes else "Nothing.")
    parts += ["## Still fails", "Nothing." if works else _still(rounds)]
    return "\n\n".join(parts) + "\n"


def _explained(choice: Choice) -> str:
    origins = f" ({', '.join(map(str, choice.origins))})" if choice.origins else ""
    return f"{choice.value}: {choice.why}{origins}"


def _changed_lines(number: int, attempt: Round) -> list[str]:
    if not attempt.changes or attempt.cause is None:
        return []
    cause = attempt.cause
    return [
        f"{number}. {_plain(attempt.failures[0].step)} failed: {_plain(cause.cause)} (rule {markdown(cause.rule)})",
        f"   - line {cause.line} of its log: {_plain(cause.text)}",
        *(f"   - {_plain(change)}" for change in attempt.changes),
    ]


def _still(rounds: Sequence[Round]) -> str:
    if not rounds or rounds[-1].changes:
        return "Not known: the last attempt did not end."
    lines = []
    for failure in rounds[-1].failures:
        lines.append(f"{failure.step}: {failure.message}")
        for cause in failure.causes[:1]:
            lines.append(f"cause: {cause.cause}; remedy: {'; '.join(cause.remedy.splitlines())}")
    return _list([*lines, *(f"not changed: {text}" for text in rounds[-1].refused)])


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _plain(text: str) -> str:
    return markdown(" ".join(text.split())[:_MOST])
