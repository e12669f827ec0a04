"""Measure the peaks of a container's processors and GPU."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat

from reprokit import paths
from reprokit.bench.extension import send
from reprokit.container.execute import Completed
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import EngineError, WorkFailed
from reprokit.formatting import counted
from reprokit.image.request import MACHINES
from reprokit.tarfiles import tar_of
from reprokit.untrusted.documents import understood, validated
from reprokit.untrusted.files import Folder
from reprokit.untrusted.model import FrozenModel

_RATES = "fused_attention/bench/csrc/rates.h"
_HOME = "/.reprokit-peaks"
_COMPILER = "command -v c++ || command -v g++ || command -v clang++"
_FLAGS = ("-O3", "-std=c++11", "-pthread")
# Before glibc 2.34, a static std::thread needs all of libpthread.
_STATIC = ("-static", "-Wl,--whole-archive", "-lpthread", "-Wl,--no-whole-archive")
_PROGRAM = "/tmp/reprokit-peaks"
_COMPILE = f'mkdir -p /tmp && "$({_COMPILER})" {" ".join(_FLAGS)} -o {_PROGRAM} {_HOME}/peaks.cpp'
# The extension's measurement by torch's matrix product and copy.
_GPU = (
    "import json; from fused_attention.bench import machine; r = machine.roofs('cuda'); "
    "print(json.dumps({'threads': 0, 'peaks': r.peaks, 'bandwidths': r.bandwidths, 'how': r.how}))"
)
_Rate = Annotated[FiniteFloat, Field(gt=0, le=1e12)]
_Text = Annotated[str, Field(max_length=100)]


class MeasuredPeaks(FrozenModel):
    """GFLOP/s by dtype, GB/s of `read` and `copy` (bytes read plus written). `threads` is 0 for a GPU."""

    threads: Annotated[int, Field(ge=0, le=100_000)]
    peaks: Annotated[dict[_Text, _Rate], Field(max_length=10)]
    bandwidths: Annotated[dict[_Text, _Rate], Field(max_length=10)]
    how: Annotated[dict[_Text, _Text], Field(max_length=10)] = Field(default={})

    @property
    def where(self) -> str:
        """`GPU`, or `2 threads`."""
        return counted(self.threads, "thread") if self.threads else "GPU"


def processors(
    engine: Engine, container: str, ask: Callable[..., Completed], threads: Sequence[int]
) -> list[MeasuredPeaks]:
    """Compile the loops, in the container if it has a compiler, and run them in it. Raises WorkFailed."""
    with Folder(_bundled()) as bundled, Folder(Path(__file__).parent) as own:
        files = {"rates.h": bundled.read(_RATES, 1 << 20), "peaks.cpp": own.read("peaks.cpp", 1 << 20)}
    if ask(["sh", "-c", _COMPILER]).exit_code:
        notify("the image has no C++ compiler: this machine's compiles the loops")
        engine.put_archive(container, "/", tar_of({_PROGRAM: compiled(engine, files)}, 0o755))
    else:
        engine.put_archive(container, "/", tar_of({f"{_HOME}/{name}": content for name, content in files.items()}))
        done = ask(["sh", "-c", _COMPILE])
        if done.exit_code:
            raise WorkFailed(f"the loops do not compile: {done.stderr.strip()[-500:]}", container)
    done = ask([_PROGRAM, *map(str, threads)])
    if done.exit_code:
        reason = done.stderr.strip()[-500:] or f"exit code {done.exit_code}"
        raise WorkFailed(f"the loops failed: {reason}", container)
    return _read(done.stdout)


def compiled(engine: Engine, files: Mapping[str, bytes]) -> bytes:
    """Compile the loops on this machine, statically: the image may have an older C library. Raises WorkFailed."""
    compiler = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if compiler is None or MACHINES.get(engine.version().architecture) != platform.machine():
        raise WorkFailed(
            "measuring needs a C++ compiler, in the image or on this machine",
            hint="install the package `g++` here, or add it to the variant's `apt` list",
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        command = [compiler, *_FLAGS, *_STATIC, "-o", "peaks", "peaks.cpp"]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise WorkFailed(f"the loops do not compile: {done.stderr.strip()[-500:]}", compiler)
        return Path(folder, "peaks").read_bytes()


def gpu(engine: Engine, container: str, ask: Callable[..., Completed], files: dict[str, bytes]) -> list[MeasuredPeaks]:
    """The GPU's peaks by torch; `files` are the extension's sources. Raises WorkFailed if the image has no torch."""
    folder = send(engine, container, ask, files)
    done = ask(["python3", "-c", _GPU], workdir=folder)
    if done.exit_code:
        raise WorkFailed(f"torch could not measure the GPU: {done.stderr.strip()[-500:]}", container)
    return _read(done.stdout)


def _read(text: str) -> list[MeasuredPeaks]:
    with understood("what the loops printed"):
        return [validated(MeasuredPeaks, line) for line in text.splitlines() if line.startswith("{")]


def _bundled() -> Path:
    folder = paths.bundled_workspace("fused_attention")
    if folder is None:
        raise EngineError("the extension is not installed", str(paths.data_root()), "install reprokit again")
    return folder
