"""`devcontainer.json`, read as its specification says and opened by the specification's own program."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from reprokit.bundle.tools.devcontainer import DevContainer
from reprokit.errors import UsageError
from tests.support.builds import TOOLS, root_file_system
from tests.support.names import unique
from tests.support.shared import shared

# What the program itself calls in a container.
NEEDED = (*TOOLS, *("bash", "id", "uname", "getent", "mkdir", "tr", "grep", "sed", "touch", "realpath"))


def written(job, **variant: str) -> dict:
    return json.loads(DevContainer().text(job(**variant)))


def test_it_has_image_workspace_user_and_gpu(job):
    found, workspace = written(job, gpu="required"), job().workspace
    assert found["image"] == "reprokit/x:v" and found["workspaceFolder"] == "/workspace"
    assert found["workspaceMount"] == f"type=bind,source={workspace},target=/workspace"
    assert found["containerUser"] == "1234:1234" and found["updateRemoteUserUID"] is False
    assert found["hostRequirements"] == {"gpu": True, "memory": "3gb"} and found["forwardPorts"] == [8888]
    assert found["mounts"] == [{"type": "bind", "source": f"{workspace}/results/data", "target": "/data"}]
    assert written(job, gpu="optional")["hostRequirements"]["gpu"] == "optional"
    assert "gpu" not in written(job)["hostRequirements"]


def test_a_link_in_the_workspace_stops_the_start(job):
    """The container may replace the folder by a link; Docker would mount what it leads to."""
    command, data = written(job)["initializeCommand"], job().workspace / "results" / "data"
    assert subprocess.run(command, check=False).returncode == 0
    data.rmdir()
    data.symlink_to("/etc")
    assert subprocess.run(command, check=False).returncode != 0


@pytest.mark.parametrize("folder", ["${localEnv:HOME}", "a,target=/etc"])
def test_a_path_with_a_meaning_of_its_own_is_refused(job, folder):
    with pytest.raises(UsageError, match="a dev container cannot use a path"):
        DevContainer().text(job(folder=folder))


@pytest.fixture(scope="session")
def command(tmp_path_factory) -> Iterator[str]:
    """The specification's own program, from npm."""

    def install() -> str:
        folder = tmp_path_factory.mktemp("devcontainers")
        npm = ["npm", "install", "--silent", "--prefix", str(folder), "@devcontainers/cli"]
        subprocess.run(npm, check=True, capture_output=True)
        return str(folder)

    with shared(tmp_path_factory, "devcontainers", install, shutil.rmtree) as folder:
        yield f"{folder}/node_modules/.bin/devcontainer"


@pytest.mark.network
@pytest.mark.engine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_it_opens(job, engine, command, tmp_path):
    name = unique("devcontainer")
    engine.import_image(io.BytesIO(root_file_system(NEEDED)), f"reprokit/{name}", "v", ["ENV PATH=/bin"])
    file = tmp_path / "checkout" / ".devcontainer" / "devcontainer.json"
    file.parent.mkdir(parents=True)
    file.write_text(DevContainer().text(job(gpu="optional")).replace("reprokit/x:v", f"reprokit/{name}:v"))
    os.chown(job().workspace, 1234, 1234)
    (job().workspace / "code.py").write_text("mine\n")

    def run(*arguments: str) -> str:
        words = [command, arguments[0], "--workspace-folder", str(tmp_path / "checkout"), *arguments[1:]]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    container = ""
    try:
        opened = json.loads(run("up").splitlines()[-1])
        container = opened["containerId"]
        assert opened["outcome"] == "success" and opened["remoteWorkspaceFolder"] == "/workspace"
        shown = run("exec", "sh", "-c", "id -u; cat code.py; ls -d /data; echo new >made; echo $HOME")
        assert shown.splitlines() == ["1234", "mine", "/data", "/tmp/home"]
        assert (job().workspace / "made").stat().st_uid == 1234
    finally:
        for each in [container] if container else [c["Id"] for c in engine.containers([]) if name in c["Image"]]:
            engine.remove(each, force=True)
        engine.remove_image(f"reprokit/{name}:v")
