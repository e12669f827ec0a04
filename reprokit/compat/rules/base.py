"""Base images: tags that were deleted, flavours that cannot compile, and pins that contradict the image."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.base import ParsedBase
from reprokit.compat.model import COMPILE
from reprokit.compat.releases import matching_releases
from reprokit.compat.rule import CompatRule, Problem, Verdict, error, info, rule, unknown, warning
from reprokit.compat.version import begins, key, overlap, parts
from reprokit.compat.view import View


@rule("base-tag", changes="base")
def tag(view: View) -> Iterator[Problem]:
    """Whether the reference can still be pulled."""
    if base := view.base:
        verdict = next(_tag(view, base), None)
        if base.digest and verdict and verdict.severity == "error":
            verdict = warning(f"{verdict.reason}; the digest may still be served", verdict.sources)
        yield Problem((f"base={base.text}",), verdict)


def _tag(view: View, base: ParsedBase) -> Iterator[Verdict]:
    if base.kind == "nvidia_cuda":
        yield from _nvidia(view, base)
    elif base.moving:
        tag = base.tag or "latest"
        yield warning(f"the tag {tag!r} is moved to newer images over time; name a release or a digest instead")
    elif base.kind == "distro" and not base.implied and not base.digest:
        yield unknown(f"no fact covers {base.text}")
    elif base.kind == "other" or (base.kind == "pytorch" and not base.well_formed):
        yield unknown(f"no fact covers the image {base.text}")


def _nvidia(view: View, base: ParsedBase) -> Iterator[Verdict]:
    facts = view.facts.images.nvidia_cuda
    sources = facts.source
    if base.tag in ("", "latest"):
        if not base.digest:
            yield error("NVIDIA deleted the tag `latest` of nvidia/cuda", sources)
        return
    version = base.implied.get("cuda", "")
    # The tag 11.0 is deleted, 11.0.3 is not: entries of three numbers match exactly.
    for row in facts.deleted:
        for deleted in row.versions:
            prefix_counts = deleted.count(".") == 1 and deleted != "11.0"
            if parts(deleted) and version and (version == deleted or (prefix_counts and begins(deleted, version))):
                until = f" (last listed {row.last_listed})" if row.last_listed else ""
                yield error(f"{base.tag} cannot be pulled: NVIDIA deleted the tags of CUDA {version}{until}", sources)
    image = facts.listed.get(version)
    if image is None:
        if not version or key(version) > max(map(key, facts.listed)):
            yield unknown(f"no fact covers the tag {base.tag}", sources)
        yield error(f"{base.tag} does not exist: NVIDIA lists no image of CUDA {version}", sources)
        return
    if not base.well_formed or not base.os.startswith("ubuntu"):
        if base.tag == "11.8.0-cudnn8-devel-centos7":
            yield error(f"{base.tag} cannot be pulled: registries answer `manifest unknown`", ("nvdocker_1768",))
        yield unknown(f"no fact covers the tag {base.tag}; the facts list tags of Ubuntu", sources)
    ubuntu = base.os.removeprefix("ubuntu")
    if ubuntu not in image.ubuntu:
        listed = ", ".join(image.ubuntu)
        yield error(f"NVIDIA has images of CUDA {version} for Ubuntu {listed}, not for {ubuntu}", sources)
    if not base.cudnn_tag:
        return
    if image.cudnn_tag_unverified:
        yield unknown(f"no fact says whether CUDA {version} has a tag with {base.cudnn_tag}", sources)
    without = ubuntu in image.ubuntu_without_cudnn
    if without or base.cudnn_tag != image.cudnn_tag:
        has = f"with {image.cudnn_tag}" if image.cudnn_tag else "without cuDNN"
        has = f"without cuDNN for Ubuntu {ubuntu}" if without else has
        yield error(f"{base.tag} does not exist: NVIDIA lists CUDA {version} {has}", sources)


@rule("base-flavour", changes="base", purposes=COMPILE)
def flavour(view: View) -> Iterator[Problem]:
    """An image without nvcc, which only devel images have, cannot compile."""
    base = view.base
    if base and base.flavour in ("base", "runtime"):
        reason = f"a {base.flavour} image has no nvcc and no headers; compiling needs the devel image"
        sources = view.facts.images.nvidia_cuda.source if base.kind == "nvidia_cuda" else ("by_hand",)
        yield Problem((f"base={base.text}", "for=compile"), error(reason, sources))


def _contradiction(name: str) -> CompatRule:
    """An explicit pin that differs from what the image has."""

    @rule("base-pins", changes=f"{name} base")
    def check(view: View) -> Iterator[Problem]:
        base, pinned = view.base, view.stack.pins.get(name)
        implied = base.implied.get(name) if base else None
        if not base or not implied or not pinned:
            return
        if name == "distro":
            releases = matching_releases(view.facts, name, pinned)
            same = releases in ((), matching_releases(view.facts, name, implied))
        else:
            same = not parts(pinned) or overlap(pinned, implied)
        if not same:
            reason = f"the image {base.text} has {name} {implied}, but the pin is {pinned}"
            yield Problem((f"{name}={pinned}", f"base={base.text}"), error(reason))

    return check


cuda, cudnn, distro, torch, python = map(_contradiction, ("cuda", "cudnn", "distro", "torch", "python"))


@rule("base-cudnn", purposes=COMPILE)
def cudnn_headers(view: View) -> Iterator[Problem]:
    """cuDNN is pinned, and the image has none."""
    base, pinned = view.base, view.stack.pins.get("cudnn")
    if base and pinned and base.kind == "nvidia_cuda" and base.well_formed and not base.cudnn_tag:
        reason = "this image has no cuDNN; the block cudnn must install it with its headers (`from: wheel`)"
        yield Problem((f"cudnn={pinned}", f"base={base.text}"), info(reason, ("by_hand",)))
