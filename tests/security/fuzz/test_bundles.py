"""Bundles and engines' archives that were spoilt."""

from __future__ import annotations

import gzip
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from reprokit.bundle import layer_filter, layers, packages
from reprokit.bundle.read import opened
from reprokit.bundle.verify import verify
from reprokit.bundle.workspaces import workspaces
from reprokit.oci.docker_archive import ArchiveReader
from reprokit.oci.model import Image, digest_of
from tests.support.damage import spoilt as damaged
from tests.support.fuzzing import Watch, fuzzed, spoilt, trees
from tests.support.images import tar_of
from tests.support.made import Made, sha256, tar

LAYERS = (
    tar_of({"var/lib/dpkg/status": b"Package: a\nVersion: 1\n\n", "usr/lib/x-1.0.dist-info/METADATA": b""}),
    tar_of({"b/.wh.c": b"", "l" * 150: b"long name"}),
)
WORKSPACE = tar_of({"a.txt": b"hello", "n" * 150: b"x"})


def bundle_of(
    layers: tuple[bytes, ...] = LAYERS, metadata: Any = None, config: Any = None, workspace: bytes = WORKSPACE
) -> bytes:
    """A bundle whose digests fit, whatever is in it."""
    made = Made.of({"x/y:1": layers})
    if config is not None:
        text = json.dumps(config).encode()
        made.images[0] = Image("x/y:1", text, made.images[0].layers)
        made.metadata["images"][0]["id"] = made.images[0].id
    part = zstandard.ZstdCompressor(level=3).compress(workspace)
    made.blobs["workspaces/w.tar.zst"] = part
    described = {
        "kind": "workspace",
        "name": "w",
        "path": "workspaces/w.tar.zst",
        "digest": digest_of(part),
        "size": len(part),
    }
    made.metadata["parts"] = [described]
    if metadata is not None:
        made.metadata = {**metadata, "parts": [described]} if isinstance(metadata, dict) else metadata
    return tar(made.files)


METADATA = Made.of({"x/y:1": LAYERS}).metadata
CONFIG = {
    **json.loads(Made.of({"x/y:1": LAYERS}).images[0].config),
    "history": [{"created_by": "RUN x"}, {"comment": "y"}],
}
BUNDLES = st.one_of(
    st.integers(0, 1 << 20).map(lambda number: damaged(number, Made.of({"x/y:1": LAYERS, "z:2": LAYERS[:1]}))[1]),
    spoilt(bundle_of()),
    trees(METADATA).map(lambda value: bundle_of(metadata=value)),
    trees(CONFIG).map(lambda value: bundle_of(config=value)),
    spoilt(*LAYERS).map(lambda layer: bundle_of(layers=(layer, LAYERS[1]))),
    spoilt(WORKSPACE).map(lambda content: bundle_of(workspace=content)),
)


def read_bundle(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with opened(path) as bundle:
        verify(bundle)
        for image in bundle.images:
            layers.rows(image)
            layers.settings(image.config)
            packages.packages(image, [bundle])
        with workspaces(bundle, True, lambda line: None):
            pass


@fuzzed
@given(BUNDLES)
def test_bundle(watch: Watch, folder: Path, content: bytes) -> None:
    watch(lambda: read_bundle(folder / "x.rkit", content))


PACKED = gzip.compress(LAYERS[0], mtime=0)
MANIFEST = b'[{"Config":"c.json","Layers":["a/layer.tar"]}]'
SAVED = (
    bundle_of(),
    tar_of({"a/layer.tar": LAYERS[0], "c.json": json.dumps(CONFIG).encode(), "manifest.json": MANIFEST}),
    tar_of({f"blobs/sha256/{sha256(PACKED)}": PACKED, "index.json": b'{"manifests":[]}'}),
)


def read_saved(content: bytes) -> None:
    saved = ArchiveReader([content[at : at + 5000] for at in range(0, len(content), 5000)])
    nothing = nullcontext((0, iter(())))
    for layer in saved.layers():
        for _ in layer_filter.filter_layer(layer.blocks, ["*/x*"], lambda _: nothing, layer_filter.FilterReport()):
            pass
    saved.images()


@fuzzed
@given(spoilt(*SAVED))
def test_what_an_engine_saves(watch: Watch, content: bytes) -> None:
    watch(lambda: read_saved(content))


def test_those_that_are_not_spoilt(folder: Path) -> None:
    read_bundle(folder / "whole.rkit", bundle_of())
    for content in SAVED:
        read_saved(content)
