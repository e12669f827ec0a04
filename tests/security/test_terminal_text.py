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
from pathlib import Path

import pytest

from reprokit.untrusted.text import Output, console, document, dump, echo, escaped
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

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


def at_terminal(program: Callable[[], None] | list[str], **options: str) -> str:
    """What a program, or a function in a process of its own, writes to a terminal."""
    master, terminal = pty.openpty()
    if callable(program):
        if (pid := os.fork()) == 0:
            os.dup2(terminal, 1)
            os.dup2(terminal, 2)
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), encoding="utf-8")
            sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8")
            with contextlib.suppress(BaseException):
                program()
                sys.stdout.flush()
            os._exit(0)
    else:
        with subprocess.Popen(
            program, stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, "PAGER": "cat", **options}
        ):
            pass
        pid = 0
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
    if pid:
        os.waitpid(pid, 0)
    return text.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def without_style(text: str) -> str:
    """Without what rich writes of its own: weights and colours, and the moves of a line that is drawn again."""
    return re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|1?A|2K)|\r", "", text)


def cli(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "reprokit", *arguments]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_way_of_printing_lets_control_characters_through(attack):
    def table() -> None:
        from rich.table import Table
        from rich.text import Text

        made = Table(attack)
        made.add_column(Text(attack))
        made.add_row(attack, Text(attack))
        console().print(made, attack, Text(attack))
        with console().status(Text(attack)):
            pass

    for program in (
        lambda: echo(f"<{attack}>"),
        lambda: echo(f"<{attack}>", err=True),
        lambda: echo(f"<{attack}>", file=sys.stderr),
        lambda: document(f"<{attack}>\n"),
        lambda: dump({attack: attack}),
        lambda: Output(1).write(f"<{attack}>".encode(errors="surrogateescape")),
    ):
        text = at_terminal(program)
        assert text and not _HARMFUL.search(text), text
    text = at_terminal(table)
    assert text and not _HARMFUL.search(without_style(text)), text


def test_a_terminal_does_get_what_is_not_escaped():
    """The positive control: the payload reaches a terminal that is written to directly."""
    assert ATTACKS["clear"] in at_terminal(lambda: os.write(1, ATTACKS["clear"].encode()) and None)


def test_markup_and_emoji_codes_are_text():
    text = at_terminal(lambda: console().print("[red]x[/red] :smile: [link=http://x]y[/link]"))
    assert "[red]x[/red] :smile: [link=http://x]y[/link]" in text and "\x1b]8" not in text


def test_ordinary_text_is_unchanged():
    for text in ("plain", "naïve 日本語 ±", "a\tb", "a\u00a0b", "C:\\x1b", "", "é".encode().decode()):
        assert escaped(text) == text
    assert escaped("a\nb") == "a\\nb" and escaped("a\nb", lines=True) == "a\nb"
    assert escaped("\x1b\x9b\u202e\U000e0041\udc9b") == "\\x1b\\x9b\\u202e\\U000e0041\\udc9b"
    assert escaped(escaped("\x1b")) == "\\x1b"


def test_a_line_break_makes_no_line_that_looks_like_ours(capsys):
    echo("loaded a\nloaded b")
    echo("error: a\nerror: b\n  more", err=True)
    out, err = capsys.readouterr()
    assert out == "loaded a\\nloaded b\n"
    assert err == "error: a\n  error: b\n  more\n"


def test_json_is_whole_and_ascii(capsys):
    value = {key: [attack] for key, attack in ATTACKS.items()}
    dump(value)
    text = capsys.readouterr().out
    assert text.isascii() and not _HARMFUL.search(text) and json.loads(text) == value


def test_a_document_is_unchanged_where_no_terminal_is(capsys):
    document("RUN printf '\x1b\u202e'\n")
    assert capsys.readouterr().out == "RUN printf '\x1b\u202e'\n"


def test_a_narrow_encoding_stops_no_command():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    echo("a ± b", file=stream)
    assert stream.buffer.getvalue() == b"a \\xb1 b\n"  # type: ignore[attr-defined]


def test_a_containers_output_goes_whole_to_a_pipe_and_escaped_to_a_terminal():
    said = b"a\r\n10%\r20%\r\xff\xc3\x1b[31mred\x1b[0m \xe2\x82\xac\n"
    reader, writer = os.pipe()
    Output(writer).write(said)
    assert os.read(reader, 1 << 16) == said
    for descriptor in (reader, writer):
        os.close(descriptor)

    def in_pieces() -> None:
        shown = Output(1)
        for place in range(len(said)):
            shown.write(said[place : place + 1])

    assert at_terminal(in_pieces) == "a\n10%\n20%\n\\xff\\xc3\\x1b[31mred\\x1b[0m €\n"
    assert at_terminal(lambda: Output(1, raw=True).write(b"\x1b[31m")) == "\x1b[31m"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's checkout, in which the user stands."""
    (tmp_path / "recipes").mkdir()
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


RECIPE = """\
name: evil
paper: {title: "T \\e[2J\\u202e[red] \\x9b", venue: "V\\e]0;x\\a", year: 2020, licence: "MIT\\x7f"}
variants: {cpu: {base: "debian:12", env: {A: "\\u202ex"}}}
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("show", "evil"),
        ("show", "evil", "--json"),
        ("show", "\x1b[2Jevil"),
        ("check", "evil"),
        ("lock", "--check", "evil"),
        ("render", "evil"),
        ("--debug", "show", "\x1b[2J\u202e"),
        ("inspect", "\x1b[2J.rkit"),
        ("config", "\x1b[2J"),
        ("nodes", "\u202e\x1b[2J"),
    ],
    ids=" ".join,
)
def test_commands_show_a_strangers_recipe_harmlessly(checkout, arguments):
    (checkout / "recipes" / "evil.yaml").write_text(RECIPE)
    text = at_terminal(cli(*arguments), NO_COLOR="1")
    assert text and not _HARMFUL.search(without_style(text)), text


def test_messages_in_a_log_are_harmless_too(checkout):
    """A traceback quotes the name; CI shows the log in a terminal, or a browser that draws colours."""
    done = subprocess.run(cli("--debug", "show", "\x1b[2J\u202e"), capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr and not _HARMFUL.search(done.stderr)


def test_a_recipe_whose_error_quotes_control_characters(checkout):
    (checkout / "recipes" / "evil.yaml").write_text('name: "\\e[2J\\nerror: spoofed"\npaper: {}\n')
    text = at_terminal(cli("list"), NO_COLOR="1")
    assert "error: " in text and not _HARMFUL.search(without_style(text))
    assert "\nerror: spoofed" not in text


def test_file_names_with_control_characters_are_shown_as_text(checkout):
    (checkout / "recipes" / "\x1b[2J\udcff.yaml").write_text("name: [")
    text = at_terminal(cli("list"), NO_COLOR="1")
    assert "\\x1b[2J" in text and not _HARMFUL.search(without_style(text))


@pytest.mark.parametrize(
    "line",
    [
        "print('x')",
        "import typer\n\ntyper.echo('x')",
        "from typer import echo\n\necho('x')",
        "import sys\n\nsys.stdout.write('x')",
        "import sys\n\nsys.stderr.buffer.write(b'x')",
        "from rich.console import Console\n\nConsole().print('x')",
        "import rich\n\nrich.print('x')",
        "import click\n\nclick.echo('x')",
    ],
)
def test_lint_refuses_another_way_to_print(line):
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", "reprokit/commands/x.py", "-"]
    done = subprocess.run(command, input=f"{line}\n", capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1 and re.search(r"T201|TID251", done.stdout), done.stdout
