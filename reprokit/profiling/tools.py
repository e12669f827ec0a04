"""The profilers: how each wraps a command, its files, its capabilities, and its parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType

from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount
from reprokit.profiling import output
from reprokit.profiling.model import Summary
from reprokit.recipe.spelling import nearest

HOME = "/.reprokit-profile"  # in the container: our programs
FOLDER = f"{HOME}/out"  # the profilers' output
_LAUNCHER, _REDUCE = f"{HOME}/launcher.py", f"{HOME}/reduce.py"
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
# In Debian's package nsys does not find its importer, and leaves the raw report.qdstrm.
_IMPORT = f"""cd {FOLDER} && {{
    ls report.*rep || /usr/lib/nsight-systems/host-linux-*/QdstrmImporter --input-file report.qdstrm
}} && rm -f report.qdstrm"""


@dataclass(frozen=True)
class Profiler:
    """`reports` maps the files that it may leave to the programs that open them; the commands `then` make more files.

    `summaries` are commands whose output `read` parses; the first that works counts. Each set of `capabilities` is
    tried in turn, for the reason `why`. `mount` is for this machine's tool. `counts` names the column of counts.
    `refused` is the hint if there is no report.
    """

    name: str
    wrap: Callable[[Sequence[str]], list[str]]
    reports: Mapping[str, str]
    summaries: tuple[tuple[str, ...], ...]
    read: Callable[[str], Summary]
    install: str
    then: tuple[tuple[str, ...], ...] = ()
    capabilities: tuple[tuple[str, ...], ...] = ((),)
    why: str = ""
    mount: BindMount | None = None
    counts: str = "calls"
    refused: str = "see what it printed above"


def python_of(argv: Sequence[str]) -> str:
    """The Python interpreter of the command, "" if it starts none."""
    return argv[0] if _PYTHON.fullmatch(PurePosixPath(argv[0]).name) else ""


def _torch(argv: Sequence[str]) -> list[str]:
    """Put the launcher between the interpreter with its options and the program."""
    hint = "start the program itself: python3 SCRIPT, python3 -m MODULE or python3 -c CODE"
    if not python_of(argv):
        raise UsageError(f"torch's profiler needs a Python program, and {argv[0]} is none", hint=hint)
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-m", "-c", "-"):
        at += 2 if argv[at] in _WITH_VALUE else 1
    if at >= len(argv) or argv[at] == "-" or (argv[at] in ("-m", "-c") and at + 1 >= len(argv)):
        raise UsageError("torch's profiler found no program to run", " ".join(argv)[:200], hint)
    return [*argv[:at], _LAUNCHER, FOLDER, *argv[at:]]


def _reduced(python: str) -> tuple[str, ...]:
    # Isolated: modules in the current folder must not shadow its imports.
    return (python, "-I", _REDUCE, FOLDER)


def profilers(argv: Sequence[str], programs: Mapping[str, str] = MappingProxyType({})) -> dict[str, Profiler]:
    """All profilers for a command; `programs` are the paths of profilers that are not in PATH."""
    python = python_of(argv) or "python3"
    nsys, ncu, spy = (programs.get(name, name) for name in ("nsys", "ncu", "py-spy"))
    # nsys 2020 leaves an empty export beside its report, and 2023 refuses an export as old as its report.
    stats = f"{nsys} stats --report %s --format csv --force-export=true {FOLDER}/report.*rep"
    kernels = ("cuda_gpu_kern_gb_sum", "gpukernsum", "cuda_gpu_kern_sum")  # nsys 2022 and older have only the second
    report = f"{FOLDER}/report.ncu-rep"
    tools = [
        Profiler(
            "torch",
            _torch,
            {"trace.json": "Perfetto (ui.perfetto.dev) or chrome://tracing"},
            (_reduced(python),),
            output.reduced,
            "give the variant a `torch` pin and the block `torch`",
            refused="a program that ends by a signal or os._exit() leaves none; let it end by itself",
        ),
        Profiler(
            "nsys",
            # Tracing needs no privilege; sampling the CPU would need perf events.
            lambda argv: [
                *(nsys, "profile", f"--output={FOLDER}/report", "--force-overwrite=true"),
                *("--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", *argv),
            ],
            {
                "report.nsys-rep": "Nsight Systems (nsys-ui)",
                "report.qdrep": "Nsight Systems (nsys-ui)",
                "report.qdstrm": "QdstrmImporter of the same Nsight Systems makes a report of it",
            },
            tuple(("sh", "-c", stats % name) for name in kernels),
            output.nsys,
            "add the package `nsight-systems` to the variant's `apt` list, with the block `apt` (Debian: after `cuda`)",
            then=(("sh", "-c", _IMPORT),),
            counts="launches",
        ),
        Profiler(
            "ncu",
            lambda argv: [
                *(ncu, "--export", f"{FOLDER}/report", "--force-overwrite", "--target-processes", "all"),
                *("--section", "SpeedOfLight", "--section", "LaunchStats", "--section", "Occupancy", *argv),
            ],
            {"report.ncu-rep": "Nsight Compute (ncu-ui)"},
            ((ncu, "--import", report, "--page", "raw", "--csv", "--print-units", "base"),),
            output.ncu,
            "add the package `nsight-compute` to the variant's `apt` list, with the block `apt` (Debian: after `cuda`)",
            counts="launches",
        ),
        Profiler(
            "perf",
            lambda argv: ["perf", "record", "-o", f"{FOLDER}/perf.data", "-F", "499", "-g", "--", *argv],
            {"perf.data": "perf report -i perf.data", "perf.txt": "Perfetto (ui.perfetto.dev)"},
            (
                (
                    *("perf", "report", "-i", f"{FOLDER}/perf.data", "--stdio", "--no-children", "-g", "none"),
                    *("-F", "overhead,sample,dso,sym", "-t", "|"),
                ),
            ),
            output.perf,
            "add the package `linux-perf` (Ubuntu: `linux-tools-generic`) to the variant's `apt` list, with the block "
            "`apt`",
            then=(("sh", "-c", f"perf script -i {FOLDER}/perf.data > {FOLDER}/perf.txt"),),
            # The engine forbids the system call without one of these. Older engines do not know the first.
            capabilities=(("PERFMON",), ("SYS_ADMIN",)),
            why="perf_event_open, which the engine otherwise forbids",
            counts="samples",
            refused="where the host forbids it: `sudo sysctl kernel.perf_event_paranoid=2` there",
        ),
        Profiler(
            "py-spy",
            # It needs no capability: Linux lets it read the memory of its own children.
            lambda argv: [
                *(spy, "record", "--format", "chrometrace", "--output", f"{FOLDER}/trace.json"),
                *("--subprocesses", "--", *argv),
            ],
            {"trace.json": "Perfetto (ui.perfetto.dev) or chrome://tracing"},
            (_reduced(python),),
            output.reduced,
            "add the wheel `py-spy` to the variant's `wheels` list, with the block `wheels`",
            refused="where the host forbids it: `sudo sysctl kernel.yama.ptrace_scope=1` there",
        ),
    ]
    return {tool.name: tool for tool in tools}


def choose(
    argv: Sequence[str],
    requested: str | None,
    present: Collection[str],
    gpu: bool,
    brought: Mapping[str, str] = MappingProxyType({}),
) -> Profiler:
    """The profiler for a command: the `requested` one, else the most detailed of those `present`.

    If the image has none, one of `brought` is chosen, which maps mountable profilers to paths in the container. ncu
    runs each kernel many times, so it is only chosen on request. Raises UsageError if there is none.
    """
    every = profilers(argv, {name: path for name, path in brought.items() if name not in present})
    if requested is not None and requested not in every:
        raise UsageError(f"no such profiler: {requested}{nearest(requested, every)}", hint=f"one of {', '.join(every)}")
    python = bool(python_of(argv))
    order = [*(["torch"] if python else []), *(["nsys"] if gpu else []), *(["py-spy"] if python else []), "perf"]
    names = [requested] if requested is not None else order
    for available in (present, brought):
        for name in names:
            if name in available:
                return every[name]
    if requested is not None:
        hint = f"{every[requested].install}, and build it again"
        if requested in ("nsys", "ncu"):
            problem = f"neither the image nor this machine has {requested}"
            raise UsageError(problem, hint=f"install NVIDIA's package on this machine; or {hint}")
        raise UsageError(f"the image has no {requested}", hint=hint)
    hints = "; ".join(f"{name}: {every[name].install}" for name in names)
    raise UsageError(f"the image has no profiler for this command: {', '.join(names)}", hint=hints)
