"""Big Bird: blocks of rows that attend to blocks of keys, some of them random."""

import operator
import random as random_numbers
from typing import Any, List, Sequence, Tuple

import torch

from . import mask_program as program
from .mask_algebra import Structured
from .mask_arguments import at_least


class BigBird(Structured):
    """Blocks of rows attend to blocks of keys: neighbours, global blocks and random ones.

    Big Bird (Zaheer et al. 2020, arXiv:2007.14062, section 2) in blocks, with the defaults of its published models.
    Each block of rows attends to the `window` blocks around its own, to the global blocks and to `random` others,
    chosen by `seed` alike on every machine; the global blocks of rows attend to all. global_blocks: indices, those
    below 0 from the end. Raises ValueError for a block below 1, negative numbers and an even window.
    """

    _by_length = True

    def __init__(
        self, block: int = 64, random: int = 3, seed: int = 0, window: int = 3, global_blocks: Sequence[int] = (0, -1)
    ) -> None:
        if at_least(1, "window", window) % 2 == 0:
            raise ValueError("window is %d; it must be odd: a block and as many on each side" % window)
        self._choices = " ".join("%d" % number for number in (random, seed, window, *global_blocks))
        super().__init__(
            at_least(1, "block", block),
            at_least(0, "random", random),
            operator.index(seed),
            window,
            tuple(operator.index(index) for index in global_blocks),
        )

    def _code(self, q_len: int, k_len: int) -> program.Code:
        block = self._fields[0]
        row_blocks, key_blocks = -(-q_len // block), -(-k_len // block)
        # In a trace, lengths and numbers may be symbols; the length of a range and a string are constants.
        words = _words(self._choices, len(range(row_blocks)), len(range(key_blocks)))
        return program.block_table(block, key_blocks, words)


def _unmarked(function: Any) -> Any:
    return function


# torch.compile may treat the result as a constant: it depends on the arguments alone.
@getattr(getattr(torch, "compiler", None), "assume_constant_result", _unmarked)
def _words(choices: str, row_blocks: int, key_blocks: int) -> Tuple[int, ...]:
    """The table of blocks, row by row, as bits of 64-bit words. choices: "random seed window global_blocks ..."."""
    random, seed, window, *global_blocks = map(int, choices.split())
    numbers = random_numbers.Random(seed)
    # In a short sequence, an index from the end may be before the start.
    global_keys = {i + key_blocks if i < 0 else i for i in global_blocks} & set(range(key_blocks))
    global_rows = {i + row_blocks if i < 0 else i for i in global_blocks}
    words: List[int] = []
    for row in range(row_blocks):
        seen = global_keys | set(range(max(0, row - window // 2), min(key_blocks, row + window // 2 + 1)))
        if row in global_rows:
            seen = set(range(key_blocks))
        others = [key for key in range(key_blocks) if key not in seen]
        for _ in range(min(random, len(others))):
            # random() alone gives the same numbers in every version of Python.
            seen.add(others.pop(int(numbers.random() * len(others))))
        words.extend(program.bit_words(sorted(seen), key_blocks))
    return tuple(words)
