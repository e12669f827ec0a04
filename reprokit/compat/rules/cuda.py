"""CUDA with the host compiler (nvcc's limits, the distribution's default), the driver, and the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reprokit.compat.model import COMPILE, GPU, KnownGpu
from reprokit.compat.rule import (
    Problem,
    Verdict,
    combination_rule,
    combined,
    error,
    needs,
    problems,
    rule,
    unknown,
    warning,
)
from reprokit.compat.schema import Toolkit, rows_for
from reprokit.compat.version import at_most, key, older, overlap, parts, series
from reprokit.compat.view import View


def judge_gcc(view: View, release: str, version: str) -> Iterator[Verdict]:
    """A CUDA release with a release of gcc as nvcc's host compiler."""
    toolkit = view.facts.cuda.toolkits[series(release)]
    newest, oldest = toolkit.gcc.newest(release), toolkit.gcc.min
    if not at_most(version, newest):
        reason = f"nvcc of CUDA {release} accepts gcc up to {newest}, not {series(version, 1)}"
        yield error(reason, toolkit.source_host)
    yield from needs(f"nvcc of CUDA {release}", "gcc", oldest, version, toolkit.source_host)
    for caution in view.facts.cuda.cautions:
        affected = any(overlap(r, release) for r in caution.releases)
        if affected and key(caution.gcc_from) <= key(version) < key(caution.gcc_below):
            reason = f"CUDA {release} with gcc {version}: {caution.text}"
            yield Verdict(caution.severity, reason, caution.source)


gcc = combination_rule("cuda-gcc", of="cuda gcc", purposes=COMPILE)(judge_gcc)


@combination_rule("cuda-clang", of="cuda clang", purposes=COMPILE)
def clang(view: View, release: str, version: str) -> Iterator[Verdict]:
    toolkit = view.facts.cuda.toolkits[series(release)]
    newest, oldest = toolkit.clang.newest(release), toolkit.clang.min
    # "8.0" means all of clang 8; before clang 4 the second number counts.
    if not at_most(version, newest if key(newest)[0] < 4 else series(newest, 1)):
        reason = f"nvcc of CUDA {release} accepts clang up to {newest}, not {version}"
    elif older(version, oldest):
        reason = f"nvcc of CUDA {release} needs clang {oldest} or later, not {version}"
    else:
        return
    # With a gcc pin, nvcc calls gcc instead of clang.
    if view.pin("gcc"):
        yield Verdict("info", f"{reason}; gcc is pinned too, so let nvcc use gcc", toolkit.source_host)
    yield error(reason, toolkit.source_host)


@combination_rule("cuda-cxx", of="cuda cxx_standard", changes="cuda", purposes=COMPILE)
def standard(view: View, release: str, cxx: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.cuda.cxx, release):
        if int(cxx) > int(row.cxx):
            yield error(f"nvcc of CUDA {release} knows no standard after C++{row.cxx}, not C++{cxx}", row.source)


@rule("cuda-default-gcc", changes="cuda distro", purposes=COMPILE)
def default_gcc(view: View) -> Iterator[Problem]:
    """CUDA with the distribution's gcc, if no compiler is pinned."""
    cuda, distro = view.known_pin("cuda"), view.known_pin("distro")
    if cuda is None or distro is None or view.pin("gcc") or view.pin("clang"):
        return
    name = distro.versions[0]
    facts = view.distro(name)
    if facts.cuda_package and any(overlap(v, facts.cuda_package.cuda) for v in cuda.versions):
        return  # Debian's CUDA packages depend on a host compiler that fits.
    verdict = combined((f"CUDA {v}", judge_gcc(view, v, facts.gcc)) for v in cuda.versions)
    if verdict and verdict.severity in ("error", "warning"):
        reason = f"gcc is not pinned, and {name} has gcc {facts.gcc}: {verdict.reason}. Pin gcc"
        yield Problem((cuda.label, distro.label), warning(reason, (*verdict.sources, *facts.source)))


@rule("cuda-driver", changes="cuda torch driver", purposes=GPU)
def cuda_driver(view: View) -> Iterator[Problem]:
    driver = view.driver
    if driver is None:
        return
    for subjects, verdict in problems(view, ("cuda", "driver"), judge_driver):
        yield Problem(subjects, _in_image(view, verdict))
    torch = view.known_pin("torch")
    if torch and view.stack.purpose in ("run", "compile") and not torch.from_base:
        verdict = combined(
            (w.label, judge_driver(view, w.cuda, driver))
            for w in view.torch_wheels()
            if w.cuda and not w.uncertain and series(w.cuda) in view.facts.cuda.toolkits
        )
        # Wheels of CUDA 11 or later run on the oldest driver of their family; few programs need more.
        if verdict and verdict.severity == "error":
            yield Problem((torch.label, f"driver={driver}"), _in_image(view, verdict))


def _in_image(view: View, verdict: Verdict | None) -> Verdict | None:
    """Soften a verdict in NVIDIA's images: data-centre GPUs may use the newer driver's libraries in them."""
    gpus = view.stack.gpus
    if verdict is None or verdict.severity != "error" or not view.base or view.base.kind != "nvidia_cuda" or not gpus:
        return verdict
    if any(gpu.line != "datacenter" for gpu in gpus):
        return verdict
    reason = f"{verdict.reason}; the image's cuda-compat libraries run it on data-centre GPUs, from many older drivers"
    return warning(reason, (*verdict.sources, "nv_forward"))


def _shipped(view: View, release: str) -> str | None:
    toolkit = view.facts.cuda.toolkits[series(release)]
    drivers = toolkit.driver_by_release
    return drivers.get(release) or (min(drivers.values(), key=key) if drivers else toolkit.driver_min)


def judge_driver(view: View, release: str, driver: str) -> Iterator[Verdict]:
    """A CUDA release (or minor) on a driver."""
    minor = series(release)
    toolkit = view.facts.cuda.toolkits[minor]
    family, by_release, stated = toolkit.family_driver_min, toolkit.driver_by_release, toolkit.driver_min
    sources = toolkit.source
    named, shipped = release if release in by_release else minor, _shipped(view, release)
    if shipped is None:
        if older(driver, family):
            yield error(f"CUDA {minor} needs driver {family} or later", ("nv_compat", *sources))
        yield unknown(f"no fact says which driver CUDA {minor} ships with; its family needs {family} or later", sources)
    elif not older(driver, shipped):
        if release != minor and older(driver, stated) and not older(stated or "", shipped):
            yield warning(f"the release notes of CUDA {minor} ask for driver {stated} or later", sources)
    elif family is None:
        reason = f"CUDA {named} needs driver {shipped} or later: before CUDA 11 a driver runs no newer CUDA"
        yield error(reason, sources)
    elif older(driver, family):
        major = minor.split(".")[0]
        reason = f"CUDA {named} ships with driver {shipped}, and every CUDA {major} needs driver {family} or later"
        yield error(reason, (*sources, "nv_compat"))
    elif view.stack.purpose == "ptx":
        reason = f"PTX of CUDA {named} needs driver {shipped} or later: a driver cannot compile PTX of a newer toolkit"
        yield error(reason, (*sources, "nvbandwidth_61"))
    else:
        yield warning(
            f"CUDA {named} ships with driver {shipped}; driver {driver} runs it by minor-version compatibility: newer "
            "features are missing and PTX cannot be compiled, so compile for the GPU's own capability",
            (*sources, "nv_compat", "nvbandwidth_61"),
        )


@combination_rule("gpu-driver", of="gpu driver", changes="driver", purposes=GPU)
def gpu_driver(view: View, gpu: KnownGpu, driver: str) -> Iterator[Verdict]:
    """A driver older than the GPU, or newer than the last one for it.

    The first driver branch for a GPU is that of the first CUDA with its capability.
    """
    toolkits, facts, branch = view.facts.cuda.toolkits, view.facts.gpus, int(series(driver, 1))
    last = facts.last_driver.get(_dot(gpu.sm), "")
    if last and branch > int(last):
        yield error(f"{last} is the last branch of drivers that supports sm_{gpu.sm}", facts.source_last_driver)
    since = _first_cuda(view, gpu)
    if since is None or since == min(toolkits, key=key) or _dot(gpu.sm) in facts.tegra:
        return
    shipped = toolkits[since].driver_min
    if shipped and branch < int(series(shipped, 1)):
        first = f"CUDA {since}, the first for it, shipped with {shipped}"
        sources = ("open_modules", *toolkits[since].source, *toolkits[since].source_sm)
        yield error(f"sm_{gpu.sm} needs a driver of branch {series(shipped, 1)} or later: {first}", sources)


@rule("recipe-driver", changes="driver", purposes=GPU)
def required(view: View) -> Iterator[Problem]:
    """The lowest driver that a recipe states."""
    driver, needs = view.driver, view.stack.requires_driver
    if driver and needs and parts(needs) and older(driver, needs):
        yield Problem(
            (f"requires.driver={needs}", f"driver={driver}"), error(f"the recipe needs driver {needs} or later")
        )


@rule("cuda-compat-geforce", changes="driver", purposes=GPU)
def geforce(view: View) -> Iterator[Problem]:
    """cuda-compat inside an image, on a GeForce card with a driver older than the toolkit's."""
    driver, cuda, base = view.driver, view.known_pin("cuda"), view.base
    if driver is None or cuda is None or base is None or base.kind != "nvidia_cuda":
        return
    verdicts = [next(judge_driver(view, v, driver), None) for v in cuda.versions]
    for gpu in view.stack.gpus:
        if gpu.line in ("geforce", "titan") and all(v is not None and v.severity == "warning" for v in verdicts):
            reason = (
                "the image's CUDA is newer than the driver, and its cuda-compat libraries do not support GeForce "
                "cards: CUDA fails with Error 804"
            )
            sources = ("gump_1", "mistral_144", "textgen_4407")
            yield Problem((f"base={base.text}", gpu.label, f"driver={driver}"), error(reason, sources))


@rule("cuda-compat-gpu", changes="base", purposes=GPU)
def compat_gpu(view: View) -> Iterator[Problem]:
    """cuda-compat inside an image, from a driver branch that no longer supports the GPU."""
    driver, cuda, base, facts = view.driver, view.known_pin("cuda"), view.base, view.facts.gpus
    if driver is None or cuda is None or base is None or base.kind != "nvidia_cuda":
        return
    shipped = min((s for v in cuda.versions if (s := _shipped(view, v))), key=key, default="")
    for gpu in view.stack.gpus:
        last = facts.last_driver.get(_dot(gpu.sm), "")
        if last and shipped and older(driver, shipped) and int(series(shipped, 1)) > int(last):
            reason = f"the image's cuda-compat is of driver {shipped}, and {last} is the last for sm_{gpu.sm}"
            sources = (*facts.source_last_driver, "nvidia_docker_1704")
            yield Problem((f"base={base.text}", gpu.label), error(f"{reason}: CUDA finds no GPU", sources))


@combination_rule("cuda-gpu", of="cuda gpu", changes="cuda", purposes=GPU)
def cuda_gpu(view: View, release: str, gpu: KnownGpu) -> Iterator[Verdict]:
    minor = series(release)
    toolkit = view.facts.cuda.toolkits[minor]
    sources = toolkit.source_sm
    if view.stack.purpose == "ptx":
        lowest = min(toolkit.sm)
        if gpu.sm < lowest:
            reason = f"PTX of CUDA {minor} is for sm_{lowest} and later; it cannot be compiled for sm_{gpu.sm}"
            yield error(reason, (*sources, "cubin_rule"))
        return
    if gpu.sm in toolkit.sm:
        return
    if other := _renumbered(view, gpu, toolkit):
        yield warning(f"CUDA {minor} has another number for capability {_dot(gpu.sm)}: sm_{other}", sources)
    portable = _portable(view, gpu, [sm for sm in toolkit.sm if sm // 10 == gpu.sm // 10 and sm < gpu.sm])
    if portable and view.stack.purpose != "compile":
        return
    if gpu.sm in toolkit.sm_unverified:
        yield unknown(f"no fact says whether nvcc of CUDA {minor} supports sm_{gpu.sm}", sources)
    if not portable:
        yield _impossible(view, minor, toolkit, gpu)
    since = _first_cuda(view, gpu)
    needs = f" (that needs CUDA {since})" if since else ""
    yield error(
        f"nvcc of CUDA {minor} cannot compile for sm_{gpu.sm}{needs}; code for sm_{max(portable)} runs on this GPU: "
        "compile for that and check with `--for run`",
        (*sources, "cubin_rule"),
    )


def _impossible(view: View, minor: str, toolkit: Toolkit, gpu: KnownGpu) -> Verdict:
    sources = (*toolkit.source_sm, "cubin_rule")
    low, high = min(toolkit.sm), max(toolkit.sm)
    if gpu.sm < low:
        last = view.facts.cuda.last_for_capability.get(_dot(gpu.sm))
        until = f"; the last with sm_{gpu.sm} is CUDA {last}" if last else ""
        return error(f"CUDA {minor} no longer supports sm_{gpu.sm}, only sm_{low} and later{until}", sources)
    since = _first_cuda(view, gpu)
    needs = f"; sm_{gpu.sm} needs CUDA {since}" if since else ""
    if gpu.sm < high:
        reason = f"nvcc of CUDA {minor} does not support sm_{gpu.sm}, and none of its code runs on that GPU{needs}"
    elif view.stack.purpose == "compile":
        reason = (
            f"nvcc of CUDA {minor} supports GPUs up to sm_{high}{needs}. Only PTX could run, which the driver compiles "
            "again at each start"
        )
    else:
        reason = (
            f"nvcc of CUDA {minor} supports GPUs up to sm_{high}{needs}. Binaries run only if they contain PTX: check "
            "with `--for ptx`"
        )
    return error(reason, sources)


def _renumbered(view: View, gpu: KnownGpu, toolkit: Toolkit) -> int | None:
    for pair in view.facts.cuda.renumbered:
        numbers = [int(pair.old.replace(".", "")), int(pair.new.replace(".", ""))]
        if gpu.sm in numbers:
            other = numbers[1 - numbers.index(gpu.sm)]
            return other if other in toolkit.sm else None
    return None


def _portable(view: View, gpu: KnownGpu, sms: Iterable[int]) -> list[int]:
    """The `sms` whose cubins run on the GPU: same major, not newer, and neither a Tegra."""
    tegra = {int(c.replace(".", "")) for c in view.facts.gpus.tegra}
    return [] if gpu.sm in tegra else [s for s in sms if s not in tegra]


def runs_on(view: View, gpu: KnownGpu, sms: Iterable[int]) -> bool:
    """Whether one of the cubins `sms` (86 for sm_86) runs on the GPU."""
    sms = list(sms)
    return gpu.sm in sms or bool(_portable(view, gpu, [s for s in sms if s // 10 == gpu.sm // 10 and s <= gpu.sm]))


def _first_cuda(view: View, gpu: KnownGpu) -> str | None:
    """The oldest CUDA of the facts whose nvcc supports the GPU's capability."""
    return min((v for v, t in view.facts.cuda.toolkits.items() if gpu.sm in t.sm), key=key, default=None)


def _dot(sm: int) -> str:
    return f"{sm // 10}.{sm % 10}"
