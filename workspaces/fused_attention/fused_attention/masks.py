"""Structured masks: the keys that each query row attends to, in a few numbers instead of a boolean matrix.

    mask = Causal() & (SlidingWindow(128) | GlobalTokens([0]))
    out = fused_attention(q, k, v, mask)

Masks compose with & (a key must pass both), | and ~. Rows (queries) and keys count from 0 at the start of their
sequence, for any lengths; in packed sequences, from the start of each. A mask that depends on the length, such as
Strided without a step, is resolved in the call. Make masks once, outside of a compiled function, and use them in every
layer: they cache their form for each length.
"""

import array
import math
from typing import Any, List, Optional, Sequence, Tuple

import torch

from . import mask_program as program
from .big_bird import BigBird
from .mask_algebra import Dense, Mask, Parts, Structured, Tiles, common_batch, shown
from .mask_arguments import Integers, at_least, is_many, non_negatives

__all__ = [
    "BigBird",
    "Causal",
    "Dense",
    "DilatedWindow",
    "Documents",
    "Fixed",
    "GlobalTokens",
    "Longformer",
    "Mask",
    "Padding",
    "Prefix",
    "SlidingWindow",
    "Strided",
    "Tiles",
]


class Causal(Structured):
    """Row i attends to the keys 0 to i: the lower triangle, counted from the start (top-left alignment)."""

    def _code(self, q_len: int, k_len: int) -> program.Code:
        return program.band(-program.UNBOUNDED, 0)


class SlidingWindow(Structured):
    """Row i attends to the keys i - left to i + right; right is left unless given.

    The window of Longformer (Beltagy et al. 2020, arXiv:2004.05150) and, with right=0, of Mistral 7B (Jiang et al.
    2023, arXiv:2310.06825). Raises ValueError for negative numbers.
    """

    def __init__(self, left: int, right: Optional[int] = None) -> None:
        left = at_least(0, "left", left)
        super().__init__(left, left if right is None else at_least(0, "right", right))

    def _code(self, q_len: int, k_len: int) -> program.Code:
        left, right = self._fields
        return program.band(-left, right)


class DilatedWindow(Structured):
    """Row i attends to the keys i + n * dilation for -window <= n <= window.

    The dilated sliding window of Longformer (Beltagy et al. 2020, arXiv:2004.05150, section 3.1). Raises ValueError
    for a negative window or a dilation below 1.
    """

    def __init__(self, window: int, dilation: int) -> None:
        super().__init__(at_least(0, "window", window), at_least(1, "dilation", dilation))

    def _code(self, q_len: int, k_len: int) -> program.Code:
        window, dilation = self._fields
        reach = window * dilation
        return program.both(program.residue(dilation), program.band(-reach, reach))


class Strided(Structured):
    """Row i attends to the last `step` keys up to i and to every step-th key before: i - step, i - 2 * step, ...

    The strided pattern of sparse Transformers (Child et al. 2019, arXiv:1904.10509, section 4.2), both of its heads
    merged. step: int(sqrt(k_len)) unless given, as in the artifact of AToffer (SC 2024). Raises ValueError for a step
    below 1.
    """

    def __init__(self, step: Optional[int] = None) -> None:
        self._by_length = step is None
        super().__init__(None if step is None else at_least(1, "step", step))

    def _code(self, q_len: int, k_len: int) -> program.Code:
        step = self._fields[0] or _root(k_len)
        far = program.both(program.residue(step), program.band(-program.UNBOUNDED, 0))
        return program.either(far, program.band(1 - step, 0))


class Fixed(Structured):
    """Row i attends, up to itself, to the block of `step` keys that it is in and to the last `summary` keys of each.

    The fixed pattern of sparse Transformers (Child et al. 2019, arXiv:1904.10509, section 4.2; summary is its c),
    both of its heads merged. step: int(sqrt(k_len)) unless given, as in the artifact of AToffer (SC 2024). Raises
    ValueError for a step below 1, and for a summary that is not 1 to step.
    """

    def __init__(self, step: Optional[int] = None, summary: int = 1) -> None:
        self._by_length = step is None
        step = None if step is None else at_least(1, "step", step)
        summary = at_least(1, "summary", summary)
        if step is not None and summary > step:
            raise ValueError("summary is %d and step is %d; summary must be 1 to step" % (summary, step))
        super().__init__(step, summary)

    def _code(self, q_len: int, k_len: int) -> program.Code:
        step, summary = self._fields
        step = step or _root(k_len)
        seen = program.either(program.same_block(step), program.key_residue(step, max(0, step - summary), step))
        return program.both(seen, program.band(-program.UNBOUNDED, 0))


class GlobalTokens(Structured):
    """Every row attends to these tokens, and these rows attend to every key. tokens: how many first ones, or indices.

    Longformer's global attention (Beltagy et al. 2020, arXiv:2004.05150, section 3.1). Raises ValueError for
    negative numbers.
    """

    def __init__(self, tokens: Integers) -> None:
        if is_many(tokens):
            super().__init__(tuple(sorted(set(non_negatives("tokens", tokens)))))
        else:
            super().__init__(at_least(0, "tokens", tokens))

    def _code(self, q_len: int, k_len: int) -> program.Code:
        (tokens,) = self._fields
        if isinstance(tokens, int):
            first, end = 0, tokens
        else:
            first, end = (tokens[0], tokens[-1] + 1) if tokens else (0, 0)
            if end - first != len(tokens):
                return program.either(program.key_set(tokens), program.row_set(tokens))
        return program.either(program.key_range(first, end), program.row_range(first, end))


def Longformer(window: int, tokens: Integers) -> Mask:
    """window // 2 keys on each side, and global tokens: SlidingWindow(window // 2) | GlobalTokens(tokens).

    window: even, both sides together, as in Longformer (Beltagy et al. 2020, arXiv:2004.05150) and its published
    models. tokens: the first so many, or indices. Raises ValueError for negative numbers and an odd window.
    """
    if at_least(0, "window", window) % 2:
        raise ValueError("window is %d; it must be even: half of it on each side" % window)
    return SlidingWindow(window // 2) | GlobalTokens(tokens)


class Padding(Structured):
    """Sequence b has lengths[b] keys; no row attends to the padding after them. Rows of padding still attend.

    q_lengths: where given, rows from q_lengths[b] on attend to nothing, and are zero. One length serves every
    sequence. lengths, q_lengths: an int, ints, or an integer tensor [batch], which is read at once (on a GPU, that
    waits for it). Raises ValueError for negative lengths.
    """

    def __init__(self, lengths: Integers, q_lengths: Optional[Integers] = None) -> None:
        keys = _lengths("lengths", lengths)
        rows = None if q_lengths is None else _lengths("q_lengths", q_lengths)
        self.batch = common_batch("lengths", len(keys), "q_lengths", 1 if rows is None else len(rows))
        super().__init__(keys, rows)

    def _code(self, q_len: int, k_len: int) -> program.Code:
        keys, rows = self._fields
        below = program.key_below(keys)
        return below if rows is None else program.both(below, program.row_below(rows))


class Prefix(Structured):
    """Causal, and the first lengths[b] keys of sequence b are seen by all of its rows.

    The prefix language model of T5 (Raffel et al. 2020, arXiv:1910.10683, section 3.2.1). lengths: as in Padding.
    """

    def __init__(self, lengths: Integers) -> None:
        prefix = _lengths("lengths", lengths)
        self.batch = len(prefix)
        super().__init__(prefix)

    def _code(self, q_len: int, k_len: int) -> program.Code:
        return program.either(program.key_below(self._fields[0]), program.band(-program.UNBOUNDED, 0))


class Documents(Mask):
    """Rows and keys of the same document attend to each other: several documents packed in one sequence.

    ids: integers [seq] or [batch, seq]; positions with the same id are one document. Or lengths: those of documents
    that follow each other from position 0 on. Positions after the last document attend to nothing, and nothing to
    them. Read at once (on a GPU, that waits for it). Documents in one piece cost a run of keys for each row; scattered
    ones, a boolean matrix for each length. Raises ValueError, TypeError.
    """

    def __init__(self, ids: Optional[torch.Tensor] = None, *, lengths: Optional[Integers] = None) -> None:
        if (ids is None) == (lengths is None):
            raise ValueError("Documents takes either ids or lengths")
        if lengths is None:
            ids = _checked_ids(ids)
            self.batch = ids.shape[0]
            pieces = _pieces(ids)
            self._has_tensor = self._by_length = pieces is None
        else:
            lengths = non_negatives("lengths", lengths)
            pieces = [lengths]
            if not sum(lengths):
                raise ValueError("lengths is %r; one document at least must have a position" % (lengths,))
        self._intervals = None if pieces is None else _intervals(pieces)
        super().__init__(ids, lengths)

    def __repr__(self) -> str:
        ids, lengths = self._fields
        return "Documents(%s)" % (shown(ids) if lengths is None else "lengths=%r" % (lengths,))

    def _parts(self, q_len: int, k_len: int) -> Parts:
        if self._intervals is not None:
            return (program.row_interval(self._intervals), None)
        ids = self._fields[0]
        same = ids[:, None, :q_len, None] == ids[:, None, None, :k_len]
        found = torch.zeros(self.batch, 1, q_len, k_len, dtype=torch.bool, device="cpu")
        found[:, :, : same.shape[2], : same.shape[3]] = same
        return (None, found)


def _root(length: int) -> int:
    return max(1, int(math.sqrt(length)))


def _lengths(name: str, value: Integers) -> Tuple[int, ...]:
    lengths = non_negatives(name, value)
    if not lengths:
        raise ValueError("%s is empty; it must have one length, or one for each sequence" % name)
    return lengths


def _checked_ids(ids: Any) -> torch.Tensor:
    """[batch, seq] on the CPU. Raises ValueError."""
    ids = torch.as_tensor(ids, device="cpu")
    if ids.dim() not in (1, 2) or ids.is_floating_point() or ids.numel() == 0:
        raise ValueError(
            "ids has shape %s and dtype %s; it must be integers [seq] or [batch, seq]" % (list(ids.shape), ids.dtype)
        )
    return ids.reshape(-1, ids.shape[-1])


def _pieces(ids: torch.Tensor) -> Optional[List[List[int]]]:
    """The lengths of each sequence's documents; None if one is in several pieces."""
    batch, seq = ids.shape
    starts: List[List[int]] = [[0] for _ in range(batch)]
    for row, before in (ids[:, 1:] != ids[:, :-1]).nonzero().tolist():
        starts[row].append(before + 1)
    for row, found in enumerate(starts):
        if len(set(ids[row, found].tolist())) != len(found):
            return None
    return [[end - begin for begin, end in zip(found, [*found[1:], seq])] for found in starts]


def _intervals(pieces: Sequence[Sequence[int]]) -> torch.Tensor:
    """int64 [batch, positions, 2]: where the document of each position begins and ends."""
    table = array.array("q")
    for lengths in pieces:
        begin = 0
        for length in lengths:
            table.extend(array.array("q", (begin, begin + length)) * length)
            begin += length
    return program.words_of(table).reshape(len(pieces), -1, 2)
