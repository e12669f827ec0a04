"""The versions inside a base image, as its reference names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from reprokit.compat.facts import Facts
from reprokit.compat.known import distro
from reprokit.compat.version import key_or_zero

Kind = Literal["nvidia_cuda", "pytorch", "distro", "python", "other"]
_REGISTRIES = ("docker.io/library/", "docker.io/", "index.docker.io/library/", "index.docker.io/", "library/")
_NVIDIA_TAG = re.compile(
    r"(?P<cuda>\d+(?:\.\d+)+)(?:-(?P<cudnn>cudnn\d*))?-(?P<flavour>base|runtime|devel)-(?P<os>[a-z]+[\d.]*)"
)
_PYTORCH_TAG = re.compile(
    r"(?P<torch>\d+\.\d+(?:\.\d+)?)-cuda(?P<cuda>\d+\.\d+)-cudnn(?P<cudnn>\d+)-(?P<flavour>runtime|devel)"
)
_DATE = re.compile(r"-\d{8}(\.\d+)?")
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
    name, _, digest = text.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, ""
    repository = head
    for prefix in (*_REGISTRIES, "nvcr.io/"):
        if repository.startswith(prefix):
            repository = repository[len(prefix) :]
            break
    if repository == "nvidia/cuda":
        return _nvidia(facts, text, head, tag, digest)
    if repository == "pytorch/pytorch":
        return _pytorch(text, head, tag, digest)
    if repository in ("debian", "ubuntu"):
        return _distribution(facts, text, repository, tag, digest)
    if repository == "python":
        return _python(facts, text, tag, digest)
    return ParsedBase(text, "other", head, tag, digest)


def _nvidia(facts: Facts, text: str, repository: str, tag: str, digest: str) -> ParsedBase:
    match = _NVIDIA_TAG.fullmatch(tag)
    if match is None:
        found = re.match(r"\d+(\.\d+)+", tag)
        implied = {"cuda": found[0]} if found else {}
        flavour = next((f for f in ("devel", "runtime", "base") if f in tag.split("-")), "")
        return ParsedBase(text, "nvidia_cuda", repository, tag, digest, flavour, well_formed=False, implied=implied)
    implied = {"cuda": match["cuda"]}
    os_name = match["os"]
    canonical = distro(facts, os_name)
    if canonical:
        implied["distro"] = canonical
    listed = facts.images.nvidia_cuda.listed.get(match["cuda"])
    cudnn_tag = match["cudnn"] or ""
    if cudnn_tag:
        by_ubuntu = listed.cudnn_by_ubuntu.get(os_name.removeprefix("ubuntu")) if listed else None
        version = by_ubuntu or (listed and listed.cudnn) or cudnn_tag.removeprefix("cudnn")
        if version:
            implied["cudnn"] = version
    return ParsedBase(
        text, "nvidia_cuda", repository, tag, digest, match["flavour"], cudnn_tag, os_name, implied=implied
    )


def _pytorch(text: str, repository: str, tag: str, digest: str) -> ParsedBase:
    match = _PYTORCH_TAG.fullmatch(tag)
    if match is None:
        return ParsedBase(text, "pytorch", repository, tag, digest, well_formed=False, moving=tag in _MOVING)
    build = "cu" + match["cuda"].replace(".", "")
    implied = {"torch": f"{match['torch']}+{build}", "cuda": match["cuda"], "cudnn": match["cudnn"]}
    return ParsedBase(text, "pytorch", repository, tag, digest, match["flavour"], implied=implied)


def _distribution(facts: Facts, text: str, family: str, tag: str, digest: str) -> ParsedBase:
    if tag in _MOVING:
        return ParsedBase(text, "distro", family, tag, digest, moving=not digest)
    release = _DATE.sub("", tag).removesuffix("-slim").removesuffix("-backports")
    canonical = distro(facts, f"{family}:{release}")
    return ParsedBase(text, "distro", family, tag, digest, implied={"distro": canonical} if canonical else {})


def _python(facts: Facts, text: str, tag: str, digest: str) -> ParsedBase:
    version, *rest = tag.split("-")
    implied = {"python": version} if key_or_zero(version) else {}
    for word in rest:
        canonical = distro(facts, word)
        if canonical:
            implied["distro"] = canonical
    return ParsedBase(text, "python", "python", tag, digest, moving=not implied and not digest, implied=implied)


def nvidia_references(facts: Facts, base: ParsedBase) -> list[str]:
    """Every listed nvidia/cuda reference of the base's repository, with its flavour and with or without cuDNN."""
    found = []
    for version, image in facts.images.nvidia_cuda.listed.items():
        part = ""
        if base.cudnn_tag or "cudnn" in base.tag:
            if not image.cudnn_tag or image.cudnn_tag_unverified:
                continue
            part = image.cudnn_tag + "-"
        for ubuntu in image.ubuntu:
            if part and ubuntu in image.ubuntu_without_cudnn:
                continue
            found.append(f"{base.repository}:{version}-{part}{base.flavour or 'devel'}-ubuntu{ubuntu}")
    return found
