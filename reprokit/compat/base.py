"""The versions inside a base image, as its reference names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from reprokit.compat.facts import Facts
from reprokit.compat.releases import distro
from reprokit.compat.version import key_or_zero

Kind = Literal["nvidia_cuda", "pytorch", "distro", "python", "other"]
_KINDS: dict[str, Kind] = {
    "nvidia/cuda": "nvidia_cuda",
    "pytorch/pytorch": "pytorch",
    "debian": "distro",
    "ubuntu": "distro",
    "python": "python",
}
_REGISTRY = re.compile(r"nvcr\.io/|((index\.)?docker\.io/)?(library/)?")
_NVIDIA_TAG = re.compile(
    r"(?P<cuda>\d+(?:\.\d+)+)(?:-(?P<cudnn>cudnn\d*))?-(?P<flavour>base|runtime|devel)-(?P<os>[a-z]+[\d.]*)"
)
_PYTORCH_TAG = re.compile(
    r"(?P<torch>\d+\.\d+(?:\.\d+)?)-cuda(?P<cuda>\d+\.\d+)-cudnn(?P<cudnn>\d+)-(?P<flavour>runtime|devel)"
)
_DATE = re.compile(r"-\d{8}(\.\d+)?")
# The pins that an image can bring.
IMPLIED = ("cuda", "cudnn", "distro", "python", "torch")
_MOVING = ("latest", "stable", "testing", "unstable", "oldstable", "oldoldstable", "rolling", "devel", "")


@dataclass(frozen=True)
class ParsedBase:
    """A parsed reference. `implied` are the versions inside the image; `tag` has no digest."""

    text: str
    kind: Kind
    repository: str
    tag: str
    digest: str = ""
    flavour: str = ""
    cudnn_tag: str = ""
    os: str = ""
    well_formed: bool = True
    moving: bool = False
    implied: Mapping[str, str] = field(default_factory=dict)


def parse_base(facts: Facts, text: str) -> ParsedBase:
    """Read an image reference such as `nvcr.io/nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04@sha256:...`."""
    return facts.derived(f"base {text}", lambda f: _parse(f, text))


def _parse(facts: Facts, text: str) -> ParsedBase:
    name, _, digest = text.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, ""
    repository = head[_REGISTRY.match(head).end() :]  # type: ignore[union-attr]
    base = ParsedBase(text, _KINDS.get(repository, "other"), head, tag, digest)
    if base.kind == "nvidia_cuda":
        return _nvidia(facts, base)
    if base.kind == "pytorch":
        return _pytorch(base)
    if base.kind == "distro":
        return _distribution(facts, replace(base, repository=repository))
    return _python(facts, replace(base, repository=repository)) if base.kind == "python" else base


def _nvidia(facts: Facts, base: ParsedBase) -> ParsedBase:
    match = _NVIDIA_TAG.fullmatch(base.tag)
    if match is None:
        cuda = re.match(r"\d+(\.\d+)+", base.tag)
        flavour = next((f for f in ("devel", "runtime", "base") if f in base.tag.split("-")), "")
        return replace(base, flavour=flavour, well_formed=False, implied={"cuda": cuda[0]} if cuda else {})
    implied = {"cuda": match["cuda"]}
    if canonical := distro(facts, match["os"]):
        implied["distro"] = canonical
    if cudnn := match["cudnn"]:
        listed = facts.images.nvidia_cuda.listed.get(match["cuda"])
        by_ubuntu = listed.cudnn_by_ubuntu.get(match["os"].removeprefix("ubuntu")) if listed else None
        if version := by_ubuntu or (listed and listed.cudnn) or cudnn.removeprefix("cudnn"):
            implied["cudnn"] = version
    return replace(base, flavour=match["flavour"], cudnn_tag=cudnn or "", os=match["os"], implied=implied)


def _pytorch(base: ParsedBase) -> ParsedBase:
    match = _PYTORCH_TAG.fullmatch(base.tag)
    if match is None:
        return replace(base, well_formed=False, moving=base.tag in _MOVING)
    build = "cu" + match["cuda"].replace(".", "")
    implied = {"torch": f"{match['torch']}+{build}", "cuda": match["cuda"], "cudnn": match["cudnn"]}
    return replace(base, flavour=match["flavour"], implied=implied)


def _distribution(facts: Facts, base: ParsedBase) -> ParsedBase:
    if base.tag in _MOVING:
        return replace(base, moving=not base.digest)
    release = _DATE.sub("", base.tag).removesuffix("-slim").removesuffix("-backports")
    canonical = distro(facts, f"{base.repository}:{release}")
    return replace(base, implied={"distro": canonical} if canonical else {})


def _python(facts: Facts, base: ParsedBase) -> ParsedBase:
    version, *words = base.tag.split("-")
    implied = {"python": version} if key_or_zero(version) else {}
    implied.update(("distro", canonical) for word in words if (canonical := distro(facts, word)))
    return replace(base, moving=not implied and not base.digest, implied=implied)


def nvidia_references(facts: Facts, base: ParsedBase) -> list[str]:
    """Every listed nvidia/cuda reference of the base's repository, with its flavour and with or without cuDNN."""
    references = []
    for version, image in facts.images.nvidia_cuda.listed.items():
        part = ""
        if base.cudnn_tag or "cudnn" in base.tag:
            if not image.cudnn_tag or image.cudnn_tag_unverified:
                continue
            part = image.cudnn_tag + "-"
        for ubuntu in image.ubuntu:
            if part and ubuntu in image.ubuntu_without_cudnn:
                continue
            references.append(f"{base.repository}:{version}-{part}{base.flavour or 'devel'}-ubuntu{ubuntu}")
    return references
