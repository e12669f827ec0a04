"""Work that may hang."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from reprokit.doctor import bounded
from reprokit.doctor.bounded import Bounded, NoAnswer


def test_it_is_called_once_and_all_who_wait_get_what_it_returns_or_raises() -> None:
    calls: list[int] = []
    work = Bounded(lambda: calls.append(1) or len(calls), 30)
    threads = [threading.Thread(target=work.result) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert work.result() == 1 and calls == [1]

    def failing() -> None:
        raise KeyError("x")

    work = Bounded(failing, 30)
    for _ in range(2):
        with pytest.raises(KeyError):
            work.result()


def test_a_thread_that_hangs_holds_neither_its_caller_nor_the_process() -> None:
    code = (
        "import threading\nfrom reprokit.doctor.bounded import Bounded, NoAnswer\n"
        "try: Bounded(threading.Event().wait, 0.2).result()\n"
        "except NoAnswer as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "no answer within 0.2 s\n"


def test_the_time_counts_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(bounded, "time", SimpleNamespace(monotonic=lambda: now[0]))
    work = Bounded(threading.Event().wait, 10_000)
    work.start()
    now[0] = 10_000.5
    with pytest.raises(NoAnswer):  # counted from here, it would outlast the test
        work.result()
