"""An HTTP server with chosen answers."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from reprokit.supply.site import span


class Upstream:
    """A plain HTTP server that records requests and gives the answers of `answers`; their `ranges`, if set."""

    def __init__(self) -> None:
        self.ranges = False
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
                if outer.ranges and (part := span(self.headers.get("Range", ""), len(answer))) not in (
                    None,
                    (0, len(answer)),
                ):
                    headers = {**headers, "Content-Range": f"bytes {part[0]}-{part[1] - 1}/{len(answer)}"}
                    status, answer = 206, answer[part[0] : part[1]]
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
