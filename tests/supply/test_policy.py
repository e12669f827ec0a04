from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reprokit.recipe.model import Variant
from reprokit.supply.gateway import Gateway, RecordedDownload, Recorder, locked, recipe_lines
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.asking import ask, authorization, connect, environment
from tests.support.fetching import LOCAL
from tests.support.upstream import Upstream
from tests.support.waiting import wait_for


@pytest.fixture
def gateway(store: Store):
    with Gateway(Mirrors(store), policy=locked("paper:cpu")) as running:
        yield running


def test_a_locked_build_is_refused_everything_by_name(gateway: Gateway, upstream: Upstream, tmp_path: Path):
    url = f"http://127.0.0.1:{upstream.port}/a.tar.gz?v=2"
    refusal = b"reprokit gateway: undeclared download: 127.0.0.1 is not in the lock of paper:cpu\n"
    connection = connect(gateway)
    for _ in range(2):  # a refusal leaves the connection usable, and names no password
        connection.request("POST", url.replace("//", "//me:secret@"), b"sent along", authorization(gateway))
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (403, refusal)
    for command in (
        ["curl", "-fsS", "https://forge.test/a"],
        ["git", "ls-remote", "https://forge.test/a"],
        [sys.executable, "-c", "import urllib.request as u; u.urlopen('https://forge.test/a')"],
    ):
        done = subprocess.run(command, env=environment(gateway, tmp_path), capture_output=True, text=True)
        assert done.returncode != 0 and "403" in done.stderr
    assert gateway.refused == {url: 2, "forge.test:443": 3}
    assert gateway.hosts == {"127.0.0.1": 2, "forge.test:443": 3}
    assert not upstream.requests


@pytest.fixture
def recording(store: Store):
    with Gateway(Mirrors(store), recorder=Recorder(), own=LOCAL) as running:
        yield running


def test_what_passes_is_recorded_whole(recording: Gateway, upstream: Upstream):
    content = b"content" * 50_000
    chunked = b"7\r\ncontent\r\n0\r\n\r\n"
    upstream.answers |= {
        "/a.zip": (200, {}, content),
        "/chunked": (200, {"Transfer-Encoding": "chunked"}, chunked),
        "/moved": (302, {"Location": "/a.zip"}, b""),
        "/secure": (301, {"Location": "https://forge.test/b.zip"}, b""),
        "/part": (206, {"Content-Range": "bytes 0-1/9"}, b"ab"),
        "/cut": (200, {"Content-Length": "10", "Connection": "close"}, b"short"),
    }
    root = f"http://127.0.0.1:{upstream.port}"
    for path in ("/chunked", "/moved", "/a.zip", "/secure", "/part", "/gone"):
        ask(recording, root + path)
    with pytest.raises(Exception, match="IncompleteRead"):
        ask(recording, f"{root}/cut")
    ask(recording, f"{root}/a.zip", "HEAD")
    # The client has the last byte before the gateway's thread has recorded it.
    wait_for(lambda: len(recording.recorder.downloads) == 3)
    assert sorted(recording.recorder.downloads, key=lambda each: each.url) == [
        RecordedDownload(f"{root}/chunked", 7, hashlib.sha256(b"content").hexdigest()),
        # the build requested /moved, so the recipe names that
        RecordedDownload(f"{root}/moved", len(content), hashlib.sha256(content).hexdigest()),
        RecordedDownload(f"{root}/secure"),
    ]


def test_the_lines_are_a_recipes():
    digest = "0" * 64
    downloads = [
        RecordedDownload("http://archive.test/debian/dists/bookworm/InRelease", 10, digest),
        RecordedDownload("http://archive.test/debian/pool/main/c/curl/curl_7.88.1-10_amd64.deb", 10, digest),
        RecordedDownload("http://example.org/releases/a%20b-1.0.tar.gz?x=1", 2_500_000, digest),
        RecordedDownload("http://example.org/moved/"),
    ]
    asked = {"archive.test": 2, "example.org": 2, "forge.test:443": 1, "forge.test:8443": 2}
    lines = recipe_lines(downloads, asked, ["left-pad"])
    assert lines == [
        "apt: [curl]",
        "files:",
        '  - {name: a_b-1.0.tar.gz, urls: ["http://example.org/releases/a%20b-1.0.tar.gz?x=1"], '
        f'sha256: "{digest}", path: /opt/a_b-1.0.tar.gz}}  # 2 MB',
        '  - {name: moved, urls: ["http://example.org/moved/"], path: /opt/moved}',
        "# over TLS, so unknown: `files` with an https:// address, or `sources` for git",
        "#   forge.test",
        "#   forge.test:8443",
        "# requested and not locked: left-pad",
    ]
    variant = Variant.model_validate({"base": "debian:12", **yaml.safe_load("\n".join(lines))})
    assert [file.name for file in variant.files] == ["a_b-1.0.tar.gz", "moved"]
    assert recipe_lines([], {"files.reprokit.invalid": 1}, []) == []
