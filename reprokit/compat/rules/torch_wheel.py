"""PyTorch wheels: which build a pin means, and what is inside."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.compat.view import Pin, View


@dataclass(frozen=True)
class Wheel:
    """One release in one build. `cuda` is "" for a CPU build; `sm` is None where its archs are not known.

    `uncertain`: that this is the CUDA of the build is not verified. `verified`: the archs are.
    """

    version: str
    build: str
    cuda: str
    sm: tuple[int, ...] | None
    ptx: tuple[int, ...]
    verified: bool
    uncertain: bool
    conda_sm: tuple[int, ...] | None
    sources: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"torch {self.version} ({'CPU build' if not self.cuda else 'CUDA ' + self.cuda})"


def wheels(view: View, torch: Pin) -> list[Wheel]:
    """The wheels that a pin stands for: its local part's build, else PyPI's default of each release."""
    return [wheel(view, v, torch.local) for v in torch.versions]


def wheel(view: View, version: str, build: str) -> Wheel:
    release = view.facts["torch"]["releases"][version]
    doubts = release.get("unverified", ())
    if build and not build.startswith("cu"):
        return Wheel(version, build, "", (), (), True, False, None, tuple(release["source"]))
    uncertain = not build and bool({"default", "all"} & set(doubts))
    cuda = dotted(build) if build else release["default"]
    build = build or "cu" + cuda.replace(".", "")
    sm, ptx = release.get("sm", {}).get(build), release.get("ptx", {}).get(build, ())
    conda = release.get("conda_sm", {}).get(build)
    verified = not ({"sm", "all", f"sm:{build}"} & set(doubts))
    return Wheel(
        version, build, cuda, None if sm is None else tuple(sm), tuple(ptx), verified, uncertain,
        None if conda is None else tuple(conda), tuple(release["source"]),
    )  # fmt: skip


def dotted(build: str) -> str:
    """`11.1` of `cu111`, `9.2` of `cu92`."""
    digits = build.removeprefix("cu")
    return f"{digits[:-1]}.{digits[-1]}" if digits.isdigit() and len(digits) > 1 else ""
