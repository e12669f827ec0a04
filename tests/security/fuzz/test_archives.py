"""Archives of the store and Debian packages that were spoilt."""

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
from reprokit.supply.lock import file as lock_file
from reprokit.supply.store import Store
from reprokit.supply.transfer.importing import take_in
from reprokit.supply.transfer.manifest import END, header, padding
from tests.support import stores
from tests.support.fuzzing import Watch, fuzzed, spoilt, trees
from tests.support.images import tar_of
from tests.support.made import sha256
from tests.support.stores import a_lock, no_engine, plain

DIGEST = "sha256:" + "1" * 64


def archive_of(manifest: Any, contents: tuple[bytes, ...], damage: Callable[[bytes], bytes] = lambda raw: raw) -> bytes:
    text = json.dumps(manifest).encode()
    parts = [header("manifest.json", len(text)), text, padding(len(text))]
    for path, content in zip(PATHS, contents, strict=True):
        parts += [header(path, len(content)), content, padding(len(content))]
    return zstandard.ZstdCompressor(level=1).compress(damage(b"".join([*parts, END])))


FILE = plain(b"content", "f.bin")
TEXTS = (stores.RECIPE.format(name="x").encode(), lock_file.text_of(a_lock("x", [FILE])).encode())
BASE = tar_of(
    {
        "manifest.json": b'[{"RepoTags": ["reprokit/own/base:sha256-%s"]}]' % (b"1" * 64),
        "repositories": b"{}",
        "index.json": b'{"manifests": []}',
    }
)
CONTENTS = (*TEXTS, b"content", BASE)
PATHS = (
    "recipes/x.yaml",
    "recipes/x.lock.yaml",
    f"sha256/{sha256(b'content')[:2]}/{sha256(b'content')}",
    f"images/sha256-{'1' * 64}.tar",
)


def _sized(content: bytes) -> dict[str, Any]:
    return {"sha256": sha256(content), "size": len(content)}


def manifest_of(contents: tuple[bytes, ...] = CONTENTS) -> dict[str, Any]:
    recipe, lock, file, image = map(_sized, contents)
    return {
        "format": 1,
        "reprokit": "0.1",
        "targets": ["x:cpu"],
        "texts": [{**recipe, "recipe": "x", "lock": False}, {**lock, "recipe": "x", "lock": True}],
        "files": [file],
        "repositories": [],
        "images": [{**image, "digest": DIGEST, "layers": [DIGEST]}],
    }


def _with(number: int, content: bytes) -> bytes:
    contents = (*CONTENTS[:number], content, *CONTENTS[number + 1 :])
    return archive_of(manifest_of(contents), contents)


ARCHIVES = st.one_of(
    trees(manifest_of()).map(lambda manifest: archive_of(manifest, CONTENTS)),
    spoilt(archive_of(manifest_of(), CONTENTS)),
    spoilt(b"".join([header("manifest.json", 3), b"{}", padding(3)])).map(zstandard.ZstdCompressor(level=1).compress),
    spoilt(CONTENTS[1]).map(lambda content: _with(1, content)),
    spoilt(BASE).map(lambda content: _with(3, content)),
)


def read_archive(folder: Path, content: bytes) -> None:
    (folder / "x.tar.zst").write_bytes(content)
    take_in(folder / "x.tar.zst", Store(folder / "node"), no_engine)  # type: ignore[arg-type]


@fuzzed
@given(ARCHIVES)
def test_store_archive(watch: Watch, folder: Path, content: bytes) -> None:
    watch(lambda: read_archive(folder, content))


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
    read_archive(folder, archive_of(manifest_of(), CONTENTS))
    for form, pack in PACKINGS.items():
        assert read_deb(folder / "x.deb", deb_of("control.tar" + form, pack(CONTROL))) == "Package: a\nVersion: 1"
