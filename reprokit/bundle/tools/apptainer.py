"""An Apptainer definition file, and the SIF where Apptainer is installed.

The format: apptainer.org/docs/user, "Definition Files". Apptainer reads ENV from the image, so the file states only
where the image comes from, how commands start, and what the image is.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

from reprokit.bundle.tools.tool import ToolJob
from reprokit.container.mounts import WORKSPACE
from reprokit.errors import UsageError, WorkFailed


class Apptainer:
    """Reads the image from the engine of the machine that builds the SIF."""

    def usual_path(self, job: ToolJob) -> Path:
        return Path(f"{job.plain_name}.def")

    def text(self, job: ToolJob) -> str:
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

    def finish(self, path: Path) -> str:
        """Build the SIF beside the file. Raises WorkFailed if Apptainer cannot."""
        sif = path.with_suffix(".sif")
        if sif.is_symlink():  # perhaps of a stranger's checkout
            raise UsageError("a link is in the way, and links are not followed", str(sif), "remove the link")
        if shutil.which("apptainer") is None:
            return f"Apptainer is not installed here; where it is: `apptainer build {sif.name} {path.name}`"
        command = ["apptainer", "build", str(sif), str(path)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise WorkFailed(f"Apptainer could not build {sif.name}: {last}", str(path))
        return f"{sif} built"


def _line(text: str) -> str:
    """A text in which Apptainer finds no template argument (`{{ NAME }}`)."""
    return re.sub(r"\{(?=\{)", "{ ", text)
