"""`reprokit diff`: two bundles, and nothing else."""

from __future__ import annotations

from reprokit.errors import UsageError


def test_locks_are_no_bundles(call, tmp_path):
    for name in ("a.lock.yaml", "b.lock.yaml"):
        (tmp_path / name).write_text("x: 1\n")
    error = call("diff", "a.lock.yaml", "b.lock.yaml").exception
    assert isinstance(error, UsageError) and "diff compares bundles" in error.message and error.where == "a.lock.yaml"
