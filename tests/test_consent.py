"""What needs the user's consent: asked for at a terminal, refused without one."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit import consent
from reprokit.errors import UsageError

CODE = "from reprokit import consent; consent.require('a name moves', '--replace', False); print('done')"


def test_without_a_terminal_only_the_option_helps(monkeypatch):
    consent.require("a name moves", "--replace", True)
    with Path(os.devnull).open() as nothing, pytest.raises(UsageError) as error:
        monkeypatch.setattr(sys, "stdin", nothing)
        consent.require("a name moves", "--replace", False, "x.rkit")
    assert (error.value.message, error.value.where) == ("a name moves", "x.rkit")
    assert error.value.hint == "nothing was changed; --replace allows it"


@pytest.mark.parametrize(("answer", "agreed"), [("y", True), ("n", False), ("", False)])
def test_at_a_terminal_the_user_is_asked(answer, agreed):
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    process = subprocess.Popen(
        [sys.executable, "-c", CODE], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    assert ("done" in process.communicate(timeout=120)[0]) is agreed
    # The terminal echoes the answer before it is asked for.
    shown = b""
    with contextlib.suppress(OSError):  # all that has the terminal open has ended
        while part := os.read(ours, 10_000):
            shown += part
    assert b"a name moves. Continue? [y/N]" in shown
    os.close(ours)
