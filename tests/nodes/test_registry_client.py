"""An image read from a real registry before it is pulled."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.nodes.image_reference import parse
from reprokit.nodes.registry_client import remote_image
from tests.support.registry import MANIFEST, PASSWORD, USER, Call, Registry, ask, credentials, forget, make

pytestmark = pytest.mark.engine


def test_an_index_of_several_architectures(engine: Engine, name: str, call: Call):
    with Registry(engine) as registry:
        entries = []
        for machine in ("riscv64", engine.version()["Arch"]):
            made = make(engine, name)
            digest = call("push", f"{registry.host}/{name}:cpu").stdout.strip().partition("@")[2]
            forget(engine, f"reprokit/{name}:cpu")
            size = len(ask(registry, f"{name}/manifests/{digest}", MANIFEST))
            platform = {"architecture": machine, "os": "linux"}
            entries.append({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
        kind = "application/vnd.docker.distribution.manifest.list.v2+json"
        index = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": entries}).encode()
        ask(registry, f"{name}/manifests/cpu", kind, index)
        digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
        seen = remote_image(engine, parse(f"{registry.host}/{name}"), digest)
        assert seen and f"sha256:{hashlib.sha256(seen.config).hexdigest()}" == made
        for wanted in (f"{registry.host}/{name}:cpu", f"{registry.host}/{name}@{digest}"):
            done = call("pull", wanted)
            assert done.returncode == 0 and digest in done.stdout, done
        assert (engine.image(f"reprokit/{name}:cpu") or {})["Id"] == made


class Tokens(BaseHTTPRequestHandler):
    """A proxy before a registry that requires a token, for which it requires the credentials of USER."""

    registry = ""

    def do_GET(self) -> None:
        login = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        given = self.headers.get("Authorization")
        if self.path.startswith("/token?service=here&scope=repository%3A"):
            self._answer(200 if given == login else 401, b'{"token": "good"}')
        elif given != "Bearer good":
            challenge = f'Bearer realm="http://{self.headers["Host"]}/token",service="here",scope="repository:x:pull"'
            self._answer(401, b"{}", challenge)
        else:
            accepted = {"Accept": self.headers["Accept"]}
            asked = urllib.request.Request(f"http://{self.registry}{self.path}", headers=accepted)
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
                self._answer(200, answer.read())

    def _answer(self, status: int, body: bytes, challenge: str = "") -> None:
        self.send_response(status)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


def test_a_registry_with_tokens(engine: Engine, name: str, place: Path, call: Call):
    made = make(engine, name)
    with Registry(engine) as registry:
        digest = call("push", f"{registry.host}/{name}:cpu").stdout.strip().partition("@")[2]
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Tokens,), {"registry": registry.host}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        try:
            found = []
            for password in (None, "wrong", PASSWORD):
                credentials(place, host, password)
                found.append(remote_image(Engine.connect(), parse(f"{host}/{name}:cpu"), digest))
        finally:
            server.shutdown()
    assert found[:2] == [None, None]
    seen = found[2]
    assert seen and seen.labels["reprokit.recipe"] == name and len(seen.layers) == 1
    assert f"sha256:{hashlib.sha256(seen.config).hexdigest()}" == made
