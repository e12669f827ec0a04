"""The functions of the verbs: the Python interface.

They take and return typed values, raise `reprokit.errors.ReprokitError`, and report to standard error, or to the
function passed to `reporting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from reprokit.bench.measure import BenchOutcome, bench
from reprokit.bench.report import write as report
from reprokit.bundle.export import ExportRequest
from reprokit.bundle.export import run as run_export
from reprokit.bundle.load import Loaded, check_origin, checked
from reprokit.bundle.load import load as load_checked
from reprokit.bundle.model import Metadata
from reprokit.compat.model import Finding
from reprokit.container.execute import Completed, execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import DEFAULTS, RunOptions
from reprokit.display import reporting
from reprokit.engine import Engine
from reprokit.image.build import BuildResult, build
from reprokit.image.lock.fit import findings as check
from reprokit.image.lock.resolve import WrittenLock, lock
from reprokit.image.lock.supplies import fetch
from reprokit.image.run import BuildOptions
from reprokit.nodes.remote import engine_of
from reprokit.nodes.survey import layers_on
from reprokit.recipe.find import Target, target
from reprokit.smoke.result import TrialResult
from reprokit.smoke.run import trials

__all__ = [
    "BenchOutcome", "BuildOptions", "BuildResult", "Completed", "Engine", "Finding", "Loaded", "Metadata", "RunOptions",
    "Target", "TrialResult", "WrittenLock", "bench", "build", "check", "engine_of", "export", "fetch", "load", "lock",
    "report", "reporting", "run", "smoke", "target",
]  # fmt: skip


def run(engine: Engine, target: Target, argv: Sequence[str], options: RunOptions = DEFAULTS) -> Completed:
    """Run a command in the variant's container, which is made or started if needed. Raises UsageError, EngineError."""
    return execute(engine, ensure_running(engine, target, options), argv)


def smoke(engine: Engine, target: Target) -> TrialResult:
    """Check and build a variant, and run its smoke commands in a fresh container."""
    (result,) = trials(engine, [target], ())
    return result


def export(engine: Engine, names: Sequence[str], out: Path) -> Metadata:
    """Write images as one bundle. Raises every kind of ReprokitError; `out` is then unchanged."""
    request = ExportRequest(names=tuple(names))
    request.check(out)
    return run_export(engine, request, out, layers_on)[0]


def load(engine: Engine, files: Sequence[Path], trusted: bool = False, signers: Path | None = None) -> Loaded:
    """Verify bundles and load their images.

    `build` uses them only if they are `trusted`, or signed by a key of the file `signers`. Raises UsageError for a
    damaged bundle or a name that is taken, WorkFailed for a signature, EngineError.
    """
    with ExitStack() as stack:
        bundles = checked(files, stack)
        for each in bundles:
            check_origin(each.bundle, signers, trusted)
        return load_checked(bundles, engine, trusted_by="api" if trusted or signers else "")
