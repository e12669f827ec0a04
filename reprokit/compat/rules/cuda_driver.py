"""CUDA with the driver: the driver a release ships with, minor-version compatibility, and PTX."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rule import GPU, Problem, Verdict, combined, error, rule, unknown, warning
from reprokit.compat.torch_wheel import torch_wheels
from reprokit.compat.version import key, parts, series
from reprokit.compat.view import View


@rule("cuda-driver", changes="cuda torch driver", purposes=GPU)
def cuda_driver(view: View) -> Iterator[Problem]:
    driver = view.driver
    if driver is None:
        return
    if cuda := view.known("cuda"):
        verdict = combined((f"CUDA {v}", _judge(view, v, driver)) for v in cuda.versions)
        if verdict:
            yield Problem((cuda.label, f"driver={driver}"), verdict)
    torch = view.known("torch")
    if torch and view.stack.purpose in ("run", "compile") and not torch.from_base:
        verdict = combined(
            (w.label, _judge(view, w.cuda, driver))
            for w in torch_wheels(view.facts, torch.versions, torch.local)
            if w.cuda and not w.uncertain and series(w.cuda) in view.facts.cuda.toolkits
        )
        # A wheel of CUDA 11 or later runs on its family's oldest driver; what it cannot do there matters to few.
        if verdict and verdict.severity == "error":
            yield Problem((torch.label, f"driver={driver}"), verdict)


def _judge(view: View, release: str, driver: str) -> Verdict | None:
    """A CUDA release (or minor) on a driver."""
    minor = series(release)
    toolkit = view.facts.cuda.toolkits[minor]
    family, by_release, stated = toolkit.family_driver_min, toolkit.driver_by_release, toolkit.driver_min
    sources = toolkit.source
    named = release if release in by_release else minor
    shipped = by_release.get(release) or (min(by_release.values(), key=key) if by_release else stated)
    if shipped is None:
        if family and key(driver) < key(family):
            return error(f"CUDA {minor} needs driver {family} or later", ("nv_compat", *sources))
        reason = f"no fact says which driver CUDA {minor} ships with; its family needs {family} or later"
        return unknown(reason, sources)
    if key(driver) >= key(shipped):
        if release == minor or stated is None or key(driver) >= key(stated) or key(shipped) > key(stated):
            return None
        return warning(f"the release notes of CUDA {minor} ask for driver {stated} or later", sources)
    if family is None:
        reason = f"CUDA {named} needs driver {shipped} or later: before CUDA 11 a driver runs no newer CUDA"
        return error(reason, sources)
    if key(driver) < key(family):
        major = minor.split(".")[0]
        reason = f"CUDA {named} ships with driver {shipped}, and every CUDA {major} needs driver {family} or later"
        return error(reason, (*sources, "nv_compat"))
    if view.stack.purpose == "ptx":
        reason = f"PTX of CUDA {named} needs driver {shipped} or later: a driver cannot compile PTX of a newer toolkit"
        return error(reason, (*sources, "nvbandwidth_61"))
    return warning(
        f"CUDA {named} ships with driver {shipped}; driver {driver} runs it by minor-version compatibility: newer "
        "features are missing and PTX cannot be compiled, so compile for the GPU's own capability",
        (*sources, "nv_compat", "nvbandwidth_61"),
    )


@rule("recipe-driver", changes="driver", purposes=GPU)
def required(view: View) -> Iterator[Problem]:
    """The lowest driver that a recipe states."""
    driver, needs = view.driver, view.stack.requires_driver
    if driver and needs and parts(needs) and key(driver) < key(needs):
        yield Problem(
            (f"requires.driver={needs}", f"driver={driver}"), error(f"the recipe needs driver {needs} or later")
        )


@rule("cuda-compat-geforce", changes="driver", purposes=GPU)
def geforce(view: View) -> Iterator[Problem]:
    """cuda-compat inside an image, on a GeForce card with a driver older than the toolkit's."""
    driver, cuda, base = view.driver, view.known("cuda"), view.base
    if driver is None or cuda is None or base is None or base.kind != "nvidia_cuda":
        return
    verdicts = [_judge(view, v, driver) for v in cuda.versions]
    for gpu in view.stack.gpus:
        if gpu.line in ("geforce", "titan") and all(v is not None and v.severity == "warning" for v in verdicts):
            reason = (
                "the image's cuda-compat libraries do not support GeForce cards: if they come first on the library "
                "path, CUDA fails with Error 804 although the driver itself would work"
            )
            yield Problem((f"base={base.text}", gpu.label, f"driver={driver}"), warning(reason, ("gump_1",)))
