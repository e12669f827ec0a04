"""Layers compared file by file, hostile ones among them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.oci.effect import Effect, Files
from reprokit.oci.entries import entries
from reprokit.verify.compare import ComparedLayer, changed_settings, compare_layers

Member = tuple[str, bytes | None, dict[str, object]]


def layer(path: Path, members: list[Member]) -> Path:
    """A layer with these entries: files, or folders without content; and fields of TarInfo."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, fields in members:
            info = tarfile.TarInfo(name)
            info.type = tarfile.REGTYPE if content is not None else tarfile.DIRTYPE
            info.size, info.mode = len(content or b""), 0o644
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content or b""))
    return path


def compared(
    tmp_path: Path, one: list[Member], other: list[Member], excused: dict[str, str] | None = None
) -> ComparedLayer:
    result = ComparedLayer(1, "")
    files = layer(tmp_path / "one", one), layer(tmp_path / "other", other)
    compare_layers(result, tuple(map(effect, files)), files, excused or {})
    return result


def effect(file: Path, below: Files | None = None) -> Effect:
    with file.open("rb") as opened:
        return (below or Files()).apply(entries(opened, "layer 1"), "layer 1")


@pytest.mark.parametrize(
    ("fields", "kind", "detail"),
    [
        (dict(mtime=7), "time", "time 0 -> 7"),
        (dict(uname="staff"), "time", "user  -> staff"),
        (dict(mode=0o4755), "content", "mode 644 -> 4755"),
        (dict(uid=7), "content", "owner 0:0 -> 7:0"),
        (dict(type=tarfile.SYMTYPE, linkname="/x"), "content", "type file -> link; target none -> /x"),
        (dict(pax_headers={"SCHILY.xattr.security.capability": "x"}), "content", "attributes"),
    ],
)
def test_one_difference_of_an_entry(tmp_path: Path, fields: dict, kind: str, detail: str):
    result = compared(tmp_path, [("a", b"", {}), ("b", b"1", {})], [("a", b"", fields), ("b", b"1", {})])
    assert (result.files, result.same) == (2, 1)
    assert [(each.path, each.kind) for each in result.changes] == [("a", kind)]
    assert detail in result.changes[0].detail


def test_the_first_byte_that_differs(tmp_path: Path):
    one, other = bytes(3 << 20), bytes(2 << 20) + b"\0\7" + bytes((1 << 20) - 2)
    result = compared(tmp_path, [("a", one, {})], [("a", other, {})])
    assert result.changes[0].detail.startswith(f"byte {(2 << 20) + 1}: 0000") and "-> 0700" in result.changes[0].detail
    shorter = compared(tmp_path, [("a", b"xy", {})], [("a", b"x", {})]).changes[0]
    assert shorter.detail == "byte 1: 79 -> end; size 2 -> 1"


def test_entries_of_one_side_and_known_ones(tmp_path: Path):
    excused = {"etc/ssh/*": "made at random"}
    one = [("etc/ssh/key", b"1", {}), ("old", b"", {})]
    result = compared(tmp_path, one, [("etc/ssh/key", b"2", {}), ("new", None, {})], excused)
    assert [(each.path, each.kind, each.known) for each in result.changes] == [
        ("etc/ssh/key", "content", "made at random"), ("new", "added", ""), ("old", "removed", ""),
    ]  # fmt: skip
    assert result.differ == 3 and result.times == 0


def test_a_second_entry_of_a_path_is_not_hidden_by_the_first(tmp_path: Path):
    # An engine takes the last entry of a path.
    result = compared(tmp_path, [("a", b"1", {})], [("a", b"1", {}), ("a", b"2", {})])
    assert [(each.kind, each.detail) for each in result.changes] == [("content", "byte 0: 31 -> 32")]


def test_strange_names_are_only_names(tmp_path: Path):
    names = ["../../etc/passwd", "/abs", "a\nb", "\udce4", "x" * 4000, "/".join("d" * 2000), "[a]*"]
    entries = [(name, b"1", {}) for name in names]
    assert compared(tmp_path, entries, entries).same == len(names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


@pytest.mark.parametrize("name", ["ENTRIES", "ENTRY_TEXT"])
def test_a_layer_beyond_a_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    entries = [(f"{number}", b"", {}) for number in range(9)]
    assert compared(tmp_path, entries, entries).same == 9
    monkeypatch.setenv(f"REPROKIT_LIMIT_{name}", "8")
    with pytest.raises(UsageError, match="more than 8"):
        compared(tmp_path, entries, entries)


def test_a_damaged_layer_is_named(tmp_path: Path):
    good = layer(tmp_path / "one", [("a", b"1" * 2000, {})])
    (tmp_path / "other").write_bytes(good.read_bytes()[:1500])
    with pytest.raises(UsageError, match="damaged"):
        effect(tmp_path / "other")
    dangling = layer(tmp_path / "dangling", [("a", b"", dict(type=tarfile.LNKTYPE, linkname="b"))])
    with pytest.raises(UsageError, match="the hard link /a leads to nothing"):
        effect(dangling)


BELOW: list[Member] = [
    *[("etc", None, {}), ("etc/a", b"1", {}), ("etc/b", b"2", {})],
    ("lib", b"", dict(type=tarfile.SYMTYPE, linkname="etc")),
]
HARD = dict(type=tarfile.LNKTYPE, linkname="x")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # 20.10 repeats what did not change, the containerd store omits it.
        ([("etc", None, {}), ("etc/a", b"1", {}), ("etc/c", b"3", {})], [("etc/c", b"3", {})]),
        # A folder that replaces another one.
        ([("etc/.wh..wh..opq", b"", {}), ("etc/b", b"2", {})], [("etc/.wh.a", b"", {})]),
        ([("etc/b", b"2", {}), ("etc/.wh..wh..opq", b"", {})], [("etc/.wh.a", b"", {})]),
        (
            [("etc", b"x", {})],
            [("etc/.wh.a", b"", {}), ("etc/.wh.b", b"", {}), (".wh.etc", b"", {}), ("etc", b"x", {})],
        ),
        # The paths of one file, in another order.
        ([("x", b"1", {}), ("w", b"", HARD)], [("w", b"1", {}), ("x", b"", {**HARD, "linkname": "w"})]),
        # One of them replaces a file.
        (
            [("x", b"1", {}), ("etc/a", b"", HARD)],
            [("etc/a", b"1", {}), ("x", b"", {**HARD, "linkname": "etc/a"})],
        ),
        ([("etc/.wh.", b"", {})], [(".wh.etc", b"", {})]),
        # The last entry of a path counts, whatever leads to it.
        ([("lib/a", b"9", {})], [("etc/a", b"8", {}), ("./etc//a", b"9", {})]),
        ([("etc/a", b"1", dict(mtime=9, uname="x"))], []),
        # A folder may come after what is in it.
        ([("new/x", b"", {}), ("new", None, {})], [("new", None, {}), ("new/x", b"", {})]),
    ],
)
def test_an_effect_is_the_same_however_it_is_written(tmp_path: Path, one: list[Member], other: list[Member]):
    digests = []
    for members in (one, other):
        files = Files()
        effect(layer(tmp_path / "below", BELOW), files)
        digests.append(effect(layer(tmp_path / "layer", members), files).digest)
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    "members",
    [
        [("etc/c", b"3", {}), ("etc/.wh.c", b"", {})],
        [("etc/c", b"3", {}), (".wh.etc", b"", {})],
        [("lib/c", b"3", {}), ("etc/.wh.c", b"", {})],
        [("etc/.wh...", b"", {})],
    ],
)
def test_a_whiteout_that_engines_read_differently_is_refused(tmp_path: Path, members: list[Member]):
    files = Files()
    effect(layer(tmp_path / "below", BELOW), files)
    with pytest.raises(UsageError, match=r"engines understand /.* differently"):
        effect(layer(tmp_path / "layer", members), files)


@pytest.mark.parametrize(
    "members",
    [
        [*((f"{n}", b"", {}) for n in range(600)), *[(".wh..wh..opq", b"", {})] * 600],
        [("a", b"", dict(type=tarfile.SYMTYPE, linkname="a/a")), *[("a/x", b"", {})] * 3000],
        [("d/" * 1000 + str(n), b"", {}) for n in range(400)],
    ],
    ids=["opaque marks", "a loop of links", "deep names"],
)
def test_paths_that_cost_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: list[Member]):
    monkeypatch.setenv("REPROKIT_LIMIT_LAYER_PATHS", "100000")
    with pytest.raises(UsageError, match="more than 100000 paths looked at"):
        effect(layer(tmp_path / "layer", members))


@pytest.mark.parametrize(
    "other",
    [
        [("etc/a", b"2", {})],
        [("etc/.wh.a", b"", {})],
        [("lib", None, {})],
        [("etc/a", b"1", dict(mode=0o4755))],
        [("etc/b", b"", dict(type=tarfile.LNKTYPE, linkname="etc/a"))],
        # What a link of an earlier layer hides: it writes etc/a.
        [("lib/a", b"2", {})],
    ],
)
def test_another_effect_is_another_digest(tmp_path: Path, other: list[Member]):
    files = Files()
    effect(layer(tmp_path / "below", BELOW), files)
    nothing = effect(layer(tmp_path / "no", []), files.copy())
    assert effect(layer(tmp_path / "layer", other), files).digest != nothing.digest and not nothing


def test_settings_that_differ():
    one = {"Env": ["A=1", "B=2"], "Labels": {"reprokit.version": "1", "x": "y"}, "Image": "sha256:1", "Cmd": ["bash"]}
    other = {"Env": ["A=2"], "Labels": {"reprokit.version": "2", "x": "y"}, "Healthcheck": {"Test": ["CMD", "x"]}}
    assert changed_settings(one, other) == [
        ("Cmd", '["bash"]', ""), ("Healthcheck", "", '{"Test": ["CMD", "x"]}'), ("env A", "1", "2"), ("env B", "2", ""),
    ]  # fmt: skip
    assert changed_settings(one, one) == []
    twice, once = {"Env": ["PATH=/evil", "PATH=/bin"]}, {"Env": ["PATH=/bin"]}
    assert changed_settings(twice, once) == [("env PATH", "/evil, /bin", "/bin")]
