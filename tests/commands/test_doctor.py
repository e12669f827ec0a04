"""`reprokit doctor`: what it prints, its JSON, its exit codes, and that it always ends."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprokit.compat.model import Finding
from reprokit.doctor.checks import CHECKS
from reprokit.doctor.examined import Examined
from reprokit.errors import EngineError, UsageError
from tests.support.disk import Disk
from tests.support.privileges import as_root
from tests.support.processes import naming
from tests.support.verbs import run_verb
from tests.support.waiting import wait_for

NOBODY = 65534
KEYS = {"severity", "rule", "subjects", "reason", "nearest", "remedy", "sources", "fix"}
HANGS = "#!/bin/sh\ntrap '' TERM\nsleep 9999\n"
HOSTILE = "\x1b]0;owned\x07\u202ex\nerror: forged"


def by_rule(done: Any) -> dict[str, dict[str, Any]]:
    return {finding["rule"]: finding for finding in json.loads(done.stdout)["findings"]}


@pytest.fixture
def listening() -> Iterator[Path]:
    """A socket that accepts connections and never answers, in a folder that everyone may enter."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        server.listen(16)
        yield folder / "s"
    shutil.rmtree(folder)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks but that of mirrors, which waits for the network for some seconds."""
    kept = {name: check for name, check in CHECKS.items() if name != "mirrors"}
    monkeypatch.setattr("reprokit.doctor.checks.CHECKS", kept)
    for limit in ("_WITHIN_S", "_CHECKS_S"):  # the machine that runs the tests is busy
        monkeypatch.setattr(f"reprokit.commands.doctor.{limit}", 60)


@pytest.mark.usefixtures("offline")
def test_without_an_engine_it_reports_all_else(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    done = call("doctor", "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, set(answer), answer["ok"]) == (1, {"ok", "findings"}, False)
    assert all(set(finding) == KEYS for finding in answer["findings"])
    assert all(finding["remedy"] for finding in answer["findings"] if finding["severity"] != "info")
    (error,) = [finding for finding in answer["findings"] if finding["rule"].startswith("engine")]
    assert error["rule"] == "engine.unreachable" and "docker" in error["remedy"] and error["severity"] == "error"
    assert {"kernel", "memory", "disk"} <= {finding["rule"] for finding in answer["findings"]}


@pytest.mark.slow
def test_engine_and_programs_that_hang(listening: Path, tmp_path: Path) -> None:
    for name in ("nvidia-smi", "docker", "getent", "df", "timedatectl", "ssh-add", "locale", "dmesg", "uname"):
        (tmp_path / name).write_text(HANGS)
        (tmp_path / name).chmod(0o755)
    environment = {"DOCKER_HOST": f"unix://{listening}", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = run_verb("doctor", "--json", "--report", tmp_path / "r", env=environment)
    assert {"engine.hangs", "no-answer", "memory"} <= by_rule(done).keys() and done.returncode == 1
    findings = json.loads(done.stdout)["findings"]
    silent = {name for finding in findings if finding["rule"] == "no-answer" for name in finding["subjects"]}
    assert {"disk", "kernel", "locale"} <= silent
    assert "rules only" in done.stderr and "engine.hangs" in (tmp_path / "r").read_text()
    # The command line of a stand-in, or of the shell that started it, names it; `timeout` kills its own a second later.
    wait_for(lambda: not naming(tmp_path))


@pytest.mark.usefixtures("offline")
@as_root()
def test_an_ordinary_user_who_may_not_use_the_engine(
    call: Any, listening: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening.chmod(0o600)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{listening}")
    os.seteuid(NOBODY)
    try:
        done = call("doctor", "--json")
    finally:
        os.seteuid(0)
    assert done.exit_code == 1 and "usermod -aG docker" in by_rule(done)["engine.permission"]["remedy"]


@pytest.mark.usefixtures("offline")
def test_a_full_disk(call: Any, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.limit("size=4k")
    (disk.folder / "fill").write_bytes(bytes(4096))
    for name in ("REPROKIT_HOME", "HOME"):
        monkeypatch.setenv(name, str(disk.folder / "home"))
    done = call("doctor", "--json", "--report", str(disk.folder / "report"))
    assert "disk.full" in by_rule(done)
    assert isinstance(done.exception, EngineError) and "No space left" in done.exception.message


class Stub:
    """A check in place of the real ones."""

    def __init__(self, *found: Finding, until: Path | None = None) -> None:
        self.found, self.until = found, until

    def __call__(self, host: Examined) -> Iterator[Finding]:
        if self.until is None or not self.until.exists():
            yield from self.found


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`only(check)` replaces all checks."""
    return lambda check: monkeypatch.setattr("reprokit.doctor.checks.CHECKS", {"stub": check})


def test_hostile_text_does_not_reach_the_terminal(call: Any, only: Any, tmp_path: Path) -> None:
    only(Stub(*(Finding(severity, "gpu", (HOSTILE,), HOSTILE, remedy=HOSTILE) for severity in ("error", "info"))))
    for arguments in ((), ("--json",), ("--report", "r.txt")):
        done = call("doctor", *arguments)
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout and "\nerror: forged" not in done.stdout
        assert done.exit_code == 1
    assert "\x1b" not in (tmp_path / "r.txt").read_text()


def test_what_a_person_reads(call: Any, only: Any) -> None:
    only(Stub(Finding("info", "k", ("host.kernel=6.1",), "x86_64"), Finding("warning", "w", ("a",), "b", remedy="c")))
    done = call("doctor")
    assert done.stdout.splitlines() == [
        "warning  a", "         b", "         remedy: c", "info     host.kernel=6.1: x86_64", "this machine: 1 warning",
    ]  # fmt: skip
    assert done.exit_code == 0


def test_a_fix_is_run_once_the_user_agrees(call: Any, only: Any, tmp_path: Path) -> None:
    only(Stub(Finding("error", "x", ("x",), "broken", remedy="mend it", fix="touch fixed"), until=tmp_path / "fixed"))
    done = call("doctor", "--fix")
    assert isinstance(done.exception, UsageError) and "touch fixed" in done.exception.message
    assert "broken" in done.stdout and not (tmp_path / "fixed").exists()
    assert isinstance(call("doctor", "--fix", "--json").exception, UsageError)
    done = call("doctor", "--fix", "--yes", "--json")
    assert (tmp_path / "fixed").exists() and done.exit_code == 0
    assert json.loads(done.stdout) == {"ok": True, "findings": []}
    only(Stub(Finding("error", "x", ("x",), "broken", remedy="mend it", fix="exit 7")))
    done = call("doctor", "--fix", "--yes")
    assert done.exit_code == 1 and "exit code 7" in done.stderr


def test_check_and_doctor_speak_with_one_voice(call: Any, only: Any, recipe: Any) -> None:
    only(CHECKS["recipe"])
    recipe("big", "variants: {v: {base: 'debian:12', requires: {memory: 900TiB}}}\n")
    checked, examined = (by_rule(call(verb, "big:v", "--json"))["memory"] for verb in ("check", "doctor"))
    # The recipe may be meant for another machine, which `check` cannot know.
    assert checked["severity"] == "warning"
    assert examined == {**checked, "severity": "error", "fix": None}
    assert isinstance(call("doctor", "no-such-recipe").exception, UsageError)


SSH = """#!/bin/sh
for last; do :; done
case " $* " in *" -O "*) echo 'no forwarding' >&2; exit 1 ;; esac
exec sh -c "$last"
"""
DOWN = "#!/bin/sh\necho 'ssh: connect to host lab.test port 22: Connection refused' >&2; exit 255\n"


@pytest.mark.usefixtures("offline")
def test_a_node_and_one_that_is_down(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first `ssh` runs commands on this machine."""
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with monkeypatch.context() as patient:
        patient.setattr("reprokit.commands.doctor._LOGIN_S", 30)
        done = call("doctor", "--on", "ana@lab.test", "--json", "--report", "r.txt")
    findings = by_rule(done)
    assert "kernel" in findings and "memory" in findings and done.exit_code == 1
    assert "no forwarding" in findings["engine.unreachable"]["reason"]
    assert not {"mirrors", "ssh_agent"} & set(findings)
    reasons = [finding["reason"] for finding in json.loads(done.stdout)["findings"]]
    assert [reason for reason in reasons if reason.startswith("not checked: no answer")] == []
    assert "lab.test" not in Path("r.txt").read_text()
    program.write_text(DOWN)
    done = call("doctor", "--on", "ana@lab.test", "--json")
    ((rule, finding),) = by_rule(done).items()
    assert (rule, done.exit_code) == ("node.unreachable", 4) and "Connection refused" in finding["reason"]
