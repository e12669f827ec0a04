"""The build of torch for the CUDA of the image, or for the one that files state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from reprokit.compat.facts import Facts
from reprokit.compat.version import key, key_or_zero
from reprokit.importing.decision import Choice, Decision, Overruled, Question, Versions
from reprokit.importing.merge import WEIGHTS
from reprokit.importing.model import Statement

_INDEX = "https://download.pytorch.org/whl/cu{digits}"
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
        """The suffix of a package that loads only with the build of torch that it was made for."""
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
    return f"=={digits[:-1]}.{digits[-1]}.*" if digits.isdigit() and len(digits) in (2, 3) else ""


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
    if release is None or "+" in version or _major(release.default) == _major(cuda.value):
        return TorchBuild(Choice(version))
    nearest = _nearest(release.builds, cuda.value)
    return _of(Choice(version), nearest) if nearest else TorchBuild(Choice(version))


def without_index(build: TorchBuild, why: str, decision: Decision, facts: Facts) -> tuple[TorchBuild, Question]:
    """PyPI's build of the release if the index of `build` cannot be reached, and a question that says so.

    The build stays if the recipe compiles code for its CUDA, whose major version PyPI's build does not have.
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
        own = f"{local[2:-1]}.{local[-1:]}" if local.startswith("cu") else local
        return TorchBuild(Choice(version, lost=_lost(stated, own, "the version of torch names its build")))
    if release is None:
        return TorchBuild(Choice(version, lost=_lost(stated, "", f"the builds of torch {version} are not known")))
    builds = sorted({*release.builds, *filter(None, [release.default])}, key=_key)
    for one in stated:
        if fits := [build for build in builds if meets(build, one.value)]:
            chosen = release.default if release.default in fits else fits[0]
            why = f"built for CUDA {chosen}, as stated"
            break
    else:
        chosen = _nearest(builds, stated[0].value.lstrip("<>=!~").removesuffix(".*")) or release.default
        one, why = Choice(""), f"built for CUDA {chosen}"
    lost = _lost(stated, chosen, f"torch {version} has builds for {', '.join(builds)}; this one is for {chosen}")
    found = Choice(version, one.origins, why, lost)
    return TorchBuild(found) if chosen == release.default else _of(found, chosen)


def _of(choice: Choice, cuda: str) -> TorchBuild:
    digits = cuda.replace(".", "")
    return TorchBuild(
        Choice(f"{choice.value}+cu{digits}", choice.origins, choice.why, choice.lost), _INDEX.format(digits=digits)
    )


def _lost(stated: Sequence[Choice], chosen: str, why: str) -> tuple[Overruled, ...]:
    return tuple(Overruled(f"CUDA {s.value}", s.origins[0], why) for s in stated if not meets(chosen, s.value))


def _nearest(builds: Sequence[str], cuda: str) -> str:
    """The newest build of the same major version that is not newer, otherwise the oldest of it."""
    same = sorted((build for build in builds if _major(build) == _major(cuda)), key=_key)
    older = [build for build in same if _key(build) <= _key(cuda)]
    return older[-1] if older else next(iter(same), "")


def meets(cuda: str, specifier: str) -> bool:
    """Whether a CUDA such as `11.3` has a patch release that fits a specifier such as `==11.3.1` or `11.3`."""
    try:
        wanted = SpecifierSet(specifier if specifier[:1] in "<>=!~" else f"=={specifier}.*")
        return any(wanted.contains(f"{cuda}.{patch}") for patch in range(_PATCHES)) if cuda[:1].isdigit() else False
    except InvalidSpecifier:
        return False


def torch_block(version: str, facts: Facts) -> str | dict[str, dict[str, str]] | None:
    """The entry of `blocks` for this torch; None if the CUDA of its wheel is not known, which the block asserts."""
    if "+" in version:
        return "torch"
    release = facts.torch.releases.get(version)
    return {"torch": {"cuda": release.default}} if release and release.default else None


def _major(cuda: str) -> str:
    return cuda.partition(".")[0]


def _key(cuda: str) -> tuple[int, ...]:
    return tuple(int(part) for part in cuda.split(".")[:2] if part.isdigit())
