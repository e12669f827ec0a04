"""An engine, a base of a few files, and builds of small Dockerfiles; what they make is removed afterwards."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image.made import step_name
from tests.support.builds import Builds, root_file_system
from tests.support.names import unique


@pytest.fixture(scope="session")
def base(engine: Engine) -> Iterator[str]:
    """The name of a small base image."""
    name = unique("build-base")
    engine.import_image(io.BytesIO(root_file_system()), name, "1", ["ENV PATH=/bin"])
    yield f"{name}:1"
    engine.remove_image(f"{name}:1", force=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # No earlier run had it: names of steps have the folder's hash, and an engine may still have those of a killed run.
    folder = tmp_path / unique("home")
    monkeypatch.setenv("REPROKIT_HOME", str(folder))
    return folder


@pytest.fixture
def builds(engine: Engine, base: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Builds]:
    made = Builds(engine, base, monkeypatch)
    yield made
    names = [f"reprokit/{made.target.label}{suffix}" for suffix in ("", "--failed")]
    names += [name for each in engine.images([]) for name in each.names if name.startswith(step_name(""))]
    for name in names:
        with suppress(ReprokitError):
            engine.remove_image(name, force=True)


@pytest.fixture
def inside(engine: Engine) -> Callable[[str, str], str]:
    """`inside(image, command)`: what the command prints in a container of the image."""

    def run(image: str, command: str) -> str:
        name = unique("build")
        container = engine.create_container(name, {"Image": image, "Cmd": ["sh", "-c", command]})
        try:
            engine.start(container)
            return b"".join(engine.logs(container, follow=True)).decode()
        finally:
            engine.remove(container, force=True)

    return run


@pytest.fixture(scope="session")
def served(tmp_path_factory) -> Iterator[tuple[Path, int]]:
    """A folder and the port at which 127.0.0.2 serves it, an address that builds reach through their gateway."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "notes.txt").write_text("notes of the paper\n")
    server = ThreadingHTTPServer(("127.0.0.2", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, server.server_port
    server.shutdown()
