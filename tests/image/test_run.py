"""What a build asks of its options and of the machine before it starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.engine import EngineInfo
from reprokit.errors import EngineError, UsageError
from reprokit.host import disk
from reprokit.image.run import BuildOptions, check_host, check_options, jobs_of
from tests.support.rendering import target


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offline": True, "drift": True}, "--offline cannot be combined with --drift"),
        ({"offline": True, "record": True}, "--offline cannot be combined with --record"),
    ],
)
def test_options_that_exclude_each_other(options, message):
    with pytest.raises(UsageError, match=message):
        check_options(BuildOptions(**options))


@pytest.mark.parametrize(("requested", "jobs"), [("1", 1), ("3", 3), ("64", 4)])
def test_max_jobs_is_the_users(requested: str, jobs: int):
    assert jobs_of(requested, 4) == jobs
    assert 1 <= jobs_of("", 4) <= 4


@pytest.mark.parametrize("requested", ["0", "-1", "two", "2;3", "1e3", "99999", " "])
def test_max_jobs_is_a_number(requested: str):
    with pytest.raises(UsageError, match="MAX_JOBS"):
        jobs_of(requested, 4)


@pytest.mark.parametrize(("free", "warned"), [(3 << 29, True), (9 << 30, False)])
def test_too_little_disk_space_is_reported_in_the_units_of_check(
    tmp_path, monkeypatch, free, warned, reported: list[str]
):
    engine: Any = SimpleNamespace(url="unix:///engine.sock", info=lambda: EngineInfo(root="/engine"))
    monkeypatch.setattr(disk, "free_bytes", {"/engine": free}.__getitem__)
    check_host(engine, target(tmp_path, requires={"disk": "8GiB"}))
    line = "disk space may run out below /engine: paper:v needs 8.0 GiB, 1.5 GiB free"
    assert reported == ([line] if warned else [])


def test_an_engine_on_another_machine_is_out_of_the_gateways_reach(tmp_path):
    engine: Any = SimpleNamespace(url="tcp://10.0.0.1:2375")
    with pytest.raises(EngineError, match="on another machine"):
        check_host(engine, target(tmp_path))
