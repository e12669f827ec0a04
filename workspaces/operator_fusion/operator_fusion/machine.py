"""The machine that times are of: names and instruction sets for the records."""

import os
import platform
from typing import Any, Dict, List, Optional

import torch

_SETS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16")


def describe(device: str) -> Dict[str, Any]:
    """What a time depends on beside its shape. Times that differ in any of it are never compared."""
    # The CPU starts the GPU's kernels, and small ones wait for it.
    processors = [torch.cuda.get_device_name(device)] if device.startswith("cuda") else []
    return {
        "torch": torch.__version__,
        "processor": ", ".join([*processors, _cpu_name()]),
        "instruction_sets": " ".join(instruction_sets()),
        "threads": torch.get_num_threads(),
    }


def instruction_sets() -> List[str]:
    """Of the CPU, those that matter here."""
    flags = set(_cpuinfo("flags").split())
    return [name for name in _SETS if name in flags]


def missing_for(dtype: str, device: str) -> Optional[str]:
    """Why times in a dtype mean nothing here; None if they do."""
    if device == "cpu" and dtype == "bfloat16" and not {"avx512_bf16", "amx_bf16"} & set(instruction_sets()):
        return "this CPU has no AVX512-BF16"
    if device == "cpu" and dtype == "float16" and "avx512_fp16" not in instruction_sets():
        return "this CPU has no AVX512-FP16"
    return None


def _cpu_name() -> str:
    return f"{_cpuinfo('model name') or platform.machine()}, {os.cpu_count()} cores"


def _cpuinfo(field: str) -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(field)), "")
    except OSError:
        return ""
