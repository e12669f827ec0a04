"""Calls of the emulated kernels, as hopper_kernel.cpp and cuda_kernels.cpp take them."""

from __future__ import annotations

import ctypes

import torch

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
MASK_KINDS = {torch.bool: 1, torch.float32: 2, torch.bfloat16: 3, torch.float16: 4}


def pointers(*values):
    return (ctypes.c_void_p * len(values))(*[None if t is None else t.data_ptr() for t in values])


def hopper_numbers(q, k, v, out, is_causal, packed=None):
    """The argument of params_of in hopper_kernel.cpp. `packed`: the number of sequences and their longest lengths."""
    batch, q_len, k_len = packed or (q.shape[0], q.shape[2], k.shape[2])
    values = [DTYPES[q.dtype], int(is_causal), batch, q.shape[1], k.shape[1], q_len, k_len]
    values += [q.shape[2], k.shape[2], q.shape[3]]
    for t in (q, k, v, out):
        values += [0 if packed else t.stride(0), t.stride(1), t.stride(2)]
    return (ctypes.c_int64 * len(values))(*values)


def cuda_numbers(q, k, v, out, mask, is_causal, section=3, batch=None, lengths=None):
    q_len, k_len = lengths or (q.shape[2], k.shape[2])
    numbers = [DTYPES[q.dtype], 0 if mask is None else MASK_KINDS[mask.dtype], int(is_causal)]
    numbers += [batch or q.shape[0], q.shape[1], k.shape[1], q_len, k_len, q.shape[3], section]
    for t in (q, k, v, out):
        numbers += [0 if batch else t.stride(0), *t.stride()[1:3]]
    expanded = None if mask is None else mask.expand(batch or q.shape[0], q.shape[1], q_len, k_len)
    numbers += [0] * 4 if expanded is None else expanded.stride()
    return (ctypes.c_int64 * 26)(*numbers), expanded
