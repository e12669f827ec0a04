"""Measure the peaks of a container's processors and GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat

from reprokit import paths
from reprokit.bench.extension import send
from reprokit.container.execute import Completed
from reprokit.engine import Engine
from reprokit.errors import EngineError, WorkFailed
from reprokit.tarfiles import tar_of
from reprokit.untrusted.documents import understood, validated
from reprokit.untrusted.files import Folder
from reprokit.untrusted.model import FrozenModel

_RATES = "fused_attention/bench/csrc/rates.h"
_HOME = "/.reprokit-peaks"
_COMPILER = "command -v c++ || command -v g++ || command -v clang++"
_COMPILE = f'mkdir -p /tmp && "$({_COMPILER})" -O3 -std=c++11 -pthread -o /tmp/reprokit-peaks {_HOME}/peaks.cpp'
# The extension's own measurement, by torch's matrix product and copy.
_GPU = (
    "import json; from fused_attention.bench import machine; r = machine.roofs('cuda'); "
    "print(json.dumps({'threads': 0, 'peaks': r.peaks, 'bandwidths': r.bandwidths, 'how': r.how}))"
)
_Rate = Annotated[FiniteFloat, Field(gt=0, le=1e12)]
_Text = Annotated[str, Field(max_length=100)]


class MeasuredPeaks(FrozenModel):
    """GFLOP/s by dtype, GB/s by `read` and `copy` (read and written). `threads` is 0 for a GPU."""

    threads: Annotated[int, Field(ge=0, le=100_000)]
    peaks: Annotated[dict[_Text, _Rate], Field(max_length=10)]
    bandwidths: Annotated[dict[_Text, _Rate], Field(max_length=10)]
    how: Annotated[dict[_Text, _Text], Field(max_length=10)] = Field(default={})


def processors(
    engine: Engine, container: str, ask: Callable[..., Completed], threads: Sequence[int]
) -> list[MeasuredPeaks]:
    """Compile and run the loops in the container. Raises WorkFailed where it has no C++ compiler."""
    with Folder(_bundled()) as bundled, Folder(Path(__file__).parent) as own:
        files = {"rates.h": bundled.read(_RATES, 1 << 20), "peaks.cpp": own.read("peaks.cpp", 1 << 20)}
    engine.put_archive(container, "/", tar_of({f"{_HOME}/{name}": content for name, content in files.items()}))
    if ask(["sh", "-c", _COMPILER]).exit_code:
        raise WorkFailed(
            "the image has no C++ compiler, which measuring needs",
            container,
            "add the package `g++` to the variant's `apt` list, or take a recipe with one, such as fused-attention:cpu",
        )
    compiled = ask(["sh", "-c", _COMPILE])
    if compiled.exit_code:
        raise WorkFailed(f"the loops do not compile: {compiled.stderr.strip()[-500:]}", container)
    done = ask(["/tmp/reprokit-peaks", *map(str, threads)])
    if done.exit_code:
        reason = done.stderr.strip()[-500:] or f"exit code {done.exit_code}"
        raise WorkFailed(f"the loops failed: {reason}", container)
    return _read(done.stdout)


def gpu(engine: Engine, container: str, ask: Callable[..., Completed], files: dict[str, bytes]) -> list[MeasuredPeaks]:
    """The GPU's peaks by torch; `files` are the extension's sources. Raises WorkFailed where the image has no torch."""
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
