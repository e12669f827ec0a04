"""The host side of the Hopper kernel: its order of work, the supported calls, and the layout of shared memory."""

from __future__ import annotations

import ctypes
from collections import Counter

import numpy as np
import pytest
import torch

from tests.support.kernel_calls import hopper_numbers, pointers

pytestmark = pytest.mark.compiler

TILE = 128  # query rows, and keys


@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "length", "blocks", "cache"),
    [(1, 1, 1, 5, 132, 1 << 24), (2, 12, 12, 1000, 132, 1 << 21), (3, 8, 2, 4000, 20, 1), (1, 4, 1, 640, 3, 1 << 30)],
)
def test_every_piece_is_taken_once_and_work_is_level(hopper_library, batch, heads, kv_heads, length, blocks, cache):
    q, k = torch.empty(batch, heads, length, 64).half(), torch.empty(batch, kv_heads, length, 64).half()
    tiles = -(-length // TILE)
    rounds = -(-batch * heads * tiles // blocks)
    places = (ctypes.c_int32 * (4 * rounds * blocks))()
    filled = hopper_library.order(hopper_numbers(q, k, k, q, True), ctypes.c_int64(cache), blocks, places)
    rows = [tuple(places[4 * i : 4 * i + 4]) for i in range(filled)]
    pieces = [row[:3] for row in rows if row[0] >= 0]
    everything = {(b, h, t) for b in range(batch) for h in range(heads) for t in range(tiles)}
    assert set(pieces) == everything and len(pieces) == len(everything)
    assert all(row[3] == row[2] + 1 for row in rows if row[0] >= 0)
    # Heads that share keys run at the same time.
    if cache == 1:
        together = [{(b, h // (heads // kv_heads)) for b, h, _ in pieces[i : i + 4]} for i in range(0, len(pieces), 4)]
        assert all(len(pairs) == 1 for pairs in together)
    work = Counter()
    for place, row in enumerate(rows):
        work[place % blocks] += row[3] if row[0] >= 0 else 0
    ideal = sum(work.values()) / blocks
    assert max(work.values()) <= ideal + 2 * tiles


def test_what_it_does_not_take(hopper_library):
    def taken(q, k=None, v=None, scale=1.0, mask_kind=0, out=None):
        k, v, out = (q if t is None else t for t in (k, v, out))
        return hopper_library.supports(
            pointers(q, k, v, out, None, None, None),
            hopper_numbers(q, k, v, out, False),
            ctypes.c_float(scale),
            mask_kind,
        )

    q = torch.empty(2, 4, 16, 64).half()
    assert taken(q) and taken(q.bfloat16()) and taken(torch.empty(2, 4, 16, 128).half())
    assert not taken(q.float())
    assert not taken(torch.empty(2, 4, 16, 136).half())
    assert not taken(torch.empty(2, 4, 16, 60).half())
    assert not taken(q, scale=0.0) and not taken(q, scale=-1.0)
    assert not any(taken(q, mask_kind=kind) for kind in (1, 2, 3, 4))
    # Addresses and strides that are no multiples of 16 bytes, and rows that are all one.
    wide = torch.empty(2, 4, 16, 72).half()
    assert taken(wide[..., 8:]) and not taken(wide[..., 4:68])
    assert not taken(q, k=torch.empty(2, 4, 16, 68).half()[..., :64])
    assert not taken(q, out=torch.empty(2, 4, 16, 68).half()[..., :64])
    assert not taken(q, v=q[:, :, :1].expand(-1, -1, 16, -1))
    assert taken(q, k=q[:1, :1].expand(2, 4, -1, -1))


def test_swizzle_gives_eight_rows_eight_banks(hopper_library):
    addresses = np.array([hopper_library.swizzled(a) for a in range(1024)])
    assert sorted(addresses) == list(range(1024))
    for column in range(8):
        groups = [hopper_library.swizzled(row * 128 + column * 16) % 128 // 16 for row in range(8)]
        assert sorted(groups) == list(range(8))
