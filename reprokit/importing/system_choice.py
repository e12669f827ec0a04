"""Packages of the distribution, the environment, the pins of compilers and CUDA, and the build of torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from reprokit.compat.distributions import Distributions
from reprokit.compat.facts import Facts
from reprokit.compat.releases import build_of_cuda, cuda_of_build
from reprokit.compat.version import Key, key, key_or_zero, series
from reprokit.importing.conda import split
from reprokit.importing.decision import Choice, Decision, Overruled, PythonBase, Question, Versions
from reprokit.importing.merge import WEIGHTS
from reprokit.importing.model import Statement, accepts
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.recipe.fields import AptPackage, EnvName, Line

_INDEX = "https://download.pytorch.org/whl/"
_PATCHES = 10


@dataclass(frozen=True)
class TorchBuild:
    """`choice` is the version to pin, with the files that state its CUDA; `index` has it, if PyPI has another build."""

    choice: Choice
    index: str = ""

    @property
    def version(self) -> str:
        return self.choice.value

    def local_of(self, name: str, version: str) -> str:
        """The version suffix of a package that loads only with the build of torch that it was compiled for."""
        # torchaudio has builds by CUDA from 0.10 on, and compares its CUDA with torch's when it is imported.
        built = name == "torchvision" or (name == "torchaudio" and key_or_zero(version) >= key("0.10"))
        return f"+{self.version.partition('+')[2]}" if self.index and built and "+" not in version else ""


def stated_cuda(statements: Sequence[Statement]) -> tuple[Choice, ...]:
    """The versions of CUDA that files state, the weightiest first."""
    stated = [(s, value) for s in statements if s.scope == "run" and (value := _cuda_of(s))]
    stated.sort(key=lambda pair: -WEIGHTS.index(pair[0].format) if pair[0].format in WEIGHTS else 0)
    return tuple(Choice(value, (s.origin,)) for s, value in stated)


def _cuda_of(statement: Statement) -> str:
    """The CUDA of a statement; also that of `torch==1.9.0+cu111` and of torch's index for it."""
    if statement.subject == "cuda":
        return statement.value
    digits = ""
    if statement.subject == "package" and statement.value.startswith("torch=="):
        digits = statement.value.partition("+cu")[2][:3]
    elif statement.subject == "index":
        digits = statement.value.rstrip("/").rpartition("/whl/cu")[2]
    cuda = cuda_of_build(digits)
    return f"=={cuda}.*" if cuda and len(digits) < 4 else ""


def torch_build(decision: Decision, versions: Versions, facts: Facts) -> TorchBuild:
    """PyPI's own build if its CUDA fits, otherwise one of torch's index.

    torch refuses to compile extensions with another major version of CUDA than its own. Without extensions, the files
    decide: their authors' GPUs may need that CUDA.
    """
    version = versions.pins.get("torch", "")
    cuda = decision.pins.get("cuda")
    release = facts.torch.releases.get(version)
    if cuda is None:
        return _stated(version, decision, facts)
    if release is None or "+" in version or series(release.default, 1) == series(cuda.value, 1):
        return TorchBuild(Choice(version))
    nearest = _nearest(release.builds, cuda.value)
    return _build_for(Choice(version), nearest) if nearest else TorchBuild(Choice(version))


def without_index(build: TorchBuild, why: str, decision: Decision, facts: Facts) -> tuple[TorchBuild, Question]:
    """PyPI's build of the release if the index of `build` cannot be reached, and a question about it.

    The build stays if the recipe compiles code for its CUDA: PyPI's build is for another major version.
    """
    public, _, local = build.version.partition("+")
    default = facts.torch.releases[public].default
    down = f"the index of {local} cannot be reached ({why})"
    if "cuda" in decision.pins:
        text = f"{down}, and PyPI's torch {public} is for CUDA {default}: name a mirror in REPROKIT_WHEELS_MIRRORS"
        return build, Question(text)
    choice = Choice(public, (), f"PyPI's build, for CUDA {default}", _lost(decision.cuda, default, down))
    text = f"torch {public} is PyPI's build for CUDA {default}: {down}"
    return TorchBuild(choice), Question(f"{text}; with a mirror in REPROKIT_WHEELS_MIRRORS, import again")


def _stated(version: str, decision: Decision, facts: Facts) -> TorchBuild:
    """The build for the first stated CUDA that has one, or the nearest to the weightiest."""
    stated = decision.cuda
    public, _, local = version.partition("+")
    release = facts.torch.releases.get(public)
    if not version or not stated:
        return TorchBuild(Choice(version))
    if local:
        return TorchBuild(
            Choice(version, lost=_lost(stated, cuda_of_build(local), "the version of torch names its build"))
        )
    if release is None:
        return TorchBuild(Choice(version, lost=_lost(stated, "", f"the builds of torch {version} are not known")))
    builds = sorted({*release.builds, *filter(None, [release.default])}, key=_minor_key)
    for cuda in stated:
        if fits := [build for build in builds if meets(build, cuda.value)]:
            chosen = release.default if release.default in fits else fits[0]
            why = f"built for CUDA {chosen}, as stated"
            break
    else:
        chosen = _nearest(builds, stated[0].value.lstrip("<>=!~").removesuffix(".*")) or release.default
        cuda, why = Choice(""), f"built for CUDA {chosen}"
    lost = _lost(stated, chosen, f"torch {version} has builds for {', '.join(builds)}; this one is for {chosen}")
    choice = Choice(version, cuda.origins, why, lost)
    return TorchBuild(choice) if chosen == release.default else _build_for(choice, chosen)


def _build_for(choice: Choice, cuda: str) -> TorchBuild:
    build = build_of_cuda(cuda)
    return TorchBuild(replace(choice, value=f"{choice.value}+{build}"), _INDEX + build)


def _lost(stated: Sequence[Choice], chosen: str, why: str) -> tuple[Overruled, ...]:
    return tuple(Overruled(f"CUDA {s.value}", s.origins[0], why) for s in stated if not meets(chosen, s.value))


def _minor_key(cuda: str) -> Key:
    return key_or_zero(series(cuda))


def _nearest(builds: Sequence[str], cuda: str) -> str:
    """The newest build of the same major version up to `cuda`, otherwise its oldest build."""
    same = sorted((build for build in builds if series(build, 1) == series(cuda, 1)), key=_minor_key)
    older = [build for build in same if _minor_key(build) <= _minor_key(cuda)]
    return older[-1] if older else next(iter(same), "")


def meets(version: str, specifier: str) -> bool:
    """Whether a version such as `11.3` has a patch release that fits a specifier such as `==11.3.1` or `11.3`."""
    try:
        required = SpecifierSet(specifier if specifier[:1] in "<>=!~" else f"=={specifier}.*")
        return version[:1].isdigit() and any(required.contains(f"{version}.{patch}") for patch in range(_PATCHES))
    except InvalidSpecifier:
        return False


def torch_block(version: str, facts: Facts) -> str | dict[str, dict[str, str]] | None:
    """The entry of `blocks` for this torch; None if the CUDA of its wheel is unknown: the block asserts it."""
    if "+" in version:
        return "torch"
    release = facts.torch.releases.get(version)
    return {"torch": {"cuda": release.default}} if release and release.default else None


def kernels_of(statements: Sequence[Statement]) -> list[Statement]:
    """The statements about code that is compiled for CUDA."""
    return [s for s in statements if s.subject == "extension" and s.value in ("torch-cuda", "cuda")]


def minima(statements: Sequence[Statement]) -> list[Statement]:
    """The minimum versions that CMake files require; CMake's own only in the root's file and without a cmake wheel."""
    required = [s for s in statements if s.format == "cmake" and s.scope == "run" and s.value.startswith(">=")]
    kernels = kernels_of(statements)
    wheel = any(s.subject == "package" and _is_cmake(s.value) for s in statements)
    return [
        *(s for s in required if s.subject == "cuda" and kernels),
        *(s for s in required if s.subject == "cmake" and "/" not in s.origin.file and not wheel),
    ]


def unmet(base: PythonBase, required: Sequence[Statement], facts: Facts) -> list[Overruled]:
    """The minima that a distribution does not meet."""
    distro = facts.distros.distros[base.distro]
    have = {"cuda": distro.cuda_package.cuda if distro.cuda_package else "", "cmake": distro.cmake}
    names = {"cuda": "CUDA", "cmake": "CMake"}
    return [
        Overruled(f"{names[s.subject]} {s.value}", s.origin, f"{base.distro} has {have[s.subject] or 'none'}")
        for s in required
        if not meets(have[s.subject], s.value)
    ]


def unmet_questions(base: PythonBase, required: Sequence[Statement], facts: Facts) -> list[Question]:
    """A question for each minimum that the chosen distribution does not meet: the build would fail."""
    remedies = {"CUDA": "set `base` to an image of nvidia/cuda", "CMake": "add a newer cmake to `wheels`"}
    return [
        Question(f"{lost.value} is required, and {lost.why}: {remedies[lost.value.split()[0]]}", lost.origin)
        for lost in unmet(base, required, facts)
    ]


def _is_cmake(text: str) -> bool:
    requirement = valid_requirement(text)
    return requirement is not None and canonicalize_name(requirement.name) == "cmake"


# Files that state what an image needs. What CI or a README installs is often for other systems.
TRUSTED = ("dockerfile", "repo2docker", "devcontainer", "environment")
# Names with a version of another release, or packages that blocks install.
_VERSIONED = ("python", "libpython", "cuda", "libcuda", "libcudnn", "nvidia", "gcc-", "g++-", "clang-", "llvm-",
              "linux-headers", "libnccl", "tensorrt", "pypy")  # fmt: skip
ENV_OF_IMAGES = {
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "CUDA_HOME", "CONDA_DIR", "VIRTUAL_ENV",
    "DEBIAN_FRONTEND", "HOME", "USER", "SHELL", "PWD", "LANG", "LC_ALL", "http_proxy", "https_proxy",
}  # fmt: skip


def apt_of(
    statements: Sequence[Statement],
    requirements: Mapping[str, Choice],
    distributions: Distributions,
    paths: Collection[str],
) -> tuple[Choice, ...]:
    """Packages that an image needs: those that Dockerfiles name, and those that wheels and libraries load.

    An included header counts if no file of the repository (`paths`) has its name.
    """
    names_of_files = {path.rpartition("/")[2] for path in paths}
    packages: dict[str, Choice] = {}
    for statement in statements:
        names: tuple[str, ...] = ()
        if statement.subject == "apt" and statement.format in TRUSTED and statement.scope == "run":
            names = (statement.value.partition("=")[0],)
        elif statement.subject == "conda":
            project = distributions.of_conda(split(statement.value)[0]) or ""
            names = (project.removeprefix("apt:"),) if project.startswith("apt:") else ()
        elif statement.subject == "library" and statement.scope == "run":
            library = statement.value.split()[0]
            if statement.format == "c" and library.rpartition("/")[2] in names_of_files:
                continue
            names = packages_of(library, distributions)
        for name in names:
            if accepts(AptPackage, name) and not name.startswith(_VERSIONED):
                packages.setdefault(name, Choice(name, (statement.origin,)))
    for project, choice in requirements.items():
        for name in distributions.system.get(project, ()):
            packages.setdefault(name, Choice(name, choice.origins, f"{project} loads it"))
    return tuple(packages.values())


def packages_of(library: str, distributions: Distributions) -> tuple[str, ...]:
    """The packages of the distribution with a library, header or program; empty if unknown."""
    names = distributions.libraries.get(library) or (distributions.of_part(library),)
    return tuple(name for name in names if name and not name.startswith(_VERSIONED))


def env_of(statements: Sequence[Statement]) -> tuple[Choice, ...]:
    """The environment that a Dockerfile sets, without variables of its own base."""
    chosen = {}
    for statement in statements:
        name, _, value = statement.value.partition("=")
        if (statement.subject, statement.scope) != ("env", "run") or statement.format not in TRUSTED:
            continue
        if name not in ENV_OF_IMAGES and accepts(EnvName, name) and accepts(Line, value):
            chosen[name] = Choice(statement.value, (statement.origin,))
    return tuple(chosen.values())


def pins_of(statements: Sequence[Statement], facts: Facts, base: PythonBase, day: date) -> dict[str, Choice]:
    """The compiler of the distribution, and its CUDA if the code has kernels of its own."""
    distro = facts.distros.distros[base.distro]
    gcc = distro.gcc.split(".")[0]
    others = [s for s in statements if s.subject == "gcc" and s.scope == "run" and not meets(gcc, s.value)]
    overruled = tuple(Overruled(f"gcc {s.value}", s.origin, f"{base.distro} has {gcc}") for s in others)
    pins = {"gcc": Choice(gcc, (), f"the compiler of {base.distro}", overruled)}
    kernels, package = kernels_of(statements), distro.cuda_package
    if not kernels or package is None:
        return pins
    version = series(package.cuda)
    stated = [Choice(s.value, (s.origin,)) for s in statements if s.subject == "cuda"]
    lost = _lost(stated, version, f"{base.distro} has {version}")
    then = facts.released.newest(facts.released.cuda, day.isoformat())
    why = f"the CUDA of {base.distro}" + (f"; {then} was the newest on {day}" if then and then != version else "")
    pins["cuda"] = Choice(version, (kernels[0].origin,), why, lost)
    pins["gcc"] = Choice(package.host_gcc, (), f"the newest that CUDA {version} of {base.distro} takes", overruled)
    return pins
