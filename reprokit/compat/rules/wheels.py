"""Wheels with Python, with each other, and with the distribution's C library."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.verdict import Clash, Verdict, error, info, shared, unknown, warning
from reprokit.compat.version import at_most, key, public, series, within
from reprokit.compat.view import View


def tag(python: str) -> str:
    """`cp38` of `3.8.10`."""
    return "cp" + series(python, 2).replace(".", "")


def dotted(tags: list[str]) -> str:
    """`3.8, 3.9` of cp38, cp39; free-threaded tags are left out."""
    return ", ".join(f"{t[2]}.{t[3:]}" for t in tags if t.startswith("cp") and not t.endswith("t"))


def torch_python(view: View) -> Iterator[Clash]:
    yield from _by_tag(view, "torch", view.facts["torch"]["releases"])


def torchvision_python(view: View) -> Iterator[Clash]:
    table = view.facts["torchvision"]
    yield from _by_tag(view, "torchvision", table["releases"], tuple(table["source"]))


def _by_tag(view: View, name: str, releases: dict, sources: tuple[str, ...] = ()) -> Iterator[Clash]:
    pin, python = view.known(name), view.known("python")
    if pin is None or python is None or (pin.from_base and python.from_base):
        return

    def judge(version: str, python_version: str) -> Verdict | None:
        tags = releases[version]["python"]
        if tag(python_version) in tags:
            return _documented(view, version, python_version) if name == "torch" else None
        reason = f"{name} {version} has wheels for Python {dotted(tags)}, not {series(python_version, 2)}"
        return error(reason, sources or releases[version]["source"])

    cases = ((f"{name} {v} with Python {p}", judge(v, p)) for v in pin.versions for p in python.versions)
    verdict = shared(cases)
    if verdict:
        yield (pin.label, python.label), verdict


def _documented(view: View, version: str, python: str) -> Verdict | None:
    table = view.facts["torch_build"]["python_support"]
    for row in table["ranges"]:
        if within(version, row) and row["python_max"] and not at_most(python, row["python_max"]):
            until = row["python_max"]
            return info(
                f"torch {version} has wheels for Python {series(python)}, its notes end at {until}", table["source"]
            )
    return None


def numpy_python(view: View) -> Iterator[Clash]:
    numpy, python = view.known("numpy"), view.known("python")
    if numpy is None or python is None:
        return
    table = view.facts["numpy"]

    def judge(version: str, python_version: str) -> Verdict | None:
        release = table["releases"][series(version, 2)]
        first = release["first_patch"].get(tag(python_version))
        if tag(python_version) not in release["python"]:
            had = dotted(release["python"])
            return error(
                f"numpy {series(version)} has wheels for Python {had}, not {series(python_version)}", table["source"]
            )
        if first and version != series(version, 2) and key(version) < key(first):
            return error(
                f"numpy {version} has no wheel for Python {series(python_version)}; {first} has", table["source"]
            )
        return None

    verdict = shared((f"numpy {v} with Python {p}", judge(v, p)) for v in numpy.versions for p in python.versions)
    if verdict:
        yield (numpy.label, python.label), verdict


def numpy_projects(view: View) -> Iterator[Clash]:
    """Projects that use what NumPy removed, or that were built for its older ABI."""
    numpy = view.known("numpy")
    if numpy is None:
        return
    for row in view.facts["numpy"]["projects"]:
        pin = view.known(row["pin"])
        if pin is None:
            continue
        limit = row["numpy_below"]
        cases = (
            (
                f"{row['pin']} {v} with numpy {n}",
                error(row["text"] + f"; numpy below {limit} fits", row["source"])
                if within(v, row) and key(n) >= key(limit)
                else None,
            )
            for v in pin.versions
            for n in numpy.versions
        )
        verdict = shared(cases)
        if verdict:
            yield (pin.label, numpy.label), verdict


def torchvision_torch(view: View) -> Iterator[Clash]:
    vision, torch = view.known("torchvision"), view.known("torch")
    if vision is None or torch is None:
        return
    table = view.facts["torchvision"]

    def judge(version: str, torch_version: str) -> Verdict | None:
        row = table["releases"][version]
        wanted = row["torch_series"]
        if not wanted or wanted == [None]:
            return unknown(f"no fact says which torch torchvision {version} belongs to", table["source"])
        if series(torch_version) not in wanted:
            return error(
                f"torchvision {version} belongs to torch {' or '.join(wanted)}, not {torch_version}", table["source"]
            )
        if "torch" in row and key(row["torch"]) != key(public(torch_version)):
            return warning(f"the wheel of torchvision {version} was made for torch {row['torch']}", table["source"])
        return None

    verdict = shared((f"torchvision {v} with torch {t}", judge(v, t)) for v in vision.versions for t in torch.versions)
    if verdict:
        yield (vision.label, torch.label), verdict
    elif vision.local and torch.local and vision.local != torch.local:
        yield (
            (vision.label, torch.label),
            error(f"torchvision's build {vision.local} is not torch's, {torch.local}", table["source"]),
        )


def glibc(view: View) -> Iterator[Clash]:
    """The C library that a wheel's tag asks for, against the distribution's."""
    distro = view.known("distro")
    if distro is None:
        return
    facts = view.facts["distros"]["distros"][distro.versions[0]]
    for name, needs in (("torch", _torch_glibc), ("dgl", _dgl_glibc), ("tvm", _tvm_glibc)):
        pin = view.known(name)
        if pin is None or pin.from_base:
            continue
        cases = []
        for version in pin.versions:
            least, sources = needs(view, version)
            late = least is not None and key(facts["glibc"]) < key(least)
            reason = f"the wheel of {name} {version} needs glibc {least}, {distro.versions[0]} has {facts['glibc']}"
            cases.append((f"{name} {version}", error(reason, (*sources, *facts["source"])) if late else None))
        verdict = shared(cases)
        if verdict:
            yield (pin.label, distro.label), verdict


def _torch_glibc(view: View, version: str) -> tuple[str | None, tuple[str, ...]]:
    for row in view.facts["torch_build"]["glibc"]:
        if within(version, row):
            return row["glibc"], tuple(row["source"])
    return None, ()


def _dgl_glibc(view: View, version: str) -> tuple[str | None, tuple[str, ...]]:
    for row in view.facts["dgl"]["glibc"]:
        if key(row["release"]) == key(version):
            return row["glibc"], tuple(row["source"])
    return None, ()


def _tvm_glibc(view: View, version: str) -> tuple[str | None, tuple[str, ...]]:
    release = view.facts["tvm"]["releases"].get(version, {})
    pypi = view.facts["tvm"]["pypi"]
    return (pypi["glibc"], tuple(pypi["source"])) if release.get("wheel") else (None, ())
