"""Single pins: versions that no fact covers, that never existed, or that stand for several releases."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.releases import releases
from reprokit.compat.rule import Problem, Verdict, error, info, rule, unknown, warning
from reprokit.compat.rules.distro import offered
from reprokit.compat.schema import rows_for
from reprokit.compat.version import key, older, overlap, parts, public, series
from reprokit.compat.view import Pin, View
from reprokit.recipe.pin_names import PACKAGES


@rule("cuda-release", changes="cuda")
def never_released(view: View) -> Iterator[Problem]:
    """A CUDA that NVIDIA skipped."""
    pin = view.pin("cuda")
    if pin and (gap := view.facts.cuda.never_released.get(series(pin.text))):
        yield Problem((pin.label,), error(gap.text, gap.source))


@rule("torch-release", changes="torch torchvision")
def skipped(view: View) -> Iterator[Problem]:
    """A torch or torchvision of a series that was never published; the facts list every release."""
    for name in ("torch", "torchvision"):
        if (pin := view.pin(name)) and (between := _gap(view, pin)):
            reason = f"there is no {name} {series(pin.text)}: {between[0]} is followed by {between[1]}"
            yield Problem((pin.label,), error(reason, ("pypi_links",)))


@rule("torch-index", changes="torch")
def elsewhere(view: View) -> Iterator[Problem]:
    """A torch that is on no index that pip uses by default."""
    pin = view.pin("torch")
    if pin is None or pin.from_base or not parts(pin.text):
        return
    for row in rows_for(view.facts.torch_build.elsewhere, public(pin.text)):
        yield Problem((pin.label,), warning(f"pip does not find torch {public(pin.text)}: {row.text}", row.source))


@rule("cudnn-release", changes="cudnn")
def cudnn_release(view: View) -> Iterator[Problem]:
    """A cuDNN that was never published."""
    pin, facts = view.pin("cudnn"), view.facts.cudnn
    if pin is None or not parts(pin.text) or any(overlap(pin.text, v) for v in facts.published):
        return
    before = max((v for v in facts.published if older(v, pin.text)), key=key, default="")
    after = min((v for v in facts.published if older(pin.text, v)), key=key, default="")
    if before and after:
        reason = f"there is no cuDNN {pin.text}: {before} is followed by {after}"
        yield Problem((pin.label,), error(reason, facts.source_published))


def _gap(view: View, pin: Pin) -> tuple[str, str] | None:
    """The releases around a torch or torchvision that was never published."""
    versions = releases(view.facts, pin.name) if pin.name in ("torch", "torchvision") else ()
    later = [v for v in versions if parts(pin.text) and key(v) > key(public(pin.text))]
    if pin.versions or not later or later[0] == versions[0]:
        return None
    return versions[versions.index(later[0]) - 1], later[0]


@rule("unpinned")
def exact(view: View) -> Iterator[Problem]:
    for name in ("torch", "torchvision", "dgl", "numpy", "flash_attn", "transformers", *view.facts.wheels, *PACKAGES):
        pin = view.pin(name) if view.stack.pinned_exactly else None
        parsed = parts(pin.text) if pin else None
        if pin and parsed and len(parsed[0]) < 3 and len(pin.versions) > 1:
            reason = f"{pin.text} stands for {len(pin.versions)} releases, and pip takes the newest; pin one of them"
            yield Problem((pin.label,), warning(reason, ("by_hand",)))


@rule("no-fact")
def covered(view: View) -> Iterator[Problem]:
    for name in view.stack.pins:
        pin = view.pin(name)
        if pin is None or name == "base":
            continue
        if pin.versions:
            if name != "distro" and not overlap(public(pin.text), pin.versions[0]):
                reason = f"no fact covers {pin.label}; judged as {pin.versions[0]}, of the same series"
                yield Problem((pin.label,), info(reason))
            continue
        if name == "cuda" and series(pin.text) in view.facts.cuda.never_released:
            continue
        if _gap(view, pin):
            continue  # `torch-release` has an error
        versions = releases(view.facts, name)
        span = f"; it knows {versions[0]} to {versions[-1]}" if versions else ""
        distro = view.known_pin("distro")
        has = offered(view, distro.versions[0], name) if distro else ()
        span += f"; {distro.versions[0]} has {name} {', '.join(has)}" if distro and has else ""
        yield Problem((pin.label,), unknown(f"reprokit does not know {pin.label}, and cannot check it{span}"))


@rule("locked-pin")
def locked(view: View) -> Iterator[Problem]:
    """A locked version that differs from its pin: the pin's block refuses it."""
    for name, resolved in view.stack.resolved.items():
        pinned = view.stack.pins.get(name)
        if pinned and parts(pinned) and not overlap(pinned, resolved.version):
            reason = f"{name} {resolved.version} is {resolved.origin}, but the pin is {pinned}"
            yield Problem((f"{name}={pinned}",), Verdict("warning", reason, remedy=f"pin {name}={resolved.version}"))
