"""Kernels for processors that this machine lacks against float64: CUDA cores, tensor cores, Hopper and AMX by C++ that
emulates their instructions, the CPU kernel under qemu-user."""

from __future__ import annotations

import ctypes
import functools
import math
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from fused_attention import mask_program as codes
from fused_attention import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernel_calls import DTYPES, MASK_KINDS, cuda_numbers, hopper_numbers, pointers

FLOAT, BFLOAT, HALF = DTYPES
ROUNDING = {FLOAT: 2**-24, BFLOAT: 2**-8, HALF: 2**-11}
TF32 = 2**-11
# Compute capability of the fragments (0: CUDA cores), and whether a warp takes 32 rows.
CUDA = {
    "cores": (0, 0),
    "sm_70": (70, 1),
    "sm_75": (75, 0),
    "sm_75 32 rows": (75, 1),
    "sm_80": (80, 0),
    "sm_80 32 rows": (80, 1),
    "tf32": (80, 0),
    "tf32 32 rows": (80, 1),
}
TILE = 128  # Hopper's query rows, and keys
BLOCKS = 3  # Hopper's thread blocks: fewer than there are pieces of work
AVX512 = pytest.param(
    "amx_avx512",
    marks=pytest.mark.skipif(
        not re.search(r"\bavx512_bf16\b", Path("/proc/cpuinfo").read_text()), reason="the CPU lacks avx512_bf16"
    ),
)
KERNELS = pytest.mark.parametrize("kernel", [*CUDA, "hopper", "amx", AVX512])
CAUSAL = pytest.mark.parametrize("is_causal", [False, True])


def dtypes_of(kernel):
    """The dtypes that a kernel takes."""
    capability, _ = CUDA.get(kernel, (None, None))
    if "tf32" in kernel:
        return [FLOAT]
    if capability in (70, 75):
        return [HALF]
    return [FLOAT, BFLOAT, HALF] if capability == 0 else [BFLOAT] if "amx" in kernel else [HALF, BFLOAT]


@pytest.fixture(scope="session")
def emulate_cuda(compile_cpp):
    """A call of a CUDA kernel, with asynchronous copies as late as they may be; `twice`: and as early as they may be,
    with threads in the other order and the same result bit by bit."""
    library = compile_cpp("cuda_kernels.cpp")

    def run(kernel, tensors, mask, structure, alibi, cu, is_causal, scale, twice, lse):
        capability, tall = CUDA[kernel]
        packed = {} if cu is None else {"batch": len(cu[0]) - 1, "lengths": [int(ends.diff().max()) for ends in cu]}
        for mode in (3, 0) if twice else (3,):
            out = torch.full(tensors[0].shape, math.nan, dtype=tensors[0].dtype)
            numbers, expanded = cuda_numbers(*tensors, out, mask, is_causal, **packed)
            given = pointers(*tensors, out, expanded, structure, *(cu or (None, None)), alibi, lse)
            arguments = given, numbers, scale
            if capability == 0:
                library.attend_simt(*arguments, mode)
            else:
                assert library.attend_mma(*arguments, capability, tall, mode) == 0
            yield out

    return run


@pytest.fixture(scope="session")
def emulate_hopper(compile_cpp):
    """A call of the Hopper kernel: asynchronous work done as early, and as late, as it may be."""
    library = compile_cpp("hopper_kernel.cpp")

    def run(tensors, structure, alibi, cu, is_causal, scale, by_head, cache, lse):
        packed = cu and (len(cu[0]) - 1, *(int(ends.diff().max()) for ends in cu))
        for late in (0, 1):
            out = torch.full(tensors[0].shape, math.nan, dtype=tensors[0].dtype)
            taken = library.attend(
                pointers(*tensors, out, *(cu or (None, None)), alibi, lse),
                hopper_numbers(*tensors, out, is_causal, packed),
                scale,
                ctypes.c_void_p(None if structure is None else structure.data_ptr()),
                ctypes.c_int64(0 if structure is None else len(structure)),
                int(by_head),
                ctypes.c_int64(cache),
                BLOCKS,
                late,
            )
            assert taken
            yield out

    return run


@pytest.fixture(scope="session")
def emulate_amx(compile_cpp):
    """A call of the CPU kernel on emulated tiles, in one and in three parts."""

    @functools.cache
    def library(kernel):
        return compile_cpp(
            kernel.replace("amx", "amx_kernel") + ".cpp", "cpu/plan.cpp", "cpu/plans.cpp", "structure.cpp"
        )

    def run(kernel, tensors, mask, structure, alibi, cu, is_causal, scale, lse):
        q, k, _ = tensors
        sizes = [q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3]]
        if cu is not None:
            sizes[0], sizes[3], sizes[4] = len(cu[0]) - 1, *(int(ends.diff().max()) for ends in cu)
        expanded = None if mask is None else mask.expand(sizes[0], sizes[1], sizes[3], sizes[4])
        numbers = [0 if mask is None else MASK_KINDS[mask.dtype], int(is_causal), *sizes]
        numbers.append(0 if structure is None else len(structure))
        for parts in (1, 3):
            out = torch.full(q.shape, math.nan, dtype=q.dtype)
            strides = [0 if cu is not None and i == 0 else t.stride(i) for t in (*tensors, out) for i in range(3)]
            strides += [0] * 4 if expanded is None else expanded.stride()
            arguments = pointers(*tensors, out, expanded, structure, alibi, *(cu or (None, None)), lse)
            library(kernel).attend(arguments, (ctypes.c_int64 * 25)(*numbers, *strides), scale, parts)
            yield out

    return run


@pytest.fixture(scope="session")
def emulate(emulate_cuda, emulate_hopper, emulate_amx):
    """fused_attention by an emulated kernel: in all orders of work the same. `structure` is a code of mask_program."""

    def run(kernel, q, k, v, mask=None, *, structure=None, is_causal=False, scale=None, alibi=None, cu=None,
            twice=False, by_head=False, cache=1 << 20, lse=None):  # fmt: skip
        scale = ctypes.c_float(1 / math.sqrt(q.shape[3]) if scale is None else scale)
        program = None if structure is None else codes.assemble(structure)
        if kernel in CUDA:
            outputs = emulate_cuda(kernel, (q, k, v), mask, program, alibi, cu, is_causal, scale, twice, lse)
        elif kernel == "hopper":
            assert mask is None
            outputs = emulate_hopper((q, k, v), program, alibi, cu, is_causal, scale, by_head, cache, lse)
        else:
            outputs = emulate_amx(kernel, (q, k, v), mask, program, alibi, cu, is_causal, scale, lse)
        first, *others = outputs
        for out in others:
            torch.testing.assert_close(out, first, rtol=0, atol=0, equal_nan=True)
        return first

    return run


def multiplied(kernel, *inputs):
    """The tensors as a kernel multiplies them: those for TF32 round them."""
    if "tf32" not in kernel:
        return inputs
    return [((t.view(torch.int32) + 0x1000) & ~0x1FFF).view(FLOAT) for t in inputs]


def compare(kernel, out, q, k, v, mask=None, is_causal=False, scale=None, slack=2e-5):
    """With float64, within the rounding of weights and of the output: one key too many or too few is more.

    `slack` is what float32 may lose.
    """
    q, k, v = multiplied(kernel, q, k, v)
    expected = reference.attention(q, k, v, mask, is_causal, scale)
    weighed = reference.attention(q, k, v.abs(), mask, is_causal, scale)
    allowed = (TF32 if "tf32" in kernel else ROUNDING[out.dtype]) * (1.05 * weighed + 1.01 * expected.abs()) + slack
    error = (out.double() - expected).abs()
    # Written so that a NaN fails.
    assert bool((error <= allowed).all()), f"error {error.max()}, allowed {allowed.max()}"


@pytest.fixture(scope="session")
def check(emulate):
    """Compares a kernel's output with the reference under the dense mask that all masks come to. Returns the output."""

    def run(kernel, q, k, v, mask=None, *, dense=None, is_causal=False, scale=None, slack=2e-5, **options):
        out = emulate(kernel, q, k, v, mask, is_causal=is_causal, scale=scale, **options)
        compare(kernel, out, q, k, v, mask if dense is None else dense, is_causal, scale, slack)
        return out

    return run


def table(mask):
    """Any boolean [q, k] as a structure."""
    bits = np.zeros((mask.shape[0], -(-mask.shape[1] // 64) * 64), dtype=np.uint8)
    bits[:, : mask.shape[1]] = mask.numpy()
    words = np.packbits(bits, axis=1, bitorder="little").view(np.int64)
    return codes.block_table(1, mask.shape[1], tuple(words.flatten().tolist()))


def masked(kernel, mask):
    """The options of a call with a boolean [q, k] mask: the Hopper kernel takes no tensor."""
    return {"structure": table(mask), "dense": mask} if kernel == "hopper" else {"mask": mask}


def random(*shape, seed=1):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def distances(q_len, k_len):
    return torch.arange(k_len) - torch.arange(q_len)[:, None]


@KERNELS
@CAUSAL
def test_head_dimensions(check, tensors, kernel, is_causal):
    # Of 32 rows or TF32 with more than 128 dimensions there is no kernel: it would not fit the registers.
    dims = (8, 64, 72, 128) if kernel == "hopper" else (1, 40, 64, 72, 128, 129, 256)
    q_len, k_len = (140, 200) if kernel == "hopper" else (35, 67)
    for dtype in dtypes_of(kernel):
        for dim in dims[:5] if "tf32" in kernel or CUDA.get(kernel, (0, 0))[1] else dims:
            inputs = tensors(dtype, batch=1, heads=1, q_len=q_len, k_len=k_len, dim=dim)
            check(kernel, *inputs, is_causal=is_causal, twice=True)


@KERNELS
@CAUSAL
@pytest.mark.parametrize(("q_len", "k_len"), [(1, 1), (1, 700), (400, 1), (64, 65), (128, 128), (129, 257), (300, 130)])
def test_lengths(check, tensors, kernel, q_len, k_len, is_causal):
    inputs = tensors(dtypes_of(kernel)[0], batch=1, heads=1, q_len=q_len, k_len=k_len, dim=64)
    check(kernel, *inputs, is_causal=is_causal)


@KERNELS
def test_grouped_heads_batches_and_strides(check, tensors, kernel):
    q, k, v = tensors(dtypes_of(kernel)[-1], heads=6, kv_heads=2, q_len=140, k_len=160, dim=64)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    check(kernel, q, k[:, :, ::2], torch.cat([v, v], dim=3)[:, :, 80:, 64:], cache=1)
    check(kernel, q, *(t[:1, :1].expand(2, 3, -1, -1) for t in (k, v)))
    if kernel != "hopper":
        # Rows that do not begin at 16 bytes are read element by element.
        check(kernel, q[..., 1:], k[:, :, :80, 1:], v[:, :, :80, :63])


@pytest.mark.parametrize("kernel", ["cores", "sm_75", "sm_80", "tf32", "amx"])
@pytest.mark.parametrize("shape", [(1, 1, 70, 70), (2, 1, 1, 70), (2, 2, 70, 1)], ids=str)
def test_additive_masks(check, tensors, kernel, shape):
    dtype = dtypes_of(kernel)[-1]
    inputs = tensors(dtype, heads=2, q_len=70, k_len=70, dim=64)
    mask = torch.randn(shape, generator=torch.Generator().manual_seed(1)).masked_fill(random(*shape) < 0.4, -math.inf)
    check(kernel, *inputs, mask)
    check(kernel, *inputs, mask.to(dtype), is_causal=True)


@pytest.mark.parametrize("kernel", ["cores", "sm_70", "sm_80 32 rows"])
@pytest.mark.parametrize("shape", [(1, 1, 150, 140), (2, 1, 1, 140), (2, 2, 150, 1), (2, 2, 150, 140)], ids=str)
@CAUSAL
def test_boolean_masks_are_classified_on_the_device(check, tensors, kernel, shape, is_causal):
    mask = random(*shape) > 0.4
    mask[..., :64, 64 if shape[-1] > 1 else 0 :] = False  # a tile to skip
    mask[..., 64:128, :64] = True  # and one that is full
    check(kernel, *tensors(dtypes_of(kernel)[0], heads=2, q_len=150, k_len=140, dim=40), mask, is_causal=is_causal)


@pytest.mark.parametrize("share", [0.03, 0.5, 0.97])
@CAUSAL
def test_tiles_of_any_mask_on_hopper(check, tensors, share, is_causal):
    mask = random(260, 330) < share
    mask[TILE : 2 * TILE, TILE : 2 * TILE] = True
    mask[:TILE, 2 * TILE :] = False
    inputs = tensors(HALF, batch=1, heads=1, q_len=260, k_len=330, dim=64)
    check("hopper", *inputs, **masked("hopper", mask), is_causal=is_causal)


@KERNELS
def test_rows_that_see_no_key_are_zero(check, emulate, tensors, kernel):
    inputs = tensors(dtypes_of(kernel)[0], batch=1, heads=2, q_len=140, k_len=150, dim=64)
    mask = torch.ones(140, 150, dtype=torch.bool)
    mask[3] = mask[136] = mask[8:30, :64] = False
    out = check(kernel, *inputs, **masked(kernel, mask))
    assert not out[:, :, [3, 136]].any() and out[:, :, 4].all()
    assert not emulate(kernel, *inputs, structure=codes.inverse(codes.row_range(0, 1000))).any()


@KERNELS
@CAUSAL
def test_structured_masks(check, tensors, kernel, is_causal):
    q_len, k_len = (520, 520) if kernel == "hopper" else (200, 190)
    inputs = tensors(dtypes_of(kernel)[0], heads=1, q_len=q_len, k_len=k_len, dim=64)
    rows, keys, distance = torch.arange(q_len)[:, None], torch.arange(k_len), distances(q_len, k_len)
    lengths = torch.tensor([150, 0]).view(2, 1, 1, 1)
    for structure, dense in (
        (codes.band(-9, 70), (distance >= -9) & (distance <= 70)),
        (codes.band(-TILE, TILE), distance.abs() <= TILE),
        (codes.either(codes.key_below((150, 0)), codes.row_range(3, 5)), (keys < lengths) | ((rows >= 3) & (rows < 5))),
        (
            codes.both(codes.either(codes.band(-3, 0), codes.residue(7)), codes.band(-codes.UNBOUNDED, 0)),
            ((distance >= -3) | (distance % 7 == 0)) & (distance <= 0),
        ),
    ):
        check(kernel, *inputs, structure=structure, dense=dense, is_causal=is_causal, twice=not is_causal)
        if kernel != "hopper":
            mask = random(2, 1, q_len, k_len, seed=2) > 0.5
            check(kernel, *inputs, mask, structure=structure, dense=dense & mask, is_causal=is_causal)
    if kernel in ("cores", "sm_80"):
        bias = torch.randn(1, 1, 1, k_len)
        dense = bias.masked_fill(distance.abs() > 9, -math.inf)
        check(kernel, *inputs, bias, structure=codes.band(-9, 9), dense=dense, is_causal=is_causal)


@pytest.mark.parametrize("by_head", [False, True])
def test_structures_that_differ_by_batch_or_head_on_hopper(check, tensors, by_head):
    sizes = {"batch": 1, "heads": 3} if by_head else {"batch": 3, "heads": 1}
    inputs = tensors(HALF, **sizes, kv_heads=1, q_len=200, k_len=300, dim=64)
    lengths = torch.tensor([0, 300, 129]).view((1, 3, 1, 1) if by_head else (3, 1, 1, 1))
    dense = torch.arange(300) < lengths
    out = check("hopper", *inputs, structure=codes.key_below((0, 300, 129)), dense=dense, by_head=by_head)
    assert not out.reshape(3, -1)[0].any()


@pytest.mark.parametrize("kernel", ["cores", "sm_75", "sm_80", "hopper", "amx"])
@CAUSAL
def test_alibi(check, tensors, kernel, is_causal):
    inputs = tensors(dtypes_of(kernel)[0], batch=2, kv_heads=2, q_len=130, k_len=140, dim=64)
    slopes = torch.tensor([0.5, 0.01, 0.0, 2.0])
    dense = -slopes.view(4, 1, 1).double() * distances(130, 140).abs()
    check(kernel, *inputs, alibi=slopes, dense=dense, is_causal=is_causal)


@KERNELS
@CAUSAL
@pytest.mark.parametrize("dim", [64, 128])
def test_packed_sequences(emulate, tensors, kernel, is_causal, dim):
    """Sequences of several lengths, none among them; the last but one is NaN, which no other may see."""
    ends = [0, 5, 5, 205, 333, 340], [0, 130, 140, 140, 410, 538]
    if kernel != "hopper":
        ends = [0, 4, 4, 74, 79, 209], [0, 3, 20, 20, 85, 230]
    cu = tuple(torch.tensor(one).int() for one in ends)
    q, k, v = tensors(dtypes_of(kernel)[0], batch=1, heads=2, kv_heads=1, q_len=ends[0][-1], k_len=ends[1][-1], dim=dim)
    for t, (*_, begin, end, _) in zip((q, k, v), (ends[0], ends[1], ends[1]), strict=True):
        t[:, :, begin:end] = math.nan
    lengths = (100, 4, 9, 250, 128)
    for structure in (None, codes.both(codes.key_below(lengths), codes.band(-40, 30))):
        out = emulate(kernel, q, k, v, structure=structure, is_causal=is_causal, cu=cu, twice=is_causal)
        for i, (rows, keys) in enumerate(zip(*([slice(*pair) for pair in pairwise(one)] for one in ends), strict=True)):
            own = q[:, :, rows], k[:, :, keys], v[:, :, keys]
            distance = distances(own[0].shape[2], own[1].shape[2])
            dense = (torch.arange(own[1].shape[2]) < lengths[i]) & (distance >= -40) & (distance <= 30)
            if i == 3:
                seen = dense if structure else torch.ones_like(dense)
                seen = seen.tril() if is_causal else seen
                assert torch.equal(out[0, 0, rows].isnan().all(-1), seen.any(-1))
            else:
                compare(kernel, out[:, :, rows], *own, None if structure is None else dense, is_causal)


@KERNELS
def test_scales(check, tensors, kernel):
    inputs = tensors(dtypes_of(kernel)[0], batch=1, heads=2, q_len=70, k_len=140, dim=64)
    for scale in (4.0,) if kernel == "hopper" else (-0.3, 0.0, 1e-30, 4.0):
        check(kernel, *inputs, is_causal=True, scale=scale, slack=5e-5)


@KERNELS
def test_nan_and_infinity_stay_in_the_rows_that_see_them(emulate, tensors, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], batch=1, heads=1, q_len=140, k_len=140, dim=64)
    clean = emulate(kernel, q, k, v, is_causal=True)[0, 0]
    q[0, 0, 3, 0] = math.nan
    k[0, 0, 65, 1] = math.inf
    out = emulate(kernel, q, k, v, is_causal=True)[0, 0]
    # Row 3 is NaN, and rows that see key 65 are NaN or its value alone.
    assert out[3].isnan().all() and not out[65:].isfinite().all()
    assert torch.equal(out[:3], clean[:3]) and torch.equal(out[4:65], clean[4:65])


@KERNELS
def test_huge_tiny_and_rising_scores(check, emulate, tensors, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], batch=1, heads=1, q_len=70, k_len=300, dim=64)
    check(kernel, q / 1024, k / 1024, v, scale=1.0)
    # Each tile corrects what came before, or none after the first does.
    growth = torch.linspace(1, 40, 300)[:, None]
    for factors in (growth, growth.flip(0)):
        larger = (k * factors).to(k.dtype)
        check(kernel, q, larger, v, slack=1e-3)
    # Scores in the tens of thousands carry float32's own rounding, so that torch's error is the measure.
    q, k = multiplied(kernel, q * 30, k * 30)
    expected = reference.attention(q, k, v, scale=1.0)
    theirs = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), scale=1.0)
    out = emulate(kernel, q, k, v, scale=1.0)
    error, torchs_error = ((one.double() - expected).abs().max() for one in (out, theirs))
    assert error <= 2 * torchs_error + 2 * (TF32 if "tf32" in kernel else ROUNDING[q.dtype]) * v.abs().max()


def test_keys_that_nobody_sees_do_not_matter_to_amx(emulate, tensors):
    q, k, v = tensors(BFLOAT, batch=1, q_len=40, k_len=100, dim=64)
    mask = torch.arange(100) < 50
    expected = emulate("amx", q, k, v, mask)
    k[:, :, 50:], v[:, :, 50:] = math.nan, 1e30
    assert torch.equal(emulate("amx", q, k, v, mask), expected)


@settings(max_examples=120)
@given(
    kernel=st.sampled_from([*CUDA, "hopper", "amx"]),
    pick=st.integers(0, 2),
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    groups=st.integers(1, 2),
    q_len=st.integers(1, 200),
    k_len=st.integers(1, 270),
    dim=st.integers(1, 128),
    offset=st.integers(0, 8),
    transposed=st.booleans(),
    edges=st.tuples(st.integers(-150, 20), st.integers(-20, 150)),
    kind=st.sampled_from(["none", "causal", "band", "boolean", "both", "additive", "alibi", "scale"]),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_random_calls(
    check, tensors, kernel, pick, kv_heads, groups, dim, offset, transposed, edges, kind, share, seed, **sizes
):
    dtypes, options = dtypes_of(kernel), {}
    if kernel == "hopper":
        dim, offset = -(-dim // 8) * 8, 8 * (offset % 3)
    q_len, k_len, heads = sizes["q_len"], sizes["k_len"], kv_heads * groups
    inputs = tensors(dtypes[pick % len(dtypes)], seed=seed, heads=heads, kv_heads=kv_heads, dim=dim + offset, **sizes)
    if transposed:
        inputs = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in inputs]
    inputs = [t[..., offset:] for t in inputs]
    distance, boolean = distances(q_len, k_len), random(q_len, k_len, seed=seed) < share
    in_band = (distance >= edges[0]) & (distance <= edges[1])
    if kind == "causal":
        options = {"is_causal": True}
    elif kind == "band" or (kind == "both" and kernel == "hopper"):
        options = {"structure": codes.band(*edges), "dense": in_band}
    elif kind == "boolean":
        options = masked(kernel, boolean)
    elif kind == "both":
        options = {"structure": codes.band(*edges), "mask": boolean, "dense": in_band & boolean}
    elif kind == "additive" and kernel != "hopper":
        options = {"mask": torch.randn(q_len, k_len).masked_fill(~boolean, -math.inf)}
    elif kind == "alibi" and kernel != "sm_70" and "32 rows" not in kernel:
        slopes = random(heads, seed=seed)
        options = {"alibi": slopes, "dense": -slopes[:, None, None].double() * distance.abs()}
    elif kind == "scale":
        options = {"scale": 0.3 if kernel == "hopper" else share - 0.5}
    check(kernel, *inputs, **options)


# Compiler with flags, emulator with flags. qemu 7.2 (Debian 12) emulates AVX2 and no AVX-512, so the x86-64 case fails
# by SIGILL where the kernel for AVX2 needs more than that.
PROCESSORS = {
    "arm64": (["aarch64-linux-gnu-g++", "-march=armv8-a"], ["qemu-aarch64"]),
    "x86-64 with AVX2": (["x86_64-linux-gnu-g++"], ["qemu-x86_64", "-cpu", "max"]),
}
LEVELS = ("default", "avx2", "avx512", "avx512_bf16", "avx512_amx")
# What the CPU kernel is made of, but for what needs torch.
SOURCES = [
    "structure.cpp",
    *(f"cpu/{name}.cpp" for name in ("select", "plan", "plans", "amx")),
    *(f"cpu/attention_{level}.cpp" for level in LEVELS),
]


@pytest.mark.long
@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_cpu_kernel_under_qemu(csrc, tmp_path, processor):
    compiler, emulator = PROCESSORS[processor]
    for tool in (compiler[0], emulator[0]):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    program = tmp_path / "self_test"
    flags = ["-std=c++14", "-O0", "-static", "-Wall", "-Wextra", "-Werror", f"-I{csrc}"]
    sources = [Path(__file__).parent / "self_test.cpp", *(csrc / source for source in SOURCES)]
    compiled = subprocess.run([*compiler, *flags, *sources, "-o", program], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run([*emulator, program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    if processor != "arm64":
        assert "avx2" in done.stdout


@pytest.mark.parametrize("kernel", ["sm_70", "sm_80", "sm_80 32 rows", "tf32", "hopper", "amx"])
def test_log_sum_exps(emulate, tensors, kernel):
    q, k, v = tensors(dtypes_of(kernel)[0], heads=2, kv_heads=1, q_len=140, k_len=150, dim=64)
    lse = torch.full((2, 2, 140), math.nan)
    emulate(kernel, q, k, v, structure=codes.both(codes.band(-40, 3), codes.row_range(2, 140)), lse=lse)
    hidden = (distances(140, 150) < -40) | (distances(140, 150) > 3)
    q, k = multiplied(kernel, q, k)
    scores = (q.double() @ k.double().mT / 8).masked_fill(hidden, -math.inf)
    expected = torch.logsumexp(scores, -1) / math.log(2)
    expected[..., :2] = math.inf  # no key
    torch.testing.assert_close(lse, expected.float(), rtol=1e-5, atol=1e-5 if kernel != "amx" else 1e-3)


@pytest.fixture(scope="session")
def check_gradients(compile_cpp):
    """Compares the gradients of the tensor-core kernels with float64 autograd, in both orders of work the same."""
    library = compile_cpp("cuda_kernels.cpp")

    def run(capability, q, k, v, mask=None, *, structure=None, dense=None, alibi=None, cu=None, is_causal=False):
        program = None if structure is None else codes.assemble(structure)
        packed = {} if cu is None else {"batch": len(cu[0]) - 1, "lengths": [int(ends.diff().max()) for ends in cu]}
        gradient = torch.empty_like(q).copy_(torch.randn(q.shape, generator=torch.Generator().manual_seed(5)))
        scale = 1 / math.sqrt(q.shape[3])
        results = []
        for mode in (3, 0):
            out, dq, dk, dv = (torch.full_like(t, math.nan) for t in (q, q, k, v))
            lse, delta = (torch.full(q.shape[:3], math.nan) for _ in range(2))
            numbers, expanded = cuda_numbers(q, k, v, out, mask, is_causal, **packed)
            tensors = pointers(
                q, k, v, out, expanded, program, *(cu or (None, None)), alibi, lse, gradient, delta, dq, dk, dv
            )
            library.gradients_mma(tensors, numbers, ctypes.c_int64(q.shape[2]), ctypes.c_float(scale), capability, mode)
            results.append((dq, dk, dv))
        leaves = [t.double().requires_grad_() for t in (q, k, v)]
        options = {} if cu is None else {"cu_seqlens": cu[0], "cu_seqlens_k": cu[1]}
        expected = reference.attention(*leaves, mask if dense is None else dense, is_causal, scale, **options)
        exact = torch.autograd.grad(expected, leaves, gradient.double(), materialize_grads=True)
        for first, again, right in zip(*results, exact, strict=True):
            torch.testing.assert_close(first, again, rtol=0, atol=0)
            eps = torch.finfo(q.dtype).eps
            error, allowed = (
                (first.double() - right).abs(),
                eps * right.abs() + eps / 2 * (1 + float(right.abs().max())),
            )
            assert bool((error <= allowed).all()), f"error {error.max()}, allowed {allowed.max()}"
        return results[0]

    return run


@pytest.mark.parametrize(("capability", "dtype"), [(75, HALF), (80, HALF), (80, BFLOAT)])
@CAUSAL
def test_gradients_by_shape(check_gradients, tensors, capability, dtype, is_causal):
    for sizes in (
        {"q_len": 1, "k_len": 1, "dim": 64},
        {"q_len": 70, "k_len": 130, "dim": 64},
        {"q_len": 130, "k_len": 67, "dim": 128},
        {"q_len": 65, "k_len": 64, "dim": 41},
    ):
        check_gradients(capability, *tensors(dtype, batch=1, heads=2, kv_heads=1, **sizes), is_causal=is_causal)


@CAUSAL
def test_gradients_of_masks(check_gradients, tensors, is_causal):
    inputs = tensors(HALF, heads=2, q_len=150, k_len=140, dim=64)
    inputs[0] = inputs[0].transpose(1, 2).contiguous().transpose(1, 2)
    distance = distances(150, 140)
    check_gradients(
        80, *inputs, structure=codes.band(-9, 20), dense=(distance >= -9) & (distance <= 20), is_causal=is_causal
    )
    mask = random(2, 2, 150, 140) > 0.4
    mask[..., :64, 64:] = mask[..., 9, :] = mask[..., 5] = False
    dq, dk, _ = check_gradients(80, *inputs, mask, is_causal=is_causal)
    assert not dq[:, :, 9].any() and not dk[:, :, 5].any()
    bias = torch.randn(1, 2, 150, 140, generator=torch.Generator().manual_seed(1)).masked_fill(
        random(150, 140) < 0.3, -math.inf
    )
    check_gradients(80, *inputs, bias, is_causal=is_causal)
    slopes = torch.tensor([0.5, 0.01])
    check_gradients(
        80, *inputs, alibi=slopes, dense=-slopes.view(2, 1, 1).double() * distance.abs(), is_causal=is_causal
    )


def test_gradients_of_packed_sequences(check_gradients, tensors):
    cu = tuple(torch.tensor(ends).int() for ends in ([0, 5, 5, 80, 150], [0, 70, 90, 90, 230]))
    inputs = tensors(BFLOAT, batch=1, heads=4, kv_heads=2, q_len=150, k_len=230, dim=64)
    _, dk, _ = check_gradients(80, *inputs, cu=cu)
    assert not dk[:, :, 70:90].any()
