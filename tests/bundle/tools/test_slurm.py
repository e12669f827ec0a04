"""The sbatch script, read, run by itself, and run as a job of a cluster."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from reprokit.bundle.tools.slurm import Slurm
from reprokit.errors import UsageError
from tests.support import slurm

# Options of sbatch(1) and of Pyxis's srun (github.com/NVIDIA/pyxis, Usage).
SBATCH = {"job-name", "output", "nodes", "ntasks", "mem", "tmp", "gpus"}
PYXIS = {"container-image", "container-mounts", "no-container-mount-home", "container-workdir"}


@pytest.fixture
def script(job, tmp_path):
    def write(**variant: str) -> Path:
        path = tmp_path / "x-v.sbatch"
        path.write_text(Slurm().text(job(**variant)))
        return path

    return write


def program(folder: Path, name: str, text: str) -> dict[str, str]:
    """An environment in which the program comes first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def options(script: Path) -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", script.read_text(), re.MULTILINE))


def test_it_asks_for_what_the_recipe_requires(script):
    found = options(script(gpu="required"))
    assert found.keys() <= SBATCH and (found["mem"], found["tmp"], found["gpus"]) == ("3G", "5G", "1")
    text = script(gpu="required").read_text()
    assert "# compute capability: 8.0" in text and "# NVIDIA driver: 470.57.02 or newer" in text and "--nv" in text
    assert "gpus" not in options(script()) and "--nv" not in script().read_text()


def test_pyxis_gets_the_image_and_the_mounts(script, job, tmp_path):
    path, workspace = script(), job().workspace
    environment = program(tmp_path / "bin", "srun", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    command = ["bash", str(path), "make", "a b"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    *given, first, second = done.stdout.splitlines()
    assert (first, second) == ("make", "a b") and {each.split("=")[0].removeprefix("--") for each in given} == PYXIS
    assert f"--container-image={tmp_path.resolve()}/x-v.sqsh" in given
    assert f"--container-mounts={workspace}:/workspace,{workspace}/results/data:/data" in given


def test_a_link_in_the_workspace_is_not_mounted(script, job, tmp_path):
    path, data = script(), job().workspace / "results" / "data"
    data.rmdir()
    data.symlink_to("/etc")
    environment = program(tmp_path / "bin", "srun", "#!/bin/sh\necho started\n")
    done = subprocess.run(["bash", str(path), "true"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "this is a link" in done.stderr and not done.stdout
    data.unlink()
    data.mkdir()
    done = subprocess.run(["bash", str(path), "true"], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "started\n"


@pytest.mark.parametrize("folder", ["$(touch hacked)", "`touch hacked`", '"; touch hacked; "', "a b", "}x"])
def test_the_workspaces_path_is_no_shell(script, job, tmp_path, folder):
    path = script(folder=folder)
    environment = program(tmp_path / "bin", "srun", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    done = subprocess.run(
        ["bash", str(path), "true"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f"--container-mounts={tmp_path.resolve()}/{folder}:/workspace" in done.stdout, done.stderr
    assert not list(tmp_path.rglob("hacked"))


def test_a_path_that_would_be_two_mounts_is_refused(job):
    with pytest.raises(UsageError, match="cannot use a path with ','"):
        Slurm().text(job(folder="a,b"))


@pytest.mark.network
def test_it_runs_as_a_job(script, job, tmp_path, debian_slurm):
    """A script stands in for Apptainer, which Debian 12 and 13 do not have: it runs the command in the workspace."""
    path, workspace = script(), job().workspace
    environment = program(tmp_path / "bin", "apptainer", slurm.APPTAINER)
    (tmp_path / "x-v.sif").touch()
    settings = {"REPROKIT_IMAGE": "x-v.sif", "PATH": environment["PATH"]}
    command = ("sh", "-c", "echo made >made; echo $SLURM_JOB_NAME, $SLURM_MEM_PER_NODE; exit 3")
    code = slurm.run_job(debian_slurm, tmp_path, path, *command, **settings)
    written = "".join(file.read_text() for file in tmp_path.glob("x-v-*.out"))
    assert code == 3, written + (tmp_path / "sbatch.log").read_text()
    assert (
        f"--bind {workspace}:/workspace,{workspace}/results/data:/data --pwd /workspace {tmp_path}/x-v.sif" in written
    )
    # srun reports the exit code of the command before or after the last line of its output.
    assert "x-v, 3072" in written.splitlines() and (workspace / "made").read_text() == "made\n"
