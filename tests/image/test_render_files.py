"""The shell of the block files, run as it is rendered, in folders that stand for the build's."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path

from reprokit.image.render import render
from tests.support.privileges import as_root
from tests.support.rendering import target

NOTES = sha256(b"notes of the paper\n").hexdigest()


def run(tmp_path: Path, urls: list[str], locked: str = "", digest: str = NOTES) -> subprocess.CompletedProcess[str]:
    entry = {"name": "notes.txt", "urls": urls, "path": "/opt/notes.txt", "sha256": digest}
    stage = render(target(tmp_path, files=[entry], blocks=["files"])).dockerfile.partition("\nFROM base AS with-files")[
        0
    ]
    script = stage.rpartition("\nRUN ")[2].replace("/product", f"{tmp_path}/product")
    script = script.replace("/tmp/file", f"{tmp_path}/file")
    command = ["sh", "-c", f"REPROKIT_FILES={locked}\n{script}"]
    return subprocess.run(command, capture_output=True, text=True)


@as_root("gives files to root, as a build does")
def test_the_addresses_of_a_file_are_tried_in_order_or_those_of_the_lock(tmp_path: Path, served, no_proxies):
    site = f"http://127.0.0.2:{served[1]}"
    for urls, locked in (([f"{site}/gone.txt", f"{site}/notes.txt"], ""), ([f"{site}/gone.txt"], f"{site}/")):
        done = run(tmp_path, urls, locked)
        assert done.returncode == 0, done.stderr
        (tmp_path / "product/opt/notes.txt").unlink()
    done = run(tmp_path, [f"{site}/gone.txt"])
    assert done.returncode == 1 and "reprokit: block files: expected notes.txt downloaded, found nothing" in done.stderr
    done = run(tmp_path, [f"{site}/notes.txt"], digest="0" * 64)
    error = f"reprokit: block files: expected sha256 of notes.txt {'0' * 64}, found {NOTES}\n"
    assert done.returncode == 1 and done.stderr.endswith(error)
