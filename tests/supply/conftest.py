"""Wheels, repositories and an HTTP server, all made here: these tests reach no network."""

from __future__ import annotations

import os
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reprokit.supply.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


class Disk:
    """A file system in memory that holds what `limit` last said; for root, as mounting is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)

    def limit(self, option: str) -> None:
        """An option of tmpfs: `size=1m`, `nr_inodes=9`; 0 is no limit."""
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.folder)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    made = Disk(tmp_path / "disk")
    yield made
    made.unmount()


def make_wheel(
    folder: Path, name: str, version: str, requires: tuple[str, ...] = (), tag: str = "py3-none-any"
) -> Path:
    """An installable wheel with metadata and no code."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that the user's pip configuration knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


class Repositories:
    """Local repositories that git believes to be below https://forge.test/."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, name: str, *arguments: str) -> str:
        command = ["git", "-C", str(self.root / f"{name}.git"), "-c", "protocol.file.allow=always", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def make(self, name: str, files: dict[str, str], submodules: dict[str, tuple[str, str]] | None = None) -> str:
        """A repository with one commit, which is returned; submodules as path: (name of a repository, address)."""
        folder = self.root / f"{name}.git"
        folder.mkdir(parents=True)
        self.git(name, "init", "-q", "-b", "main")
        for path, (other, address) in (submodules or {}).items():
            self.git(name, "submodule", "add", "-q", str(self.root / f"{other}.git"), path)
            self.git(name, "config", "-f", ".gitmodules", f"submodule.{path}.url", address)
        return self.commit(name, files)

    def commit(self, name: str, files: dict[str, str]) -> str:
        for path, text in files.items():
            (self.root / f"{name}.git" / path).write_text(text)
        self.git(name, "add", "-A")
        self.git(name, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "change")
        return self.git(name, "rev-parse", "HEAD")


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repositories:
    root = tmp_path / "forge"
    root.mkdir()
    settings = {
        f"url.{root}/.insteadOf": "https://forge.test/",
        "user.name": "t",
        "user.email": "t@example.org",
    }
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, (key, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    return Repositories(root)


class Upstream:
    """A plain HTTP server that remembers what it was asked and can be told what to answer."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                path = "/" + self.path.split("/", 3)[3] if self.path.startswith("http://") else self.path
                status, headers, answer = outer.answers.get(path, (404, {}, b"no"))
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                if not {"Content-Length", "Transfer-Encoding"} & set(headers):
                    self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_HEAD = do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_port


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Upstream()
    yield server
    server.server.shutdown()
    server.server.server_close()
