"""The distribution with LLVM, Python, gcc and CUDA: what its archives have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.version import begins, key, series
from reprokit.compat.view import View


def _facts(view: View) -> tuple[str, str, dict[str, Any]] | None:
    distro = view.known("distro")
    if distro is None:
        return None
    name = distro.versions[0]
    return name, distro.label, view.facts["distros"]["distros"][name]


def llvm(view: View) -> Iterator[Clash]:
    """LLVM's development files come from the archive or from apt.llvm.org: where neither has them, they cannot come."""
    found, pin = _facts(view), view.known("llvm")
    if found is None or pin is None:
        return
    name, label, _ = found
    verdict = shared((f"LLVM {v}", _judge_llvm(view, name, v)) for v in _majors(pin.versions))
    if verdict:
        yield (pin.label, label), verdict


def _majors(versions: tuple[str, ...]) -> list[str]:
    """Packages carry the major, before 4 and in 4.0 to 6.0 also the second number."""
    return list(dict.fromkeys(series(v, 1) if key(v)[0] >= 7 else series(v, 2) for v in versions))


def _judge_llvm(view: View, name: str, major: str) -> Verdict | None:
    table = view.facts["llvm"]
    archive, extra = table["archives"].get(name), table["apt_llvm_org"].get(name, {})
    if archive is None:
        return None
    if major in archive["majors"]:
        return None
    at_llvm_org = major in extra.get("majors", ()) or ("from" in extra and key(major) >= key(extra["from"]))
    if at_llvm_org:
        return warning(f"{name} has no LLVM {major} in its own archive; apt.llvm.org has it", extra["source"])
    having = [d for d, a in table["archives"].items() if major in a["majors"]]
    where = f" (it is in {', '.join(having)})" if having else ""
    sources = (*archive["source"], *extra.get("source", ()))
    reason = f"neither {name} nor apt.llvm.org has LLVM {major} for it{where}"
    if "none_from" in archive and key(major) >= key(archive["none_from"]):
        return error(reason, sources)
    if major in archive.get("maybe", ()) or major in extra.get("unverified_majors", ()):
        return unknown(f"whether {name} has LLVM {major} is not verified{where}", sources)
    if not archive["complete"]:
        return warning(f"{reason} (the list for {name} is not verified)", sources)
    return error(reason, sources)


def python(view: View) -> Iterator[Clash]:
    found, pin = _facts(view), view.known("python")
    if found is None or pin is None or pin.from_base:
        return
    name, label, facts = found
    has = [facts["python"], *facts.get("python_available", ())]
    minors = dict.fromkeys(series(v) for v in has)
    elsewhere = [
        d
        for d, f in view.facts["distros"]["distros"].items()
        if any(
            begins(series(v), series(p)) for v in pin.versions for p in [f["python"], *f.get("python_available", ())]
        )
    ]
    ppa = view.facts["distros"]["deadsnakes"]
    source = "; the deadsnakes PPA carries others" if name.startswith(ppa["family"]) else ""
    where = f" (it is in {', '.join(elsewhere)})" if elsewhere else ""
    cases = [
        (
            f"Python {v}",
            None
            if series(v) in minors
            else warning(
                f"{name} has Python {', '.join(minors)}: {series(v)} must come from elsewhere{source}{where}",
                (*facts["source"], *(ppa["source"] if source else ())),
            ),
        )
        for v in pin.versions
    ]
    verdict = shared(cases)
    if verdict and any(v is None for _, v in cases):
        return  # a partial pin means the one that the distribution has
    if verdict:
        yield (pin.label, label), verdict


def gcc(view: View) -> Iterator[Clash]:
    """The compiler's package, and its libstdc++ against the one that programs will meet."""
    found, pin = _facts(view), view.known("gcc")
    if found is None or pin is None:
        return
    name, label, facts = found
    available = facts.get("gcc_available")
    majors = list(dict.fromkeys(series(v, 1) for v in pin.versions))
    if available and not any(m in available for m in majors):
        reason = (
            f"{name} has gcc {', '.join(available)}, not {', '.join(majors)}: it must be built or come from elsewhere"
        )
        yield (pin.label, label), warning(reason, facts["source"])
        return
    limit = facts["glibcxx_max"]
    if available or limit is None:
        return
    cases = []
    for version in pin.versions:
        brings = _glibcxx(view, version)
        late = brings is not None and key(brings) > key(limit)
        reason = (
            f"programs compiled by gcc {version} may ask for GLIBCXX_{brings}; libstdc++ of {name} ends at {limit} "
            "unless the compiler's source brings a newer one"
        )
        cases.append((f"gcc {version}", warning(reason, (*facts["source"], "gcc_abi")) if late else None))
    verdict = shared(cases)
    if verdict:
        yield (pin.label, label), verdict


def _glibcxx(view: View, version: str) -> str | None:
    rows = [r for r in view.facts["distros"]["glibcxx_by_gcc"] if key(r["gcc"]) <= key(version)]
    return max(rows, key=lambda r: key(r["gcc"]))["glibcxx"] if rows else None


def cuda(view: View) -> Iterator[Clash]:
    """CUDA on a distribution whose base does not bring it."""
    found, pin = _facts(view), view.known("cuda")
    if found is None or pin is None or pin.from_base or (view.base and view.base.kind in ("nvidia_cuda", "pytorch")):
        return
    name, label, facts = found
    if name.startswith("debian"):
        package = facts.get("cuda_package")
        if package and any(begins(v, package["cuda"]) or begins(package["cuda"], v) for v in pin.versions):
            return
        has = f"packages CUDA {package['cuda']}" if package else "packages no CUDA"
        if "cuda_package" in facts:
            yield (pin.label, label), warning(f"{name} {has}: {pin.text} must come from NVIDIA", facts["source"])
        return
    release = name.partition(":")[2]
    cases = []
    for version in pin.versions:
        toolkit = view.facts["cuda"]["toolkits"][series(version)]
        known = [*toolkit.get("image_ubuntu", ()), *toolkit.get("image_ubuntu_unverified", ())]
        missing = bool(known) and release not in known
        reason = f"NVIDIA published no CUDA {series(version)} image for Ubuntu {release}, only for {', '.join(known)}"
        cases.append((f"CUDA {version}", warning(reason, toolkit["source_image"]) if missing else None))
    verdict = shared(cases)
    if verdict:
        yield (pin.label, label), verdict
