"""Pins of LLVM, Python, gcc, CMake and CUDA against the versions in the distribution's archives."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import COMPILE
from reprokit.compat.rule import Problem, Verdict, combination_rule, error, problems, rule, unknown, warning
from reprokit.compat.schema import rows_for
from reprokit.compat.version import key, older, overlap, series
from reprokit.compat.view import Pin, View

# Programs of a distribution: how many numbers of a version name a series.
_SERIES = {"gcc": 1, "python": 2, "cmake": 2}


@combination_rule("llvm-distro", of="llvm distro")
def llvm(view: View, version: str, name: str) -> Iterator[Verdict]:
    """LLVM's development files come from the archive or from apt.llvm.org."""
    # Packages are named by the major, and up to 6.0 by the second number too.
    major = series(version, 1) if key(version)[0] >= 7 else series(version)
    facts = view.facts.llvm
    archive, extra = facts.archives.get(name), facts.apt_llvm_org.get(name)
    if archive is None:
        yield unknown(f"no fact says whether {name} has LLVM {major}")
        return
    if major in archive.majors:
        return
    if extra and (major in extra.majors or (extra.first and key(major) >= key(extra.first))):
        yield warning(f"{name} has no LLVM {major}; install it from apt.llvm.org", extra.source)
    elsewhere = [d for d, a in facts.archives.items() if major in a.majors]
    where = f" ({', '.join(elsewhere)} has it)" if elsewhere else ""
    sources = (*archive.source, *(extra.source if extra else ()))
    reason = f"neither {name} nor apt.llvm.org has LLVM {major}{where}"
    if archive.none_from and key(major) >= key(archive.none_from):
        yield error(reason, sources)
    if major in archive.maybe or (extra and major in extra.unverified_majors):
        yield unknown(f"no fact says whether {name} has LLVM {major}{where}", sources)
    if not archive.complete:
        yield warning(f"{reason}; the list for {name} is not verified", sources)
    yield error(reason, sources)


@rule("python-distro", changes="python distro")
def python(view: View) -> Iterator[Problem]:
    distro, pin = view.known_pin("distro"), view.known_pin("python")
    if distro is None or pin is None or pin.from_base:
        return
    name, facts = distro.versions[0], view.facts.distros
    if _has(view, name, pin):
        return
    has, pinned = dict.fromkeys(map(series, offered(view, name, "python"))), series(pin.versions[-1])
    elsewhere = [d for d in facts.distros if _has(view, d, pin)]
    ppa = facts.deadsnakes if name.startswith(facts.deadsnakes.family) else None
    reason = (
        f"{name} has Python {', '.join(has)}: {pinned} must come from elsewhere"
        + ("; the deadsnakes PPA has others" if ppa else "")
        + (f" ({', '.join(elsewhere)} has it)" if elsewhere else "")
    )
    sources = dict.fromkeys((*view.distro(name).source, *(ppa.source if ppa else ())))
    yield Problem((pin.label, distro.label), warning(reason, sources))


@rule("gcc-distro", changes="gcc distro")
def gcc(view: View) -> Iterator[Problem]:
    """The compiler's package, and its libstdc++ against the distribution's."""
    distro, pin = view.known_pin("distro"), view.known_pin("gcc")
    if distro is None or pin is None:
        return
    name, facts = distro.versions[0], view.distro(distro.versions[0])
    subjects = (pin.label, distro.label)
    if not facts.gcc_available and facts.glibcxx_max:
        yield from problems(view, ("gcc", "distro"), _judge_libstdcxx)
    elif _has(view, name, pin):
        return
    elif facts.gcc_available:
        has, pinned = ", ".join(facts.gcc_available), dict.fromkeys(series(v, 1) for v in pin.versions)
        reason = f"{name} has gcc {has}, not {', '.join(pinned)}: build it, or install it from elsewhere"
        yield Problem(subjects, warning(reason, facts.source))
    else:
        yield Problem(subjects, unknown(f"no fact says whether {name} has another gcc than {facts.gcc}", facts.source))


def _judge_libstdcxx(view: View, gcc: str, name: str) -> Iterator[Verdict]:
    facts = view.distro(name)
    by_gcc = view.facts.distros.glibcxx_by_gcc
    needed = by_gcc.get(max((release for release in by_gcc if not older(gcc, release)), key=key, default=""))
    if not needed or not facts.glibcxx_max or key(needed) <= key(facts.glibcxx_max):
        return
    reason = (
        f"programs compiled by gcc {gcc} may need GLIBCXX_{needed}, but libstdc++ of {name} ends at "
        f"{facts.glibcxx_max}; install the newer libstdc++ with the compiler"
    )
    yield warning(reason, (*facts.source, "gcc_abi"))


@rule("cmake-distro", changes="cmake distro")
def cmake(view: View) -> Iterator[Problem]:
    """The distribution's CMake, unless a wheel brings another one."""
    distro, pin = view.known_pin("distro"), view.known_pin("cmake")
    if distro is None or pin is None or "cmake" in view.stack.resolved:
        return
    name = distro.versions[0]
    if not _has(view, name, pin):
        elsewhere = [d for d in view.facts.distros.distros if _has(view, d, pin)]
        where = f" ({', '.join(elsewhere)} has it)" if elsewhere else ""
        has = f"{name} has CMake {view.distro(name).cmake}, not {pin.text}"
        reason = f"{has}: build it, or install it from elsewhere{where}"
        yield Problem((pin.label, distro.label), warning(reason, view.distro(name).source))


@rule("distro-release")
def release(view: View) -> Iterator[Problem]:
    """A pin of another release of the distribution's series: its block installs the distribution's, then refuses it."""
    distro = view.known_pin("distro")
    name = distro.versions[0] if distro else ""
    if not name.partition(":")[2][:1].isdigit():
        return  # an unreleased distribution still gets newer versions
    for program, numbers in _SERIES.items():
        pin = None if program in view.stack.resolved else view.known_pin(program)
        if distro is None or pin is None or pin.from_base:
            continue
        same = [v for v in offered(view, name, program) if series(v, numbers) == series(pin.text, numbers)]
        if same and not any(overlap(version, pin.text) for version in same):
            reason = f"{name} has {program} {same[-1]}, not {pin.text}"
            verdict = Verdict("warning", reason, view.distro(name).source, f"pin {program}={same[-1]}")
            yield Problem((pin.label, distro.label), verdict)


def offered(view: View, name: str, program: str) -> tuple[str, ...]:
    """The versions of a program in a distribution; () without facts about the program."""
    facts, llvm = view.distro(name), view.facts.llvm.archives.get(name)
    cuda = facts.cuda_package
    versions = {
        "gcc": (*(v for v in facts.gcc_available if v != series(facts.gcc, 1)), facts.gcc),
        "python": (*(v for v in facts.python_available if v != facts.python), facts.python),
        "cmake": (facts.cmake,),
        "llvm": llvm.majors if llvm else (),
        "cuda": (cuda.cuda,) if cuda else (),
    }
    return versions.get(program, ())


def _has(view: View, name: str, pin: Pin) -> bool:
    """Whether a distribution has the series of a pin, which means the release there if it is not exact."""
    numbers = _SERIES[pin.name]
    pinned = {series(version, numbers) for version in pin.versions}
    return any(series(version, numbers) in pinned for version in offered(view, name, pin.name))


@rule("cuda-distro", changes="cuda distro", purposes=COMPILE)
def cuda(view: View) -> Iterator[Problem]:
    """CUDA on a distribution whose base image does not contain it."""
    distro, pin = view.known_pin("distro"), view.known_pin("cuda")
    vendor = view.base and view.base.kind in ("nvidia_cuda", "pytorch")
    if distro is None or pin is None or pin.from_base or vendor:
        return
    name, facts = distro.versions[0], view.distro(distro.versions[0])
    subjects, package = (pin.label, distro.label), facts.cuda_package
    if name.startswith("debian"):
        if package and any(overlap(v, package.cuda) for v in pin.versions):
            return
        if not facts.packages_cuda:
            yield Problem(subjects, unknown(f"no fact says which CUDA {name} packages"))
            return
        has = f"CUDA {package.cuda}" if package else "no CUDA"
        reason = f"{name} packages {has}: CUDA {pin.text} must come from NVIDIA"
        yield Problem(subjects, warning(reason, facts.source))
        return
    if name.startswith("ubuntu"):
        yield from problems(view, ("cuda", "distro"), _judge_image)


@combination_rule("cuda-glibc", of="cuda distro", purposes=COMPILE)
def cuda_glibc(view: View, release: str, name: str) -> Iterator[Verdict]:
    """The C library's headers beside CUDA's; those of Debian's own CUDA are repaired."""
    has = view.distro(name)
    if has.cuda_package and overlap(series(release), has.cuda_package.cuda):
        return
    for row in rows_for(view.facts.cuda.glibc, release):
        if not older(has.glibc, row.glibc):
            headers = f"the headers of CUDA {series(release)} do not compile beside glibc {has.glibc} of {name}"
            reason = f"{headers}: {row.text} are declared twice, with and without noexcept"
            yield error(reason, (*row.source, *has.source))


def _judge_image(view: View, version: str, name: str) -> Iterator[Verdict]:
    toolkit, ubuntu = view.facts.cuda.toolkits[series(version)], name.partition(":")[2]
    published = (*toolkit.image_ubuntu, *toolkit.image_ubuntu_unverified)
    if not published or ubuntu in published:
        return
    reason = f"NVIDIA published CUDA {series(version)} images for Ubuntu {', '.join(published)}, not for {ubuntu}"
    yield warning(reason, toolkit.source_image)
