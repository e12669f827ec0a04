"""`config --check` asks each mirror once and names the kinds of which none answers."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reprokit import cli
from reprokit.errors import SourceError
from reprokit.supply.mirrors.effective import Line, address_of
from tests.support.upstream import Upstream


@pytest.mark.parametrize(
    ("kind", "value", "archive", "asked"),
    [
        ("registry", "docker.test:5000/hub", "", "https://docker.test:5000/v2/"),
        ("apt", "http://m.test/{archive}/{path}", "", "http://m.test/debian/dists/stable/Release"),
        ("apt", "http://m.test/u/{path}", "ubuntu", "http://m.test/u/dists/jammy/Release"),
        ("apt", "http://m.test/{as_of}/{path}", "", "http://m.test/"),
        ("wheels", "http://m.test/simple/", "", "http://m.test/simple/pip/"),
        ("wheels", "http://m.test/stable.html", "", "http://m.test/stable.html"),
        ("wheels", "http://m.test/f/{file}", "", "http://m.test/"),
        ("git", "https://{host}.m.test/{path}", "", "https://github.com.m.test/"),
        ("conda", "http://m.test/{channel}", "", "http://m.test/conda-forge/noarch/repodata.json"),
        ("files", "file:///srv/by-hash/{sha256}", "", "file:///srv/by-hash/"),
    ],
)
def test_what_is_asked_for(kind: str, value: str, archive: str, asked: str):
    assert address_of(Line(kind, value, "test", archive)) == asked


@pytest.mark.slow
def test_check_asks_each_once_and_fails_where_a_kind_is_silent(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "config.yaml"
    monkeypatch.setenv("REPROKIT_CONFIG", str(file))
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "git").mkdir()
    root = f"http://127.0.0.1:{upstream.port}"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{taken.getsockname()[1]}"
        upstream.answers |= {
            "/llvm/bookworm/dists/llvm-toolchain-bookworm/Release": (200, {}, b"x" * (1 << 17)),
            "/c/conda-forge/noarch/repodata.json": (503, {}, b""),
        }
        file.write_text(
            f"""
mirrors:
  registry: ["127.0.0.1:{upstream.port}/hub"]
  apt: [{{llvm: "{root}/llvm/{{path}}"}}, {{debian-debug: "{root}/none/{{path}}"}}]
  wheels: ["{away}/simple", "{root}/simple"]
  git: ["file://{tmp_path}/git/{{owner}}/{{repo}}.git"]
  conda: ["{root}/c/{{channel}}"]
  files: ["{away}/{{host}}/{{path}}", "file:///nowhere/{{name}}"]
"""
        )
        result = CliRunner().invoke(cli.app, ["config", "--check", "--json"])
    rows = {(row["kind"], row["value"]): row for row in json.loads(result.stdout)}
    assert rows["registry", f"127.0.0.1:{upstream.port}/hub"]["error"] is None  # 404: it is there
    assert rows["apt", f"{root}/llvm/{{path}}"]["rate"] > 0
    assert rows["apt", f"{root}/none/{{path}}"]["error"] == "HTTP 404"
    assert rows["wheels", f"{away}/simple"]["error"] == "Connection refused"
    assert rows["wheels", f"{root}/simple"]["latency_s"] > 0
    assert rows["git", f"file://{tmp_path}/git/{{owner}}/{{repo}}.git"]["error"] is None
    assert rows["conda", f"{root}/c/{{channel}}"]["error"] == "HTTP 503"
    assert rows["files", "file:///nowhere/{name}"]["error"] == "no such file or folder"
    assert isinstance(result.exception, SourceError)
    assert result.exception.message == "no mirror of conda, files answers"
    assert len([path for _, path, _, _ in upstream.requests if path == "/simple/pip/"]) == 1
