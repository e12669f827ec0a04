"""Which block of an image takes how much."""

from __future__ import annotations

from reprokit.engine.info import HistoryStep
from reprokit.image.sizes import freed, sized_image, sizes_by_block, stored_together


def asserts(name: str) -> str:
    return f'/bin/sh -c expect() {{ echo "reprokit: block {name}: expected $1" }}; make'


def test_steps_belong_to_the_block_whose_assertions_follow():
    oldest_first = [
        HistoryStep("ADD rootfs", 100),
        HistoryStep(asserts("base"), 20),
        HistoryStep("COPY dir:1 in /opt", 7),
        HistoryStep(asserts("tvm"), 3),
        HistoryStep(asserts("tvm"), 1),
        HistoryStep("ENV A=1", 0),
    ]
    assert sizes_by_block(oldest_first[::-1]) == {"base": 120, "tvm": 11}
    assert sizes_by_block([HistoryStep("COPY", 5)]) == {"settings": 5}
    assert sizes_by_block([]) == {}


def image(name: str, *steps: tuple[str, int], layers: str = ""):
    """An image of steps of blocks; its layers are the letters, or one letter for each step that added files."""
    history = [HistoryStep(asserts(block), count) for block, count in steps]
    filled = [f"{block}{count}" for block, count in steps if count]
    return sized_image(name, tuple(layers) or filled, history[::-1])


def test_images_share_their_first_equal_layers_only():
    one = image("one", ("base", 100), ("base", 0), ("torch", 50), ("git", 7))
    two = image("two", ("base", 100), ("base", 0), ("torch", 50), ("apt", 3), ("git", 7))
    three = image("three", ("base", 100), ("torch", 40))
    assert one.shared(two) == two.shared(one) == (("base", 100), ("torch", 50))
    assert one.shared(three) == (("base", 100),) and one.shared(one) == one.steps
    assert stored_together([one, two, three]) == 157 + 10 + 40
    assert stored_together([one]) == one.size == 157
    assert (freed(one, [two, three]), freed(three, [one]), freed(one, [])) == (7, 40, 157)


def test_an_empty_layer_and_another_content_of_the_same_size_share_no_more():
    one = image("one", ("base", 100), ("torch", 50), layers="aeb")  # e: an empty layer, without a step
    two = image("two", ("base", 100), ("torch", 40), layers="aec")
    other = image("other", ("base", 100), ("torch", 50), layers="axy")
    assert one.shared(two) == one.shared(other) == (("base", 100),)
    assert one.shared(image("none", layers="")) == ()
