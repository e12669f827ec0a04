"""Evaluate a stack: findings, each with the nearest pins that resolve it according to the rules.

The same facts and the same stack give the same list.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from reprokit.compat.base import nvidia_references, parse_base
from reprokit.compat.facts import Facts
from reprokit.compat.model import SEVERITIES, Finding, ResolvedVersion, Stack
from reprokit.compat.releases import build_of_cuda, releases, suggestions
from reprokit.compat.rule import CompatRule
from reprokit.compat.rules import RULES
from reprokit.compat.version import begins, key, key_or_zero, public
from reprokit.compat.view import View
from reprokit.recipe.pin_names import NOT_ON_PYPI

_FULL_CHECKS = 6  # candidates checked with all other rules; each takes a complete evaluation


def evaluate(facts: Facts, stack: Stack, rules: Iterable[CompatRule] = RULES) -> list[Finding]:
    """The findings on a stack: errors, warnings, unknown, info; each with the nearest pins that resolve it."""
    view = View(facts, stack)
    findings = [
        _with_nearest(finding, _nearest(rule, finding, view)) if finding.severity in ("error", "warning") else finding
        for rule, finding in judge(view, rules)
    ]
    return sorted(dict.fromkeys(findings), key=lambda finding: SEVERITIES.index(finding.severity))


def one_pin_is_enough(facts: Facts, stack: Stack, findings: list[Finding]) -> bool:
    """Whether one of the `nearest` pins ends all errors."""
    view = View(facts, stack)
    offered = dict.fromkeys(pin for finding in findings if finding.severity == "error" for pin in finding.nearest)
    changes = (pin.partition("=") for pin in offered)
    return any(not _errors(view.changed(name, value)) for name, _, value in changes)


def judge(view: View, rules: Iterable[CompatRule] = RULES) -> Iterator[tuple[CompatRule, Finding]]:
    """Each rule with its findings, without `nearest`."""
    for rule in rules:
        about = not rule.about or rule.about in view.stack.pins or rule.about in view.stack.resolved
        if view.stack.purpose not in rule.purposes or not about:
            continue
        for problem in rule.check(view):
            subjects, verdict = problem.subjects, problem.verdict
            if verdict is None:
                continue
            resolved = _resolved(view, subjects)
            if len(resolved) == len(subjects) and all(origin.matched for origin in resolved.values()):
                continue
            severity, reason = verdict.severity, verdict.reason
            if severity == "error" and any(g.label in subjects for g in view.stack.gpus if not g.verified):
                severity = "warning"
                reason += " (its capability is not verified: see `nvidia-smi --query-gpu=compute_cap`)"
            if severity == "error" and rule.id.endswith("-python") and any(v.built for v in resolved.values()):
                severity = "warning"
                reason += ": its sdist is built instead"
            for origin in dict.fromkeys(v.origin for v in resolved.values() if v.origin):
                versions = [subject.replace("=", " ", 1) for subject, v in resolved.items() if v.origin == origin]
                reason += f" ({' and '.join(versions)}: {origin})"
            sources, remedy, doubtful = verdict.sources, verdict.remedy, verdict.doubtful
            yield rule, Finding(severity, rule.id, subjects, reason, (), sources, remedy, "", doubtful)


def _resolved(view: View, subjects: Iterable[str]) -> dict[str, ResolvedVersion]:
    """The resolved versions among the subjects: those that are no pin of the user."""
    if not view.stack.resolved:
        return {}
    pins = ((subject, view.pin(subject.partition("=")[0])) for subject in subjects)
    return {subject: pin.resolved for subject, pin in pins if pin and pin.resolved and pin.label == subject}


def _with_nearest(finding: Finding, nearest: tuple[str, ...]) -> Finding:
    """The finding with the nearest pins, which are its remedy unless the rule names one."""
    pins = [pin for pin in nearest if not pin.startswith("driver=")]
    ways = [f"pin {', or '.join(pins)}"] if pins else []
    ways += [f"install driver {pin.partition('=')[2]} or later" for pin in nearest if pin not in pins]
    names = dict.fromkeys(subject.partition("=")[0] for subject in finding.subjects)
    fallback = f"no version that works is known: change {' or '.join(names)}"
    return replace(finding, nearest=nearest, remedy=finding.remedy or "; or ".join(ways) or fallback)


def _nearest(rule: CompatRule, finding: Finding, view: View) -> tuple[str, ...]:
    """Pins such as `cuda=11.1` that resolve the finding, at most one for each pin that may change (two for torch).

    A pin that causes no new error is preferred to a nearer one that does.
    """
    pins = []
    about = _kinds(finding)
    # Other errors of the same pins should end, too.
    before = {error for error in _errors(view) if error.partition("|")[2] != about}
    for name in _changing(rule, finding):
        for number, offered in enumerate(options(view, name)):
            best = _best(rule, finding, view, offered, before, clean_only=number > 0)
            if best:
                pins.append(f"{best[0]}={best[1]}")
    return tuple(dict.fromkeys(pins))


def _changing(rule: CompatRule, finding: Finding) -> tuple[str, ...]:
    """The pins for which other releases are offered: those of the rule, or for `*` those in the finding."""
    return tuple(s.partition("=")[0] for s in finding.subjects) if rule.changes == ("*",) else rule.changes


def _best(
    rule: CompatRule,
    finding: Finding,
    view: View,
    options: list[tuple[str, str]],
    before: set[str],
    clean_only: bool,
) -> tuple[str, str] | None:
    """The first option without findings; for an error also the first with a warning only."""
    clean, tolerable = [], []
    for name, text in options:
        changed = view.changed(name, text)
        state = _state(rule, finding, changed, name)
        if state == "clean":
            if not _errors(changed) - before:
                return name, text
            clean.append((name, text))
            if len(clean) == _FULL_CHECKS:
                break
        elif state == "tolerable" and finding.severity == "error" and not clean_only:
            tolerable.append((name, text))
    if not clean:
        for name, text in tolerable[:_FULL_CHECKS]:
            if not _errors(view.changed(name, text)) - before:
                return name, text
    return next(iter(clean or tolerable), None)


def _state(rule: CompatRule, finding: Finding, view: View, name: str) -> str:
    """`clean` if the rule has no more findings on these subjects, `tolerable` if it only warns, else `bad`."""
    others = _others(finding.subjects, name)
    findings = (f for _, f in judge(view, (r for r in RULES if r.id == rule.id)))
    severities = {f.severity for f in findings if f.severity != "info" and _others(f.subjects, name) >= others}
    if not severities:
        return "clean"
    return "bad" if severities & {"error", "unknown"} else "tolerable"


def _others(subjects: tuple[str, ...], name: str) -> frozenset[str]:
    """The subjects that stay the same when `name` changes; a new base also changes what it contains."""
    gone = ("base", "cuda", "cudnn", "distro", "torch", "python") if name == "base" else (name,)
    return frozenset(s for s in subjects if s.partition("=")[0] not in gone)


def _errors(view: View) -> set[str]:
    """Errors by rule and by the names of their pins; GPUs with their model."""
    return {f"{f.rule}|{_kinds(f)}" for _, f in judge(view) if f.severity == "error"}


def _kinds(finding: Finding) -> str:
    return ",".join(s if s.startswith("gpu=") else s.partition("=")[0] for s in finding.subjects)


def options(view: View, name: str) -> Iterator[list[tuple[str, str]]]:
    """Lists of replacements, nearest first. One of each list is offered; after the first list only if it is clean."""
    if name == "driver":
        if view.stack.driver:
            yield _ordered(view.stack.driver, [("driver", d) for d in _drivers(view)])
        return
    if name == "base":
        if view.base:
            yield _bases(view)
        return
    pin = view.pin(name)
    if pin is None:
        return
    if pin.from_base:
        yield _bases(view)
    elif name == "distro":
        yield [("distro", d) for d in _distros(view, pin.versions[0] if pin.versions else pin.text)]
    elif name == "torch":
        yield from _torches(view, pin.text)
    elif name == "torchvision" and pin.local.startswith("cu"):
        yield _ordered(pin.text, [(name, text) for text in _torchvisions(view)])
    else:
        build = f"+{pin.local}" if pin.local else ""
        of_build = name == "dgl" and build  # DGL releases on PyPI for a CUDA such as cu102
        candidates = view.facts.dgl.pypi_cuda.get(f"dgl-{pin.local}", ()) if of_build else suggestions(view.facts, name)
        # gcc 10 is no alternative to 10.3.
        yield _ordered(pin.text, [(name, v + build) for v in candidates if not begins(v, public(pin.text))])


def _torches(view: View, text: str) -> Iterator[list[tuple[str, str]]]:
    """Wheels with a CUDA build, then those of PyPI."""
    table = view.facts.torch.releases
    versions = releases(view.facts, "torch")
    if text.endswith("+cpu"):
        yield _ordered(text, [("torch", f"{v}+cpu") for v in versions])
        return
    builds = [("torch", f"{v}+{build_of_cuda(b)}") for v in versions for b in table[v].builds]
    yield _ordered(text, builds)
    if "+" not in text:
        yield _ordered(text, [("torch", v) for v in versions])


def _torchvisions(view: View) -> Iterator[str]:
    """Every torchvision in the builds of its torch."""
    torches = view.facts.torch.releases
    for version, row in view.facts.torchvision.releases.items():
        for build in torches[row.torch].builds if row.torch in torches else ():
            yield f"{version}+{build_of_cuda(build)}"


def _bases(view: View) -> list[tuple[str, str]]:
    """Other references of the same kind of base, the nearest CUDA or release first."""
    base = view.base
    if base is None:
        return []
    if base.kind == "nvidia_cuda":
        return _nvidia_bases(view)
    if base.kind == "pytorch" and base.flavour == "runtime":
        return [("base", f"{base.repository}:{base.tag.removesuffix('runtime')}devel")]
    if base.kind == "distro":
        return [("base", d) for d in _distros(view, base.implied.get("distro", base.repository + ":"))]
    return []


def _nvidia_bases(view: View) -> list[tuple[str, str]]:
    base = view.base
    assert base is not None
    example = base if base.flavour else parse_base(view.facts, f"{base.repository}:11.0.3-devel-ubuntu20.04")
    references = nvidia_references(view.facts, example)
    if view.stack.purpose == "compile":
        references = [r.replace("-runtime-", "-devel-").replace("-base-", "-devel-") for r in references]
    parsed = {r: parse_base(view.facts, r) for r in references if r != base.text}
    versions = dict.fromkeys(image.implied["cuda"] for image in parsed.values())
    ordered = _ordered(base.implied.get("cuda", "0"), [("cuda", v) for v in versions], same_series_first=True)
    rank = {version: i for i, (_, version) in enumerate(ordered)}
    # For equal CUDA, the base's own distribution first.
    return [
        ("base", r) for r in sorted(parsed, key=lambda r: (rank[parsed[r].implied["cuda"]], parsed[r].os != base.os))
    ]


def _ordered(current: str, options: list[tuple[str, str]], same_series_first: bool = False) -> list[tuple[str, str]]:
    """Sort options by the number of versions in between, then the same major, then lower versions first."""
    at = key_or_zero(public(current))
    keys = sorted({key(text) for _, text in options})
    place = bisect.bisect_left(keys, at)
    exact = place < len(keys) and keys[place] == at

    def distance(option: tuple[str, str]) -> tuple[bool, int, bool, bool]:
        mine = key(option[1])
        index = bisect.bisect_left(keys, mine)
        steps = index - place if exact or index < place else index - place + 1
        return (same_series_first and mine[:2] != at[:2], abs(steps), mine[:1] != at[:1], mine > at)

    return sorted(options, key=distance)


def _distros(view: View, current: str) -> list[str]:
    """Other distributions, the same family first, then by the number of releases in between."""
    names = list(view.facts.distros.distros)
    at = names.index(current) if current in names else 0
    family = current.partition(":")[0]
    others = [n for n in names if n != current and n.startswith((family + ":", "debian:", "ubuntu:"))]
    return sorted(others, key=lambda n: (not n.startswith(family), abs(names.index(n) - at)))


def _drivers(view: View) -> list[str]:
    drivers: set[str] = set()
    for toolkit in view.facts.cuda.toolkits.values():
        drivers.update(toolkit.driver_by_release.values())
        drivers.update(d for d in (toolkit.driver_min, toolkit.family_driver_min) if d)
    return sorted(drivers, key=key)


def package_errors(facts: Facts, stack: Stack) -> list[tuple[CompatRule, Finding]]:
    """Errors between packages or with Python, which other versions of resolved packages may end."""
    return [(r, f) for r, f in judge(View(facts, stack)) if f.severity == "error" and _is_about_packages(f, stack)]


def _is_about_packages(finding: Finding, stack: Stack) -> bool:
    names = [subject.partition("=")[0] for subject in finding.subjects]
    packages = {name for name in (*stack.pins, *stack.resolved) if name not in NOT_ON_PYPI}
    return any(name in stack.resolved for name in names) and set(names) <= packages | {"python"}


def bounds(facts: Facts, stack: Stack, fixed: Collection[str]) -> Iterator[tuple[str, Finding]]:
    """Requirements such as `numpy<2.0`, each with the error that it ends; bounds from above come first.

    The packages in `fixed`, and the pins, keep their versions.
    """
    view = View(facts, stack)
    for rule, finding in package_errors(facts, stack):
        names = [subject.partition("=")[0] for subject in finding.subjects]
        free = [name for name in names if name in stack.resolved and name not in (*fixed, *stack.pins)]
        around = [(name, *_bounds_of(rule, finding, view, name)) for name in free]
        yield from ((f"{name.replace('_', '-')}<{below}", finding) for name, below, _ in around if below)
        yield from ((f"{name.replace('_', '-')}>={least}", finding) for name, _, least in around if least)


def _bounds_of(rule: CompatRule, finding: Finding, view: View, name: str) -> tuple[str, str]:
    """The oldest release of the range with the error around the present one, and the next newer one without it.

    Each is "" if no release on that side is free of the error.
    """
    pin, versions = view.pin(name), releases(view.facts, name)
    present = key(pin.versions[0] if pin and pin.versions else "0")
    older, newer = [v for v in versions if key(v) <= present], [v for v in versions if key(v) > present]

    def fails(version: str) -> bool:
        findings = judge(view.changed(name, version), [rule])
        return any(
            f.severity == "error" and _other_subjects(f, name) == _other_subjects(finding, name) for _, f in findings
        )

    first = next((i for i, v in reversed(list(enumerate(older))) if not fails(v)), -1) + 1
    below = older[first] if 0 < first < len(older) else ""
    return below, next((v for v in newer if not fails(v)), "")


def _other_subjects(finding: Finding, name: str) -> set[str]:
    return {subject for subject in finding.subjects if subject.partition("=")[0] != name}
