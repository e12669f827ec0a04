"""The script that loads images on a node, run on this machine with a `docker` that only keeps the archive."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from reprokit.nodes.remote_load import load_script
from reprokit.oci.blob_folder import StoredBlob
from reprokit.oci.model import ZSTD_LAYER_TYPE, Descriptor, Image, Layer, blob_path, digest_of
from reprokit.oci.store import Form

DOCKER = """#!/bin/sh
case $1 in load) cat > "$ARCHIVE" ;; image) [ $2 = inspect ] && echo '"sha256:x"' ;; esac
"""
# Of a Linux argument, and ssh gives the script as one.
MOST_ARGUMENT = 128 << 10


class Node:
    """A staging directory with the layers of `count` images, 25 of each."""

    def __init__(self, root: Path, count: int) -> None:
        self.folder, self.archive, program = root / "incoming" / "me", root / "archive.tar", root / "bin" / "docker"
        program.parent.mkdir()
        program.write_text(DOCKER)
        program.chmod(0o755)
        self.folder.mkdir(parents=True)
        self.environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "ARCHIVE": str(self.archive)}
        self.contents: dict[str, bytes] = {}
        self.blobs: dict[str, StoredBlob] = {}
        self.images = [self._image(number) for number in range(count)]

    def _image(self, number: int) -> Image:
        layers = []
        for content in (f"{number} {layer}".encode() for layer in range(25)):
            diff_id, blob = digest_of(b"tar" + content), Descriptor(ZSTD_LAYER_TYPE, digest_of(content), len(content))
            self.blobs[diff_id] = stored = StoredBlob(Path(f"{diff_id[7:]}.{blob.digest[7:]}.zst"), blob)
            (self.folder / f"{stored.name}.blob").write_bytes(content)
            self.contents[blob_path(blob.digest)] = content
            layers.append(Layer(diff_id, 1, blob))
        config = {"rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]}}
        return Image(f"reprokit/x{number}:cpu", json.dumps(config).encode(), tuple(layers))

    def run(self, script: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["sh", "-c", script], input=stdin, capture_output=True, env=self.environment, check=False)


@pytest.mark.parametrize("form", [Form.ZSTD, Form.BLOBS])
@pytest.mark.slow
def test_500_layers_are_loaded_and_their_script_is_a_short_argument(tmp_path, form):
    node = Node(tmp_path, 20)
    script, stdin = load_script(str(node.folder), node.images, node.blobs, form)
    assert len(script) < MOST_ARGUMENT // 16 and len(stdin) > MOST_ARGUMENT
    done = node.run(script, stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'"sha256:x"\n', b"")
    with tarfile.open(fileobj=io.BytesIO(node.archive.read_bytes())) as tar:
        loaded = {member.name: tar.extractfile(member).read() for member in tar if member.name in node.contents}
    assert loaded == node.contents and not node.folder.exists()


def test_an_input_that_ends_early_is_an_error(tmp_path):
    node = Node(tmp_path, 1)
    script, stdin = load_script(str(node.folder), node.images, node.blobs, Form.ZSTD)
    for part in (0.1, 0.9, 0.999):
        assert node.run(script, stdin[: int(len(stdin) * part)]).returncode
