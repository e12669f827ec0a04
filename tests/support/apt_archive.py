"""An apt archive over HTTP, made of packages that tests make."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.debs import make_deb


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class Archive:
    """A suite `bookworm` with components. Builds reach its address through their gateway, unlike 127.0.0.1.

    Its folder has the name of no distribution's archive.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "own"
        self.folder.mkdir(parents=True)
        handler = partial(_Quiet, directory=str(root))
        self._server = ThreadingHTTPServer(("127.0.0.2", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.2:{self._server.server_port}/own"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def deb(self, name: str, version: str = "1.0", component: str = "main", **fields: str) -> Path:
        """Make a package in the pool."""
        folder = self.folder / "pool" / component
        folder.mkdir(parents=True, exist_ok=True)
        return make_deb(folder, name, version, **fields)

    def publish(self, date: str) -> None:
        """Write the lists of the pool's packages, dated `date` (`Sat, 21 Nov 2026 10:15:00 UTC`)."""
        shutil.rmtree(self.folder / "dists", ignore_errors=True)
        suite = self.folder / "dists/bookworm"
        sums = []
        for component in ("main", "contrib"):
            file = suite / component / "binary-amd64/Packages"
            file.parent.mkdir(parents=True)
            (self.folder / "pool" / component).mkdir(parents=True, exist_ok=True)
            command = ["dpkg-scanpackages", "-m", f"pool/{component}"]
            file.write_bytes(subprocess.run(command, cwd=self.folder, check=True, capture_output=True).stdout)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            sums.append(f" {digest} {file.stat().st_size} {file.relative_to(suite)}")
        head = ["Suite: bookworm", "Codename: bookworm", "Architectures: amd64", "Components: main contrib"]
        (suite / "Release").write_text("\n".join([*head, f"Date: {date}", "SHA256:", *sums, ""]))

    def clear(self) -> None:
        for child in self.folder.iterdir():
            shutil.rmtree(child)
