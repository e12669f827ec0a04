"""TVM with LLVM, Python, CMake and the compiler."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rule import COMPILE, Problem, Verdict, combination_rule, combined, error, rule, unknown, warning
from reprokit.compat.version import at_most, key, series
from reprokit.compat.view import View


@combination_rule("tvm-llvm", of="tvm llvm", changes="llvm tvm")
def tvm_llvm(view: View, version: str, llvm: str) -> Verdict | None:
    release = view.facts.tvm.releases[version]
    for row in view.facts.tvm.llvm_fails:
        old_enough = not row.llvm_to or at_most(llvm, row.llvm_to)
        if row.covers(version) and key(llvm) >= key(row.llvm_from) and old_enough:
            return error(f"TVM {version} does not compile with LLVM {llvm}: {row.text}", row.source)
    handled = release.llvm_handled
    if handled is None:
        return unknown(f"no fact says which LLVM releases TVM {version} supports", release.source)
    if key(llvm) < key(release.llvm_min):
        return error(f"TVM {version} needs LLVM {release.llvm_min} or later", release.source)
    if key(llvm)[0] > handled:
        reason = f"the source of TVM {version} supports LLVM up to {handled}; {llvm} is likely to fail"
        return warning(reason, release.source)
    if key(llvm)[0] < release.llvm_recommended:
        return warning(f"TVM {version} recommends LLVM {release.llvm_recommended} or later", release.source)
    return None


@rule("tvm-backends", purposes=COMPILE)
def backends(view: View) -> Iterator[Problem]:
    """TVM is compiled without LLVM or CUDA where the stack has none."""
    tvm, facts = view.known("tvm"), view.facts.tvm
    if tvm is None or any(facts.releases[v].wheel for v in tvm.versions):
        return
    if view.pin("llvm") is None:
        reason = f"no LLVM is pinned: {facts.llvm_off.text}"
        yield Problem((tvm.label, "llvm=none"), warning(reason, facts.llvm_off.source))
    if view.pin("cuda") is None and view.stack.needs_gpu == "required":
        reason = f"no CUDA is pinned: {facts.cuda_off.text}"
        yield Problem((tvm.label, "cuda=none"), warning(reason, facts.cuda_off.source))


@combination_rule("tvm-python", of="tvm python", changes="python tvm")
def tvm_python(view: View, version: str, python: str) -> Verdict | None:
    release = view.facts.tvm.releases[version]
    supported = release.python
    if key(python) < key(supported.min):
        judged = error if supported.hard else warning
        return judged(f"TVM {version} needs Python {supported.min} or later", release.source)
    if supported.max and not at_most(python, supported.max):
        reason = f"TVM {version} supports Python {supported.min} to {supported.max}, not {series(python)}"
        return warning(reason, release.source)
    return None


@rule("tvm-cmake", changes="cmake tvm distro", purposes=COMPILE)
def tvm_cmake(view: View) -> Iterator[Problem]:
    """The CMake that builds TVM: the pinned one, else the distribution's."""
    tvm, pin, distro = view.known("tvm"), view.known("cmake"), view.known("distro")
    if tvm is None:
        return
    if pin is not None:
        verdict = combined(
            (f"TVM {t} with CMake {c}", _judge_cmake(view, t, c)) for t in tvm.versions for c in pin.versions
        )
        if verdict:
            yield Problem((tvm.label, pin.label), verdict)
    elif distro is not None and not view.pin("cmake"):
        name, facts = distro.versions[0], view.distro(distro.versions[0])
        verdict = combined((f"TVM {t}", _judge_cmake(view, t, facts.cmake)) for t in tvm.versions)
        if verdict:
            reason = f"CMake is not pinned, and {name} has CMake {facts.cmake}: {verdict.reason}. Pin cmake"
            yield Problem((tvm.label, distro.label), warning(reason, (*verdict.sources, *facts.source)))


def _judge_cmake(view: View, version: str, cmake: str) -> Verdict | None:
    release = view.facts.tvm.releases[version]
    if release.cmake_min and key(cmake) < key(release.cmake_min):
        judged = warning if release.unverified else error
        return judged(f"TVM {version} needs CMake {release.cmake_min} or later, not {cmake}", release.source)
    for row in view.facts.tvm.cmake:
        if row.covers(version) and view.pin(row.needs) and key(cmake) < key(row.cmake_min):
            reason = f"TVM {version} with {row.needs} needs CMake {row.cmake_min} or later: {row.text}"
            return error(reason, row.source)
    return None


@combination_rule("tvm-gcc", of="tvm gcc", changes="gcc tvm", purposes=COMPILE)
def tvm_gcc(view: View, version: str, gcc: str) -> Verdict | None:
    release = view.facts.tvm.releases[version]
    if release.gcc_min and key(gcc) < key(release.gcc_min):
        judged = warning if release.unverified else error
        return judged(f"TVM {version} is C++{release.cxx} and needs gcc {release.gcc_min} or later", release.source)
    return None


@rule("tvm-pypi", changes="tvm", purposes=("run", "import"))
def pypi(view: View) -> Iterator[Problem]:
    """Releases that are to be installed but are not on PyPI."""
    tvm, facts = view.known("tvm"), view.facts.tvm
    if tvm and not any(facts.releases[v].wheel for v in tvm.versions):
        reason = f"PyPI has apache-tvm from {facts.pypi.versions[0]} on; build {tvm.text} from source"
        yield Problem((tvm.label,), warning(reason, facts.pypi.source))
