"""Layers compared file by file, hostile ones among them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.verify.compare import ComparedLayer, changed_settings, compare_layers

Change = Callable[[tarfile.TarInfo], None]


def layer(path: Path, *members: tuple[str, bytes | None, Change]) -> Path:
    """A layer with these entries: files, or folders without content."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, change in members:
            info = tarfile.TarInfo(name)
            info.type = tarfile.REGTYPE if content is not None else tarfile.DIRTYPE
            info.size, info.mode = len(content or b""), 0o644
            change(info)
            tar.addfile(info, io.BytesIO(content or b""))
    return path


def nothing(info: tarfile.TarInfo) -> None:
    pass


def set_to(**fields: object) -> Change:
    return lambda info: [setattr(info, name, value) for name, value in fields.items()] and None


def compared(tmp_path: Path, one: list, other: list, known: dict[str, str] | None = None) -> ComparedLayer:
    found = ComparedLayer(1, "")
    files = layer(tmp_path / "one", *one), layer(tmp_path / "other", *other)
    compare_layers(found, files, known or {}, "layer 1")
    return found


@pytest.mark.parametrize(
    ("change", "kind", "detail"),
    [
        (set_to(mtime=7), "time", "time 0 -> 7"),
        (set_to(uname="staff"), "time", "user  -> staff"),
        (set_to(mode=0o4755), "content", "mode 644 -> 4755"),
        (set_to(uid=7), "content", "owner 0:0 -> 7:0"),
        (set_to(type=tarfile.SYMTYPE, linkname="/x"), "content", "type file -> link; target none -> /x"),
        (set_to(pax_headers={"SCHILY.xattr.security.capability": "x"}), "content", "attributes"),
    ],
)
def test_one_difference_of_an_entry(tmp_path: Path, change: Change, kind: str, detail: str):
    found = compared(tmp_path, [("a", b"", nothing), ("b", b"1", nothing)], [("a", b"", change), ("b", b"1", nothing)])
    assert (found.files, found.same) == (2, 1)
    assert [(each.path, each.kind) for each in found.changes] == [("a", kind)]
    assert detail in found.changes[0].detail


def test_the_first_byte_that_differs(tmp_path: Path):
    one, other = bytes(3 << 20), bytes(2 << 20) + b"\0\7" + bytes((1 << 20) - 2)
    found = compared(tmp_path, [("a", one, nothing)], [("a", other, nothing)])
    assert found.changes[0].detail.startswith(f"byte {(2 << 20) + 1}: 0000") and "-> 0700" in found.changes[0].detail
    shorter = compared(tmp_path, [("a", b"xy", nothing)], [("a", b"x", nothing)]).changes[0]
    assert shorter.detail == "byte 1: 79 -> end; size 2 -> 1"


def test_entries_of_one_side_and_known_ones(tmp_path: Path):
    known = {"etc/ssh/*": "made at random"}
    one = [("etc/ssh/key", b"1", nothing), ("old", b"", nothing)]
    found = compared(tmp_path, one, [("etc/ssh/key", b"2", nothing), ("new", None, nothing)], known)
    assert [(each.path, each.kind, each.known) for each in found.changes] == [
        ("etc/ssh/key", "content", "made at random"), ("new", "added", ""), ("old", "removed", ""),
    ]  # fmt: skip
    assert found.differ == 3 and found.times == 0


def test_a_second_entry_of_a_path_is_not_hidden_by_the_first(tmp_path: Path):
    # An engine takes the last entry of a path.
    found = compared(tmp_path, [("a", b"1", nothing)], [("a", b"1", nothing), ("a", b"2", nothing)])
    assert [each.kind for each in found.changes] == ["added"]


def test_strange_names_are_only_names(tmp_path: Path):
    names = ["../../etc/passwd", "/abs", "a\nb", "\udce4", "x" * 4000, ".wh..wh..opq", "[a]*"]
    entries = [(name, b"1", nothing) for name in names]
    assert compared(tmp_path, entries, entries).same == len(names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


@pytest.mark.parametrize("name", ["ENTRIES", "ENTRY_TEXT"])
def test_a_layer_beyond_a_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    entries = [(f"{number}", b"", nothing) for number in range(9)]
    assert compared(tmp_path, entries, entries).same == 9
    monkeypatch.setenv(f"REPROKIT_LIMIT_{name}", "8")
    with pytest.raises(UsageError, match="more than 8"):
        compared(tmp_path, entries, entries)


def test_a_damaged_layer_is_named(tmp_path: Path):
    good = layer(tmp_path / "one", ("a", b"1" * 2000, nothing))
    (tmp_path / "other").write_bytes(good.read_bytes()[:1500])
    with pytest.raises(UsageError, match="damaged"):
        compare_layers(ComparedLayer(1, ""), (good, tmp_path / "other"), {}, "layer 1")


def test_a_variable_that_stands_twice_differs_from_one():
    twice, once = {"Env": ["PATH=/evil", "PATH=/bin"]}, {"Env": ["PATH=/bin"]}
    assert changed_settings(twice, once) == [("env PATH", "/evil, /bin", "/bin")]


def test_settings_that_differ():
    one = {"Env": ["A=1", "B=2"], "Labels": {"reprokit.version": "1", "x": "y"}, "Image": "sha256:1", "Cmd": ["bash"]}
    other = {"Env": ["A=2"], "Labels": {"reprokit.version": "2", "x": "y"}, "Healthcheck": {"Test": ["CMD", "x"]}}
    assert changed_settings(one, other) == [
        ("Cmd", '["bash"]', ""), ("Healthcheck", "", '{"Test": ["CMD", "x"]}'), ("env A", "1", "2"), ("env B", "2", ""),
    ]  # fmt: skip
    assert changed_settings(one, one) == []
