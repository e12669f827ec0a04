"""The scripts that look at a machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from reprokit.doctor.bounded import NoAnswer
from reprokit.doctor.shell import LocalShell
from tests.support.waiting import wait_for


def test_what_is_read_cannot_report_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("reprokit:module 9.9\n\\033[31m %s $(id)\nlast without end")
    found = LocalShell(str(tmp_path)).ask('cat "$ROOT/file" | say card')
    assert found.all("card") == ["reprokit:module 9.9", "\\033[31m %s $(id)", "last without end"]
    assert found.all("module") == [] and found.first("module") == "" and found.number("module") is None


def test_long_lines_are_cut_and_numbers_are_small() -> None:
    found = LocalShell().ask("printf '%9000d\\n' 1 | say long; echo 99999999999999999999 | say number")
    assert len(found.first("long")) < 500 and found.number("number") is None


@pytest.mark.slow
def test_a_script_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    script = 'trap "" TERM; sh -c \'echo $$ >"$0/new"; mv "$0/new" "$0/pid"; sleep 9999; true\' "$ROOT"; true'
    for limit_s in (1, 5, 25, 90):  # a busy machine may not have started the child within the first
        with pytest.raises(NoAnswer, match=f"no answer within {limit_s} s"):
            LocalShell(str(tmp_path)).ask(script, limit_s)
        if (tmp_path / "pid").exists():
            break
    number = int((tmp_path / "pid").read_text())
    wait_for(lambda: is_dead(number))


def is_dead(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_output_without_end_is_cut_off() -> None:
    with pytest.raises(NoAnswer, match="more than 1 MiB"):
        LocalShell().ask("yes", 60)


@pytest.mark.slow
def test_a_process_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    with monkeypatch.context() as hanging:
        hanging.setattr(os, "killpg", lambda group, number: groups.append(group))  # as if it hung in a driver
        with pytest.raises(NoAnswer):
            LocalShell().ask("sleep 9999", 0.5)
    os.killpg(*groups, signal.SIGKILL)
