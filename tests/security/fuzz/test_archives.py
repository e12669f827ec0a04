"""Inputs in bundles, Debian packages and conda packages that were spoilt."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from reprokit.supply.kinds.apt import deb
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.lock import file as lock_file
from reprokit.supply.store import Store
from tests.support import conda_packages, stores
from tests.support.fuzzing import Watch, fuzzed, spoilt, trees
from tests.support.images import tar_of
from tests.support.made import Made, sha256, tar
from tests.support.stores import a_lock, import_from, plain

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


def bundle_of(inputs: Any, content: bytes = b"content") -> bytes:
    made = Made(list(BASE.images), dict(BASE.blobs), {**BASE.metadata, "inputs": inputs})
    return tar({f"blobs/sha256/{sha256(content)}": content, **made.files})


BUNDLES = st.one_of(
    trees(INPUTS).map(bundle_of),
    spoilt(bundle_of(INPUTS)),
    spoilt(INPUTS["recipes"][0]["lock"].encode()).map(
        lambda lock: bundle_of(
            {**INPUTS, "recipes": [{**INPUTS["recipes"][0], "lock": lock.decode("utf-8", "replace")}]}
        )
    ),
    spoilt(b"content").map(lambda content: bundle_of(INPUTS, content)),
)


def read_bundle(folder: Path, content: bytes) -> None:
    (folder / "x.rkit").write_bytes(content)
    import_from(folder / "x.rkit", Store(folder / "node"))


@fuzzed
@given(BUNDLES)
def test_inputs_in_a_bundle(watch: Watch, folder: Path, content: bytes) -> None:
    watch(lambda: read_bundle(folder, content))


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
    return (
        (".tar.bz2", conda_packages.old_format(FILES, packed))
        if old
        else (".conda", conda_packages.new_format(FILES, packed))
    )


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
    read_bundle(folder, bundle_of(INPUTS))
    for form, pack in PACKINGS.items():
        assert read_deb(folder / "x.deb", deb_of("control.tar" + form, pack(CONTROL))) == "Package: a\nVersion: 1"
    for old in (False, True):
        assert link_conda(folder, *conda_of(*LISTS, old)).stat().st_size
