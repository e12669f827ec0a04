"""The files for other tools: read as the tools document them, and used by the tools themselves."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from reprokit.bundle.tools import apptainer, devcontainer
from reprokit.bundle.tools import slurm as slurm_file
from reprokit.bundle.tools.tool import ToolJob
from reprokit.errors import UsageError, WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from tests.support import slurm
from tests.support.builds import TOOLS, root_file_system
from tests.support.names import unique
from tests.support.privileges import need_root

RECIPE = """\
name: x
paper: {{title: "{title}", venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    mounts: [{{source: results/data, target: /data}}]
    ports: [8888]
    requires: {{gpu: {gpu}, memory: 3GiB, disk: 5GiB, compute_capability: ["8.0"], driver: "470.57.02"}}
"""
# apptainer.org/docs/user, "Definition Files": sections, and keywords of the header.
SECTIONS = {"help", "setup", "files", "labels", "environment", "post", "runscript", "startscript", "test"}
# Options of sbatch(1) and of Pyxis's srun (github.com/NVIDIA/pyxis, Usage).
SBATCH = {"job-name", "output", "nodes", "ntasks", "mem", "tmp", "gpus"}
PYXIS = {"container-image", "container-mounts", "no-container-mount-home", "container-workdir"}


@pytest.fixture
def job(tmp_path):
    """`job(gpu="none", title="T", folder="ws")`: a variant, and its workspace with a folder that it mounts."""

    def make(gpu: str = "none", title: str = "T", folder: str = "ws") -> ToolJob:
        workspace = tmp_path / folder
        (workspace / "results" / "data").mkdir(parents=True, exist_ok=True)
        recipe = load_text(RECIPE.format(gpu=gpu, title=title), "x.yaml", "x")
        return ToolJob(Target(recipe, "v", Path("x.yaml")), workspace.resolve(), "1234:1234")

    return make


@pytest.fixture
def program(tmp_path, monkeypatch):
    """`program(name, script)` puts a program first on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}")
        (folder / name).chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("tool", "folder"),
    [(apptainer, "a:b"), (slurm_file, "a,b"), (devcontainer, "${localEnv:HOME}"), (devcontainer, "a,target=/etc")],
)
def test_a_path_with_a_meaning_of_its_own_is_refused(job, tool, folder):
    with pytest.raises(UsageError, match=r"cannot use a path with '[:,$]"):
        tool.text(job(folder=folder))


def linked(job) -> Path:
    """The folder that the recipe mounts, replaced by a link; the tool would mount what it leads to."""
    data = job().workspace / "results" / "data"
    data.rmdir()
    data.symlink_to("/etc")
    return data


def parsed(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The header's keywords, and the sections, of a definition file of apptainer."""
    head, *others = re.split(r"^\s*%", text, flags=re.MULTILINE)
    sections = {section.split("\n", 1)[0].strip(): section.split("\n", 1)[1] for section in others}
    return dict(re.findall(r"^(\w+): (.+)$", head, re.MULTILINE)), sections


def test_a_definition_file_has_the_documented_form(job):
    header, sections = parsed(apptainer.text(job(gpu="optional")))
    assert header == {"Bootstrap": "docker-daemon", "From": "reprokit/x:v"}
    assert sections.keys() <= SECTIONS and 'exec "$@"' in sections["runscript"]
    workspace = job().workspace
    binds = f"--nv --bind {workspace}:/workspace,{workspace}/results/data:/data x-v.sif"
    assert binds in sections["help"] and "--nv" not in apptainer.text(job())
    # A title adds no section and no argument.
    for title in ("%post", "{{ secret }}", "{{{ secret }}}", "Bootstrap: localimage"):
        text = apptainer.text(job(title=title))
        header, sections = parsed(text)
        assert header["Bootstrap"] == "docker-daemon" and sections.keys() == {"help", "labels", "runscript"}
        assert not re.search(r"\{\{\s*\w+\s*\}\}", text)


@pytest.fixture
def definition(job, tmp_path) -> Path:
    (tmp_path / "x.def").write_text(apptainer.text(job()))
    return tmp_path / "x.def"


def test_the_sif_is_built_where_apptainer_is(definition, program, monkeypatch, reported: list[str]):
    with monkeypatch.context() as patch:
        patch.setattr("shutil.which", lambda name: None)
        assert "`apptainer build x.sif x.def`" in apptainer.finish(definition)
    program("apptainer", '[ "$1" = build ] || exit 9; echo "INFO:    Starting build..." >&2; cp "$3" "$2"')
    sif = definition.with_suffix(".sif")
    assert apptainer.finish(definition) == f"{sif} built" and sif.exists()
    assert reported == ["apptainer: Starting build..."]
    with pytest.raises(UsageError, match="exists already"):
        apptainer.finish(definition)


def test_an_apptainer_that_fails_or_hangs(definition, program, monkeypatch):
    program("apptainer", "printf '\\033[91mFATAL:   no such image\\033[0m\\n' >&2; exit 255")
    with pytest.raises(WorkFailed, match=r"could not build x.sif: FATAL:   no such image$"):
        apptainer.finish(definition)
    monkeypatch.setattr(apptainer, "_LIMIT_S", 0.1)
    program("apptainer", "exec sleep 9000")
    with pytest.raises(WorkFailed, match=r"did not build x\.sif in") as error:
        apptainer.finish(definition)
    assert error.value.hint == "without a limit: `apptainer build x.sif x.def`"


# The program's root has to be the root of its namespace: Apptainer starts nothing in a chroot.
_IN_SID = """\
[ "$1" != build ] || set -- build x.sif x.def
exec unshare --mount --pid --fork sh -euc '
    root=$1 folder=$2; shift 2
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    for each in dev sys; do mount --rbind "/$each" "$root/$each"; done
    mount -t tmpfs tmpfs "$root/tmp"; mount -t tmpfs tmpfs "$root/run"
    mount --bind "$folder" "$root/mnt"; touch "$root/run/docker.sock"
    mount --bind /var/run/docker.sock "$root/run/docker.sock"
    cd "$root"; pivot_root . media; cd /mnt
    exec apptainer "$@"' sh {root} {folder} "$@"
"""


@pytest.mark.network
@pytest.mark.long
def test_a_real_apptainer_builds_and_runs_the_image(engine, job, tmp_path, program, reported: list[str]):
    need_root()
    root, folder = tmp_path / "sid", tmp_path / "sif"
    folder.mkdir()
    # The snapshot of a mirror may be older than its lists allow.
    command = ["mmdebstrap", "--variant=apt", "--include=apptainer", "--aptopt=APT::Install-Recommends false"]
    command += ["--aptopt=Acquire::Check-Valid-Until false", "sid", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc" / "localtime").write_bytes(b"")
    program("apptainer", _IN_SID.format(root=root, folder=folder))
    name = unique("apptainer").lower()
    engine.import_image(io.BytesIO(root_file_system()), f"reprokit/{name}", "v", ["ENV PATH=/bin", "ENV FOO=bar"])
    try:
        path, text = folder / "x.def", apptainer.text(job())
        path.write_text(text.replace("reprokit/x:v", f"reprokit/{name}:v").replace("/workspace", "/"))
        assert apptainer.finish(path) == f"{folder / 'x.sif'} built"
        assert "apptainer: Creating SIF file..." in reported
        run = ["apptainer", "run", "--no-privs", "x.sif", "env"]
        assert "FOO=bar" in subprocess.run(run, capture_output=True, text=True, check=True).stdout
    finally:
        engine.remove_image(f"reprokit/{name}:v", force=True)


def written(job, **variant: str) -> dict:
    return json.loads(devcontainer.text(job(**variant)))


def test_a_dev_container_has_image_workspace_user_and_gpu(job):
    text, workspace = written(job, gpu="required"), job().workspace
    assert text["image"] == "reprokit/x:v" and text["workspaceFolder"] == "/workspace"
    assert text["workspaceMount"] == f"type=bind,source={workspace},target=/workspace"
    assert text["containerUser"] == "1234:1234" and text["updateRemoteUserUID"] is False
    assert text["hostRequirements"] == {"gpu": True, "memory": "3gb"} and text["forwardPorts"] == [8888]
    assert text["mounts"] == [{"type": "bind", "source": f"{workspace}/results/data", "target": "/data"}]
    assert written(job, gpu="optional")["hostRequirements"]["gpu"] == "optional"
    assert "gpu" not in written(job)["hostRequirements"]
    command = text["initializeCommand"]
    assert subprocess.run(command, check=False).returncode == 0
    linked(job)
    assert subprocess.run(command, check=False).returncode != 0


@pytest.mark.network
@pytest.mark.long
def test_the_specifications_own_program_opens_it(job, engine, tmp_path):
    need_root()
    npm = ["npm", "install", "--silent", "--prefix", str(tmp_path / "npm"), "@devcontainers/cli"]
    subprocess.run(npm, check=True, capture_output=True)
    name, workspace = unique("devcontainer"), job().workspace
    # What the program itself calls in a container.
    needed = ("bash", "id", "uname", "getent", "mkdir", "tr", "grep", "sed", "touch", "realpath")
    tools = io.BytesIO(root_file_system((*TOOLS, *needed)))
    engine.import_image(tools, f"reprokit/{name}", "v", ["ENV PATH=/bin"])
    file = tmp_path / "checkout" / ".devcontainer" / "devcontainer.json"
    file.parent.mkdir(parents=True)
    file.write_text(devcontainer.text(job(gpu="optional")).replace("reprokit/x:v", f"reprokit/{name}:v"))
    os.chown(workspace, 1234, 1234)
    (workspace / "code.py").write_text("mine\n")

    def run(verb: str, *arguments: str) -> str:
        words = [tmp_path / "npm/node_modules/.bin/devcontainer", verb, "--workspace-folder", tmp_path / "checkout"]
        words += arguments
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        opened = json.loads(run("up").splitlines()[-1])
        assert opened["outcome"] == "success" and opened["remoteWorkspaceFolder"] == "/workspace"
        shown = run("exec", "sh", "-c", "id -u; cat code.py; ls -d /data; echo new >made; echo $HOME")
        assert shown.splitlines() == ["1234", "mine", "/data", "/tmp/home"]
        assert (workspace / "made").stat().st_uid == 1234
    finally:
        for each in [c["Id"] for c in engine.api.containers(all=True) if name in c["Image"]]:
            engine.remove(each, force=True)
        engine.remove_image(f"reprokit/{name}:v")


@pytest.fixture
def script(job, tmp_path):
    def write(**variant: str) -> Path:
        path = tmp_path / "x-v.sbatch"
        path.write_text(slurm_file.text(job(**variant)))
        return path

    return write


def options(script: Path) -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", script.read_text(), re.MULTILINE))


def ran(script: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(script), *command], cwd=script.parent, capture_output=True, text=True, check=False
    )


def test_a_job_asks_for_what_the_recipe_requires(script):
    required = options(script(gpu="required"))
    assert required.keys() <= SBATCH and (required["mem"], required["tmp"], required["gpus"]) == ("3G", "5G", "1")
    text = script(gpu="required").read_text()
    assert "# compute capability: 8.0" in text and "# NVIDIA driver: 470.57.02 or newer" in text and "--nv" in text
    assert "gpus" not in options(script()) and "--nv" not in script().read_text()


def test_pyxis_gets_the_image_and_the_mounts(script, job, program, tmp_path):
    program("srun", 'printf "%s\\n" "$@"\n')
    workspace = job().workspace
    *arguments, first, second = ran(script(), "make", "a b").stdout.splitlines()
    assert (first, second) == ("make", "a b")
    assert {each.split("=")[0].removeprefix("--") for each in arguments} == PYXIS
    assert f"--container-image={tmp_path.resolve()}/x-v.sqsh" in arguments
    assert f"--container-mounts={workspace}:/workspace,{workspace}/results/data:/data" in arguments
    # The workspace's path is no shell.
    for folder in ("$(touch hacked)", "`touch hacked`", '"; touch hacked; "', "a b", "}x"):
        done = ran(script(folder=folder), "true")
        assert f"--container-mounts={tmp_path.resolve()}/{folder}:/workspace" in done.stdout, done.stderr
        assert not list(tmp_path.rglob("hacked"))


def test_a_link_in_the_workspace_is_not_mounted(script, job, program):
    program("srun", "echo started\n")
    path, data = script(), linked(job)
    done = ran(path, "true")
    assert done.returncode == 2 and "this is a link" in done.stderr and not done.stdout
    data.unlink()
    data.mkdir()
    assert ran(path, "true").stdout == "started\n"


@pytest.mark.network
@pytest.mark.long
def test_it_runs_as_a_job_of_a_cluster(script, job, tmp_path, program, debian_slurm):
    """A script stands in for Apptainer, which Debian 12 and 13 do not have: it runs the command in the workspace."""
    path, workspace = script(), job().workspace
    program("apptainer", "")
    (Path(shutil.which("apptainer") or "")).write_text(slurm.APPTAINER)
    (tmp_path / "x-v.sif").touch()
    settings = {"REPROKIT_IMAGE": "x-v.sif", "PATH": os.environ["PATH"]}
    command = ("sh", "-c", "echo made >made; echo $SLURM_JOB_NAME, $SLURM_MEM_PER_NODE; exit 3")
    code = slurm.run_job(debian_slurm, tmp_path, path, *command, **settings)
    output = "".join(file.read_text() for file in tmp_path.glob("x-v-*.out"))
    assert code == 3, output + (tmp_path / "sbatch.log").read_text()
    binds = f"--bind {workspace}:/workspace,{workspace}/results/data:/data --pwd /workspace {tmp_path}/x-v.sif"
    assert binds in output
    # srun reports the exit code of the command before or after the last line of its output.
    assert "x-v, 3072" in output.splitlines() and (workspace / "made").read_text() == "made\n"
