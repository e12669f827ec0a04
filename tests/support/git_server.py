"""A git server over HTTP that can ask for a password and cut its answers: git's own backend behind a handler."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# The variables in which git's backend reads headers.
_HEADERS = {
    "CONTENT_TYPE": "Content-Type", "HTTP_CONTENT_ENCODING": "Content-Encoding", "GIT_PROTOCOL": "Git-Protocol",
}  # fmt: skip


class GitServer:
    """Serves the repositories below `root`. The next `cuts` packs are cut after `cut_after` bytes.

    With a `password`, it answers only requests of the user `me` with that password.
    """

    def __init__(self, root: Path, password: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.cuts = 0
        self.cut_after = 0
        self.packs: list[int] = []  # sizes of the answers that were sent whole
        login = "Basic " + base64.b64encode(f"me:{password}".encode()).decode()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if password and self.headers.get("Authorization") != login:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="git"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                path, _, query = self.path.partition("?")
                environ = {**os.environ, "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1"}
                environ |= {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command}
                environ |= {name: self.headers.get(header, "") for name, header in _HEADERS.items()}
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                done = subprocess.run(["git", "http-backend"], input=body, env=environ, capture_output=True)
                head, _, answer = done.stdout.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
                self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                if b"PACK" in answer and outer.cuts and len(answer) > outer.cut_after:
                    outer.cuts -= 1
                    self.wfile.write(answer[: outer.cut_after])
                    self.close_connection = True
                    return
                if b"PACK" in answer:
                    outer.packs.append(len(answer))
                self.wfile.write(answer)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.scheme = "https" if tls else "http"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"
