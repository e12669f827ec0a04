"""CUDA with the host compiler: the limits of nvcc, known trouble, and the compiler of the distribution."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rule import COMPILE, Problem, Verdict, combination_rule, combined, error, info, rule, warning
from reprokit.compat.version import at_most, key, overlap, series
from reprokit.compat.view import View


def judge_gcc(view: View, release: str, version: str) -> Verdict | None:
    """A CUDA release with a release of gcc as nvcc's host compiler."""
    toolkit = view.facts.cuda.toolkits[series(release)]
    newest, oldest = toolkit.gcc.newest(release), toolkit.gcc.min
    if not at_most(version, newest):
        reason = f"nvcc of CUDA {release} accepts gcc up to {newest}, not {series(version, 1)}"
        return error(reason, toolkit.source_host)
    if oldest and key(version) < key(oldest):
        return error(f"nvcc of CUDA {release} needs gcc {oldest} or later, not {version}", toolkit.source_host)
    for caution in view.facts.cuda.cautions:
        affected = any(overlap(r, release) for r in caution.releases)
        if affected and key(caution.gcc_from) <= key(version) < key(caution.gcc_below):
            reason = f"CUDA {release} with gcc {version}: {caution.text}"
            return Verdict(caution.severity, reason, caution.source)
    return None


gcc = combination_rule("cuda-gcc", of="cuda gcc", purposes=COMPILE)(judge_gcc)


@rule("cuda-clang", changes="cuda clang", purposes=COMPILE)
def clang(view: View) -> Iterator[Problem]:
    cuda, pinned = view.known("cuda"), view.known("clang")
    if cuda is None or pinned is None:
        return
    verdict = combined(
        (f"CUDA {c} with clang {v}", _judge_clang(view, c, v)) for c in cuda.versions for v in pinned.versions
    )
    # Beside a gcc, clang is not the compiler that nvcc calls.
    if verdict and view.pin("gcc"):
        if verdict.severity != "error":
            return
        verdict = info(f"{verdict.reason}; gcc is pinned too, so let nvcc use gcc", verdict.sources)
    if verdict:
        yield Problem((cuda.label, pinned.label), verdict)


def _judge_clang(view: View, release: str, version: str) -> Verdict | None:
    toolkit = view.facts.cuda.toolkits[series(release)]
    newest, oldest = toolkit.clang.newest(release), toolkit.clang.min
    # "8.0" is the whole of clang 8; before 4 the second number counts.
    if not at_most(version, newest if key(newest)[0] < 4 else series(newest, 1)):
        return error(f"nvcc of CUDA {release} accepts clang up to {newest}, not {version}", toolkit.source_host)
    if oldest and key(version) < key(oldest):
        return error(f"nvcc of CUDA {release} needs clang {oldest} or later, not {version}", toolkit.source_host)
    return None


@rule("cuda-default-gcc", changes="cuda distro", purposes=COMPILE)
def default_gcc(view: View) -> Iterator[Problem]:
    """No compiler is pinned, so nvcc finds the distribution's."""
    cuda, distro = view.known("cuda"), view.known("distro")
    if cuda is None or distro is None or view.pin("gcc") or view.pin("clang"):
        return
    name = distro.versions[0]
    facts = view.distro(name)
    if facts.cuda_package and any(overlap(v, facts.cuda_package.cuda) for v in cuda.versions):
        return  # Debian's CUDA packages depend on a host compiler that fits.
    verdict = combined((f"CUDA {v}", judge_gcc(view, v, facts.gcc)) for v in cuda.versions)
    if verdict and verdict.severity in ("error", "warning"):
        reason = f"gcc is not pinned, and {name} has gcc {facts.gcc}: {verdict.reason}. Pin gcc"
        yield Problem((cuda.label, distro.label), warning(reason, (*verdict.sources, *facts.source)))
