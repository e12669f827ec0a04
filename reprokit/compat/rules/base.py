"""Base images: tags that are gone, flavours that cannot compile, and pins that contradict the image."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.base import Base, same_release
from reprokit.compat.known import covering
from reprokit.compat.verdict import Clash, Verdict, error, info, unknown, warning
from reprokit.compat.version import begins, key, parts
from reprokit.compat.view import View


def tag(view: View) -> Iterator[Clash]:
    """Whether the reference can still be pulled."""
    base = view.base
    if base is None:
        return
    verdict = _tag(view, base)
    if verdict:
        if base.digest and verdict.severity == "error":
            verdict = warning(f"{verdict.reason}; the digest may still be served", verdict.sources)
        yield (f"base={base.text}",), verdict


def _tag(view: View, base: Base) -> Verdict | None:
    if base.kind == "nvidia_cuda":
        return _nvidia(view, base)
    if base.moving:
        return warning(f"the tag {base.tag or 'latest'!r} moves: name a release or a digest")
    if base.kind == "distro" and not base.implied and not base.digest:
        return unknown(f"no fact covers {base.text}")
    if base.kind == "other" or (base.kind == "pytorch" and not base.well_formed):
        return unknown(f"no fact covers the image {base.text}")
    return None


def _nvidia(view: View, base: Base) -> Verdict | None:
    facts = view.facts["images"]["nvidia_cuda"]
    sources = facts["source"]
    if base.tag in ("", "latest"):
        if base.digest:
            return None
        return error("NVIDIA removed the tag `latest` of nvidia/cuda", sources)
    version = base.implied.get("cuda", "")
    # The tag of a two-component 11.0 is gone, that of 11.0.3 is not: exact for three-component entries.
    for row in facts["deleted"]:
        for gone in row["versions"]:
            prefix_counts = gone.count(".") == 1 and gone != "11.0"
            if parts(gone) and version and (version == gone or (prefix_counts and begins(gone, version))):
                until = f" (last listed {row['last_listed']})" if "last_listed" in row else ""
                return error(f"NVIDIA deleted the tags of CUDA {version}{until}: {base.tag} cannot be pulled", sources)
    listed = facts["listed"]
    image = listed.get(version)
    if image is None:
        newest = max(listed, key=key)
        if not version or key(version) > key(newest):
            return unknown(f"no fact covers the tag {base.tag}", sources)
        return error(f"NVIDIA lists no tag {base.tag}: there is no image of CUDA {version}", sources)
    if not base.well_formed or not base.os.startswith("ubuntu"):
        if base.tag == "11.8.0-cudnn8-devel-centos7":
            return error(f"{base.tag} is gone: manifest unknown", ("nvdocker_1768",))
        return unknown(f"no fact covers the tag {base.tag}; those of Ubuntu are listed", sources)
    ubuntu = base.os.removeprefix("ubuntu")
    if ubuntu not in image["ubuntu"]:
        return error(f"NVIDIA lists CUDA {version} for Ubuntu {', '.join(image['ubuntu'])}, not {ubuntu}", sources)
    if not base.cudnn_tag:
        return None
    if image.get("cudnn_tag_unverified"):
        return unknown(f"whether CUDA {version} has a tag with {base.cudnn_tag} is not verified", sources)
    if base.cudnn_tag != image["cudnn_tag"] or ubuntu in image.get("ubuntu_without_cudnn", ()):
        has = f"with {image['cudnn_tag']}" if image["cudnn_tag"] else "without cuDNN"
        if ubuntu in image.get("ubuntu_without_cudnn", ()):
            has = f"without cuDNN for Ubuntu {ubuntu}"
        return error(f"NVIDIA lists no tag {base.tag}: CUDA {version} is listed {has}", sources)
    return None


def flavour(view: View) -> Iterator[Clash]:
    """Compiling needs nvcc, which only devel images have."""
    base = view.base
    if base is None or base.flavour not in ("base", "runtime"):
        return
    yield (
        (f"base={base.text}", "for=compile"),
        error(
            f"a {base.flavour} image has no nvcc and no headers: compiling needs the devel image",
            view.facts["images"]["nvidia_cuda"]["source"] if base.kind == "nvidia_cuda" else ("by_hand",),
        ),
    )


def cudnn_headers(view: View) -> Iterator[Clash]:
    """cuDNN is pinned, and the image brings none."""
    base, pinned = view.base, view.stack.pins.get("cudnn")
    if base and pinned and base.kind == "nvidia_cuda" and base.well_formed and not base.cudnn_tag:
        yield (
            (f"cudnn={pinned}", f"base={base.text}"),
            info("this image brings no cuDNN: a block must install it with its headers", ("by_hand",)),
        )


def contradiction(view: View) -> Iterator[Clash]:
    """An explicit pin that is not what the image brings."""
    base = view.base
    if base is None:
        return
    for name, implied in base.implied.items():
        pinned = view.stack.pins.get(name)
        if not pinned:
            continue
        if name == "distro":
            same = covering(view.facts, "distro", pinned) in ((), covering(view.facts, "distro", implied))
        else:
            same = not parts(pinned) or same_release(pinned, implied)
        if not same:
            yield (
                (f"{name}={pinned}", f"base={base.text}"),
                error(f"the image {base.text} brings {name} {implied}, the pin says {pinned}"),
            )
