"""Text from outside on its way to a terminal, and the rule that nothing else prints."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable

import pytest
from rich.table import Table
from rich.text import Text

from reprokit.__main__ import main
from reprokit.explain.last import HALF, OutputRecording, keep, log_path
from reprokit.untrusted.terminal import Output, console, document, dump, echo, escaped
from tests.support.paths import ROOT

# Clears the screen, sets the title, C1's CSI, reverses the reading order, hides, overwrites, is half a character.
ATTACKS = {
    "clear": "\x1b[2J",
    "title": "\x1b]0;owned\x07",
    "c1": "\x9b31m",
    "del": "\x7f",
    "backspace": "good\x08\x08\x08\x08evil",
    "return": "good\revil",
    "nul": "\0",
    "bidi": "\u202eexe.sh\u202c",
    "isolate": "\u2066x\u2069",
    "mark": "\u200f",
    "zero width": "a\u200bb\ufeff",
    "soft hyphen": "a\xadb",
    "tags": "\U000e0041",
    "separators": "a\u2028b\u2029c\x85d",
    "surrogate": "\udc9b",
}
_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def at_terminal(program: Callable[[], object]) -> str:
    """What a function, in a process of its own, writes to a terminal."""
    master, terminal = pty.openpty()
    if (pid := os.fork()) == 0:
        for descriptor in (0, 1, 2):
            os.dup2(terminal, descriptor)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8")
        try:
            program()
        except SystemExit:
            pass
        except BaseException:
            sys.excepthook(*sys.exc_info())
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)
    os.close(terminal)
    text = b""
    while select.select([master], [], [], 60)[0]:
        try:
            block = os.read(master, 1 << 16)
        except OSError:  # EIO: nobody has the terminal any more
            break
        if not block:
            break
        text += block
    os.close(master)
    os.waitpid(pid, 0)
    return text.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def without_style(text: str) -> str:
    """Without what rich writes of its own: weights and colours, and the moves of a line that is drawn again."""
    return re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|1?A|2K)|\r", "", text)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_way_of_printing_lets_control_characters_through(attack: str):
    def plain() -> None:
        echo(f"<{attack}>")
        echo(f"<{attack}>", err=True)
        echo(f"<{attack}>", file=sys.stderr)
        document(f"<{attack}>\n")
        dump({attack: attack})
        sys.stdout.flush()
        Output(1).write(f"<{attack}>".encode(errors="surrogateescape"))

    def table() -> None:
        made = Table(attack)
        made.add_column(Text(attack))
        made.add_row(attack, Text(attack))
        console().print(made, attack, Text(attack))
        with console().status(Text(attack)):
            pass

    text = at_terminal(plain)
    assert text.count("<") == text.count(">") == 5 and not _HARMFUL.search(text), text
    text = at_terminal(table)
    assert text and not _HARMFUL.search(without_style(text)), text


def test_a_terminal_does_get_what_is_not_escaped():
    """The positive control: the payload reaches a terminal that is written to directly."""
    assert ATTACKS["clear"] in at_terminal(lambda: os.write(1, ATTACKS["clear"].encode()))


def test_markup_and_emoji_codes_are_text():
    text = at_terminal(lambda: console().print("[red]x[/red] :smile: [link=http://x]y[/link]"))
    assert "[red]x[/red] :smile: [link=http://x]y[/link]" in text and "\x1b]8" not in text


def test_ordinary_text_is_unchanged():
    for text in ("plain", "naïve 日本語 ±", "a\tb", "a\u00a0b", "C:\\x1b", "", "é".encode().decode()):
        assert escaped(text) == text
    assert escaped("a\nb") == "a\\nb" and escaped("a\nb", lines=True) == "a\nb"
    assert escaped("\x1b\x9b\u202e\U000e0041\udc9b") == "\\x1b\\x9b\\u202e\\U000e0041\\udc9b"
    assert escaped(escaped("\x1b")) == "\\x1b"


def test_output_that_goes_to_no_terminal(capsys):
    echo("loaded a\nloaded b")  # a line break makes no line that looks like ours
    echo("error: a\nerror: b\n  more", err=True)
    assert capsys.readouterr() == ("loaded a\\nloaded b\n", "error: a\n  error: b\n  more\n")
    value = {key: [attack] for key, attack in ATTACKS.items()}
    dump(value)
    text = capsys.readouterr().out
    assert text.isascii() and not _HARMFUL.search(text) and json.loads(text) == value
    document("RUN printf '\x1b\u202e'\n")
    assert capsys.readouterr().out == "RUN printf '\x1b\u202e'\n"
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    echo("a ± b", file=stream)
    assert stream.buffer.getvalue() == b"a \\xb1 b\n"  # type: ignore[attr-defined]


def test_a_containers_output_goes_whole_to_a_pipe_and_escaped_to_a_terminal():
    written = b"a\r\n10%\r20%\r\xff\xc3\x1b[31mred\x1b[0m \xe2\x82\xac\n"
    reader, writer = os.pipe()
    Output(writer).write(written)
    assert os.read(reader, 1 << 16) == written
    for descriptor in (reader, writer):
        os.close(descriptor)

    def in_pieces() -> None:
        output = Output(1)
        for place in range(len(written)):
            output.write(written[place : place + 1])

    assert at_terminal(in_pieces) == "a\n10%\n20%\n\\xff\\xc3\\x1b[31mred\\x1b[0m €\n"
    assert at_terminal(lambda: Output(1, raw=True).write(b"\x1b[31m")) == "\x1b[31m"


RECIPE = """\
name: evil
paper: {title: "T \\e[2J\\u202e[red] \\x9b", venue: "V\\e]0;x\\a", year: 2020, licence: "MIT\\x7f"}
variants: {cpu: {base: "debian:12", env: {A: "\\u202ex"}}}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("verb", "shown"),
    [
        ("list", "control characters are not allowed"),
        ("show evil --json", "control characters are not allowed"),
        ("check evil", "control characters are not allowed"),
        ("lock --check evil", "control characters are not allowed"),
        ("show \x1b[2Jevil", "error: "),
        ("--debug show \x1b[2J\u202e", "Traceback"),
        ("inspect \x1b[2J.rkit", "error: "),
        ("config \x1b[2J", "rror"),
        ("nodes \u202e\x1b[2J", "error: "),
    ],
)
def test_verbs_show_a_strangers_text_harmlessly(tmp_path, monkeypatch, verb: str, shown: str):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "evil.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    for name, value in {"NO_COLOR": "1", "PAGER": "cat"}.items():
        monkeypatch.setenv(name, value)

    def called(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["reprokit", *words])
        text = at_terminal(main)
        assert not _HARMFUL.search(without_style(text)), text
        return text

    assert shown in called(*verb.split(" "))
    if verb == "list":
        (tmp_path / "recipes" / "evil.yaml").write_text('name: "\\e[2J\\nerror: spoofed"\npaper: {}\n')
        assert "error: " in (text := called(verb)) and "\nerror: spoofed" not in text
        (tmp_path / "recipes" / "evil.yaml").unlink()
        (tmp_path / "recipes" / "\x1b[2J\udcff.yaml").write_text("name: [")
        assert "\\x1b[2J" in called(verb)


def test_messages_in_a_log_are_harmless_too():
    """A traceback quotes the name; CI shows the log in a terminal, or a browser that draws colours."""
    command = [sys.executable, "-m", "reprokit", "--debug", "show", "\x1b[2J\u202e"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr and not _HARMFUL.search(done.stderr)


WAYS_TO_PRINT = """\
import sys
import click  # which is banned itself
import rich
import typer
from rich.console import Console
from typer import echo
print('x')
typer.echo('x')
echo('x')
sys.stdout.write('x')
sys.stderr.buffer.write(b'x')
rich.print('x')
"""


def test_lint_refuses_another_way_to_print():
    options = ["--no-cache", "--output-format", "concise", "--select", "T201,TID251"]
    command = [sys.executable, "-m", "ruff", "check", *options, "--stdin-filename", "reprokit/commands/x.py", "-"]
    done = subprocess.run(command, input=WAYS_TO_PRINT, capture_output=True, text=True, cwd=ROOT, check=False)
    lines = {int(number) for number in re.findall(r"x\.py:(\d+):\d+: (?:T201|TID251)", done.stdout)}
    assert lines == {2, 5, 6, 7, 8, 10, 11, 12}, done.stdout


# --- The log of the last failure is data, and its explanation bounded


@pytest.mark.usefixtures("home")
def test_a_forged_fact_is_short_text():
    spoofed = "\x1b]0;owned\x07\u202e{pid}{container}"
    forged = f"reprokit: out of memory: the kernel killed {spoofed} in container x\n"
    cause = keep(forged)[0]
    assert cause == escaped(cause) and "{pid}{container}" in cause
    assert "killed python3 in container x" in keep(forged.replace(spoofed, "python3"))[0]  # the harmless neighbour
    lines = keep("ModuleNotFoundError: No module named '" + "a" * 1000 + "'\n" + "x" * 10_000)
    assert len(lines) == 3 and max(map(len, lines)) < 500


FLOODS = [b"Killed ", b"{", b"\x1b[" * 9 + b"\r", b"nvcc: not found\n", b"error: " * 50 + b"\n"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("line", [*FLOODS[:1], *(pytest.param(line, marks=pytest.mark.long) for line in FLOODS[1:])])
def test_output_without_end_costs_a_bounded_amount(line: bytes):
    recording = OutputRecording()
    for _ in range(40):
        recording.write(line * (1_000_000 // len(line)))
    keep(recording)
    assert log_path().stat().st_size < 2 * HALF + 500
