"""What each test costs: processor and wall seconds by phase, and the fixtures set up in it.

Processor seconds are those of the test's process and of the children that it has waited for; a child that outlives its
test counts where it is waited for. What the engine and other servers use is in the machine's total alone. The setup of
a shared fixture is counted where it is spent: in the first test that requests it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

_fixtures: dict[str, float] = {}
_phase: tuple[float, float] = (0, 0)
_tests: dict[str, dict] = {}
_began: tuple[float, float] = (0, 0)


def _cpu() -> float:
    return sum(os.times()[:4])


def _machine_cpu() -> float:
    """Busy seconds of all processors since the machine's start (proc(5))."""
    ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]]
    idle = ticks[3] + ticks[4]
    # Fields 9 and 10, guests, are contained in the first two.
    return (sum(ticks[:8]) - idle) / os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cost", action="store_true", help="report what the tests cost, by folder, file and test")


def pytest_sessionstart() -> None:
    global _began
    _began = (time.monotonic(), _machine_cpu())


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None]:
    before = _cpu()
    yield
    spent = _cpu() - before
    if spent >= 0.1:
        _fixtures[fixturedef.argname] = round(spent, 2)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def _measured() -> Generator[None]:
    global _phase
    wall, cpu = time.monotonic(), _cpu()
    yield
    _phase = (time.monotonic() - wall, _cpu() - cpu)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _measured


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.CallInfo[None]]:
    outcome = yield
    # Extra attributes of a report reach the controller of pytest-xdist.
    outcome.get_result().cost = {"wall": _phase[0], "cpu": _phase[1], "fixtures": dict(_fixtures)}
    _fixtures.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    cost = report.cost
    name = re.sub(r"@\w+$", "", report.nodeid)  # without the group that pytest-xdist appends
    test = _tests.setdefault(name, {"wall": 0.0, "cpu": 0.0, "fixtures": {}})
    test["wall"] += cost["wall"]
    test["cpu"] += cost["cpu"]
    test["fixtures"].update(cost["fixtures"])


def file_of(test: str) -> str:
    return test.partition("::")[0]


def folder_of(test: str) -> str:
    """`tests/supply/kinds/test_git.py::test_x` → `tests/supply`; a workspace is a folder of its own."""
    parts = file_of(test).split("/")
    return "/".join(parts[: 3 if parts[1] == "workspaces" else 2][: len(parts) - 1])


class Sum(NamedTuple):
    """Processor seconds, wall seconds and number of tests."""

    cpu: float = 0
    wall: float = 0
    count: int = 0


def summed(tests: dict[str, dict], key: Callable[[str], str]) -> dict[str, Sum]:
    """The costs by key, the highest first."""
    sums = defaultdict[str, Sum](Sum)
    for name, test in tests.items():
        cpu, wall, count = sums[key(name)]
        sums[key(name)] = Sum(cpu + test["cpu"], wall + test["wall"], count + 1)
    return dict(sorted(sums.items(), key=lambda item: -item[1].cpu))


def table(
    title: str, tests: dict[str, dict], before: dict[str, dict], key: Callable[[str], str], most: int
) -> list[str]:
    earlier = summed(before, key)
    lines = [f"{'CPU s':>8} {'before':>8} {'wall s':>8} {'tests':>6}  {title}"]
    for name, (cpu, wall, count) in list(summed(tests, key).items())[:most]:
        old = f"{earlier[name].cpu:.1f}" if name in earlier else ""
        lines.append(f"{cpu:8.1f} {old:>8} {wall:8.1f} {count:6}  {name}")
    return lines


def lines_of(report: dict, before: dict[str, dict], complete: bool) -> Iterator[str]:
    """The report as text: ten lines, or with `complete` all folders, the first files and the first tests."""
    tests = report["tests"]
    yield (
        f"{len(tests)} tests: {sum(test['cpu'] for test in tests.values()):.0f} s of CPU in tests, "
        f"{report['machine_cpu']:.0f} s on the machine, {report['wall']:.0f} s of wall time"
    )
    yield from table("folder", tests, before, folder_of, len(tests) if complete else 4)
    if complete:
        yield from table("file", tests, before, file_of, 30)
    yield f"{'CPU s':>8} {'wall s':>8}  test (CPU seconds of the fixtures set up in it)"
    for name, test in sorted(tests.items(), key=lambda item: -item[1]["cpu"])[: 30 if complete else 3]:
        fixtures = ", ".join(f"{fixture} {seconds}" for fixture, seconds in test["fixtures"].items())
        yield f"{test['cpu']:8.1f} {test['wall']:8.1f}  {name}{f' ({fixtures})' if fixtures else ''}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the report, and keep it in pytest's cache: the next one is compared with it."""
    complete = config.getoption("--cost")
    # The workers of pytest-xdist call this hook, too.
    cache = getattr(config, "cache", None)  # absent with `-p no:cacheprovider`
    if not (complete or os.environ.get("CI")) or cache is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    wall, cpu = _began
    report = {"wall": time.monotonic() - wall, "machine_cpu": _machine_cpu() - cpu, "tests": _tests}
    file = cache.mkdir("cost") / "last.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    terminalreporter.section("cost")
    for line in lines_of(report, before.get("tests", {}), complete):
        terminalreporter.write_line(line)
    if complete:
        if before:
            file.replace(file.with_name("before.json"))
        file.write_text(json.dumps(report), encoding="utf-8")
        terminalreporter.write_line(f"kept in {file}; the report before it is before.json")
