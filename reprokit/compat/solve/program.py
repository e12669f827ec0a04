"""The choice of one value a pin as a logic program, which clingo solves to the optimum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clingo import Control, Function, Number

from reprokit.compat.solve.choices import PinOption

# choice(PIN, VALUE, STEPS, TIER, RANK) with numbers for pins and values; value 0 is what the user wrote.
_RULES = """
#defined choice/5.
#show is/2.
1 { is(P,V) : choice(P,V,_,_,_) } 1 :- choice(P,_,_,_,_).
#minimize { 1@4,P : is(P,V), V > 0 }.
#minimize { S@3,P : is(P,V), choice(P,V,S,_,_) }.
#minimize { T@2,P : is(P,V), choice(P,V,_,T,_) }.
#minimize { R@1,P : is(P,V), choice(P,V,_,_,R) }.
"""


class Program:
    """Fewest pins changed first, then the fewest steps, then the lowest tiers, then the lowest rank."""

    def __init__(self, choices: Mapping[str, list[PinOption]]) -> None:
        facts = "".join(
            f"choice({pin},{value},{choice.steps},{choice.tier},{choice.rank})."
            for pin, offered in enumerate(choices.values())
            for value, choice in enumerate(offered)
        )
        self._control = Control(["--seed=1"])
        self._control.add("base", [], facts + _RULES)
        self._control.ground([("base", [])])
        self._names = {
            Function("is", [Number(pin), Number(value)]): (name, choice.text)
            for pin, (name, offered) in enumerate(choices.items())
            for value, choice in enumerate(offered)
        }
        self._literals = {self._names[a.symbol]: a.literal for a in self._control.symbolic_atoms.by_signature("is", 2)}

    def exclude(self, conflicts: Iterable[frozenset[tuple[str, str]]]) -> None:
        """Each is a set of pins with values that cannot all hold."""
        with self._control.backend() as backend:
            for values in conflicts:
                backend.add_rule([], [self._literals[each] for each in values])

    def best(self) -> dict[str, str] | None:
        """The best values that are left, None if there are none."""
        found = None
        with self._control.solve(yield_=True) as models:
            for model in models:  # each better than the one before
                found = dict(self._names[symbol] for symbol in model.symbols(shown=True))
        return found
