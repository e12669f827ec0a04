"""Run a Python program under torch's profiler. It runs inside containers: Python 3.6 on, torch 1.5 on.

    python launcher.py FOLDER SCRIPT|-m MODULE|-c CODE [ARGUMENT...]

It writes FOLDER/trace.json, a Chrome trace, and FOLDER/operators.json. The program sees its own arguments, and its exit
code is kept.
"""

import json
import os
import runpy
import sys
from typing import Any, Dict, List


def main() -> None:
    folder = sys.argv[1]
    program = sys.argv[2:]
    sys.path.pop(0)  # the folder of this file
    profile = _profiler()
    try:
        with profile:
            try:
                _run(program)
            finally:
                # Wait for queued GPU work so that the profile contains it.
                _synchronize()
    finally:  # also after sys.exit(), an error or Ctrl-C
        profile.export_chrome_trace(os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "operators.json"), "w") as file:
            json.dump([_operator(event) for event in profile.key_averages()], file)


def _profiler() -> Any:
    import torch

    try:
        from torch.profiler import ProfilerActivity, profile
    except ImportError:  # before torch 1.8.1
        return torch.autograd.profiler.profile(use_cuda=torch.cuda.is_available(), record_shapes=True)
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    try:
        return profile(activities=activities, record_shapes=True, with_flops=True)
    except TypeError:
        return profile(activities=activities, record_shapes=True)


def _synchronize() -> None:
    import torch

    cuda: Any = torch.cuda
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()


def _run(program: List[str]) -> None:
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    elif program[0] == "-c":
        sys.argv = ["-c", *program[2:]]
        sys.path.insert(0, "")
        # Modules such as pickle look up the program's definitions in __main__.
        exec(compile(program[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.argv = program
        sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
        runpy.run_path(program[0], run_name="__main__")


def _operator(event: Any) -> Dict[str, Any]:
    def first(*names: str) -> float:
        """The first existing attribute, in microseconds; until torch 2.4 the names contain `cuda`."""
        return next((float(getattr(event, name)) for name in names if hasattr(event, name)), 0.0)

    return {
        "name": event.key,
        "count": int(event.count),
        "cpu_self": first("self_cpu_time_total"),
        "cpu": first("cpu_time_total"),
        "gpu_self": first("self_device_time_total", "self_cuda_time_total"),
        "gpu": first("device_time_total", "cuda_time_total"),
        "flop": float(getattr(event, "flops", 0) or 0),
    }


if __name__ == "__main__":
    main()
