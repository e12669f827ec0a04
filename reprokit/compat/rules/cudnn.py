"""cuDNN with CUDA: the pairs that were published."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.facts import Facts
from reprokit.compat.model import CODE, KnownGpu
from reprokit.compat.releases import TorchWheel, cuda_of_build
from reprokit.compat.rule import Problem, Verdict, combination_rule, combined, error, rule, warning
from reprokit.compat.schema import rows_for
from reprokit.compat.version import at_most, begins, key, overlap, series
from reprokit.compat.view import View


@rule("cudnn-cuda", changes="cudnn cuda")
def cudnn_cuda(view: View) -> Iterator[Problem]:
    cudnn, cuda = view.known_pin("cudnn"), view.known_pin("cuda")
    if cudnn is None or cuda is None or (cudnn.from_base and cuda.from_base):
        return
    minors = dict.fromkeys(map(series, cuda.versions))
    judged = {(d, c): [*_judge(view, d, c)] for d in cudnn.versions for c in minors}
    # A partial cuDNN pin means any release that fits.
    if all(any(not judged[d, c] for d in cudnn.versions) for c in minors):
        return
    verdict = combined((f"cuDNN {d} with CUDA {c}", v) for (d, c), v in judged.items())
    yield Problem((cudnn.label, cuda.label), verdict)


@combination_rule("torch-cudnn", of="torch_wheel cudnn", changes="cudnn", purposes=CODE)
def torch_cudnn(view: View, wheel: TorchWheel, version: str) -> Iterator[Verdict]:
    """An installed cuDNN beside torch's own: torch refuses to start beside an older one."""
    pin, release = view.pin("cudnn"), view.facts.torch.releases[wheel.version]
    built = release.cudnn.get(wheel.build) or release.cudnn.get("all")
    if pin is None or pin.from_base or not built or not wheel.cuda:
        return
    oldest, build = built if isinstance(built, str) else min(built, key=key), view.facts.torch_build
    same = build.cudnn_same
    if same.covers(wheel.version):
        if not any(series(v) == series(oldest) for v in pin.versions):
            reason = f"torch {wheel.version} was built with cuDNN {oldest} and refuses another minor"
            yield error(f"{reason}: pin {series(oldest)}", (*release.source, *same.source))
        return
    if build.cudnn_static.covers(wheel.version) or series(version, 1) != series(oldest, 1):
        return
    if any(at_most(oldest, v) for v in pin.versions):
        return
    reason = (
        f"torch {wheel.version} was built with cuDNN {oldest} and refuses the older {version} where that is loaded "
        "first: remove it, or pin one as new"
    )
    yield error(reason, (*release.source, "pt_80637"))


@combination_rule("cudnn-gpu", of="cudnn gpu", changes="cudnn", purposes=CODE)
def cudnn_gpu(view: View, version: str, gpu: KnownGpu) -> Iterator[Verdict]:
    pin = view.pin("cudnn")
    if pin is not None and not pin.from_base:
        yield from _too_old(view, f"cuDNN {version}", version, gpu)


@combination_rule("torch-cudnn-gpu", of="torch_wheel gpu", changes="torch", purposes=CODE)
def torch_cudnn_gpu(view: View, wheel: TorchWheel, gpu: KnownGpu) -> Iterator[Verdict]:
    """The cuDNN inside torch with the GPU, if the facts have it for this build."""
    by_build = view.facts.torch.releases[wheel.version].cudnn
    built = by_build.get(wheel.build) or (by_build.get("all") if gpu.capability[0] < 5 else None)
    if built and wheel.cuda:
        oldest = built if isinstance(built, str) else min(built, key=key)
        yield from _too_old(view, f"cuDNN {oldest}, which is in {wheel.label},", oldest, gpu)


def _too_old(view: View, what: str, version: str, gpu: KnownGpu) -> Iterator[Verdict]:
    for row in rows_for(view.facts.cudnn.gpu, version):
        if gpu.sm < int(row.cc_min.replace(".", "")):
            yield error(f"{what} supports GPUs from sm_{row.cc_min.replace('.', '')} on, not sm_{gpu.sm}", row.source)


def _judge(view: View, cudnn: str, minor: str) -> Iterator[Verdict]:
    pairs = view.facts.derived("published cuDNN", _published)
    if any(series(cudnn) == series(v) for c, v in pairs if overlap(c, minor)):
        return
    major = int(minor.split(".")[0])
    packages = [p for p in view.facts.cudnn.pypi if p.cuda_major == major]
    for package in packages:
        if key(package.first) <= key(cudnn) and (key(cudnn) <= key(package.last) or begins(cudnn, package.last)):
            return
    near = [v for c, v in pairs if (overlap(c, minor) if major < 11 else series(c, 1) == str(major))]
    majors = {key(v)[0] for v in (*near, *(end for p in packages for end in (p.first, p.last)))}
    if not majors:
        return
    published = ", ".join(sorted({series(v) for v in near}, key=key))
    on_pypi = "".join(f"; on PyPI {p.first} to {p.last}" for p in packages)
    cuda = minor if major < 11 else str(major)
    reason = f"cuDNN {cudnn} was not published for CUDA {minor}; published for CUDA {cuda}: {published}{on_pypi}"
    sources = ["img_mirror_2025", *(s for p in packages for s in p.source)]
    impossible = key(cudnn)[0] not in majors or any(key(cudnn) > key(p.last) for p in packages)
    yield (error if impossible else warning)(reason, sources)


def _published(facts: Facts) -> list[tuple[str, str]]:
    """(CUDA, cuDNN) of NVIDIA's images, Debian's packages and torch's wheels."""
    pairs = [(p.cuda, p.cudnn) for p in (*facts.cudnn.in_nvidia_images.pairs, *facts.cudnn.debian)]
    for release in facts.torch.releases.values():
        for build, versions in release.cudnn.items():
            if build.startswith("cu"):
                listed = [versions] if isinstance(versions, str) else versions
                pairs += [(cuda_of_build(build), version) for version in listed]
    return list(dict.fromkeys(pairs))
