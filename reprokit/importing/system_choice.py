"""Packages of the distribution, the environment, and the pins of compilers and CUDA."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import TypeAdapter, ValidationError

from reprokit.compat.distributions import Distributions
from reprokit.compat.facts import Facts
from reprokit.importing.conda import split
from reprokit.importing.decision import Choice, Overruled, PythonBase
from reprokit.importing.model import Statement
from reprokit.recipe.fields import AptPackage, EnvName, Line

# Files that state what an image needs. What CI or a README installs is often for other systems.
TRUSTED = ("dockerfile", "repo2docker", "devcontainer", "environment")
# Names that hold a version of another release, or that blocks install.
_VERSIONED = ("python", "libpython", "cuda", "libcuda", "libcudnn", "nvidia", "gcc-", "g++-", "clang-", "llvm-",
              "linux-headers", "libnccl", "tensorrt", "pypy")  # fmt: skip
ENV_OF_IMAGES = {
    *(
        "PATH",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "CUDA_HOME",
        "CONDA_DIR",
        "VIRTUAL_ENV",
        "DEBIAN_FRONTEND",
    ),
    *("HOME", "USER", "SHELL", "PWD", "LANG", "LC_ALL", "http_proxy", "https_proxy"),
}


def apt_of(
    statements: Sequence[Statement],
    requirements: Mapping[str, Choice],
    distributions: Distributions,
    paths: Collection[str],
) -> tuple[Choice, ...]:
    """Packages that an image needs: those that Dockerfiles name, and those that wheels and libraries load.

    Headers that sources include count if the repository, whose files are `paths`, has none of that name.
    """
    names_of_files = {path.rpartition("/")[2] for path in paths}
    found: dict[str, Choice] = {}
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
            if _is_package(name) and not name.startswith(_VERSIONED):
                found.setdefault(name, Choice(name, (statement.origin,)))
    for project, choice in requirements.items():
        for name in distributions.system.get(project, ()):
            found.setdefault(name, Choice(name, choice.origins, f"{project} loads it"))
    return tuple(found.values())


def packages_of(library: str, distributions: Distributions) -> tuple[str, ...]:
    """The packages of the distribution with a library, header or program; empty if unknown."""
    names = distributions.libraries.get(library) or (distributions.of_part(library),)
    return tuple(name for name in names if name and not name.startswith(_VERSIONED))


def _is_package(name: str) -> bool:
    try:
        TypeAdapter(AptPackage).validate_python(name)
    except ValidationError:
        return False
    return True


def env_of(statements: Sequence[Statement]) -> tuple[Choice, ...]:
    """The environment that a Dockerfile sets, without what belongs to its own base."""
    found = {}
    for statement in statements:
        name, _, value = statement.value.partition("=")
        if (statement.subject, statement.scope) != ("env", "run") or statement.format not in TRUSTED:
            continue
        if name in ENV_OF_IMAGES:
            continue
        try:
            TypeAdapter(EnvName).validate_python(name)
            TypeAdapter(Line).validate_python(value)
        except ValidationError:
            continue
        found[name] = Choice(statement.value, (statement.origin,))
    return tuple(found.values())


def pins_of(statements: Sequence[Statement], facts: Facts, base: PythonBase, day: date) -> dict[str, Choice]:
    """The compiler of the distribution, and its CUDA if the code has kernels of its own."""
    distro = facts.distros.distros[base.distro]
    gcc = distro.gcc.split(".")[0]
    others = [s for s in statements if s.subject == "gcc" and s.scope == "run" and not _meets(gcc, s.value)]
    overruled = tuple(Overruled(f"gcc {s.value}", s.origin, f"{base.distro} has {gcc}") for s in others)
    pins = {"gcc": Choice(gcc, (), f"the compiler of {base.distro}", overruled)}
    kernels = [s for s in statements if s.subject == "extension" and s.value in ("torch-cuda", "cuda")]
    wished = [s for s in statements if s.subject == "cuda"]
    if not kernels:
        return pins
    package = distro.cuda_package
    if package is None:
        return pins
    version = ".".join(package.cuda.split(".")[:2])
    lost = [
        Overruled(f"CUDA {s.value}", s.origin, f"{base.distro} has {version}")
        for s in wished
        if not _meets(version, s.value)
    ]
    then = facts.released.newest(facts.released.cuda, day.isoformat())
    why = f"the CUDA of {base.distro}" + (f"; {then} was the newest on {day}" if then and then != version else "")
    pins["cuda"] = Choice(version, (kernels[0].origin,), why, tuple(lost))
    pins["gcc"] = Choice(package.host_gcc, (), f"the newest that CUDA {version} of {base.distro} takes", overruled)
    return pins


def _meets(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier if specifier[:1] in "<>=!~" else f"=={specifier}.*").contains(version)
    except InvalidSpecifier:
        return True
