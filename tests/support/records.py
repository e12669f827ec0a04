"""A believable record."""

from __future__ import annotations

from reprokit.results.record import Record

RECORD = Record(
    metric="attention.forward", unit="ms", samples=(1.0, 3.0, 2.0), params={"batch": 8, "impl": "ours"},
    recipe="fused-attention", variant="cpu", benchmark="forward", command="python3 -m bench",
    input_hash="1f" * 32, image_digest="sha256:" + "2e" * 32, cpu="EPYC", threads=2, gpu="", driver="",
    reprokit="0.1.0", time="2026-11-21T09:00:00Z", environment={"torch": "2.13.0+cpu"},
)  # fmt: skip
