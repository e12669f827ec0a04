"""Exports that are killed at random moments, and repeated."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from reprokit.oci.model import BLOBS, blob_path
from tests.support.kill_moments import KillMoments


def whole(path: Path) -> None:
    """Every blob that an image names is present and has the right digest."""
    with tarfile.open(path) as tar:
        blobs = {m.name: tar.extractfile(m).read() for m in tar if m.name.startswith(BLOBS)}  # type: ignore[union-attr]
        index = json.loads(tar.extractfile("index.json").read())  # type: ignore[union-attr]
    for name, content in blobs.items():
        assert blob_path(f"sha256:{hashlib.sha256(content).hexdigest()}") == name
    for entry in index["manifests"]:
        manifest = json.loads(blobs[blob_path(entry["digest"])])
        assert {blob_path(d["digest"]) for d in (manifest["config"], *manifest["layers"])} <= blobs.keys()


def finished(partial: Path) -> int:
    """The complete blobs in the file of a killed export, by their headers."""
    if not partial.exists() or not partial.stat().st_size:
        return 0
    with tarfile.open(partial, ignore_zeros=False) as tar:
        names = []
        while (member := tar.next()) and member.offset_data + member.size <= partial.stat().st_size:
            names.append(member.name)
    return sum(name.startswith(BLOBS) for name in names)


def kill_and_repeat(names: Sequence[str], folder: Path, times: int, seed: int) -> None:
    """Kill exports until `times` of them still ran. Repeat each."""
    command = [sys.executable, "-m", "reprokit", "export", *names, "-o"]
    start = time.monotonic()
    subprocess.run([*command, str(folder / "first.rkit")], check=True, capture_output=True)
    moments = KillMoments(seed, 0.2, takes=time.monotonic() - start)
    out, partial = folder / "x.rkit", folder / ".x.rkit.partial"
    killed = 0
    while killed < times:
        process = subprocess.Popen([*command, str(out)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        moments.wait()
        process.send_signal(signal.SIGKILL)
        killed += moments.noted(process.wait() == -signal.SIGKILL)
        if out.exists():
            whole(out)
        there = finished(partial)
        again = subprocess.run([*command, str(out)], check=True, capture_output=True, text=True)
        whole(out)
        assert not partial.exists()
        # Manifests and configs after the last layer are written again.
        assert ("going on from an earlier attempt" in again.stderr) == bool(there), again.stderr
        out.unlink()
