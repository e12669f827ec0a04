"""Layers that are read while an engine still writes them, from folders as Docker makes them."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.bundle.early import Begun, Early
from reprokit.bundle.foretell import Foretold
from tests.support.images import noise

CONTENT = [noise(1 << 20, i) for i in range(3)]
DIFF_IDS = tuple(f"sha256:{hashlib.sha256(content).hexdigest()}" for content in CONTENT)


def _digests(early: Early, begun: threading.Event) -> dict[str, str]:
    found = {}
    for diff_id, blocks in early.layers(lambda: not begun.is_set()):
        digest = hashlib.sha256()
        for block in blocks:
            digest.update(block)
        found[diff_id] = f"sha256:{digest.hexdigest()}"
    return found


def _write(root: Path, contents: list[bytes], begun: threading.Event) -> None:
    """As Engine 25: one layer after the other, each by and by."""
    folder = root / "docker-export-1" / "blobs" / "sha256"
    folder.mkdir(parents=True)
    for diff_id, content in zip(DIFF_IDS, contents, strict=True):
        with (folder / diff_id.removeprefix("sha256:")).open("wb", buffering=0) as file:
            for start in range(0, len(content), 1 << 18):
                file.write(content[start : start + (1 << 18)])
                time.sleep(0.02)
    begun.set()


@pytest.mark.parametrize("damaged", [None, 1])
def test_layers_are_followed_while_they_grow(tmp_path: Path, damaged: int | None) -> None:
    begun, contents = threading.Event(), list(CONTENT)
    if damaged is not None:
        contents[damaged] = b"another"
    early = Early(tmp_path, Foretold([DIFF_IDS]))
    writing = threading.Thread(target=_write, args=(tmp_path, contents, begun))
    writing.start()
    found = _digests(early, begun)
    writing.join()
    assert set(found) <= set(DIFF_IDS)
    assert len(found) > 1
    right = {diff_id for diff_id, digest in found.items() if diff_id == digest}
    assert set(found) - right == ({DIFF_IDS[damaged]} & set(found) if damaged is not None else set())


def test_what_another_save_left_is_not_looked_at(tmp_path: Path) -> None:
    begun = threading.Event()
    _write(tmp_path, CONTENT, begun)
    early = Early(tmp_path, Foretold([DIFF_IDS]))
    asked = iter([True, True, False])
    assert list(early.layers(lambda: next(asked))) == []
    assert list(Early(tmp_path / "nowhere", Foretold([DIFF_IDS])).layers(lambda: False)) == []


def _save(root: Path, config: str, layers: dict[str, bytes], name: str) -> None:
    """The folder of a finished `save`, as Engine 20 makes it."""
    paths = [f"{name}{number}/layer.tar" for number in range(len(layers))]
    for path, content in zip(paths, layers.values(), strict=True):
        (root / name / path).parent.mkdir(parents=True)
        (root / name / path).write_bytes(content)
    (root / name / "manifest.json").write_text(json.dumps([{"Config": f"{config}.json", "Layers": paths}]))


def test_the_sizes_are_those_of_a_save_that_is_done(tmp_path: Path) -> None:
    early, images = Early(tmp_path, Foretold([DIFF_IDS])), {f"sha256:{'1' * 64}": DIFF_IDS}
    _write(tmp_path, CONTENT, threading.Event())
    assert early.sizes(images) == {}
    blobs = [f"blobs/sha256/{diff_id.removeprefix('sha256:')}" for diff_id in DIFF_IDS]
    manifest = [{"Config": f"blobs/sha256/{'1' * 64}", "Layers": blobs}]
    (tmp_path / "docker-export-1" / "manifest.json").write_text(json.dumps(manifest))
    begun = tmp_path / "docker-export-2" / "blobs" / "sha256"
    begun.mkdir(parents=True)
    (begun / DIFF_IDS[0].removeprefix("sha256:")).write_bytes(CONTENT[0][:1000])
    assert early.sizes(images) == dict.fromkeys(DIFF_IDS, 1 << 20)


def test_the_sizes_are_not_those_of_another_image_saved_meanwhile(tmp_path: Path) -> None:
    """Engine 20 names the only layer of any image alike: its parent is none."""
    early = Early(tmp_path, Foretold([DIFF_IDS[:1]]))
    _save(tmp_path, "1" * 64, {DIFF_IDS[0]: CONTENT[0]}, "docker-export-1")
    _save(tmp_path, "2" * 64, {DIFF_IDS[1]: b"short"}, "docker-export-2")
    assert early.sizes({f"sha256:{'1' * 64}": DIFF_IDS[:1]}) == {DIFF_IDS[0]: 1 << 20}


def test_the_answer_is_whole_however_long_its_beginning_takes() -> None:
    def slow() -> Iterator[bytes]:
        time.sleep(0.1)
        yield b"1"
        yield b"2"

    begun = Begun(slow())
    assert begun.waiting
    assert list(begun) == [b"1", b"2"]

    def broken() -> Iterator[bytes]:
        raise OSError("gone")
        yield b""

    with pytest.raises(OSError, match="gone"):
        list(Begun(broken()))
