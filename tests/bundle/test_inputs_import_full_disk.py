"""An import onto a disk that becomes full despite the check of free bytes: it has too few inodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit.supply.store import Store
from reprokit.supply.upkeep.verify import verify
from tests.support.disk import Disk
from tests.support.verbs import run_verb


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_import_can_be_repeated(archive: Path, disk: Disk):
    home = disk.folder / "home"

    def bring() -> subprocess.CompletedProcess[str]:
        return run_verb("store", "import", archive, env={"REPROKIT_HOME": str(home)})

    failures = 0
    for inodes in range(4, 100, 6):
        disk.limit(f"nr_inodes={inodes}")
        done = bring()
        assert not list((home / "store" / "tmp").glob("*")), "scratch is left"
        if done.returncode == 0:
            break
        assert done.returncode == 3 and done.stderr.startswith("error: the disk is full"), done.stderr
        assert "hint: free space" in done.stderr
        failures += 1
    # In the folders of the store, in the files of the bundle, and in the repository that git makes.
    assert failures > 5 and done.returncode == 0
    assert verify(Store(home / "store")).bad == ()
