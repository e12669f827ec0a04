"""The environment of a measurement: versions, processor, GPU, driver, clocks."""

import os
import platform
from typing import Any, Dict, Optional

import torch

from .. import build, toolchain

# Packages whose kernels or layers the benchmark times if they are installed.
RIVALS = ("flash-attn", "flash-attn-3", "flash-attn-4", "transformers", "triton")


def describe(device: str) -> Dict[str, Any]:
    tools = toolchain.find()
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "compiler": tools.compiler_version,
        "nvcc": tools.nvcc_version.splitlines()[-1] if tools.nvcc_version else None,
        "cuda": torch.version.cuda,
        "platform": platform.platform(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "rivals": rivals(),
        # The hash of sources, flags and compiler: records of different kernels must not be averaged.
        "build": os.path.basename(build.build_folder(build.SOURCE_FOLDER, build.source_files(tools), tools)),
        "device": gpu() if device.startswith("cuda") else {"name": "cpu", "capability": cpu_capability()},
    }


def rivals() -> Dict[str, str]:
    """The versions of the rivals that are installed."""
    try:
        from importlib import metadata
    except ImportError:  # before Python 3.8
        return {}
    versions = {}
    for name in RIVALS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def cpu_capability() -> str:
    """Which instruction set the CPU kernel uses: "default", "avx2" or "avx512"."""
    build.load()
    return torch.ops.fused_attention.cpu_capability()


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return "%s, %d cores" % (names[0] if names else platform.machine(), os.cpu_count() or 1)


def gpu() -> Dict[str, Any]:
    """The current device. Driver and clocks (MHz) are None where nvidia-smi is missing."""
    fields = nvidia_smi("driver_version,clocks.sm,clocks.mem,clocks.max.sm")
    values = fields.split(", ") if fields else [None] * 4
    return {
        "name": torch.cuda.get_device_name(),
        "capability": "%d.%d" % torch.cuda.get_device_capability(),
        "driver": values[0],
        "clocks": dict(zip(("sm", "memory", "sm_max"), values[1:])),
    }


def nvidia_smi(fields: str) -> Optional[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    index = torch.cuda.current_device()
    identifier = visible.split(",")[index] if visible else str(index)
    command = ["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits", "--id=" + identifier]
    return toolchain.first_line(command)
