"""CUDA with the host compiler: nvcc's own limits, libstdc++ troubles, and the compiler a distribution brings."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.verdict import Clash, Verdict, error, info, shared, warning
from reprokit.compat.version import at_most, begins, key, series
from reprokit.compat.view import View


def gcc(view: View) -> Iterator[Clash]:
    cuda, pinned = view.known("cuda"), view.known("gcc")
    if cuda is None or pinned is None:
        return
    cases = ((f"CUDA {c} with gcc {g}", judge_gcc(view, c, g)) for c in cuda.versions for g in pinned.versions)
    verdict = shared(cases)
    if verdict:
        yield (cuda.label, pinned.label), verdict


def judge_gcc(view: View, release: str, version: str) -> Verdict | None:
    facts = view.facts["cuda"]
    toolkit = facts["toolkits"][series(release, 2)]
    limits, sources = toolkit["gcc"], toolkit["source_host"]
    limit = limits.get("max_by_release", {}).get(release, limits["max"])
    if not at_most(version, limit):
        return error(f"nvcc of CUDA {release} accepts gcc up to {limit}, not {series(version, 1)}", sources)
    if limits["min"] and key(version) < key(limits["min"]):
        return error(f"CUDA {release} supports gcc from {limits['min']}, not {version}", sources)
    for caution in facts["cautions"]:
        if not any(begins(r, release) or begins(release, r) for r in caution["releases"]):
            continue
        if key(caution["gcc_from"]) <= key(version) < key(caution["gcc_below"]):
            say = warning if caution["severity"] == "warning" else info
            return say(f"CUDA {release} with gcc {version}: {caution['text']}", caution["source"])
    return None


def clang(view: View) -> Iterator[Clash]:
    cuda, pinned = view.known("cuda"), view.known("clang")
    if cuda is None or pinned is None:
        return
    # Beside a gcc, clang is not the compiler that nvcc calls.
    beside = view.pin("gcc") is not None
    cases = [(f"CUDA {c} with clang {v}", _judge_clang(view, c, v)) for c in cuda.versions for v in pinned.versions]
    verdict = shared(cases)
    if verdict and not (beside and verdict.severity != "error"):
        if beside:
            verdict = info(f"{verdict.reason}; gcc is pinned too, so let nvcc use that", verdict.sources)
        yield (cuda.label, pinned.label), verdict


def _judge_clang(view: View, release: str, version: str) -> Verdict | None:
    toolkit = view.facts["cuda"]["toolkits"][series(release, 2)]
    limits, sources = toolkit["clang"], toolkit["source_host"]
    limit = limits.get("max_by_release", {}).get(release, limits["max"])
    # "8.0" is the whole of clang 8; before 4 the second number counts.
    bound = limit if key(limit)[0] < 4 else series(limit, 1)
    if not at_most(version, bound):
        return error(f"CUDA {release} accepts clang up to {limit}, not {version}", sources)
    if key(version) < key(limits["min"]):
        return error(f"CUDA {release} accepts clang from {limits['min']}, not {version}", sources)
    return None


def default_gcc(view: View) -> Iterator[Clash]:
    """No compiler is pinned: the distribution's own is what nvcc finds."""
    cuda, distro = view.known("cuda"), view.known("distro")
    if cuda is None or distro is None or view.pin("gcc") or view.pin("clang"):
        return
    facts = view.facts["distros"]["distros"][distro.versions[0]]
    package = facts.get("cuda_package") or {}
    if any(begins(v, package.get("cuda", "0")) or begins(package.get("cuda", "0"), v) for v in cuda.versions):
        return  # Debian's CUDA packages bring a host compiler that fits.
    verdict = shared((v, judge_gcc(view, v, facts["gcc"])) for v in cuda.versions)
    if verdict and verdict.severity in ("error", "warning"):
        yield (
            (cuda.label, distro.label),
            warning(
                f"gcc is not pinned, and that of {distro.versions[0]} is {facts['gcc']}: {verdict.reason}. Pin gcc",
                (*verdict.sources, *facts["source"]),
            ),
        )
