"""What a container that serves a notebook answers: its server, and its `python3`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from reprokit.container import notebook
from reprokit.container.execute import Completed
from reprokit.errors import SourceError
from tests.support.upstream import Upstream

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A service of this host."""
    server = Upstream()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.mark.parametrize(
    "first",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/metadata\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"",
    ],
    ids=["nonsense", "line", "headers", "redirect", "404", "closed"],
)
@pytest.mark.slow
def test_a_server_is_asked_again_until_it_answers_itself(upstream: Upstream, first: bytes):
    upstream.answers["/metadata"] = (200, {}, b"secret")
    answers = [first % upstream.port if b"%d" in first else first, ANSWER]
    ended, called = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answers.pop(0))

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        asking = threading.Thread(
            target=notebook._call_when_up,
            args=(f"http://127.0.0.1:{server.getsockname()[1]}", ended, called.set),
            daemon=True,
        )
        asking.start()
        assert called.wait(120) and not answers
        ended.set()
    assert upstream.requests == []


GOOD = {
    "application": "jupyterlab",
    "python": "3.11",
    "libc": "2.36",
    "machine": "x86_64",
    "site": "/usr/site-packages",
}


@pytest.mark.parametrize(
    "changed",
    [{"application": "os"}, {"application": ["a"]}, {"python": 3.11}, {"libc": None}, {"machine": "x\n"},
     {"site": {"a": 1}}, {"site": "relative"}, {"site": "/" + "x" * 2000}],
)  # fmt: skip
def test_what_python3_prints_is_checked(monkeypatch: pytest.MonkeyPatch, changed: dict):
    def answers(found: object) -> None:
        done = Completed(0, f"noise\n{json.dumps(found)}\n")
        monkeypatch.setattr(notebook, "execute", lambda *words, **options: done)

    answers(GOOD)
    assert notebook.probe(None, "c").site == GOOD["site"]  # type: ignore[arg-type]
    answers({**GOOD, **changed})
    with pytest.raises(SourceError, match="what the container's python3 prints is not valid"):
        notebook.probe(None, "c")  # type: ignore[arg-type]
