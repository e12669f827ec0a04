"""CUDA with the driver: the driver a release ships with, minor-version compatibility, and PTX."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rules.torch_wheel import wheels
from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.version import key, parts, series
from reprokit.compat.view import View


def check(view: View) -> Iterator[Clash]:
    driver = view.stack.driver
    if not driver or not parts(driver):
        return
    cuda = view.known("cuda")
    if cuda:
        verdict = shared((v, judge(view, v, driver)) for v in cuda.versions)
        if verdict:
            yield (cuda.label, f"driver={driver}"), verdict
    torch = view.known("torch")
    if torch and view.stack.purpose in ("run", "compile") and not torch.from_base:
        cases = [
            (f"torch {w.version} (CUDA {w.cuda})", judge(view, w.cuda, driver))
            for w in wheels(view, torch)
            if w.cuda and not w.uncertain and series(w.cuda) in view.facts["cuda"]["toolkits"]
        ]
        verdict = shared(cases)
        # The wheel's own CUDA 11 or later needs only its family's driver; that it may do less is not news for a wheel.
        if verdict and verdict.severity == "error":
            yield (torch.label, f"driver={driver}"), verdict


def judge(view: View, release: str, driver: str) -> Verdict | None:
    """A CUDA release (or minor) on a driver."""
    minor = series(release, 2)
    toolkit = view.facts["cuda"]["toolkits"][minor]
    family = toolkit["family_driver_min"]
    sources = toolkit["source"]
    by_release = toolkit["driver_by_release"]
    named = release if release in by_release else minor
    least = by_release.get(release) or (min(by_release.values(), key=key) if by_release else toolkit["driver_min"])
    if least is None:
        if family and key(driver) < key(family):
            return error(f"CUDA {minor} needs driver {family} or later", ("nv_compat", *sources))
        return unknown(f"the driver that CUDA {minor} ships with is not known here; its family needs {family}", sources)
    stated = toolkit["driver_min"]
    if key(driver) >= key(least):
        if release == minor or key(driver) >= key(stated) or key(least) > key(stated):
            return None
        return warning(f"the release notes of CUDA {minor} ask for driver {stated}", sources)
    if family is None:
        return error(
            f"CUDA {named} needs driver {least} or later: before CUDA 11 a driver serves no newer CUDA", sources
        )
    if key(driver) < key(family):
        return error(
            f"CUDA {named} ships with driver {least}, and no CUDA {minor.split('.')[0]} runs below {family}",
            (*sources, "nv_compat"),
        )
    if view.stack.purpose == "ptx":
        return error(
            f"PTX of CUDA {named} needs driver {least} or later: a driver compiles no PTX of a newer toolkit",
            (*sources, "nvbandwidth_61"),
        )
    return warning(
        f"CUDA {named} ships with driver {least}; {driver} runs it by minor-version compatibility only: newer "
        "features are missing and PTX is not compiled, so code must be built for the GPU itself",
        (*sources, "nv_compat", "nvbandwidth_61"),
    )


def required(view: View) -> Iterator[Clash]:
    """The lowest driver that a recipe states."""
    driver, needs = view.stack.driver, view.stack.requires_driver
    if driver and needs and parts(driver) and parts(needs) and key(driver) < key(needs):
        yield (f"requires.driver={needs}", f"driver={driver}"), error(f"the recipe needs driver {needs} or later")


def geforce(view: View) -> Iterator[Clash]:
    """cuda-compat inside an image, on a GeForce card below the toolkit's own driver."""
    driver, cuda, base = view.stack.driver, view.known("cuda"), view.base
    if not driver or not parts(driver) or cuda is None or base is None or base.kind != "nvidia_cuda":
        return
    for gpu in view.stack.gpus:
        if gpu.line in ("geforce", "titan"):
            verdicts = [judge(view, v, driver) for v in cuda.versions]
            if all(v is not None and v.severity == "warning" for v in verdicts):
                yield (
                    (base_label(base.text), gpu.label, f"driver={driver}"),
                    warning(
                        "the image's cuda-compat libraries do not serve GeForce cards: where they come first on the "
                        "library path, CUDA fails with Error 804 although the driver itself would do",
                        ("gump_1",),
                    ),
                )


def base_label(text: str) -> str:
    return f"base={text}"
