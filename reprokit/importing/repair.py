"""The repair loop: try a recipe, change what the explanation of its failure proposes, try again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement

from reprokit.explain.model import CONFIDENCE, Cause
from reprokit.importing.edits import changed
from reprokit.importing.fit import Fit
from reprokit.importing.permitted import RecipeChange, permitted
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant

ROUNDS = 8


@dataclass(frozen=True)
class Failure:
    """A failed step: `check`, `lock`, `build` or a smoke command, with its causes, the likeliest first."""

    step: str
    message: str
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class Round:
    """One attempt that failed. `changes` were made because of `cause`; `refused` were proposed and not made."""

    failures: tuple[Failure, ...]
    cause: Cause | None = None
    changes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass
class RepairLoop:
    """`attempt` tries the recipe that `write` wrote last. `versions` gives a requirement's changes, or why none fit.

    `keep` gets the rounds after each one, so that nothing learnt is lost if a later one is interrupted.
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
        """The failed rounds. The last one has no changes if the recipe still fails; none is empty at a success."""
        rounds: list[Round] = []
        seen = {self._state(self.text)}
        for number in range(ROUNDS):
            failures = tuple(self.attempt())
            if not failures:
                break
            found, text = self._round(failures, seen, last=number == ROUNDS - 1)
            rounds.append(found)
            self.keep(rounds)
            if not found.changes:
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
                found = self._complete(permitted(proposed, self._variant(self.text)))
                if isinstance(found, str):
                    refused.append(found)
                else:
                    changes += found
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
        """The changes, with the blocks that install what a list gets for the first time."""
        yield from changes
        variant = self._variant(self.text)
        used = [block.name for block in variant.blocks]
        for field, place in (("apt", 0), ("wheels", used.index("python") + 1 if "python" in used else len(used))):
            if field not in used and any(change.path == f"/variants/*/{field}/-" for change in changes):
                yield RecipeChange("add", f"/variants/*/blocks/{place}", field)

    def _variant(self, text: str) -> Variant:
        return load_text(text, f"recipes/{self.name}.yaml", self.name).variants[self.variant_name]

    def _state(self, text: str) -> str:
        """What a variant is built from, as text."""
        return self._variant(text).model_dump_json()


def _causes(failures: Sequence[Failure]) -> Iterator[Cause]:
    """The causes that a rule is sure of, those of the first failure first."""
    for failure in failures:
        yield from (cause for cause in failure.causes if cause.confidence >= CONFIDENCE["likely"])
