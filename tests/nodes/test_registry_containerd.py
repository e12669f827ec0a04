"""Pulls into a containerd store that has the image's layers unpacked from other blobs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.engines import NewDocker
from tests.support.images import noise, tar_of
from tests.support.made import Made, tar
from tests.support.registry import Registry, command, forget

pytestmark = [pytest.mark.engine, pytest.mark.network]

NAME = "reprokit/paper:cpu"
LAYERS = [tar_of({f"bin/{seed}": noise(100_000, seed)}) for seed in range(3)]


def in_its_network(served: NewDocker, home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DOCKER_HOST": served.address, "REPROKIT_HOME": str(home)}
    return subprocess.run(
        [*served.enter, *command(*args)], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("present", [3, 1], ids=["all layers", "the first"])
def test_blobs_that_the_engine_does_not_pull_come_from_the_registry(
    debian: Path, short_path: Path, tmp_path: Path, present: int
) -> None:
    labels = {"reprokit.recipe": "paper", "reprokit.variant": "cpu"}
    published = Made.of({NAME: LAYERS}, labels=labels)
    # Blobs of another compression.
    other = Made.of({"other:1": LAYERS[:present]}, pack=lambda layer: layer)
    served = NewDocker(debian, short_path, containerd=True)
    try:
        engine = served.connect()
        with Registry(engine, enter=served.enter) as registry:
            engine.load(iter([tar(published.files)]))
            pushed = in_its_network(served, tmp_path, "push", f"{registry.host}/{NAME}")
            assert pushed.returncode == 0, pushed.stderr
            forget(engine, NAME)
            engine.load(iter([tar(other.files)]))

            def pull() -> subprocess.CompletedProcess[str]:
                return in_its_network(served, tmp_path, "pull", f"{registry.host}/{NAME}")

            # The fault, without reprokit.
            list(engine.pull(f"{registry.host}/{NAME}"))
            assert not engine.has_blobs(engine.image(f"{registry.host}/{NAME}")["Id"])
            exported = in_its_network(served, tmp_path, "export", f"{registry.host}/{NAME}", "-o", str(tmp_path / "x"))
            assert exported.returncode == 3 and "lacks the blob sha256:" in exported.stderr, exported.stderr
            engine.remove_image(f"{registry.host}/{NAME}")

            pulled = pull()
            assert pulled.returncode == 0, pulled.stderr
            assert "did not pull their blobs" in pulled.stderr and "3 layers pulled" in pulled.stdout
            exported = in_its_network(served, tmp_path, "export", NAME, "-o", str(tmp_path / "x.rkit"))
            assert exported.returncode == 0, exported.stderr
            asked = len(registry.asked)
            again = pull()
            assert ", already present)" in again.stdout and not any(
                "/blobs/" in path for path in registry.asked[asked:]
            )
    finally:
        served.stop()
