"""`reprokit config`: what is in force and where from, without anybody's password."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from reprokit import config
from reprokit.errors import UsageError
from reprokit.recipe import yaml


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's configuration would be, on a machine whose pip and environment say little."""
    for name in [f"REPROKIT_{kind.upper()}_MIRRORS" for kind in config.KINDS]:
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    path = tmp_path / "settings" / "config.yaml"
    monkeypatch.setenv("REPROKIT_CONFIG", str(path))
    return path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def test_every_line_says_where_it_comes_from(call, file: Path, monkeypatch: pytest.MonkeyPatch):
    write(file, "presets: [ustc]\nmirrors:\n  git: ['file:///srv/{owner}/{repo}.git']\nfetch: {parallel: 2}\n")
    monkeypatch.setenv("REPROKIT_APT_MIRRORS", "http://m.test/{archive}/{path}")
    monkeypatch.setenv("PIP_FIND_LINKS", "https://links.test/page.html")
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    lines = [line.split(None, 1) for line in call("config").stdout.splitlines()]
    shown = {kind: [" ".join(rest.split()) for k, rest in lines if k == kind] for kind, _ in lines}
    assert shown["apt"][0] == "http://m.test/{archive}/{path} $REPROKIT_APT_MIRRORS"
    assert shown["apt"][1] == "debian: https://mirrors.ustc.edu.cn/debian/{path} preset ustc"
    assert shown["git"] == [f"file:///srv/{{owner}}/{{repo}}.git {file}:3"]
    assert shown["wheels"] == [
        "https://mirrors.ustc.edu.cn/pypi/simple preset ustc",
        "https://links.test/page.html pip",
    ]
    assert shown["proxy"] == ["http://proxy.test:3128 $https_proxy"]
    assert shown["fetch"][0].startswith("2 at once") and shown["fetch"][0].endswith(str(file))


def test_passwords_are_shown_nowhere(call, file: Path, monkeypatch: pytest.MonkeyPatch):
    write(file, "mirrors: {files: ['https://me:secret@127.0.0.1:1/{path}']}\n")
    monkeypatch.setenv("REPROKIT_WHEELS_MIRRORS", "http://me:secret@127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "http://me:secret@127.0.0.1:1/page.html")
    monkeypatch.setenv("PIP_PROXY", "me:secret@127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "me:secret@127.0.0.1:1")
    for arguments in ([], ["--json"], ["--check"], ["--check", "--json"]):
        result = call("config", *arguments)
        assert "127.0.0.1:1" in result.output
        assert "secret" not in result.output + str(result.exception)


def test_json_and_a_wrong_file(call, error, file: Path):
    write(file, "mirrors: {apt: [{llvm: 'http://m.test/{path}'}]}\n")
    rows = json.loads(call("config", "--json").stdout)
    assert rows[0] == {"kind": "apt", "archive": "llvm", "value": "http://m.test/{path}", "source": f"{file}:1"}
    write(file, "mirror: {}\n")
    wrong = error(UsageError, "config")
    assert (wrong.where, wrong.message) == (f"{file}:1", "unknown field mirror; did you mean mirrors?")


def test_init_writes_a_file_without_settings_and_overwrites_none(call, error, file: Path):
    assert f"wrote {file}" in call("config", "--init").stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert config.load().entries == ()
    assert "already there" in error(UsageError, "config", "--init").message


def test_what_the_starting_file_explains_is_valid(file: Path):
    text = config.starting_text()
    examples_begin = ("# presets", "# mirr", "# hosts", "# fetch", "# workspace", "# nodes", "#  ")
    examples = "\n".join(line[2:] for line in text.splitlines() if line.startswith(examples_begin))
    write(file, examples)
    found = config.load()
    assert {entry.kind for entry in found.entries} == set(config.KINDS)
    assert set(yaml.read(examples, "x").data) == set(config.ConfigFile.model_fields)
    assert found.hosts == ("artifacts.example.org", "10.0.0.7:8081")
    assert found.fetch == config.Fetch()  # the defaults, as they are
    assert [node.name for node in found.nodes] == ["lab1", "lab2", "lab3"]
