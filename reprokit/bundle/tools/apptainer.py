"""An Apptainer definition file, and the SIF if Apptainer is installed.

The format: apptainer.org/docs/user, "Definition Files". Apptainer reads ENV from the image, so the file states only
the image's source, the start of commands, and a description.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from reprokit.bundle.tools.tool import ToolJob
from reprokit.container.mounts import WORKSPACE
from reprokit.display import notify
from reprokit.errors import UsageError, WorkFailed
from reprokit.explain.last import explain_by
from reprokit.host.command import Flood, exchange
from reprokit.untrusted.limits import COMMAND_OUTPUT

# An image of 10 GB takes some minutes on a slow disk.
_LIMIT_S = 2 * 3600
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def usual_path(job: ToolJob) -> Path:
    return Path(f"{job.plain_name}.def")


def text(job: ToolJob) -> str:
    job.check(r"[:,]|\{\{", "Apptainer")
    variant, paper = job.target.variant, job.target.recipe.paper
    gpu = "" if variant.requires.gpu == "none" else " --nv"
    binds = [f"{shlex.quote(str(job.workspace))}:{WORKSPACE}"]
    binds += [f"{shlex.quote(str(job.workspace / source))}:{target}" for target, source in job.folders.items()]
    lines = [
        "Bootstrap: docker-daemon",
        f"From: {job.image}",
        "",
        "%help",
        f"    Paper: {_line(paper.title)} ({_line(paper.venue)} {paper.year})",
        f"    apptainer run --containall{gpu} --bind {','.join(binds)} {job.plain_name}.sif COMMAND",
        "",
        "%labels",
        f"    org.opencontainers.image.title {job.target.label}",
        "",
        "%runscript",
        f"    cd {shlex.quote(variant.workdir)} || exit 1",
        "    if [ $# -eq 0 ]; then exec /bin/sh; fi",
        '    exec "$@"',
    ]
    return "".join(f"{line}\n" for line in lines)


def finish(path: Path) -> str:
    """Build the SIF beside the file. Raises UsageError if it exists, WorkFailed if Apptainer cannot build it."""
    sif = path.with_suffix(".sif")
    if sif.exists() or sif.is_symlink():  # perhaps a link of a stranger's checkout
        raise UsageError("the SIF exists already", str(sif), "remove it, or name another definition: -o")
    if shutil.which("apptainer") is None:
        return f"Apptainer is not installed here; where it is: `apptainer build {sif.name} {path.name}`"
    code, log = _built(["apptainer", "build", str(sif), str(path)])
    if code is None:
        by_hand = f"without a limit: `apptainer build {sif.name} {path.name}`"
        raise WorkFailed(f"Apptainer did not build {sif.name} in {_LIMIT_S / 3600:g} h", str(path), by_hand)
    if code:
        last = (log.strip().splitlines() or ["no message"])[-1]
        failed = WorkFailed(f"Apptainer could not build {sif.name}: {last}", str(path))
        explain_by(failed, log)
        raise failed
    return f"{sif} built"


def _built(command: Sequence[str]) -> tuple[int | None, str]:
    """Run the command, reporting each line of output. Return the exit code, None after `_LIMIT_S`, and the output."""
    log, shown = bytearray(), 0
    deadline = time.monotonic() + _LIMIT_S
    # In this process's group: Ctrl-C reaches Apptainer too, which removes its files.
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            for _ in exchange(process, log, bytearray(), COMMAND_OUTPUT.most):
                *lines, begun = log[shown:].split(b"\n")
                shown = len(log) - len(begun)
                for line in lines:
                    if text := _plain(line):
                        notify(f"apptainer: {text}")
                if time.monotonic() > deadline:
                    return None, ""
            return process.wait(), _COLOUR.sub("", log.decode(errors="replace"))
        except Flood:
            raise WorkFailed(f"Apptainer printed more than {COMMAND_OUTPUT.most >> 20} MiB", command[-1]) from None
        finally:
            process.terminate()


def _plain(line: bytearray) -> str:
    return _COLOUR.sub("", line.decode(errors="replace")).removeprefix("INFO:").strip()


def _line(text: str) -> str:
    """A text in which Apptainer finds no template argument (`{{ NAME }}`)."""
    return re.sub(r"\{(?=\{)", "{ ", text)
