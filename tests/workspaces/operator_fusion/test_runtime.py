"""What generated modules stand on: the torch that is needed, and the packed matrix product."""

from __future__ import annotations

import importlib
import inspect
import os
import struct
from pathlib import Path

import pytest
import torch
from operator_fusion import runtime
from operator_fusion.shapes import Shape


def test_torch_without_compile_is_refused():
    for version in ("1.8.0", "1.13.1+cu117"):
        with pytest.raises(runtime.Unsupported, match=r"torch 1\.\S+ has no torch.compile; .* torch 2.0"):
            runtime.check_torch(version)
    runtime.check_torch("2.0.0")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_packed_product_is_that_of_torch(dtype: torch.dtype):
    x, weight, bias = (torch.randn(size).to(dtype) for size in ((3, 5, 16), (24, 16), (24,)))
    for with_bias in (bias, None):
        expected = torch.nn.functional.linear(x, weight, with_bias)
        torch.testing.assert_close(runtime.linear(x, weight, with_bias), expected)
        runtime.pack(weight, 15)
        torch.testing.assert_close(runtime.linear(x, weight, with_bias), expected)
        runtime.unpack(weight)


def test_what_a_killed_linker_left_is_removed(tmp_path: Path):
    # A header whose table of sections begins at 100 and has two entries of 64 bytes.
    complete = b"\x7fELF".ljust(40, b"\0") + struct.pack("<Q", 100) + bytes(10) + struct.pack("<HH", 64, 2)
    complete = complete.ljust(228, b"\0")
    for name, content in {
        "whole.so": complete, "cut.so": complete[:-1], "empty.so": b"", "zeros.so": bytes(4096), "text.cpp": b"",
        "fresh.so": b"",
    }.items():  # fmt: skip
        file = tmp_path / "xy" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        if name != "fresh.so":  # another process may be linking it
            os.utime(file, (1, 1))
    runtime.remove_torn(str(tmp_path))
    assert {path.name for path in (tmp_path / "xy").iterdir()} == {"whole.so", "text.cpp", "fresh.so"}


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_segment_is_compiled_for_torchs_threads_and_nothing_else(threads: int, monkeypatch: pytest.MonkeyPatch):
    """Only the CPU time of the calling thread is measured, so a loop of two threads would seem twice as fast."""
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    monkeypatch.setattr(runtime, "_regions", {})
    monkeypatch.setattr(config, "force_disable_caches", True)
    before = config.save_config_portable()
    torch.set_num_threads(threads)
    segment = runtime.compiled(9, 9, Shape(batch=2, seq=9))(lambda x: x * 2 + 1)
    torch.set_num_threads(3)
    _, (code,) = run_and_get_code(segment, torch.ones(512, 512))
    assert ("num_threads(2)" in code) == (threads == 2) and "num_threads(3)" not in code
    assert config.save_config_portable() == before


def test_a_generated_function_has_a_module_and_source():
    """Dynamo needs both: torch 2.11 on Python 3.12 failed with "No module named 'generated'", then, after eight
    segments, with FailOnRecompileLimitHit."""
    sources = [f"limit = {number}\ndef run():\n    return limit\n" for number in (1, 2)]
    runs = [runtime.load(source)["run"] for source in sources]
    assert [importlib.import_module(run.__module__).run() for run in runs] == [1, 2]
    assert {inspect.getsource(run) for run in runs} == {"def run():\n    return limit\n"}
    assert len({inspect.getsourcefile(run) for run in runs}) == 2
