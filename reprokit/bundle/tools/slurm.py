"""An sbatch script that runs a command in the image by enroot and Pyxis (`.sqsh`) or by Apptainer (`.sif`).

The options: sbatch(1), the usage of Pyxis (`srun --container-...`), apptainer-exec(1).
"""

from __future__ import annotations

import shlex
from pathlib import Path

from reprokit.bundle.tools.tool import ToolJob
from reprokit.container.mounts import WORKSPACE

_SCRIPT = """\
set -eu
workspace=$(realpath -- "${{REPROKIT_WORKSPACE:-{workspace}}}")
image=$(realpath -m -- "${{REPROKIT_IMAGE:-{image}}}")
if [ $# -eq 0 ]; then
    echo "usage: sbatch $0 COMMAND..." >&2
    exit 2
fi
case $workspace in *[:,]*)
    echo "error: the workspace's path has a colon or a comma, which separate mounts ($workspace)" >&2
    exit 2
esac
mounts=$workspace:{root}
# A job may have replaced a folder of the workspace by a link, which would be mounted in its place.
add() {{
    folder=$workspace${{1:+/$1}}
    if [ "$(realpath -- "$folder")" != "$folder" ]; then
        echo "error: this is a link or missing ($folder)" >&2
        exit 2
    fi
    mounts=$mounts,$folder:$2
}}
{folders}case $image in
*.sqsh)
    exec srun --container-image="$image" --container-mounts="$mounts" --no-container-mount-home \\
        --container-workdir={workdir} "$@" ;;
*.sif)
    exec srun apptainer exec --containall{nv} --bind "$mounts" --pwd {workdir} "$image" "$@" ;;
*)
    echo "error: the image is neither a .sqsh nor a .sif file ($image)" >&2
    exit 2 ;;
esac
"""


def usual_path(job: ToolJob) -> Path:
    return Path(f"{job.plain_name}.sbatch")


def options(job: ToolJob) -> list[str]:
    """The options of sbatch."""
    options = [f"--job-name={job.plain_name}", "--nodes=1", "--ntasks=1"]
    if job.memory_gib:
        options.append(f"--mem={job.memory_gib}G")
    if job.disk_gib:
        options.append(f"--tmp={job.disk_gib}G")
    if job.target.variant.requires.gpu == "required":
        options.append("--gpus=1")
    return options


def text(job: ToolJob) -> str:
    job.check(r"[:,\n]", "a Slurm job")
    requires = job.target.variant.requires
    chosen = [*options(job), f"--output={job.plain_name}-%j.out"]
    head = ["#!/bin/bash", *(f"#SBATCH {option}" for option in chosen)]
    if requires.compute_capability:
        head.append(f"# compute capability: {', '.join(requires.compute_capability)}")
    if job.driver and requires.gpu != "none":
        head.append(f"# NVIDIA driver: {job.driver} or newer")
    head += [
        f"# image: reprokit export {job.target.label} --format squashfs -o {job.plain_name}.sqsh",
        f"#    or: reprokit render {job.target.label} --as apptainer",
    ]
    folders = [f"add {shlex.quote(source)} {shlex.quote(target)}\n" for target, source in job.folders.items()]
    script = _SCRIPT.format(
        workspace=_in_braces(str(job.workspace)),
        image=f"{job.plain_name}.sqsh",
        root=WORKSPACE,
        folders="".join(folders),
        workdir=shlex.quote(job.target.variant.workdir),
        nv="" if requires.gpu == "none" else " --nv",
    )
    return "".join(f"{line}\n" for line in head) + script


def finish(path: Path) -> str:
    return f"`sbatch {path.name} COMMAND...` runs a command; REPROKIT_IMAGE and REPROKIT_WORKSPACE name other paths"


def _in_braces(text: str) -> str:
    """A default inside `"${NAME:-...}"`: escape the characters that keep their meaning there."""
    return "".join(f"\\{char}" if char in '$`"\\}' else char for char in text)
