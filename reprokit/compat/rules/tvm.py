"""TVM with LLVM, Python, CMake and the compiler."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.version import at_most, key, series, within
from reprokit.compat.view import View


def llvm(view: View) -> Iterator[Clash]:
    tvm, pin = view.known("tvm"), view.known("llvm")
    if tvm is None or pin is None:
        return
    verdict = shared((f"TVM {t} with LLVM {v}", _judge_llvm(view, t, v)) for t in tvm.versions for v in pin.versions)
    if verdict:
        yield (tvm.label, pin.label), verdict


def _judge_llvm(view: View, version: str, llvm_version: str) -> Verdict | None:
    facts = view.facts["tvm"]
    release = facts["releases"][version]
    for row in facts["llvm_fails"]:
        low_enough = "llvm_to" not in row or at_most(llvm_version, row["llvm_to"])
        if within(version, row) and key(llvm_version) >= key(row["llvm_from"]) and low_enough:
            return error(f"TVM {version} does not compile with LLVM {llvm_version}: {row['text']}", row["source"])
    handled = release["llvm_handled"]
    if handled is None:
        return unknown(f"no fact says which LLVM the source of TVM {version} handles", release["source"])
    if key(llvm_version) < key(release["llvm_min"]):
        return error(f"TVM {version} needs LLVM {release['llvm_min']} or later", release["source"])
    if key(llvm_version)[0] > handled:
        return warning(
            f"the source of TVM {version} handles LLVM up to {handled}; {llvm_version} is likely to fail",
            release["source"],
        )
    recommended = release.get("llvm_recommended")
    if recommended and key(llvm_version)[0] < recommended:
        return warning(f"TVM {version} recommends LLVM {recommended} or later", release["source"])
    return None


def backends(view: View) -> Iterator[Clash]:
    """TVM is compiled with what the stack names: no LLVM or no CUDA means a build without it."""
    tvm = view.known("tvm")
    if tvm is None:
        return
    facts = view.facts["tvm"]
    if any(facts["releases"][v].get("wheel") for v in tvm.versions):
        return
    if view.pin("llvm") is None:
        yield (
            (tvm.label, "llvm=none"),
            warning(f"no LLVM is pinned: {facts['llvm_off']['text']}", facts["llvm_off"]["source"]),
        )
    if view.pin("cuda") is None and view.stack.needs_gpu == "required":
        yield (
            (tvm.label, "cuda=none"),
            warning(f"no CUDA is pinned: {facts['cuda_off']['text']}", facts["cuda_off"]["source"]),
        )


def python(view: View) -> Iterator[Clash]:
    tvm, pin = view.known("tvm"), view.known("python")
    if tvm is None or pin is None:
        return
    cases = ((f"TVM {t} with Python {p}", _judge_python(view, t, p)) for t in tvm.versions for p in pin.versions)
    verdict = shared(cases)
    if verdict:
        yield (tvm.label, pin.label), verdict


def _judge_python(view: View, version: str, python_version: str) -> Verdict | None:
    release = view.facts["tvm"]["releases"][version]
    window = release["python"]
    if key(python_version) < key(window["min"]):
        say = error if window.get("hard") else warning
        return say(f"TVM {version} needs Python {window['min']} or later", release["source"])
    if "max" in window and not at_most(python_version, window["max"]):
        return warning(
            f"TVM {version} asks for Python {window['min']} to {window['max']}, not {series(python_version)}",
            release["source"],
        )
    return None


def cmake(view: View) -> Iterator[Clash]:
    """The CMake that builds TVM: the pinned one, else the distribution's."""
    tvm, pin = view.known("tvm"), view.known("cmake")
    if tvm is None:
        return
    if pin is not None:
        cases = ((f"TVM {t} with CMake {c}", _judge_cmake(view, t, c)) for t in tvm.versions for c in pin.versions)
        verdict = shared(cases)
        if verdict:
            yield (tvm.label, pin.label), verdict
        return
    distro = view.known("distro")
    if distro is None or view.pin("cmake"):
        return
    facts = view.facts["distros"]["distros"][distro.versions[0]]
    verdict = shared((f"TVM {t}", _judge_cmake(view, t, facts["cmake"])) for t in tvm.versions)
    if verdict:
        reason = (
            f"CMake is not pinned, and that of {distro.versions[0]} is {facts['cmake']}: {verdict.reason}. Pin cmake"
        )
        yield (tvm.label, distro.label), warning(reason, (*verdict.sources, *facts["source"]))


def _judge_cmake(view: View, version: str, release: str) -> Verdict | None:
    facts = view.facts["tvm"]
    own = facts["releases"][version]
    if own["cmake_min"] and key(release) < key(own["cmake_min"]):
        say = warning if own.get("unverified") else error
        return say(f"TVM {version} needs CMake {own['cmake_min']} or later, not {release}", own["source"])
    for row in facts["cmake"]:
        if within(version, row) and view.pin(row["needs"]) and key(release) < key(row["cmake_min"]):
            return error(
                f"TVM {version} with {row['needs']} needs CMake {row['cmake_min']}: {row['text']}", row["source"]
            )
    return None


def gcc(view: View) -> Iterator[Clash]:
    tvm, pin = view.known("tvm"), view.known("gcc")
    if tvm is None or pin is None:
        return

    def judge(version: str, compiler: str) -> Verdict | None:
        release = view.facts["tvm"]["releases"][version]
        least = release.get("gcc_min")
        if least and key(compiler) < key(least):
            say = warning if release.get("unverified") else error
            return say(f"TVM {version} is C++{release['cxx']} and needs gcc {least} or later", release["source"])
        return None

    verdict = shared((f"TVM {t} with gcc {g}", judge(t, g)) for t in tvm.versions for g in pin.versions)
    if verdict:
        yield (tvm.label, pin.label), verdict


def pypi(view: View) -> Iterator[Clash]:
    """Releases that are to be installed but are not on PyPI."""
    tvm = view.known("tvm")
    facts = view.facts["tvm"] if tvm else None
    if tvm is None or facts is None:
        return
    if not any(facts["releases"][v].get("wheel") for v in tvm.versions):
        yield (
            (tvm.label,),
            warning(
                f"PyPI has apache-tvm from {facts['pypi']['versions'][0]} on only: build {tvm.text} from source",
                facts["pypi"]["source"],
            ),
        )
