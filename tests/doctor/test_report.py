"""The report: pasteable, and without what is the user's own."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from reprokit import config
from reprokit.compat.model import Finding
from reprokit.doctor.report import Scrubber, report, scrubber
from tests.support.examined import INFO, FakeMachine, PlainEngine

CONFIG = """
nodes: {lab1: ana@gpu1.corp.example}
hosts: [artifacts.corp.example]
mirrors: {apt: ["https://bob:hunter22@mirror.corp.example/{archive}/{path}"]}
"""


@pytest.fixture
def scrub(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scrubber:
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("USER", "ana")
    monkeypatch.setenv("HOME", "/data/people/ana")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_abcdefghij")
    monkeypatch.setenv("DB_PASSWORD", "s3cret-word")
    machine.program("uname", "echo gpubox.corp.example")
    machine.engine = PlainEngine({**INFO, "RegistryConfig": {"Mirrors": ["https://registry.inner.example:5000/"]}})
    return scrubber(machine.host(), config.load())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$http_proxy=http://ana:hunter22@proxy.corp.example:3128", "$http_proxy=http://HOST:3128"),
        ("token ghp_abcdefghij of s3cret-word", "token SECRET of SECRET"),
        ("/data/people/ana/.cache/reprokit is full", "~/.cache/reprokit is full"),
        ("/data/people/anabel is not hers", "/data/people/anabel is not hers"),
        ("/home/bob/x and /Users/eve", "/home/USER/x and /home/USER"),
        ("ana may not; banana may", "USER may not; banana may"),
        ("no route to gpubox", "no route to HOST"),
        ("GPUBOX.corp.example: gone", "HOST: gone"),
        ("lab1 and gpu1.corp.example are down", "HOST and HOST are down"),
        ("mirror.registry=registry.inner.example:5000", "mirror.registry=HOST:5000"),
        ("artifacts.corp.example answers", "HOST answers"),
        ("https://mirror.corp.example/x?sig=abc&t=1 (403)", "https://HOST/x (403)"),
        ("connect to 10.1.2.3 port 22, fe80::1:2:3:4", "connect to ADDRESS port 22, ADDRESS"),
        ("10.1.2.3:22 or fe80::1, [2001:db8::7]:80", "ADDRESS:22 or ADDRESS, [ADDRESS]:80"),
        ("at unix:///var/run/docker.sock, http://127.0.0.1:8080", "at unix:///var/run/docker.sock, http://127.0.0.1:8080"),
        ("driver 535.54.03, CUDA 12.1, kernel 6.1.0-18, at 0000:65:00.0", None),
        ("engine 20.10.24+dfsg1, 25.0.0.1.2, 10:20:30", None),
    ],
)  # fmt: skip
def test_what_is_taken_out(scrub: Scrubber, text: str, shown: str | None) -> None:
    assert scrub(text) == (text if shown is None else shown)


def test_it_is_one_block_of_code_and_shows_only_rules_without_names_to_take_out(scrub: Scrubber) -> None:
    hostile = Finding("error", "gpu", ("gpu=\x1b[2J```\n# Title",), "<img src=x>\u202e", remedy="a\rb")
    lines = report([hostile], "this machine", scrub).splitlines()
    assert lines[:2] == ["reprokit doctor", ""]
    assert all(line.startswith("    ") and line.isprintable() for line in lines[2:])
    secret = Finding("error", "engine.unreachable", ("engine=tcp://secret:1",), "secret", remedy="secret")
    text = report([secret], "this machine", None)
    assert "engine.unreachable" in text and "secret" not in text


def test_this_machines_own_names(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").touch()
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    scrub = scrubber(machine.host(), config.load())
    text = scrub(f"{platform.node()} {Path.home()}/x")
    assert platform.node() not in text.split() and (str(Path.home()) not in text or os.environ["HOME"] == "/")
