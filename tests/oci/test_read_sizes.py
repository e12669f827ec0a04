"""How large the layers of images are, by an engine's history."""

from __future__ import annotations

from types import SimpleNamespace

from reprokit.oci.read import EngineImage, layer_sizes, unpacked_size

NOP = "/bin/sh -c #(nop) "
BASE = [(f"{NOP}ADD file:1 in / ", 100), (f'{NOP} CMD ["bash"]', 0)]
HISTORIES = {
    "one": [*BASE, ("/bin/sh -c true", 0), ("ENV A=b", 0), ("COPY /product/ / # buildkit", 20)],
    "two": [*BASE, ("/bin/sh -c true", 0), (f"{NOP} LABEL a=b", 0), ("/bin/sh -c make", 7)],
    "old": [("", 100), ("", 0), ("", 5)],
    "unclear": [("", 100), ("", 0)],
}
ENGINE = SimpleNamespace(
    history=lambda name: [{"CreatedBy": text, "Size": size} for text, size in reversed(HISTORIES[name])]
)


def image(name: str, *layers: str) -> EngineImage:
    return EngineImage(name, name, 1000, layers, {})


ONE, TWO = image("one", "base", "empty", "copy"), image("two", "base", "empty", "make")


def test_empty_layers_are_told_from_settings():
    assert layer_sizes(ENGINE, ONE) == {"base": 100, "empty": 0, "copy": 20}
    assert layer_sizes(ENGINE, image("old", "base", "make")) == {"base": 100, "make": 5}
    assert layer_sizes(ENGINE, image("unclear", "a", "b", "c")) == {}


def test_a_layer_of_several_images_counts_once():
    assert unpacked_size(ENGINE, [ONE, TWO]) == 127
    assert unpacked_size(ENGINE, [ONE, TWO], lambda diff_id: diff_id == "base") == 27
    assert unpacked_size(ENGINE, [ONE, image("unclear", "a", "b", "c")]) == 1120
