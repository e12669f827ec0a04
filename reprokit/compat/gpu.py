"""GPU names as people write them: `3090`, `NVIDIA GeForce RTX 3090`, `A100-SXM4-80GB`, `8.6`, `sm_86`."""

from __future__ import annotations

import difflib
import re

from reprokit.compat.facts import Facts
from reprokit.compat.model import KnownGpu
from reprokit.errors import UsageError

# What vendors and tools add to a product's name and that does not change its capability.
_NOISE = re.compile(
    r"\b(nvidia|corporation|graphics|device|gpu|generation|edition|workstation|server|design"
    r"|pcie?|sxm\d?|nvl\d*|dgxs?|hgx|ls|hbm\d?e?|gddr\dx?|(?:mobile|max-?q)|\d+ ?g[bi]?b?)\b"
)
_LAPTOP = re.compile(r"\b(laptop|mobile|notebook|max-?q)\b")
_VENDOR_LINES = ("geforce", "tesla", "quadro")
_GENERATIONS = ("ada", "blackwell", "pascal")
_FAMILIES = ("geforce", "tesla", "quadro", "rtx", "gtx", "gt", "jetson", "agx")


def parse_gpu(facts: Facts, text: str) -> KnownGpu | None:
    """The GPU meant, None for `none`. Raises UsageError for what nobody knows and for names of several GPUs."""
    wanted = text.strip().lower()
    if wanted == "none":
        return None
    bare = re.fullmatch(r"(?:sm_?|compute_?)?(\d{1,2})\.?(\d)[af]?", wanted)
    if bare and ("." in wanted or not wanted[0].isdigit()):
        return _capability(facts, int(bare[1]), int(bare[2]), text)
    found = next((gpus for s in _attempts(wanted) if (gpus := _index(facts).get(s))), [])
    if len({gpu.capability for gpu in found}) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(gpu.name for gpu in found))
        raise UsageError(f"several GPUs are called {text!r}", hint=f"write one of {names}, or a compute capability")
    raise UsageError(f"unknown GPU {text!r}", hint=_hint(facts, wanted))


def _capability(facts: Facts, major: int, minor: int, text: str) -> KnownGpu:
    known = facts.gpus.capabilities
    if f"{major}.{minor}" not in known:
        raise UsageError(f"no GPU has compute capability {text}", hint=f"there are {', '.join(known)}")
    return KnownGpu(f"capability {major}.{minor}", (major, minor))


def _plain(text: str) -> str:
    """The name without vendor, form factor, memory, spaces and dashes; a laptop part stays one."""
    text = re.sub(r"\bmig \d.*", "", re.sub(r"[-_/()]", " ", text.lower()))
    text = re.sub(r"max q", "maxq", text)
    laptop = bool(_LAPTOP.search(text))
    text = _NOISE.sub(" ", _LAPTOP.sub(" ", text))
    return re.sub(r"[^a-z0-9]", "", text) + ("laptop" if laptop else "")


def _index(facts: Facts) -> dict[str, list[KnownGpu]]:
    """Every spelling: the plain name, and that without its family words."""
    return facts.derived("gpus by spelling", _make_index)


def _make_index(facts: Facts) -> dict[str, list[KnownGpu]]:
    index: dict[str, list[KnownGpu]] = {}
    for group in facts.gpus.groups:
        major, minor = map(int, group.cc.split("."))
        spellings = [*((n, n) for n in group.names), *group.aliases.items()]
        for spelling, name in spellings:
            gpu = KnownGpu(
                name.removeprefix("GeForce ").removeprefix("Tesla "),
                (major, minor),
                group.line,
                not group.unverified,
            )
            for plain in _spellings(spelling):
                known = index.setdefault(plain, [])
                if gpu not in known:
                    known.append(gpu)
    return index


def _attempts(wanted: str) -> list[str]:
    """What to look up in turn: the name, that without its line, each also as the desktop part of a laptop's."""
    names = [wanted]
    words = wanted.removeprefix("nvidia").split()
    if len(words) > 1 and words[0] in _VENDOR_LINES:
        names.append(" ".join(words[1:]))
    return [_plain(n) for n in names] + [_plain(_LAPTOP.sub(" ", n)) for n in names]


def _spellings(name: str) -> set[str]:
    """The plain name, that without family words in front, and each without the generation behind."""
    words = re.sub(r"[-_/()]", " ", name.lower()).split()
    found = set()
    while True:
        found.add(_plain(" ".join(words)))
        if words[-1] in _GENERATIONS and len(words) > 1:
            found.add(_plain(" ".join(words[:-1])))
        if len(words) == 1 or words[0] not in _FAMILIES:
            return found
        words = words[1:]


def _hint(facts: Facts, wanted: str) -> str:
    index = _index(facts)
    near = difflib.get_close_matches(_plain(wanted), list(index), n=5, cutoff=0.5)
    names = list(dict.fromkeys(gpu.name for plain in near for gpu in index[plain]))[:3]
    also = "a compute capability such as 8.6 is taken too"
    return f"did you mean {' or '.join(names)}? {also}" if names else also
