"""DGL with torch, Python, CUDA and the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rules.cuda_gpu import runs_on
from reprokit.compat.rules.torch_wheel import dotted as cuda_of
from reprokit.compat.rules.wheels import dotted, tag
from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.version import at_most, begins, key, series, within
from reprokit.compat.view import View


def torch(view: View) -> Iterator[Clash]:
    dgl, pin = view.known("dgl"), view.known("torch")
    if dgl is None or pin is None:
        return
    cases = ((f"dgl {d} with torch {t}", _judge_torch(view, d, t)) for d in dgl.versions for t in pin.versions)
    verdict = shared(cases)
    if verdict:
        yield (dgl.label, pin.label), verdict


def _judge_torch(view: View, version: str, torch_version: str) -> Verdict | None:
    facts = view.facts["dgl"]
    dlpack = facts["bool_dlpack"]
    if at_most(version, dlpack["dgl_to"]) and key(torch_version) >= key(dlpack["torch_from"]):
        return error(
            f"DGL up to {dlpack['dgl_to']} with torch {dlpack['torch_from']} or later: {dlpack['text']}",
            dlpack["source"],
        )
    for row in facts["torch"]:
        if not within(version, row):
            continue
        if key(torch_version) < key(row["torch_min"]):
            return error(f"DGL {version} needs torch {row['torch_min']} or later, not {torch_version}", row["source"])
        if "torch_max" in row and key(torch_version) > key(row["torch_max"]):
            return error(f"DGL {version} has no graphbolt for torch after {row['torch_max']}", row["source"])
    graphbolt = facts["graphbolt"]
    if key(version) >= key(graphbolt["from"]):
        return warning(f"{graphbolt['text']}: see that it has one for {torch_version}", graphbolt["source"])
    return None


def python(view: View) -> Iterator[Clash]:
    dgl, pin = view.known("dgl"), view.known("python")
    if dgl is None or pin is None:
        return
    cases = (
        (f"dgl {d} with Python {p}", _judge_python(view, d, p, dgl.local)) for d in dgl.versions for p in pin.versions
    )
    verdict = shared(cases)
    if verdict:
        yield (dgl.label, pin.label), verdict


def _wheels(view: View, version: str, build: str) -> list[str] | None:
    """Python tags of the wheels on PyPI, None where PyPI has no such release."""
    facts = view.facts["dgl"]
    cuda = build.startswith("cu")
    table = facts["pypi_cuda"].get(f"dgl-{build}", {}) if cuda else facts["pypi_cpu"]["releases"]
    return next((tags for release, tags in table.items() if key(release) == key(version)), None)


def _judge_python(view: View, version: str, python_version: str, build: str) -> Verdict | None:
    facts = view.facts["dgl"]
    tags = _wheels(view, version, build)
    if tags is None or "py3" in tags or tag(python_version) in tags:
        return None
    return error(
        f"DGL {version} has wheels for Python {dotted(tags)}, not {series(python_version)}", facts["pypi_cpu"]["source"]
    )


def available(view: View) -> Iterator[Clash]:
    """Releases that PyPI does not carry."""
    dgl = view.known("dgl")
    if dgl is None:
        return
    facts = view.facts["dgl"]["not_on_pypi"]
    package = f"dgl-{dgl.local}" if dgl.local.startswith("cu") else "dgl"
    cases = (
        (
            f"dgl {v}",
            warning(
                f"PyPI has no wheel of {package} {v}; it comes from {facts['from']}, or from source", facts["source"]
            )
            if _wheels(view, v, dgl.local) is None
            else None,
        )
        for v in dgl.versions
    )
    verdict = shared(cases)
    if verdict:
        yield (dgl.label,), verdict


def cuda(view: View) -> Iterator[Clash]:
    """Prebuilt DGL that is to run on a GPU: a build for the CUDA of the stack must exist."""
    dgl, pin = view.known("dgl"), view.known("cuda")
    if dgl is None or not view.stack.gpus:
        return
    if not dgl.local and any(_wheels(view, v, "") is not None for v in dgl.versions):
        facts = view.facts["dgl"]
        yield (
            (dgl.label,),
            warning(
                "the wheel `dgl` on PyPI holds no GPU code; for a GPU take a build for its CUDA, such as dgl-cu102",
                facts["pypi_cpu"]["source"],
            ),
        )
    if pin is None:
        return
    cases = ((f"dgl {d} with CUDA {c}", _judge_cuda(view, d, c)) for d in dgl.versions for c in pin.versions)
    verdict = shared(cases)
    if verdict:
        yield (dgl.label, pin.label), verdict


def _judge_cuda(view: View, version: str, release: str) -> Verdict | None:
    facts = view.facts["dgl"]
    for row in facts["cuda_builds"]:
        if not within(version, row):
            continue
        if any(begins(c, release) or begins(release, c) for c in row["cuda"]):
            return None
        had = ", ".join(row["cuda"])
        doubtful = row.get("unverified") or any(begins(c, release) for c in row.get("cuda_unverified", ()))
        say = unknown if doubtful else warning
        return say(f"DGL {version} was published for CUDA {had}, not {series(release)}", facts["source_cuda_builds"])
    return None


def gpu(view: View) -> Iterator[Clash]:
    """The device code measured inside DGL's last CUDA wheels on PyPI."""
    dgl, pin = view.known("dgl"), view.known("cuda")
    if dgl is None:
        return
    cuda_text = cuda_of(dgl.local) if dgl.local.startswith("cu") else (series(pin.versions[0]) if pin else "")
    code = view.facts["dgl"]["device_code"].get("dgl-cu" + cuda_text.replace(".", ""))
    if not code or any(key(v) != key(code["release"]) for v in dgl.versions):
        return
    for card in view.stack.gpus:
        if runs_on(view, card, code["elf"]):
            continue
        ptx = [p for p in code["ptx"] if int(p.removeprefix("compute_")) <= card.sm]
        held = ", ".join(f"sm_{s}" for s in code["elf"])
        reason = f"the wheel dgl-cu{cuda_text.replace('.', '')} {code['release']} has code for {held}"
        if ptx:
            verdict = warning(
                f"{reason} and PTX for {ptx[0]} only: the driver compiles it at the first start", code["source"]
            )
        else:
            verdict = error(f"{reason}: none runs on sm_{card.sm}", code["source"])
        yield (dgl.label, card.label), verdict


def cmake(view: View) -> Iterator[Clash]:
    """DGL from source: the CMake it asks for."""
    dgl, pin = view.known("dgl"), view.known("cmake")
    if dgl is None or pin is None:
        return
    facts = view.facts["dgl"]

    def judge(version: str, release: str) -> Verdict | None:
        for row in facts["build"]:
            if within(version, row) and "cmake_min" in row and key(release) < key(row["cmake_min"]):
                return warning(
                    f"DGL {version} from source needs CMake {row['cmake_min']} or later", facts["source_build"]
                )
        return None

    verdict = shared((f"dgl {d} with CMake {c}", judge(d, c)) for d in dgl.versions for c in pin.versions)
    if verdict:
        yield (dgl.label, pin.label), verdict
