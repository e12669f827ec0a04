"""The recipe's benchmark, run as `bench` runs it: in a folder with the bundled packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from reprokit.bench.extension import sources
from reprokit.recipe.find import target
from tests.support.paths import ROOT


def test_the_benchmark_searches_and_continues(tmp_path: Path):
    benchmark = target(str(ROOT / "recipes" / "operator-fusion.yaml")).recipe.benchmarks["tune"]
    packages = tmp_path / "packages"
    for name in benchmark.bundled:
        for path, content in sources(name).items():
            (packages / path).parent.mkdir(parents=True, exist_ok=True)
            (packages / path).write_bytes(content)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    values = {"batch": "1", "seq": "8", "mask": "none", "strategy": "random", "budget": "1"}
    environment = {**os.environ, **values, "PATH": f"{programs}:{os.environ['PATH']}", "TORCHDYNAMO_DISABLE": "1"}
    command = ["bash", "-c", benchmark.command.replace("/workspace", str(tmp_path))]
    stored = []
    for _ in range(2):
        done = subprocess.run(command, cwd=packages, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "summary" in json.loads(done.stdout.splitlines()[-1])
        stored.append((tmp_path / "searches" / "plans.jsonl").read_text())
    assert stored[0] and stored[0] == stored[1]
