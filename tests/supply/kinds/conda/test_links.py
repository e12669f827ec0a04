"""What the files of packages become: the same as rattler makes of them."""

from __future__ import annotations

import asyncio
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.kinds.conda.prefix import PLACE, Prefix
from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.store import Store
from tests.support.conda_packages import (
    PLACEHOLDER,
    index,
    kept,
    linked,
    member,
    new_format,
    old_format,
    package,
    stated,
)

P = PLACEHOLDER.encode()
BINARY = b"\x7fELF\0" + P + b"/a:" + P + b"/b\0end" + P + b"\0" * 9 + P[:-1] + b"\0" + P
FILES = {
    "bin/text": b"#!" + P + b"/bin/python\n" + P + b"\n",
    "lib/libx.so.1": BINARY,
    "lib/large": b"a" * ((1 << 20) - 20) + P + b"b" * (1 << 20) + P,
    "share/plain": P,
}
MODES = {"bin/text": "text", "lib/libx.so.1": "binary", "lib/large": "text"}


@pytest.fixture
def packages(store: Store) -> list[CondaPackage]:
    """Every feature of packages for Linux, in both formats and with old lists."""
    entries = [member(path, content, 0o775 if "bin" in path else 0o664) for path, content in FILES.items()]
    links = [linked("lib/libx.so", "libx.so.1"), member("bin/same", kind=tarfile.LNKTYPE, target="share/plain")]
    paths = [stated(path, content, MODES.get(path, "")) for path, content in FILES.items()]
    paths += [stated("lib/libx.so", kind="softlink"), stated("bin/same", P), stated("share/both", b"of new")]
    listed = json.dumps({"paths": paths, "paths_version": 1}).encode()
    info = {"index.json": index("new", ["old"], license="MIT"), "paths.json": listed}
    old = {
        "index.json": index("old"),
        "files": b"share/old\nlib/old\nshare/oldest\nshare/both\n",
        "has_prefix": f'{PLACEHOLDER} text share/old\n"{PLACEHOLDER}" binary "lib/old"\nshare/oldest\n'.encode(),
    }
    oldest = b"in /opt/anaconda1anaconda2anaconda3/bin"
    parts = {"share/old": P, "lib/old": P + b"\0", "share/oldest": oldest, "share/both": b"of old"}
    link = json.dumps({"noarch": {"type": "python", "entry_points": ["run = m.x:f.g"]}, "package_metadata_version": 1})
    python = [member("site-packages/m/x.py", b"m"), member("python-scripts/s", b"#!" + P + b"/bin/python\n", 0o775)]
    return [
        kept(store, "new", new_format([*entries, *links, member("share/both", b"of new")], info), end=".conda"),
        kept(store, "old", old_format([member(f"./{path}", content) for path, content in parts.items()], old)),
        kept(store, "python", old_format([member("bin/python3.11")], {
            "index.json": index("python", version="3.11.4"),
            "paths.json": json.dumps({"paths": [stated("bin/python3.11")], "paths_version": 1}).encode(),
        }), version="3.11.4"),
        package(
            store, "noarch", python, [stated("site-packages/m/x.py", b"m"), stated("python-scripts/s", mode="text")],
            ["python"], index=index("noarch", ["python"], noarch="python"), link=link.encode(),
        ),
    ]  # fmt: skip


def test_it_is_what_rattler_links(store: Store, packages: list[CondaPackage], tmp_path: Path) -> None:
    theirs = by_rattler(packages, store, tmp_path)
    with tarfile.open(environment(packages, store)) as tar:
        ours: dict[str, Any] = {}
        for entry in tar:
            file = tar.extractfile(entry) if entry.isreg() else None
            ours[entry.name] = (entry.linkname or (file.read() if file else None), bool(entry.mode & 0o100))
    for name in [name for name in theirs if name.startswith("conda-meta/") and name.endswith(".json")]:
        their_record, our_record = json.loads(theirs.pop(name)[0]), json.loads(ours.pop(name)[0])
        for key in ("name", "version", "build", "build_number", "depends", "license", "noarch", "sha256", "size"):
            assert their_record.get(key) == our_record.get(key)
        if "old" not in name:  # rattler moves and keeps its `share/both`
            assert sorted(their_record["files"]) == our_record["files"]
            placed = [{entry["_path"]: entry.get("prefix_placeholder") for entry in record["paths_data"]["paths"]}
                      for record in (their_record, our_record)]  # fmt: skip
            assert placed[0] == placed[1]
    assert {n: f for n, f in theirs.items() if n != "CACHEDIR.TAG" and not n.startswith("__clobbers__")} == ours


def by_rattler(packages: Sequence[CondaPackage], store: Store, folder: Path) -> dict[str, tuple[Any, bool]]:
    """Target or content of each path, and whether it is a program."""
    from rattler import RepoDataRecord, install

    async def link() -> None:
        records = []
        for each in packages:
            (folder / each.file).hardlink_to(store.path(each.sha256))
            records.append(await RepoDataRecord.from_package_archive(folder / each.file))
        await install(
            records, folder / "made", cache_dir=folder / "cache", execute_link_scripts=False, show_progress=False,
            alternative_target_prefix=PLACE,
        )  # fmt: skip

    asyncio.run(link())
    found: dict[str, tuple[Any, bool]] = {}
    for path in (folder / "made").rglob("*"):
        content = path.readlink().as_posix() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder / "made"))] = content, bool(os.lstat(path).st_mode & 0o100)
    return found


@pytest.mark.parametrize("binary", [False, True])
def test_a_placeholder_is_found_across_blocks(binary: bool) -> None:
    expected = b"".join(Prefix(P, True).replaced([BINARY])) if binary else BINARY.replace(P, PLACE.encode())
    assert not binary or len(expected) == len(BINARY)
    for size in (1, 2, 7, len(P), len(P) + 1, 10_000):
        blocks = [BINARY[at : at + size] for at in range(0, len(BINARY), size)]
        assert b"".join(Prefix(P, binary).replaced(blocks)) == expected, size


def test_packages_that_need_each_other(store: Store) -> None:
    """The first by name keeps its file."""
    made = [package(store, n, [member("x", n.encode())], [stated("x")], [o]) for n, o in (("a", "b"), ("b", "a"))]
    with tarfile.open(environment(made, store)) as tar:
        file = tar.extractfile("x")
        assert file is not None and file.read() in (b"a", b"b")
    assert environment(made[::-1], store) == environment(made, store)


def test_an_empty_folder(store: Store) -> None:
    made = package(store, "a", [member("empty/a", kind=tarfile.DIRTYPE)], [stated("empty/a", kind="directory")])
    with tarfile.open(environment([made], store)) as tar:
        assert tar.getmember("empty/a").isdir()


def test_what_cannot_be_linked_is_named(store: Store, packages: list[CondaPackage]) -> None:
    with pytest.raises(SourceError, match=r"noarch-1\.0-0\.tar\.bz2 cannot be linked: it needs a Python"):
        environment(packages[-1:], store)
    with pytest.raises(SourceError, match=r"a-1\.0-0\.tar\.bz2 cannot be linked: 'x' is not in the archive"):
        environment([package(store, "a", [], [stated("x")])], store)
    for document in (b"1", b"[[1]]", b'{"depends": 1}', b'{"depends": ["a"], "constrains": 1}', b"{"):
        with pytest.raises(SourceError, match=r"a-1\.0-0\.tar\.bz2 cannot be linked"):
            environment([package(store, "a", [], [], index=document)], store)
