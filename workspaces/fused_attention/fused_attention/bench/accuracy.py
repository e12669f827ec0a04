"""Correctness: how far results are from attention in float64."""

from typing import Any, Dict, List, NamedTuple, Sequence

import torch

from .. import reference
from . import cases, methods


class Error(NamedTuple):
    largest: float
    rms: float


def check(dtypes: Sequence[str], device: str) -> List[Dict[str, Any]]:
    """The largest error of each case of correctness_cases against the float64 reference; padded batches also packed."""
    results = []
    for case in cases.correctness_cases(dtypes):
        inputs = cases.inputs(case, device)
        right = expected(inputs)
        tolerance = cases.TOLERANCES[case.dtype]
        errors = {"ours": error_of(methods.ours(inputs), right).largest}
        if inputs.lengths is not None:
            rows = [right[i, :, :length] for i, length in enumerate(inputs.lengths)]
            errors["ours-packed"] = error_of(methods.packed(inputs)(), torch.cat(rows, dim=1)[None]).largest
        for impl, error in errors.items():
            params = dict(case.params(), impl=impl)
            # Written so that a NaN is wrong.
            results.append({"params": params, "max_abs_err": error, "tolerance": tolerance, "ok": error <= tolerance})
    return results


def expected(inputs: cases.Inputs) -> torch.Tensor:
    return reference.attention(inputs.q, inputs.k, inputs.v, inputs.attended, inputs.is_causal)


def error_of(out: torch.Tensor, right: torch.Tensor) -> Error:
    difference = out.double() - right
    return Error(float(difference.abs().max()), float(difference.pow(2).mean().sqrt()))
