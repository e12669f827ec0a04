"""GPUs: their names as users write them, and their peak rates."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from reprokit.compat.facts import Facts
from reprokit.compat.model import KnownGpu
from reprokit.compat.schema import PeakRow
from reprokit.errors import UsageError

# Words in product names that do not change the capability.
_NOISE = re.compile(
    r"\b(nvidia|corporation|graphics|device|gpu|generation|edition|workstation|server|with|design"
    r"|pcie?|sxm\d?|nvl\d*|dgxs?|hgx|ls|hbm\d?e?|gddr\dx?|(?:mobile|max-?q)|\d+ ?g[bi]?b?)\b"
)
_LAPTOP = re.compile(r"\b(laptop|mobile|notebook|max-?q)\b")
_VENDOR_LINES = ("geforce", "tesla", "quadro")
_GENERATIONS = ("ada", "blackwell", "pascal")
_FAMILIES = ("geforce", "tesla", "quadro", "rtx", "gtx", "gt", "jetson", "agx")


def parse_gpu(facts: Facts, text: str) -> KnownGpu | None:
    """The GPU of a name, None for `none`. Raises UsageError for unknown names and for names of several GPUs."""
    name = text.strip().lower()
    if name == "none":
        return None
    bare = re.fullmatch(r"(?:sm_?|compute_?)?(\d{1,2})\.?(\d)[af]?", name)
    if bare and ("." in name or not name[0].isdigit()):
        return _capability(facts, int(bare[1]), int(bare[2]), text)
    index = facts.derived("gpus by spelling", _by_spelling)
    matches = next((gpus for s in _attempts(name) if (gpus := index.get(s))), [])
    if len({gpu.capability for gpu in matches}) == 1:
        return matches[0]
    if matches:
        names = ", ".join(sorted(gpu.name for gpu in matches))
        raise UsageError(
            f"several GPUs are called {text!r}", hint=f"write one of {names}, or a compute capability such as 8.6"
        )
    raise UsageError(f"unknown GPU {text!r}", hint=_hint(facts, name))


def _capability(facts: Facts, major: int, minor: int, text: str) -> KnownGpu:
    capabilities = facts.gpus.capabilities
    if f"{major}.{minor}" not in capabilities:
        raise UsageError(f"no GPU has compute capability {text}", hint=f"capabilities are {', '.join(capabilities)}")
    return KnownGpu(f"capability {major}.{minor}", (major, minor))


def _plain(text: str) -> str:
    """The name without vendor, form factor, memory, spaces and dashes; laptop GPUs keep a mark."""
    text = re.sub(r"\bmig \d.*", "", re.sub(r"[-_/()]", " ", text.lower()))
    text = re.sub(r"max q", "maxq", text)
    laptop = bool(_LAPTOP.search(text))
    text = _NOISE.sub(" ", _LAPTOP.sub(" ", text))
    return re.sub(r"[^a-z0-9]", "", text) + ("laptop" if laptop else "")


def _by_spelling(facts: Facts) -> dict[str, list[KnownGpu]]:
    """GPUs by every spelling of their names."""
    index: dict[str, list[KnownGpu]] = {}
    for group in facts.gpus.groups:
        major, minor = map(int, group.cc.split("."))
        spellings = [*((n, n) for n in group.names), *group.aliases.items()]
        for spelling, name in spellings:
            name = name.removeprefix("GeForce ").removeprefix("Tesla ")
            gpu = KnownGpu(name, (major, minor), group.line, not group.unverified)
            for plain in _spellings(spelling):
                gpus = index.setdefault(plain, [])
                if gpu not in gpus:
                    gpus.append(gpu)
    return index


def _attempts(name: str) -> list[str]:
    """Spellings to look up in turn: the name, the name without its line, and both without a laptop mark."""
    names = [name]
    words = name.removeprefix("nvidia").split()
    if len(words) > 1 and words[0] in _VENDOR_LINES:
        names.append(" ".join(words[1:]))
    return [_plain(n) for n in names] + [_plain(_LAPTOP.sub(" ", n)) for n in names]


def _spellings(name: str) -> set[str]:
    """The plain name, also without its leading family words and its trailing generation."""
    words = re.sub(r"[-_/()]", " ", name.lower()).split()
    spellings = set()
    while True:
        spellings.add(_plain(" ".join(words)))
        if words[-1] in _GENERATIONS and len(words) > 1:
            spellings.add(_plain(" ".join(words[:-1])))
        if len(words) == 1 or words[0] not in _FAMILIES:
            return spellings
        words = words[1:]


def _hint(facts: Facts, name: str) -> str:
    index = facts.derived("gpus by spelling", _by_spelling)
    near = difflib.get_close_matches(_plain(name), list(index), n=5, cutoff=0.5)
    names = list(dict.fromkeys(gpu.name for plain in near for gpu in index[plain]))[:3]
    also = "or write a compute capability such as 8.6"
    return f"did you mean {' or '.join(names)}? {also}" if names else "write a compute capability such as 8.6"


# Slices of a GPU, and laptop models: their clocks are not those of the data sheet.
_OTHER_CLOCKS = re.compile(r"\b(mig|laptop|mobile|max-?q)\b", re.IGNORECASE)
_TRANSFERS = 2  # a clock


@dataclass(frozen=True)
class DevicePeaks:
    """GFLOP/s of float32 and of float16 in tensor cores (None without them), GB/s of the memory, and the source."""

    name: str
    fp32: float
    tensor: float | None
    bandwidth: float
    how: str
    sources: tuple[str, ...]


def peaks_of(facts: Facts, name: str) -> DevicePeaks | None:
    """The peaks of a GPU by any of its names, such as `Tesla V100-SXM2-16GB`; None without a data sheet."""
    try:
        gpu = None if _OTHER_CLOCKS.search(name) else parse_gpu(facts, name)
    except UsageError:
        return None
    words = set(re.findall(r"[a-z]+|\d+gb", name.lower()))
    fits = (row for row in facts.peaks.gpus if gpu and row.name == gpu.name and words >= set(row.words))
    return next(map(_peaks, fits), None)


def known_peaks(facts: Facts) -> list[DevicePeaks]:
    """All GPUs of the table."""
    return [_peaks(row) for row in facts.peaks.gpus]


def _peaks(row: PeakRow) -> DevicePeaks:
    fp32 = 2 * row.cores * row.boost_mhz / 1e3
    how = f"{row.cores} cores x 2 x {row.boost_mhz} MHz"
    bandwidth = float(row.bandwidth_gbs)
    if row.memory_mhz:
        bandwidth = row.memory_mhz * row.bus_bits * _TRANSFERS / 8e3
        how += f"; {row.memory_mhz} MHz x {row.bus_bits} bit x {_TRANSFERS}"
    name = " ".join([row.name, *(word.upper() for word in row.words)])
    return DevicePeaks(name, fp32, row.tensor_gflops, bandwidth, how, row.source)
