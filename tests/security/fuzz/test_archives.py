"""Bundles, engines' archives, Debian packages and conda packages that were spoilt."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from reprokit.bundle import compare, container
from reprokit.bundle.read import opened, verify
from reprokit.bundle.workspaces import workspaces
from reprokit.oci.docker_archive import ArchiveReader
from reprokit.oci.model import Image
from reprokit.supply.kinds.apt import deb
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.lock import file as lock_file
from reprokit.supply.store import Store
from tests.support import conda_packages, stores
from tests.support.damage import spoilt as damaged
from tests.support.fuzzing import Watch, fuzzed, spoilt, trees
from tests.support.images import tar_of
from tests.support.made import Made, sha256, tar
from tests.support.stores import a_lock, import_from, plain
from tests.support.strangers import with_part

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
    parts = with_part(made, workspace, "w").metadata["parts"]
    if metadata is not None:
        made.metadata = {**metadata, "parts": parts} if isinstance(metadata, dict) else metadata
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
            compare.rows(image)
            assert isinstance(image.settings, dict)
            compare.packages(image, [bundle])
        with workspaces(bundle, True):
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
        for _ in container.filter_layer(layer.blocks, ["*/x*"], lambda _: nothing, container.FilterReport()):
            pass
    saved.images()


@fuzzed
@given(spoilt(*SAVED))
def test_what_an_engine_saves(watch: Watch, content: bytes) -> None:
    watch(lambda: read_saved(content))


# --- Inputs in bundles, packages

FILE = plain(b"content", "f.bin")
BASE = Made.of({f"reprokit/own/base:sha256-{'1' * 64}": [tar_of({"a": b"1"})]})
INPUTS: dict[str, Any] = {
    "targets": ["x:cpu"],
    "recipes": [
        {"name": "x", "recipe": stores.RECIPE.format(name="x"), "lock": lock_file.text_of(a_lock("x", [FILE]))}
    ],
    "files": [{"sha256": FILE.sha256, "size": FILE.size}],
    "packs": [],
    "bases": ["sha256:" + "1" * 64],
}


def inputs_of(inputs: Any, content: bytes = b"content") -> bytes:
    made = Made(list(BASE.images), dict(BASE.blobs), {**BASE.metadata, "inputs": inputs})
    return tar({f"blobs/sha256/{sha256(content)}": content, **made.files})


INPUT_BUNDLES = st.one_of(
    trees(INPUTS).map(inputs_of),
    spoilt(inputs_of(INPUTS)),
    spoilt(INPUTS["recipes"][0]["lock"].encode()).map(
        lambda lock: inputs_of(
            {**INPUTS, "recipes": [{**INPUTS["recipes"][0], "lock": lock.decode("utf-8", "replace")}]}
        )
    ),
    spoilt(b"content").map(lambda content: inputs_of(INPUTS, content)),
)


def import_inputs(folder: Path, content: bytes) -> None:
    (folder / "x.rkit").write_bytes(content)
    import_from(folder / "x.rkit", Store(folder / "node"))


@fuzzed
@given(INPUT_BUNDLES)
def test_inputs_in_a_bundle(watch: Watch, folder: Path, content: bytes) -> None:
    watch(lambda: import_inputs(folder, content))


def deb_of(name: str, packed_control: bytes) -> bytes:
    return b"!<arch>\n" + b"".join(
        f"{path:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        for path, data in (("debian-binary", b"2.0\n"), (name, packed_control))
    )


CONTROL = tar_of({"./md5sums": b"x", "./control": b"Package: a\nVersion: 1\n"})
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda raw: gzip.compress(raw, mtime=0),
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(level=3).compress,
}
DEBS = st.one_of(
    spoilt(*(deb_of("control.tar" + form, pack(CONTROL)) for form, pack in PACKINGS.items())),
    st.builds(
        lambda form, raw: deb_of("control.tar" + form, PACKINGS[form](raw)),
        st.sampled_from(sorted(PACKINGS)),
        spoilt(CONTROL),
    ),
)


def read_deb(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return deb.control(path)


@fuzzed
@given(DEBS)
def test_deb_control(watch: Watch, folder: Path, content: bytes) -> None:
    watch(lambda: read_deb(folder / "x.deb", content))


LISTS: tuple[Any, ...] = (
    {"paths": [conda_packages.stated("bin/f", b"1", "text"), conda_packages.stated("l", kind="softlink")]},
    {"name": "python", "noarch": "python", "depends": ["a >=1"], "python_site_packages_path": "lib"},
    {"noarch": {"type": "python", "entry_points": ["a = m:f"]}},
)
FILES = [conda_packages.member("bin/f", conda_packages.PLACEHOLDER.encode()), conda_packages.linked("l", "bin/f")]


def conda_of(paths: Any, index: Any, link: Any, old: bool) -> tuple[str, bytes]:
    info = {"paths.json": paths, "index.json": index, "link.json": link}
    packed = {name: json.dumps(value).encode() for name, value in info.items()}
    if old:
        return ".tar.bz2", conda_packages.old_format(FILES, packed)
    return ".conda", conda_packages.new_format(FILES, packed)


CONDA = st.one_of(
    st.builds(conda_of, *map(trees, LISTS), st.booleans()),
    *(st.tuples(st.just(end), spoilt(content)) for end, content in (conda_of(*LISTS, True), conda_of(*LISTS, False))),
)


def link_conda(folder: Path, end: str, content: bytes) -> Path:
    store = Store(folder / "conda")
    return environment([conda_packages.kept(store, "python", content, "3.11", end)], store)


@fuzzed
@given(CONDA)
def test_conda_package(watch: Watch, folder: Path, package: tuple[str, bytes]) -> None:
    watch(lambda: link_conda(folder, *package))


def test_those_that_are_not_spoilt(folder: Path) -> None:
    read_bundle(folder / "whole.rkit", bundle_of())
    for content in SAVED:
        read_saved(content)
    import_inputs(folder, inputs_of(INPUTS))
    for form, pack in PACKINGS.items():
        assert read_deb(folder / "x.deb", deb_of("control.tar" + form, pack(CONTROL))) == "Package: a\nVersion: 1"
    for old in (False, True):
        assert link_conda(folder, *conda_of(*LISTS, old)).stat().st_size
