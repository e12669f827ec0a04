"""cuDNN with CUDA: the pairs that were published."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.facts import Facts
from reprokit.compat.verdict import Clash, Verdict, error, shared, warning
from reprokit.compat.version import begins, key, series
from reprokit.compat.view import View


def check(view: View) -> Iterator[Clash]:
    cudnn, cuda = view.known("cudnn"), view.known("cuda")
    if cudnn is None or cuda is None or (cudnn.from_base and cuda.from_base):
        return
    cases = [
        (f"cuDNN {d} with CUDA {c}", _judge(view, d, c))
        for d in cudnn.versions
        for c in dict.fromkeys(series(v) for v in cuda.versions)
    ]
    # A partial cuDNN pin means the release that fits: any that does will do.
    fits = {c for label, v in cases if v is None for c in [label.rpartition(" ")[2]]}
    if fits and all(label.rpartition(" ")[2] in fits for label, _ in cases):
        return
    verdict = shared(cases)
    if verdict:
        yield (cudnn.label, cuda.label), verdict


def _judge(view: View, cudnn: str, minor: str) -> Verdict | None:
    pairs = [p for p in published(view) if begins(minor, p[0]) or begins(p[0], minor)]
    if any(series(cudnn, 2) == series(v, 2) for _, v in pairs):
        return None
    major = int(minor.split(".")[0])
    packages = [p for p in view.facts["cudnn"]["pypi"] if p["cuda_major"] == major]
    for package in packages:
        if key(package["first"]) <= key(cudnn) and (
            key(cudnn) <= key(package["last"]) or begins(cudnn, package["last"])
        ):
            return None
    sources = ["img_mirror_2025", *(s for p in packages for s in p["source"])]
    near = pairs if major < 11 else [p for p in published(view) if p[0].startswith(f"{major}.") or p[0] == str(major)]
    majors = {key(v)[0] for _, v in near} | {key(p[end])[0] for p in packages for end in ("first", "last")}
    if not majors:
        return None
    known = ", ".join(sorted({series(v, 2) for _, v in near}, key=key))
    spans = "".join(f", {p['first']} to {p['last']} on PyPI" for p in packages)
    there = "it" if major < 11 else f"CUDA {major}"
    reason = f"cuDNN {cudnn} was not published for CUDA {minor}; for {there} there are {known}{spans}"
    impossible = key(cudnn)[0] not in majors or any(key(cudnn) > key(p["last"]) for p in packages)
    return error(reason, sources) if impossible else warning(reason, sources)


def published(view: View) -> list[tuple[str, str]]:
    """(CUDA, cuDNN) of NVIDIA's images, Debian's packages and torch's wheels."""
    return view.facts.derived("published cuDNN", _published)


def _published(all_facts: Facts) -> list[tuple[str, str]]:
    facts = all_facts["cudnn"]
    found = [(p["cuda"], p["cudnn"]) for p in facts["in_nvidia_images"]["pairs"]]
    found += [(p["cuda"], p["cudnn"]) for p in facts["debian"]]
    for release in all_facts["torch"]["releases"].values():
        for build, versions in release.get("cudnn", {}).items():
            if build.startswith("cu"):
                digits = build.removeprefix("cu")
                for version in versions if isinstance(versions, list) else [versions]:
                    found.append((f"{digits[:-1]}.{digits[-1]}", version))
    return list(dict.fromkeys(found))
