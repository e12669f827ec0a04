"""A registry of one image in this process: what an engine asks of one when it pulls (OCI distribution spec)."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """Serves `layer` (a tar) as an image under every tag of `repository`."""

    def __init__(self, repository: str, layer: bytes) -> None:
        packed = gzip.compress(layer, 1, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["PATH=/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
                "history": [{"created_by": "a test"}],
            }
        ).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _entry("application/vnd.docker.container.image.v1+json", config),
                "layers": [_entry("application/vnd.docker.image.rootfs.diff.tar.gzip", packed)],
            }
        ).encode()
        self.digest = digest_of(manifest)
        self.asked: list[str] = []
        blobs = {digest_of(data): data for data in (packed, config)}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                prefix = f"/v2/{repository}/"
                kind, _, name = self.path.removeprefix(prefix).partition("/")
                if self.path == "/v2/":
                    self._send(200, b"{}", "application/json")
                elif not self.path.startswith(prefix) or (kind == "blobs" and name not in blobs):
                    self._send(
                        404,
                        b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}',
                        "application/json",
                    )
                elif kind == "manifests":
                    self._send(200, manifest, _MANIFEST)
                else:
                    self._send(200, blobs[name], "application/octet-stream")

            do_HEAD = do_GET

            def _send(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Content-Digest", digest_of(body))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def _entry(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": kind, "size": len(data), "digest": digest_of(data)}
