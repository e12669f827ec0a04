"""TVM with LLVM, Python, CMake and the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from reprokit.compat.model import COMPILE
from reprokit.compat.rule import Problem, Verdict, combination_rule, error, needs, problems, rule, unknown, warning
from reprokit.compat.schema import rows_for
from reprokit.compat.version import at_most, key, older, series
from reprokit.compat.view import View


@combination_rule("tvm-llvm", of="tvm llvm", changes="llvm tvm")
def tvm_llvm(view: View, version: str, llvm: str) -> Iterator[Verdict]:
    release = view.facts.tvm.releases[version]
    for row in rows_for(view.facts.tvm.llvm_fails, version):
        if not older(llvm, row.llvm_from) and (not row.llvm_to or at_most(llvm, row.llvm_to)):
            yield error(f"TVM {version} does not compile with LLVM {llvm}: {row.text}", row.source)
    handled = release.llvm_handled
    if handled is None:
        yield unknown(f"no fact says which LLVM releases TVM {version} supports", release.source)
    yield from needs(f"TVM {version}", "LLVM", release.llvm_min, llvm, release.source)
    if handled is not None and key(llvm)[0] > handled:
        reason = f"the source of TVM {version} supports LLVM up to {handled}; {llvm} is likely to fail"
        yield warning(reason, release.source)
    elif key(llvm)[0] < release.llvm_recommended:
        yield warning(f"TVM {version} recommends LLVM {release.llvm_recommended} or later", release.source)


@rule("tvm-backends", purposes=COMPILE)
def backends(view: View) -> Iterator[Problem]:
    """TVM is compiled without LLVM or CUDA if the stack has none."""
    tvm, facts = view.known_pin("tvm"), view.facts.tvm
    if tvm is None or any(facts.releases[v].wheel for v in tvm.versions):
        return
    if view.pin("llvm") is None:
        reason = f"no LLVM is pinned: {facts.llvm_off.text}"
        yield Problem((tvm.label, "llvm=none"), warning(reason, facts.llvm_off.source))
    if view.pin("cuda") is None and view.stack.needs_gpu == "required":
        reason = f"no CUDA is pinned: {facts.cuda_off.text}"
        yield Problem((tvm.label, "cuda=none"), warning(reason, facts.cuda_off.source))


@combination_rule("tvm-python", of="tvm python", changes="python tvm")
def tvm_python(view: View, version: str, python: str) -> Iterator[Verdict]:
    release = view.facts.tvm.releases[version]
    supported = release.python
    doubtful = not supported.hard
    yield from needs(f"TVM {version}", "Python", supported.min, python, release.source, doubtful)
    if supported.max and not at_most(python, supported.max):
        reason = f"TVM {version} supports Python {supported.min} to {supported.max}, not {series(python)}"
        yield warning(reason, release.source)


@rule("tvm-cmake", changes="cmake tvm distro", purposes=COMPILE)
def tvm_cmake(view: View) -> Iterator[Problem]:
    """The CMake that builds TVM: the pinned one, else the distribution's."""
    if view.pin("cmake"):
        yield from problems(view, ("tvm", "cmake"), _judge_cmake)
    elif distro := view.known_pin("distro"):
        name, facts = distro.versions[0], view.distro(distro.versions[0])
        for subjects, verdict in problems(view, ("tvm",), partial(_judge_cmake, cmake=facts.cmake)):
            if verdict is None:
                continue
            reason = f"CMake is not pinned, and {name} has CMake {facts.cmake}: {verdict.reason}. Pin cmake"
            yield Problem((*subjects, distro.label), warning(reason, (*verdict.sources, *facts.source)))


def _judge_cmake(view: View, version: str, cmake: str) -> Iterator[Verdict]:
    release = view.facts.tvm.releases[version]
    yield from needs(f"TVM {version}", "CMake", release.cmake_min, cmake, release.source, release.unverified)
    for row in rows_for(view.facts.tvm.cmake, version):
        if view.pin(row.needs) and older(cmake, row.cmake_min):
            reason = f"TVM {version} with {row.needs} needs CMake {row.cmake_min} or later: {row.text}"
            yield error(reason, row.source)


@combination_rule("tvm-gcc", of="tvm gcc", changes="gcc tvm", purposes=COMPILE)
def tvm_gcc(view: View, version: str, gcc: str) -> Iterator[Verdict]:
    release = view.facts.tvm.releases[version]
    what = f"TVM {version} is C++{release.cxx} and"
    yield from needs(what, "gcc", release.gcc_min, gcc, release.source, release.unverified)


@rule("tvm-pypi", changes="tvm", purposes=("run", "import"))
def pypi(view: View) -> Iterator[Problem]:
    """Releases to install that are not on PyPI."""
    tvm, facts = view.known_pin("tvm"), view.facts.tvm
    if tvm and not any(facts.releases[v].wheel for v in tvm.versions):
        reason = f"PyPI has apache-tvm from {facts.pypi.versions[0]} on; build {tvm.text} from source"
        yield Problem((tvm.label,), warning(reason, facts.pypi.source))
