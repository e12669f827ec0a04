"""The host side of the CUDA kernels: the choice of a kernel, the order of work, and the lists of key tiles."""

from __future__ import annotations

import ctypes
from collections import Counter

import numpy as np
import pytest
import torch
from fused_attention import mask_program as codes
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernel_calls import cuda_numbers, hopper_numbers, pointers

TILE = 128  # Hopper's query rows, and keys
ALL = ((0, 0, 0, 0, None),)


@pytest.fixture(scope="session")
def cuda(compile_cpp):
    return compile_cpp("cuda_kernels.cpp")


@pytest.fixture(scope="session")
def hopper(compile_cpp):
    library = compile_cpp("hopper_kernel.cpp")
    library.order.restype = ctypes.c_int64
    library.swizzled.restype = ctypes.c_uint32
    return library


def test_the_choice_of_a_cuda_kernel(cuda):
    def plan(dtype, dim, architecture, *, batch=1, alibi=False, tf32=False):
        q = torch.empty(batch, 12, 512, dim, dtype=dtype)
        numbers, _ = cuda_numbers(q, q, q, q, torch.zeros(1, 1, 1, 512) if alibi else None, False)
        fields = (ctypes.c_int64 * 5)()
        cuda.plan(numbers, ctypes.c_float(0.1), architecture, 108, tf32, fields)
        return dict(zip(("tensor_cores", "by_element", "dims", "warp_rows", "rows"), fields, strict=True))

    # float32 is rounded only where torch may round it.
    assert [plan(torch.float32, 64, 90, tf32=allowed)["tensor_cores"] for allowed in (False, True)] == [0, 1]
    assert not plan(torch.float32, 64, 75, tf32=True)["tensor_cores"]
    assert not plan(torch.float32, 129, 80, tf32=True)["tensor_cores"]
    assert plan(torch.bfloat16, 64, 75) == dict(tensor_cores=0, by_element=0, dims=64, warp_rows=0, rows=64)
    assert plan(torch.bfloat16, 65, 86)["dims"] == 128
    few, many = plan(torch.float16, 64, 80), plan(torch.float16, 64, 80, batch=16)
    assert (few["warp_rows"], few["rows"], many["warp_rows"], many["rows"]) == (16, 64, 32, 128)
    assert plan(torch.float16, 64, 80, batch=16, alibi=True)["warp_rows"] == 16
    assert plan(torch.float16, 200, 80, batch=16)["warp_rows"] == 16
    # Quad-pairs have 32 rows, and there is no kernel of theirs for other calls.
    assert plan(torch.float16, 64, 70)["warp_rows"] == 32
    assert not plan(torch.float16, 256, 70)["tensor_cores"]
    assert not plan(torch.float16, 64, 70, alibi=True)["tensor_cores"]
    assert not plan(torch.float16, 64, 60)["tensor_cores"]


@pytest.mark.parametrize("section", [1, 4, 5, 24, 100])
def test_each_piece_is_taken_once_and_long_ones_first(cuda, section):
    q = torch.empty(2, 12, 300, 64, dtype=torch.float16)
    numbers, _ = cuda_numbers(q, q[:, :4], q[:, :4], q, None, True, section=section)
    out = (ctypes.c_int64 * (3 * 2 * 12 * 5))()
    cuda.pieces(numbers, 64, out)
    pieces = [tuple(out[i : i + 3]) for i in range(0, len(out), 3)]
    assert sorted(pieces) == [(b, h, t) for b in range(2) for h in range(12) for t in range(5)]
    first = [t for _, _, t in pieces[: 5 * min(section, 24)]]
    assert first == sorted(first, reverse=True)


@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "length", "blocks", "cache"),
    [(1, 1, 1, 5, 132, 1 << 24), (2, 12, 12, 1000, 132, 1 << 21), (3, 8, 2, 4000, 20, 1), (1, 4, 1, 640, 3, 1 << 30)],
)
def test_hoppers_pieces_are_taken_once_and_work_is_level(hopper, batch, heads, kv_heads, length, blocks, cache):
    q, k = torch.empty(batch, heads, length, 64).half(), torch.empty(batch, kv_heads, length, 64).half()
    tiles = -(-length // TILE)
    rounds = -(-batch * heads * tiles // blocks)
    places = (ctypes.c_int32 * (4 * rounds * blocks))()
    filled = hopper.order(hopper_numbers(q, k, k, q, True), ctypes.c_int64(cache), blocks, places)
    rows = [tuple(places[4 * i : 4 * i + 4]) for i in range(filled)]
    pieces = [row[:3] for row in rows if row[0] >= 0]
    assert sorted(pieces) == [(b, h, t) for b in range(batch) for h in range(heads) for t in range(tiles)]
    assert all(row[3] == row[2] + 1 for row in rows if row[0] >= 0)
    # Heads that share keys run at the same time.
    if cache == 1:
        together = [{(b, h // (heads // kv_heads)) for b, h, _ in pieces[i : i + 4]} for i in range(0, len(pieces), 4)]
        assert all(len(pairs) == 1 for pairs in together)
    work = Counter()
    for place, row in enumerate(rows):
        work[place % blocks] += row[3] if row[0] >= 0 else 0
    assert max(work.values()) <= sum(work.values()) / blocks + 2 * tiles


def test_what_hoppers_kernel_does_not_take(hopper):
    def taken(q, k=None, v=None, scale=1.0, mask_kind=0, out=None):
        k, v, out = (q if t is None else t for t in (k, v, out))
        numbers = hopper_numbers(q, k, v, out, False)
        tensors = pointers(q, k, v, out, None, None, None, None)
        return hopper.supports(tensors, numbers, ctypes.c_float(scale), mask_kind)

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


def test_swizzle_gives_eight_rows_eight_banks(hopper):
    assert sorted(hopper.swizzled(address) for address in range(1024)) == list(range(1024))
    for column in range(8):
        groups = [hopper.swizzled(row * 128 + column * 16) % 128 // 16 for row in range(8)]
        assert sorted(groups) == list(range(8))


@pytest.mark.parametrize("tile", [(64, 64), (128, 128), (16, 192)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_boolean_masks_are_classified_in_tiles_of_any_shape(cuda, tile, causal):
    q = torch.empty(2, 2, 200, 8)
    mask = torch.rand(2, 1, 200, 300, generator=torch.Generator().manual_seed(3)) > 0.5
    mask[:, :, :128, :192] = True
    mask[1] = False
    numbers, expanded = cuda_numbers(q, torch.empty(2, 2, 300, 8), q, q, mask, causal)
    seen = torch.zeros(2, 2, 200, 300, dtype=torch.bool)
    cuda.classified.restype = ctypes.c_int64
    tensors = pointers(None, None, None, None, expanded, None, None, None, None, None)
    full = cuda.classified(tensors, numbers, *tile, ctypes.c_void_p(seen.data_ptr()))
    assert torch.equal(seen, expanded.tril() if causal else expanded)
    # Of the first batch, for each of its two heads.
    assert full == 2 * {(64, 64): 6, (128, 128): 1, (16, 192): 8}[tile] * (not causal) + 2 * causal * (tile == (64, 64))


def address(array):
    return array.ctypes.data_as(ctypes.c_void_p)


@pytest.fixture(scope="session")
def lists(compile_cpp):
    library = compile_cpp("tile_lists.cpp")
    library.unpack_tiles.restype = library.use_store.restype = ctypes.c_int64
    return library


@pytest.fixture(scope="session")
def blocks_of(lists):
    """Compares the lists of a code of mask_program with its definition. Returns how many blocks of bits there are."""

    def compare(code, batch, q_len, k_len, rows, keys, causal=False):
        program = address(codes.assemble(code).numpy())
        sizes = [ctypes.c_int64(n) for n in (batch, q_len, k_len)]
        seen, expected = np.zeros((2, batch, q_len, k_len), dtype=np.uint8)
        blocks = ctypes.c_int64()
        batches = lists.unpack_tiles(program, int(causal), *sizes, rows, keys, address(seen), ctypes.byref(blocks))
        assert batches in (1, batch)
        lists.define_mask(program, int(causal), *sizes, address(expected))
        assert (np.broadcast_to(seen[:batches], expected.shape) == expected).all()
        return blocks.value

    return compare


small, sizes = st.integers(-90, 90), st.integers(1, 200)
leaves = st.one_of(
    st.builds(codes.band, small, small | st.just(codes.UNBOUNDED)),
    st.builds(lambda step, offset: ((codes.RESIDUE, step, offset, 0, None),), st.integers(1, 9), small),
    st.builds(codes.same_block, st.integers(1, 80)),
    st.builds(codes.key_range, st.integers(0, 90), small),
    st.builds(codes.row_range, st.integers(0, 90), small),
    st.builds(codes.key_below, st.tuples(*[st.integers(0, 200)] * 3) | st.tuples(st.integers(0, 200))),
    st.sampled_from([ALL, codes.residue(2)]),
)
programs = st.recursive(
    leaves,
    lambda inner: (
        st.builds(codes.inverse, inner) | st.builds(codes.both, inner, leaves) | st.builds(codes.either, inner, leaves)
    ),
    max_leaves=4,
)


@settings(max_examples=120)
@given(
    code=programs,
    q_len=sizes,
    k_len=sizes,
    shape=st.sampled_from([(64, 64), (128, 64), (16, 64), (128, 128), (32, 192)]),
    causal=st.booleans(),
)
def test_tile_lists_are_those_of_the_program(blocks_of, code, q_len, k_len, shape, causal):
    blocks_of(code, 3, q_len, k_len, *shape, causal=causal)


def test_equal_blocks_are_kept_once(blocks_of):
    # One block below the diagonal, one above it; the diagonal itself is full.
    assert blocks_of(codes.band(-64, 64), 1, 1024, 1024, 64, 64) == 2
    assert blocks_of(ALL, 1, 512, 512, 64, 64, causal=True) == 1


@pytest.mark.parametrize(
    ("keys", "size", "hits", "left"),
    [
        ([1, 2, 3, 1, 4, 2, 1], 10, [0, 0, 0, 1, 0, 0, 1], 3),  # 2 was not used for longest when 4 came
        ([1, 2, 3, 2], 40, [0, 0, 0, 1], 2),  # 120 bytes are too many
        ([1, 2, 1], 200, [0, 0, 0], 1),  # the new one stays, whatever its size
        ([1000, 1, 2, 3, 4, 1000], 10, [0, 0, 0, 0, 0, 1], 4),  # 1000 is pinned, and the three last stay
    ],
)
def test_lists_are_kept_up_to_a_bound(lists, keys, size, hits, left):
    taken = np.zeros(len(keys), dtype=np.uint8)
    arrays = np.array(keys, dtype=np.int64), np.full(len(keys), size, dtype=np.int64)
    assert lists.use_store(*map(address, arrays), ctypes.c_int64(len(keys)), address(taken)) == left
    assert taken.tolist() == hits
