"""Loads that are repeated after the loader or the engine was killed at a random moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from reprokit.oci.loader import LOADING
from tests.support.images import noise, tar_of
from tests.support.kill_moments import KillMoments
from tests.support.made import Made
from tests.support.other_engine import OtherEngine
from tests.support.waiting import wait_for

NAME = "reprokit/killed:1"
LAYERS = 5
# Steps of a layer each; real ones are of 128 MiB.
_MAIN = "from reprokit.oci import loader; loader.STEP = 1 << 20; from reprokit.cli import main; main()"


def bundle(path: Path, size: int) -> Made:
    """An image of layers of `size` bytes each."""
    made = Made.of({NAME: [tar_of({f"bin/{n}": noise(size, 1000 * n)}) for n in range(LAYERS)]})
    made.write(path)
    return made


class Killing:
    """`folder` holds the engine, whose data outlive it."""

    def __init__(self, folder: Path, seed: int, size: int = 4 << 20) -> None:
        self.folder = folder
        self.path = folder / "x.rkit"
        self.made = bundle(self.path, size)
        self.engine = self._started()
        start = time.monotonic()
        self.load().wait()
        self.moments = KillMoments(seed, 0.3, takes=time.monotonic() - start)
        self._check_whole()

    def kill_loader(self) -> bool:
        """Returns whether it was still loading."""
        self.remove()
        process = self.load()
        self.moments.wait()
        process.send_signal(signal.SIGKILL)
        killed = process.wait() == -signal.SIGKILL
        self.check_and_repeat()
        return self.moments.noted(killed)

    def kill_engine(self) -> bool:
        """Returns whether it was still loading."""
        self.remove()
        process = self.load()
        self.moments.wait()
        self.engine.process.kill()
        self.engine.process.wait()
        said = process.communicate(timeout=200)[1]
        assert process.returncode in (0, 3) and "Traceback" not in said and "a bug in reprokit" not in said, said
        self.engine = self._started()
        self.check_and_repeat()
        return self.moments.noted(process.returncode == 3)

    def close(self) -> None:
        self.engine.process.kill()
        self.engine.process.wait()

    def _started(self) -> OtherEngine:
        # By now the pid files of a killed engine name other processes.
        for left in self.folder.rglob("*pid"):
            left.unlink()
        return OtherEngine(self.folder, self.folder / "data")

    def load(self) -> subprocess.Popen[str]:
        command, pipes = [sys.executable, "-c", _MAIN, "load", str(self.path)], {"stderr": subprocess.PIPE}
        env = {**os.environ, "DOCKER_HOST": self.engine.address, "REPROKIT_HOME": str(self.folder / "home")}
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True, env=env, **pipes)

    def check_and_repeat(self) -> None:
        api = self.engine.connect()
        self._settled()
        named = api.image(NAME)
        if named:
            self._check_whole()
        begun = {image.id for image in api.images([LOADING])}
        # All unnamed images are complete, or labelled as unfinished.
        whole = self.made.images[0].id
        assert {image.id for image in api.images([])} <= {*begun, whole}
        again = self.load()
        said = again.communicate(timeout=200)[1]
        assert again.returncode == 0, said
        self._check_whole()
        assert not api.images([LOADING])

    def _settled(self) -> None:
        """An engine finishes a load whose archive it has received completely."""
        temporary = self.folder / "data" / "tmp"
        wait_for(lambda: not list(temporary.glob("docker-import-*")))

    def _check_whole(self) -> None:
        image = self.engine.connect().image(NAME)
        assert image and image.id == self.made.images[0].id and len(image.layers) == LAYERS
        # All of its layers can be read.
        assert sum(len(block) for block in self.engine.connect().save(NAME)) > LAYERS << 20

    def remove(self) -> None:
        api = self.engine.connect()
        if api.image(NAME):
            api.remove_image(NAME, force=True)
