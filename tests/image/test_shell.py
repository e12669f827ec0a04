"""The shell that blocks install packages with."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from reprokit.image.render import render
from reprokit.image.shell import block_of, without_boilerplate, without_step
from reprokit.supply.kinds.apt.install import enable
from tests.support.rendering import target

LINES = """\
deb http://mirror.test/debian bookworm main
deb [signed-by="/x.gpg"] http://mirror.test/debian bookworm main
deb http://mirror.test/debian bookworm-updates main
deb http://security.test/debian-security bookworm-security main
"""
STANZAS = """\
Types: deb
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /x.gpg

Types: deb
URIs: http://security.test/debian-security
Suites: bookworm-security
Components: main
"""


@pytest.mark.parametrize(
    ("name", "text", "changed"),
    [("sources.list", LINES, [0, 1]), ("sources.list.d/debian.sources", STANZAS, [3])],
)
def test_components_are_asked_of_the_main_archive_only(tmp_path, name: str, text: str, changed: list[int]):
    file = tmp_path / "apt" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (tmp_path / "os-release").write_text("VERSION_CODENAME=bookworm\n")
    script = "; ".join(enable(["contrib", "non-free"])).replace("/etc/", f"{tmp_path}/")
    subprocess.run(["sh", "-euc", f"{script}\n{script}"], check=True)  # a second block changes nothing more
    lines = [f"{line} contrib non-free" if n in changed else line for n, line in enumerate(text.splitlines())]
    assert file.read_text().splitlines() == lines


def test_what_surrounds_each_command_is_cut_off_from_what_engines_show(tmp_path):
    text = render(target(tmp_path)).dockerfile
    shell = re.search(r"^SHELL (\[.*?\])$", text, re.MULTILINE | re.DOTALL)
    assert shell
    program = json.loads(shell[1].replace("\\\n", ""))
    assert program[:2] == ["/bin/sh", "-c"] and len(program) == 3
    subprocess.run(["sh", "-n", "-c", program[2]], check=True)
    shown = " ".join([*program, "set -eu; make"])
    assert without_step(shown) == "/bin/sh -c set -eu; make"
    failed = f"The command '{shown}' returned a non-zero code: 1"
    assert without_step(failed) == "The command '/bin/sh -c set -eu; make' returned a non-zero code: 1"
    assert without_step("set -eu; make") == "set -eu; make"


def test_boilerplate_is_cut_off():
    for command in ("make", '[ -e x ] || { echo "no"; }; make'):
        # In a history lines may be joined by a backslash and a line break.
        for line_break in (" ", " \\\n    "):
            functions = ["expect() { case x in a) ;; *) exit 1 ;; esac; };", "get() { curl; };", command]
            assert without_boilerplate(f"set -eu;{line_break}{line_break.join(functions)}") == command
        assert without_boilerplate(command) == command
    installs = 'sources=""; [ -z x ] || { y; }; apt-get $sources install -y --no-install-recommends make'
    assert without_boilerplate(installs) == "apt-get install make"


def test_a_block_is_named_by_its_assertions(tmp_path):
    command = render(target(tmp_path, blocks=["apt"], apt=["make"])).dockerfile.rpartition("\nRUN ")[2]
    assert block_of(command) == "apt" and block_of("make") == ""
