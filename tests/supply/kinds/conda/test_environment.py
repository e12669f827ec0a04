from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from reprokit.engine import Engine
from reprokit.errors import SourceError
from reprokit.image.base.resolve import BaseImage
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from reprokit.supply.gateway import Gateway, pass_all
from reprokit.supply.kinds.conda.environment import PLACE, Prefix, environment
from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask
from tests.support.conda_channel import make_package
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
from tests.support.locked_builds import LockedBuilds
from tests.support.stores import put


@pytest.fixture
def packages(tmp_path: Path, store: Store) -> tuple[CondaPackage, ...]:
    locked = []
    for name, version, folder, more in (
        ("tool-kit", "1.0", "linux-64", {"depends": ("lib",)}),
        ("lib", "1.5", "noarch", {"subdir": "noarch", "old": True}),
    ):
        file = make_package(tmp_path / "channel", name, version, **more)
        identity = {"name": name, "version": version, "build": "h0_0", "subdir": folder, "file": file.name}
        size, sha256 = file.stat().st_size, put(store, file.read_bytes())
        locked.append(CondaPackage(**identity, channel="conda-forge", sha256=sha256, size=size))
    return tuple(locked)


def test_an_environment_is_linked_for_its_place_and_tells_nothing_of_this_host(
    store: Store, packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "rattler", None)  # it needs no solver
    path = environment(packages, store)
    content = path.read_bytes()
    assert str(tmp_path).encode() not in content
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.extractfile("bin/tool-kit").read() == b"#!/bin/sh\necho tool-kit 1.0 in /opt/conda\n"
        record = json.loads(tar.extractfile("conda-meta/lib-1.5-h0_0.json").read())
        assert record["url"] == "conda-forge/noarch/lib-1.5-h0_0.tar.bz2"
        assert all(member.uid == 0 and member.mode & 0o444 == 0o444 for member in tar)
        assert tar.getmember("bin/lib").mode & 0o111 == 0o111
    # The same packages are the same bytes, and made once.
    path.unlink()
    assert environment(tuple(reversed(packages)), store) == path and path.read_bytes() == content
    for locked in packages:
        store.path(locked.sha256).unlink()
    assert environment(packages, store) == path


def test_it_is_served_for_its_packages_only(store: Store, packages):
    elsewhere = "http://conda.reprokit.invalid/0123456789abcdef/environment.tar"
    with Gateway(Mirrors(store), ServedSet(conda=packages)) as gateway:
        address = f"{gateway.inputs.arguments()['REPROKIT_CONDA']}environment.tar"
        answer, body = ask(gateway, address)
        made = environment(packages, store)
        assert answer.status == 200 and body == made.read_bytes()
        assert ask(gateway, elsewhere)[0].status == 404
        made.unlink()
        store.path(packages[0].sha256).write_bytes(b"no package")
    with Gateway(Mirrors(store), ServedSet(conda=packages)) as gateway:
        answer, body = ask(gateway, address)
        assert answer.status == 500 and b"cannot be linked" in body
    with Gateway(Mirrors(store)) as gateway:
        assert ask(gateway, elsewhere)[0].status == 404


RECIPE = {
    "name": "reprokit-test-conda",
    "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"},
    "variants": {"v": {"base": "debian:12", "conda": ["tool-kit=1.0", "lib==1.5"], "blocks": ["conda"]}},
}


@pytest.mark.engine
def test_an_image_has_it_first_on_path(engine: Engine, debian_12: BaseImage, store: Store, packages, tmp_path: Path):
    recipe = load_text(yaml.safe_dump(RECIPE), "recipe.yaml", RECIPE["name"])
    made = render(Target(recipe, "v", Path("recipe.yaml")))
    builds = LockedBuilds(engine, debian_12, store, ServedSet(conda=packages))
    name, image = builds.target.recipe.name, builds(made, pass_all)
    container = engine.create_container(name, {"Image": image, "Cmd": ["tool-kit"], "User": "1234:1234"})
    try:
        engine.start(container)
        assert b"".join(engine.logs(container, follow=True)) == b"tool-kit 1.0 in /opt/conda\n"
    finally:
        engine.remove(container, force=True)
        engine.remove_image(builds.name, force=True)


# What the files of packages become: the same as rattler makes of them.
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
def every_feature(store: Store) -> list[CondaPackage]:
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


def test_it_is_what_rattler_links(store: Store, every_feature: list[CondaPackage], tmp_path: Path) -> None:
    theirs = by_rattler(every_feature, store, tmp_path)
    with tarfile.open(environment(every_feature, store)) as tar:
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


def test_what_cannot_be_linked_is_named(store: Store, every_feature: list[CondaPackage]) -> None:
    with pytest.raises(SourceError, match=r"noarch-1\.0-0\.tar\.bz2 cannot be linked: it needs a Python"):
        environment(every_feature[-1:], store)
    with pytest.raises(SourceError, match=r"a-1\.0-0\.tar\.bz2 cannot be linked: 'x' is not in the archive"):
        environment([package(store, "a", [], [stated("x")])], store)
    for document in (b"1", b"[[1]]", b'{"depends": 1}', b'{"depends": ["a"], "constrains": 1}', b"{"):
        with pytest.raises(SourceError, match=r"a-1\.0-0\.tar\.bz2 cannot be linked"):
            environment([package(store, "a", [], [], index=document)], store)
