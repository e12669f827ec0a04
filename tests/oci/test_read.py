"""Images read from the engine: each layer once, with the right digest; and the sizes of their layers by history."""

from __future__ import annotations

import hashlib
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.engine import Engine
from reprokit.engine.info import HistoryStep, ImageInfo
from reprokit.errors import UsageError
from reprokit.oci.model import Image, blob_path
from reprokit.oci.read import BlobSink, engine_image, layer_sizes, read_images, unpacked_size
from tests.support.images import noise


def _read(engine: Engine, names: Sequence[str], sink: BlobSink, **options: object) -> list[Image]:
    return read_images(engine, [engine_image(engine, name) for name in names], sink, **options)  # type: ignore[arg-type]


def _collected(engine: Engine, path: Path, names: list[str], **options: object) -> tuple[list[Image], dict[str, bytes]]:
    with path.open("w+b") as file:
        sink = ResumableTar(file)
        images = _read(engine, names, sink, **options)
        sink.end()
    return images, _contents(path)


def _contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]


def test_every_layer_is_written_once_with_the_right_digests(engine, two, base, tmp_path):
    images, entries = _collected(engine, tmp_path / "x", list(two))
    layers = {layer.diff_id: layer for image in images for layer in image.layers}
    assert set(layers) == {diff_id for name in two for diff_id in engine.image(name).layers}
    assert len(entries) == len(layers) < sum(len(image.layers) for image in images)
    for layer in layers.values():
        blob = entries[blob_path(layer.blob.digest)]
        assert (len(blob), f"sha256:{hashlib.sha256(blob).hexdigest()}") == (layer.blob.size, layer.blob.digest)
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(blob)
        assert (len(plain), f"sha256:{hashlib.sha256(plain).hexdigest()}") == (layer.size, layer.diff_id)
    for name, image in zip(two, images, strict=True):
        described = engine.image(name)
        assert (image.name, image.id) == (name, described.id)
        assert [layer.diff_id for layer in image.layers] == list(described.layers)

    # Excluded layers are named without content; the others are the same in any order.
    common = engine.image(base).layers[0]
    (image,), excluded = _collected(engine, tmp_path / "y", [two[1]], without=frozenset({common}))
    assert image.layers[1:] == images[1].layers[1:] and image.layers[0].blob is None
    assert excluded == {path: entries[path] for path in (blob_path(layer.blob.digest) for layer in image.layers[1:])}
    assert image.layers[0].descriptor.digest == common


def test_concurrent_reads_give_the_same_image(engine, images, tmp_path):
    """The engine's `save`s have folders beside each other that are complete at different times."""
    large = images.base("at-once", {"a": noise(20 << 20, 5)})

    def take(number: int) -> Image:
        time.sleep(number * 0.05)
        found, _ = _collected(Engine.connect(), tmp_path / str(number), [large])
        return found[0]

    with ThreadPoolExecutor(6) as pool:
        first, *others = pool.map(take, range(6))
    assert first.layers[0].size > 20 << 20
    assert others == [first] * 5


def test_finished_layers_of_an_earlier_attempt_are_reused(engine, two, tmp_path):
    images, entries = _collected(engine, tmp_path / "x", [two[0]])
    wanted = {layer.diff_id for layer in images[0].layers}
    whole = (tmp_path / "x").read_bytes()
    with tarfile.open(tmp_path / "x") as tar:
        starts = [member.offset for member in tar]
    for finished, start in enumerate(starts):
        with (tmp_path / "x").open("r+b") as file:
            file.write(whole)
            file.truncate(start + 700)
            sink = ResumableTar(file, wanted)
            assert sum(sink.present(diff_id) is not None for diff_id in wanted) == finished
            assert _read(engine, [two[0]], sink) == images
            sink.end()
        assert _contents(tmp_path / "x") == entries


def test_a_missing_image_is_named(engine, tmp_path):
    with (tmp_path / "x").open("w+b") as file, pytest.raises(UsageError) as error:
        _read(engine, ["reprokit/nobody:cpu"], ResumableTar(file))
    assert "reprokit/nobody:cpu" in error.value.where
    assert "build" in error.value.hint


NOP = "/bin/sh -c #(nop) "
BASE = [(f"{NOP}ADD file:1 in / ", 100), (f'{NOP} CMD ["bash"]', 0)]
HISTORIES = {
    "one": [*BASE, ("/bin/sh -c true", 0), ("ENV A=b", 0), ("COPY /product/ / # buildkit", 20)],
    "two": [*BASE, ("/bin/sh -c true", 0), (f"{NOP} LABEL a=b", 0), ("/bin/sh -c make", 7)],
    "old": [("", 100), ("", 0), ("", 5)],
    "unclear": [("", 100), ("", 0)],
}
ENGINE = SimpleNamespace(history=lambda name: [HistoryStep(text, size) for text, size in reversed(HISTORIES[name])])


def image(name: str, *layers: str) -> ImageInfo:
    return ImageInfo(name, (name,), size=1000, layers=layers)


ONE, TWO = image("one", "base", "empty", "copy"), image("two", "base", "empty", "make")


def test_empty_layers_are_told_from_settings():
    assert layer_sizes(ENGINE, ONE) == {"base": 100, "empty": 0, "copy": 20}
    assert layer_sizes(ENGINE, image("old", "base", "make")) == {"base": 100, "make": 5}
    assert layer_sizes(ENGINE, image("unclear", "a", "b", "c")) == {}


def test_a_layer_of_several_images_counts_once():
    assert unpacked_size(ENGINE, [ONE, TWO]) == 127
    assert unpacked_size(ENGINE, [ONE, TWO], lambda diff_id: diff_id == "base") == 27
    assert unpacked_size(ENGINE, [ONE, image("unclear", "a", "b", "c")]) == 1120
