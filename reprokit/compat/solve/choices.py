"""The values that a pin can take, each with how far it is from the value that the user wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reprokit.compat.base import parse_base
from reprokit.compat.evaluate import options
from reprokit.compat.version import Key, key_or_zero, local, public, series
from reprokit.compat.view import View

_Place = tuple[Key, ...]


# Of pins that are as near, tools change first, then the system, then CUDA, then what the code calls.
_TIERS = (("gcc", "clang", "llvm", "cmake", "cudnn"), ("distro", "base", "python", "numpy"), ("cuda",))


@dataclass(frozen=True)
class PinOption:
    """`steps`: release series between old and new version. `tier`: priority of the changed pin.

    `rank` orders the options of a pin with equal steps: same major, same release, newest patch, same build.
    """

    text: str
    steps: int
    rank: int
    tier: int = 0


def choices(view: View, name: str) -> list[PinOption]:
    """The pin as it is, then what may replace it, nearest first."""
    current = view.stack.pins[name]
    texts = list(dict.fromkeys(text for offered in options(view, name) for _, text in offered if text != current))
    distance = _distance(view, name, texts)
    ranked: dict[int, int] = {}
    tier = next((n for n, names in enumerate(_TIERS) if name in names), len(_TIERS))
    found = [PinOption(current, 0, 0)]
    for text in sorted(texts, key=lambda t: (distance(t), *_preference(view, name, current, t))):
        steps = distance(text)
        ranked[steps] = ranked.get(steps, -1) + 1
        found.append(PinOption(text, steps, ranked[steps], tier))
    return found


def _distance(view: View, name: str, texts: list[str]) -> Callable[[str], int]:
    """The distance from the pin of the stack to a text."""
    current = view.stack.pins[name]
    if name == "distro":
        known = view.pin(name)
        return lambda text: _between_distros(view, known.versions[0] if known and known.versions else "", text)
    if name != "base":
        steps = _steps([current, *texts])
        return lambda text: steps(current, text)
    cuda = _steps([_implied(view, text, "cuda") for text in (current, *texts)])
    return lambda text: (
        cuda(_implied(view, current, "cuda"), _implied(view, text, "cuda"))
        + _between_distros(view, _implied(view, current, "distro"), _implied(view, text, "distro"))
    )


def _steps(versions: list[str]) -> Callable[[str, str], int]:
    """How many series lie between two of `versions`, `11.8` of 11.8.0 being one; 0 if one is no version."""
    places = {k: i for i, k in enumerate(sorted({_series(v) for v in versions}))}

    def steps(one: str, other: str) -> int:
        return abs(places[_series(one)] - places[_series(other)]) if _series(one) and _series(other) else 0

    return steps


def _series(text: str) -> Key:
    return key_or_zero(series(public(text)))


def _between_distros(view: View, one: str, other: str) -> int:
    """Releases in between; another family is farther than any of the same."""
    names = list(view.facts.distros.distros)
    if one not in names or other not in names:
        return len(names) * (one != other)
    same = one.partition(":")[0] == other.partition(":")[0]
    return abs(names.index(one) - names.index(other)) + (0 if same else len(names))


def _implied(view: View, base: str, name: str) -> str:
    return parse_base(view.facts, base).implied.get(name, "")


def _preference(view: View, name: str, current: str, text: str) -> tuple[bool, bool, _Place, bool, str]:
    """The same major first, then the same release in another build, then the newest, then the same build."""
    if name == "base":
        current, text = _implied(view, current, "cuda"), _implied(view, text, "cuda")
    now, then = key_or_zero(public(current)), key_or_zero(public(text))
    build = local(text)
    newest = tuple((-n,) for n in then)
    return now[:1] != then[:1], now != then, newest, build != local(current), _newest_first(build)


def _newest_first(build: str) -> str:
    """A text that sorts the builds of newer CUDA first."""
    digits = build.removeprefix("cu")
    return f"{10_000 - int(digits):05}" if digits.isdigit() and len(digits) < 5 else build
