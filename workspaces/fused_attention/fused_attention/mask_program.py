"""Write the programs of structured masks, which csrc/structure.h defines and the kernels evaluate.

A code is a tuple of instructions in postfix order. An instruction is (operation, a, b, c, table); a table is a tuple
or an int64 tensor of words, placed behind the instructions, and its offset takes the place of a.
"""

import array
from typing import Any, Dict, List, Sequence, Tuple

import torch

VERSION = 1
UNBOUNDED = 1 << 40

BAND, RESIDUE, KEY_RESIDUE, SAME_BLOCK, KEY_RANGE, ROW_RANGE, KEY_SET, ROW_SET = range(1, 9)
KEY_BELOW, ROW_BELOW, ROW_INTERVAL, BLOCK_TABLE, AND, OR, NOT = range(9, 16)

Instruction = Tuple[int, int, int, int, Any]
Code = Tuple[Instruction, ...]

_MAX_KEPT = 256
_kept: Dict[Code, torch.Tensor] = {}


def band(first: int, last: int) -> Code:
    """first <= key - row <= last."""
    return ((BAND, first, last, 0, None),)


def residue(step: int) -> Code:
    """key - row is a multiple of step."""
    return ((RESIDUE, step, 0, 0, None),)


def key_residue(step: int, first: int, end: int) -> Code:
    """first <= key mod step < end."""
    return ((KEY_RESIDUE, step, first, end, None),)


def same_block(size: int) -> Code:
    return ((SAME_BLOCK, size, 0, 0, None),)


def key_range(first: int, end: int) -> Code:
    return ((KEY_RANGE, first, end, 0, None),)


def row_range(first: int, end: int) -> Code:
    return ((ROW_RANGE, first, end, 0, None),)


def key_set(indices: Sequence[int]) -> Code:
    bits = max(indices) + 1
    return ((KEY_SET, 0, bits, 0, bit_words(indices, bits)),)


def row_set(indices: Sequence[int]) -> Code:
    bits = max(indices) + 1
    return ((ROW_SET, 0, bits, 0, bit_words(indices, bits)),)


def key_below(lengths: Tuple[int, ...]) -> Code:
    """One length, or one for each sequence."""
    return ((KEY_BELOW, 0, len(lengths), 0, lengths),)


def row_below(lengths: Tuple[int, ...]) -> Code:
    return ((ROW_BELOW, 0, len(lengths), 0, lengths),)


def row_interval(intervals: torch.Tensor) -> Code:
    """intervals: int64 [1 or batch, rows, 2], the first key of each row and the one after its last."""
    batch, rows, _ = intervals.shape
    return ((ROW_INTERVAL, 0, batch, rows, intervals),)


def block_table(block: int, key_blocks: int, words: Tuple[int, ...]) -> Code:
    """words: for each block of rows, the bits of key_blocks blocks of keys."""
    return ((BLOCK_TABLE, 0, block, key_blocks, words),)


def both(x: Code, y: Code) -> Code:
    return _joined(AND, x, y)


def either(x: Code, y: Code) -> Code:
    return _joined(OR, x, y)


def inverse(x: Code) -> Code:
    return (*x, (NOT, 0, 0, 0, None))


def bit_words(indices: Sequence[int], bits: int) -> Tuple[int, ...]:
    """The set of indices below `bits`, as bits of signed 64-bit words."""
    words = [0] * (-(-bits // 64))
    for index in indices:
        words[index // 64] |= 1 << index % 64
    return tuple(word - (1 << 64) if word >> 63 else word for word in words)


def assemble(code: Code) -> torch.Tensor:
    """The program as an int64 tensor on the CPU; equal codes of plain numbers share one."""
    if is_compiling():
        return _assemble(code)
    if any(isinstance(instruction[4], torch.Tensor) for instruction in code):
        return _assemble(code)
    found = _kept.get(code)
    if found is None:
        found = _assemble(code)
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        _kept[code] = found
    return found


def words_of(numbers: Sequence[int]) -> torch.Tensor:
    """The numbers as an int64 tensor on the CPU."""
    if _from_buffer and not is_compiling():
        # Four times as fast as torch.tensor.
        return _from_buffer(array.array("q", numbers), dtype=torch.int64)
    # Explicit, since the default device may be another.
    return torch.tensor(list(numbers), dtype=torch.int64, device="cpu")


def _joined(operation: int, x: Code, y: Code) -> Code:
    # The operand with the deeper stack first: so a stack of 15 entries is enough for 2^15 operands.
    if _depth(x) < _depth(y):
        x, y = y, x
    return (*x, *y, (operation, 0, 0, 0, None))


def _depth(code: Code) -> int:
    depth = deepest = 0
    for instruction in code:
        operation = instruction[0]
        depth += -1 if operation in (AND, OR) else 0 if operation == NOT else 1
        deepest = max(deepest, depth)
    return deepest


def _assemble(code: Code) -> torch.Tensor:
    words: List[int] = [VERSION, len(code)]
    numbers: List[int] = []
    tensors: List[torch.Tensor] = []
    # Tables of numbers come first: they share a tensor with the instructions.
    offset = 2 + 4 * len(code)
    after = offset + sum(len(table) for _, _, _, _, table in code if isinstance(table, tuple))
    for operation, a, b, c, table in code:
        if isinstance(table, tuple):
            a, offset = offset, offset + len(table)
            numbers.extend(table)
        elif table is not None:
            a, after = after, after + table.numel()
            tensors.append(table.reshape(-1))
        words.extend((operation, a, b, c))
    program = words_of(words + numbers)
    return torch.cat([program, *tensors]) if tensors else program


def _never() -> bool:
    return False


_from_buffer = getattr(torch, "frombuffer", None)  # torch 1.10

is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _never)
