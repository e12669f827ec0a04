"""The display of a build."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

from reprokit.display import notify
from reprokit.image.events import BuildStep, OutputLine
from reprokit.image.progress import BuildDisplay, brief, title
from reprokit.supply.fetch.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stopped(monkeypatch, *times: float) -> None:
    """The display's clock shows `times`, and stands still at the last of them."""
    left = list(times)
    clock = SimpleNamespace(monotonic=lambda: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr("reprokit.image.progress.time", clock)
    monkeypatch.setattr("reprokit.display.time", clock)


def test_plain_lines():
    out = io.StringIO()
    with BuildDisplay(out) as shown:
        notify("base x")
        for event in (
            BuildStep(1, 5, "base", "FROM x"),
            BuildStep(2, 5, "git", "COPY x y", cached=True),
            BuildStep(3, 5, "apt", "ARG REPROKIT_APT="),
            BuildStep(4, 5, "apt", "RUN y"),
            OutputLine("noise"),
            BuildStep(5, 5, "apt", "RUN z"),
        ):
            shown.progress(event)
    assert out.getvalue() == "base x\n[4/5] apt\n"


def test_the_live_display_fits_its_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    stopped(monkeypatch, 0.0)
    out = Terminal()
    with BuildDisplay(out) as shown:
        shown.traffic(type("Gateway", (), {"bytes_served": 12_000_000})())
        shown.progress(BuildStep(1, 2, "apt", "RUN " + "long " * 40))
        shown.progress(OutputLine("noise " * 40))
        text = shown.render().plain
        shown.progress(BuildStep(2, 3, "env", "ENV A=1"))
        shown.progress(BuildStep(3, 3, "env", "RUN z"))
    first, second = text.splitlines()
    assert first.startswith("[1/2] apt: RUN long") and "12 MB" in first and "0:00, total 0:00" in first
    assert max(len(first), len(second)) <= 60
    assert re.findall(r"(?:apt|env)  0\.0 s", out.getvalue()) == ["apt  0.0 s", "env  0.0 s"]


def test_downloads_are_shown_in_their_own_words(monkeypatch):
    out, half = io.StringIO(), Progress(1, 2, 500, 1000, 0.0, None, ("torch.whl",))
    stopped(monkeypatch, 0.0, 0.0, 0.0, 6.0, 7.0)
    plain = BuildDisplay(out)
    plain.progress(half)
    plain.progress(half)
    monkeypatch.undo()
    assert out.getvalue() == "1 of 2 files, 500 B of 1 kB\n"
    with BuildDisplay(Terminal()) as shown:
        shown.progress(half)
        assert shown.render().plain.endswith("\n  1 of 2 files, 500 B of 1 kB")


def test_titles_are_short():
    assert brief("RUN set -eu; expect() { case x in a) ;; *) exit 1 ;; esac; }; apt-get update") == "RUN apt-get update"
    assert title(BuildStep(3, 9, "tvm", "RUN " + "x" * 200), 40).endswith("...")
