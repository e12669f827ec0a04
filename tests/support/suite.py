"""How the suite runs: signal dispositions, workers, markers that follow from fixtures, time limits, skips in CI."""

from __future__ import annotations

import gc
import json
import os
import platform
import re
import signal
import subprocess
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests.support.paths import ROOT

ALLOWED_SKIPS = ROOT / "tests" / "allowed-skips.txt"
KILLS_FILE = ROOT / "tests" / "proofs" / "kills.jsonl"

# A test that requests one of these fixtures needs what the marker names.
NEEDS = {
    "engine": ["engine"],
    "bookworm": ["engine", "network"],
    "debian": ["network"],
    "compile_cpp": ["compiler"],
    "nodes": ["engine"],
}
# Fixtures that start something that exists once a run: their tests stay in one worker.
GROUPS = {"nodes": "cluster"}
LONG_TIMEOUT_S = 3000

_skips = Counter[str]()
_proofs: list[dict[str, object]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills", type=int, help=f"kill so often in each test marked `kills`; recorded in {KILLS_FILE.name}"
    )


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often the test kills: its marker's number, or that of --kills."""
    return request.config.getoption("--kills") or request.node.get_closest_marker("kills").args[0]


def pytest_configure() -> None:
    """Give the processes that tests start the default signal dispositions, hypothesis and torch their settings.

    A background job of sh, nohup and some CI runners start a program with signals ignored, and exec hands that down.
    Signals that have a handler are default again in a new program.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Of a few small graphs, the processes in which torch compiles cost more than they save: 100 core seconds.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    gc.disable()  # until all tests are collected
    # How long an example takes is the machine's affair, and fixtures that are shared by examples hold no state.
    # In CI each run has the same examples: a commit is not refused for what another one did.
    fixed = {"derandomize": True} if os.environ.get("CI") else {}
    settings.register_profile("suite", deadline=None, suppress_health_check=list(HealthCheck), **fixed)
    settings.load_profile("suite")


def pytest_xdist_auto_num_workers() -> int:
    """Two workers a core: many tests wait for an engine, a server or a disk. Each one imports all tests again."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--kills"):
        items[:] = [item for item in items if not item.get_closest_marker("proof")]
    for item in items:
        if config.getoption("--kills") and item.get_closest_marker("kills"):
            item.add_marker(pytest.mark.timeout(0))
        fixtures = getattr(item, "fixturenames", ())
        for name in fixtures:
            for marker in NEEDS.get(name, ()):
                item.add_marker(marker)
            if name in GROUPS:
                item.add_marker(pytest.mark.xdist_group(GROUPS[name]))
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
    # What one worker runs alone begins first, so that no worker is left with it at the end.
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection_finish() -> None:
    """The tests and what they import stay: to look for garbage in it takes half a second each time."""
    gc.freeze()
    gc.enable()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _count_skip(report)
    if report.when == "call" and "kills" in report.keywords:
        test = report.nodeid.partition("@")[0]
        _proofs.append({"test": test, "outcome": report.outcome, "seconds": round(report.duration)})


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _count_skip(report)


def _count_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _skips[report.longrepr[2].removeprefix("Skipped: ")] += 1


def _refused() -> list[str]:
    """The reasons of this run's skips that CI does not allow."""
    if not os.environ.get("CI"):
        return []
    lines = ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines()
    allowed = [line for line in lines if line and not line.startswith("#")]
    return [reason for reason in _skips if not any(re.fullmatch(pattern, reason) for pattern in allowed)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    count = session.config.getoption("--kills")
    if count and "PYTEST_XDIST_WORKER" not in os.environ:
        _record(count)
    if session.exitstatus == pytest.ExitCode.OK and _refused():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _record(count: int) -> None:
    """Append what was proven, with the commit it was proven on."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    about = {"kills": count, "commit": commit, "date": time.strftime("%Y-%m-%d"), "machine": platform.machine()}
    with KILLS_FILE.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(found | about) + "\n" for found in _proofs)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _skips:
        return
    terminalreporter.section("skipped, by reason")
    for reason, count in _skips.most_common():
        terminalreporter.write_line(f"{count:4}  {reason}")
    for reason in _refused():
        terminalreporter.write_line(
            f"error: CI may not skip for this reason: {reason} ({ALLOWED_SKIPS.name})", red=True
        )
