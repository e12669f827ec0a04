"""A rootless engine for real: root in the container is the caller outside."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, which takes root"),
]

UID = 4801
# Its own mount namespace: the user and its subordinate ids are in no file of the machine. Of the links that rootlesskit
# puts into its copy of /run those to the machine's own engine go away.
START = f"""
set -eu
cd "$1"
for file in passwd subuid subgid; do cp /etc/$file .; done
echo "rootless:x:{UID}:{UID}::$1:/bin/sh" >> passwd
echo "rootless:100000:65536" | tee -a subuid >> subgid
for file in passwd subuid subgid; do mount --bind $file /etc/$file; done
exec setpriv --reuid {UID} --regid {UID} --clear-groups env HOME="$1" XDG_RUNTIME_DIR="$1" \
  rootlesskit --net=host --copy-up=/etc --copy-up=/run --state-dir="$1/rootlesskit" \
  sh -c 'rm -f /run/docker /run/containerd /run/xtables.lock; exec dockerd "$@"' dockerd \
  --rootless --host="unix://$1/s" --data-root="$1/data" --exec-root="$1/exec" --pidfile="$1/pid" \
  --storage-driver=vfs --bridge=none --iptables=false
"""


@pytest.fixture
def rootless(when_up) -> Iterator[Path]:
    """The folder of a rootless engine of user UID, with its socket `s`."""
    folder = Path(tempfile.mkdtemp(prefix="reprokit-test-"))
    os.chown(folder, UID, UID)
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", START, "start", str(folder)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        when_up(folder, daemon)
        yield folder
    finally:
        daemon.terminate()
        daemon.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _as_user(made, image: bytes, socket: Path, answers) -> None:
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)
    os.environ["DOCKER_HOST"] = f"unix://{socket}"
    engine = Engine.connect()
    engine.api.load_image(image)
    name = ensure_running(engine, made, RunOptions(network="none"))
    answers.put(execute(engine, name, ["sh", "-c", "id -u; touch /workspace/made; echo $HOME"]))
    engine.remove(name, force=True)


def test_files_are_the_callers(engine, made, place, rootless):
    for folder in (place, place / "home"):
        folder.mkdir(exist_ok=True)
        os.chown(folder, UID, UID)
    image = b"".join(engine.api.get_image(f"reprokit/{made.label}"))
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=_as_user, args=(made, image, rootless / "s", answers))
    child.start()
    done = answers.get(timeout=120)
    child.join()
    assert done.stdout == "0\n/root\n", done
    path = place / "home" / "workspaces" / made.workspace / "made"
    assert (path.stat().st_uid, path.stat().st_gid) == (UID, UID)
