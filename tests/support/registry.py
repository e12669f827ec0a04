"""A registry for tests: the distribution's `docker-registry`, on a free port of loopback."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import secrets
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reprokit.engine import Engine, ImageInfo
from reprokit.errors import ReprokitError, SourceError
from tests.support.images import tar_of
from tests.support.ports import free_port
from tests.support.waiting import wait_for

_CONFIG = """
version: 0.1
log: {{level: info, formatter: json, accesslog: {{disabled: false}}}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "{host}"}}
{auth}
"""
# The user of a registry that requires credentials; it accepts only bcrypt.
USER, PASSWORD = "ana", "right"
_HASH = "$2b$04$gfFVpZq9.QEH9lhxfbO2ouLWzI5yCW5h6iyPLrzAu6fd0FDFmkK32"


class Registry:
    """Serves `layer` (a tar) as the image `repository:1`, or nothing at all; `digest` is that image's.

    A `closed` one requires the credentials of USER. `enter` begins its command, to run it in another network.
    """

    def __init__(
        self, engine: Engine, repository: str = "", layer: bytes = b"", closed: bool = False, enter: Sequence[str] = ()
    ) -> None:
        self._closed, self._enter = closed, enter
        self._engine, self._repository, self._layer = engine, repository, layer
        self._folder = tempfile.TemporaryDirectory()
        self.digest = ""

    def __enter__(self) -> Registry:
        self.host = f"127.0.0.1:{free_port()}"
        folder = Path(self._folder.name)
        auth = f"auth: {{htpasswd: {{realm: test, path: {folder}/users}}}}" if self._closed else ""
        (folder / "users").write_text(f"{USER}:{_HASH}\n")
        (folder / "config.yml").write_text(_CONFIG.format(folder=folder, host=self.host, auth=auth))
        self._log = folder / "log"
        command = [*self._enter, "docker-registry", "serve", str(folder / "config.yml")]
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait()
        if self._layer:
            self._push()
        self._before = len(self._requests())
        return self

    def __exit__(self, *_: object) -> None:
        self._server.terminate()
        self._server.wait(120)
        self._folder.cleanup()

    @property
    def asked(self) -> list[str]:
        """The requested paths since the registry was ready."""
        return self._requests()[self._before :]

    def _requests(self) -> list[str]:
        return re.findall(r'"(?:GET|HEAD|PUT|POST|PATCH) (\S+) HTTP', self._log.read_text(errors="replace"))

    def _wait(self) -> None:
        wait_for(lambda: self._server.poll() is not None or "listening on" in self._log.read_text(errors="replace"))
        assert self._server.poll() is None, self._log.read_text(errors="replace")

    def _push(self) -> None:
        name = f"{self.host}/{self._repository}"
        self._engine.import_image(io.BytesIO(self._layer), name, "1", ["ENV PATH=/bin"])
        for event in self._engine.api.push(name, tag="1", stream=True, decode=True):
            if "error" in event:
                raise RuntimeError(event["error"])
            self.digest = event.get("aux", {}).get("Digest", self.digest)
        self._engine.remove_image(f"{name}:1", force=True)


MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
Call = Callable[..., subprocess.CompletedProcess[str]]


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "reprokit", *args]


def data(size: int) -> bytes:
    """A tar with a file of random bytes."""
    return tar_of({secrets.token_hex(4): secrets.token_bytes(size)})


def make(engine: Engine, name: str, **labels: str) -> str:
    """Make the image `reprokit/NAME:cpu` with a random layer; returns its ID."""
    labels = {"recipe": name, "variant": "cpu", **labels}
    changes = ["ENV PATH=/bin", *(f'LABEL reprokit.{key}="{value}"' for key, value in labels.items())]
    return engine.import_image(io.BytesIO(data(1 << 20)), f"reprokit/{name}", "cpu", changes)


def forget(engine: Engine, reference: str) -> None:
    """Remove an image and its layers from the engine."""
    found = engine.image(reference)
    assert found
    for named in [*found.names, *found.digests]:
        with contextlib.suppress(ReprokitError):
            engine.remove_image(named, force=True)
    assert engine.image(found.id) is None


def ask(registry: Registry, path: str, kind: str, put: bytes | None = None) -> bytes:
    """The registry's answer to a GET, or to a PUT of a manifest."""
    headers = {"Content-Type" if put else "Accept": kind}
    method = "PUT" if put else "GET"
    asked = urllib.request.Request(f"http://{registry.host}/v2/{path}", put, headers, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
        return answer.read()


def credentials(place: Path, host: str, password: str | None) -> None:
    """Write Docker's own configuration with this password, or without one."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (place / "docker").mkdir(exist_ok=True)
    (place / "docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}} if password else {}}))


class NoRegistry:
    """An engine with some images that reaches no registry."""

    def __init__(self, **images: ImageInfo) -> None:
        self.images = {name.replace("__", ":"): image for name, image in images.items()}

    def image(self, reference: str) -> ImageInfo | None:
        return self.images.get(reference)

    def registry_digest(self, reference: str) -> str:
        raise SourceError("no such host", reference)

    def pull(self, reference: str) -> Iterator[dict]:
        raise SourceError("no such host", reference)

    def tag(self, image: str, repository: str, tag: str) -> None:
        self.images[f"{repository}:{tag}"] = self.images[image]
