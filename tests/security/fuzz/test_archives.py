"""Inputs in bundles and Debian packages that were spoilt."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from reprokit.supply.kinds.apt import deb
from reprokit.supply.lock import file as lock_file
from reprokit.supply.store import Store
from tests.support import stores
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


def test_those_that_are_not_spoilt(folder: Path) -> None:
    read_bundle(folder, bundle_of(INPUTS))
    for form, pack in PACKINGS.items():
        assert read_deb(folder / "x.deb", deb_of("control.tar" + form, pack(CONTROL))) == "Package: a\nVersion: 1"
