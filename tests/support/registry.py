"""A registry for tests: the distribution's `docker-registry`, on a free port of loopback."""

from __future__ import annotations

import io
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from reprokit.engine import Engine
from reprokit.errors import SourceError

_CONFIG = """
version: 0.1
log: {{level: info, formatter: json, accesslog: {{disabled: false}}}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "{host}"}}
{auth}
"""
# Who may log in to a registry with credentials, and the password as bcrypt, which is all that it takes.
USER, PASSWORD = "ana", "right"
_HASH = "$2b$04$gfFVpZq9.QEH9lhxfbO2ouLWzI5yCW5h6iyPLrzAu6fd0FDFmkK32"


class Registry:
    """Serves `layer` (a tar) as the image `repository:1`, or nothing at all; `digest` is that image's.

    A `closed` one asks for the credentials of USER.
    """

    def __init__(self, engine: Engine, repository: str = "", layer: bytes = b"", closed: bool = False) -> None:
        self._closed = closed
        self._engine, self._repository, self._layer = engine, repository, layer
        self._folder = tempfile.TemporaryDirectory()
        self.digest = ""

    def __enter__(self) -> Registry:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.host = f"127.0.0.1:{probe.getsockname()[1]}"
        folder = Path(self._folder.name)
        auth = f"auth: {{htpasswd: {{realm: test, path: {folder}/users}}}}" if self._closed else ""
        (folder / "users").write_text(f"{USER}:{_HASH}\n")
        (folder / "config.yml").write_text(_CONFIG.format(folder=folder, host=self.host, auth=auth))
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                ["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=subprocess.STDOUT
            )
        self._wait()
        if self._layer:
            self._push()
        self._before = len(self._requests())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.terminate()
        self._server.wait(30)
        self._folder.cleanup()

    @property
    def asked(self) -> list[str]:
        """The paths that were asked for since the registry was ready."""
        return self._requests()[self._before :]

    def _requests(self) -> list[str]:
        return re.findall(r'"(?:GET|HEAD|PUT|POST|PATCH) (\S+) HTTP', self._log.read_text(errors="replace"))

    def _wait(self) -> None:
        host, port = self.host.split(":")
        for _ in range(300):
            if self._server.poll() is not None:
                raise RuntimeError(self._log.read_text(errors="replace"))
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("docker-registry did not come up")

    def _push(self) -> None:
        name = f"{self.host}/{self._repository}"
        self._engine.import_image(io.BytesIO(self._layer), name, "1", ["ENV PATH=/bin"])
        for event in self._engine.api.push(name, tag="1", stream=True, decode=True):
            if "error" in event:
                raise RuntimeError(event["error"])
            self.digest = event.get("aux", {}).get("Digest", self.digest)
        self._engine.remove_image(f"{name}:1", force=True)


class NoRegistry:
    """An engine that knows some images and reaches no registry."""

    def __init__(self, **images: dict) -> None:
        self.images = {name.replace("__", ":"): image for name, image in images.items()}

    def image(self, reference: str) -> dict | None:
        return self.images.get(reference)

    def registry_digest(self, reference: str, timeout_s: float) -> str:
        raise SourceError("no such host", reference)

    def pull(self, reference: str) -> Iterator[dict]:
        raise SourceError("no such host", reference)

    def tag(self, image: str, repository: str, tag: str) -> None:
        self.images[f"{repository}:{tag}"] = self.images[image]
