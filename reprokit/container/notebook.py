"""Serve Jupyter from a container until it ends or is interrupted."""

from __future__ import annotations

import io
import secrets
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace

from reprokit.container import jupyter, names
from reprokit.container.attach import Command, attach
from reprokit.container.lifecycle import ensure_running, usual_name
from reprokit.container.mounts import WORKSPACE
from reprokit.container.settings import ContainerSettings, RunOptions
from reprokit.container.spec import Port
from reprokit.engine import Engine
from reprokit.errors import UsageError, WorkFailed
from reprokit.recipe.find import Target

INSIDE = 8888
_TOKEN_FOLDER = "/tmp"
# The server reads its token once, from a file: arguments and labels show in `ps` and `docker inspect`, and the engine's
# debug log contains the environment of commands.
_SERVE = """
IFS= read -r JUPYTER_TOKEN < "$1" && rm -f "$1" || exit 1
export JUPYTER_TOKEN
export JUPYTER_PATH="$5/share/jupyter" JUPYTER_CONFIG_PATH="$5/etc/jupyter"
if [ -d "$5/share/jupyter/lab" ]; then export JUPYTERLAB_DIR="$5/share/jupyter/lab"; fi
exec python3 -m "$2" --ip="$3" --port="$4" --no-browser --allow-root --ServerApp.port_retries=0 \\
  --ServerApp.root_dir="$6"
"""


def serve(
    engine: Engine,
    target: Target,
    options: RunOptions,
    say: Callable[[str], None],
    ready: Callable[[str], None],
    write: Callable[[bytes], None],
) -> int:
    """Serve until the server ends; returns its exit code. `ready` gets the address with its token, `write` the log.

    The port is that of `options`, the one already published for Jupyter, or the first free one from 8888. Raises
    UsageError, EngineError, SourceError, WorkFailed.
    """
    name = options.name or usual_name(engine, target)
    found = engine.container(name)
    settings = names.settings_of(found["Config"]["Labels"]) if found else ContainerSettings()
    network = options.network or settings.network
    if network == "none":
        raise UsageError("Jupyter needs a network, and this container has none", name, "use --network bridge")
    published = next((p for p in settings.ports if p.container == INSIDE), None)
    port = next(iter(options.ports), None) or published or Port("127.0.0.1", _free_port(engine), INSIDE)
    on_host = network == "host"
    if on_host:
        port = Port("127.0.0.1", port.host, port.host)
    container = ensure_running(engine, target, replace(options, ports=() if on_host else (port,)), say)
    python = jupyter.probe(engine, container)
    if not python.application:
        jupyter.install(engine, container, python, say)
        python = jupyter.probe(engine, container)
    token = secrets.token_urlsafe(24)
    file = _put_token(engine, container, token)
    address = "127.0.0.1" if on_host else "0.0.0.0"
    arguments = [file, python.application, address, str(port.container), jupyter.FOLDER, WORKSPACE]
    command = Command(["sh", "-c", _SERVE, "jupyter", *arguments])
    shown = "127.0.0.1" if port.address in ("0.0.0.0", "::") else port.address
    base = f"http://[{shown}]:{port.host}" if ":" in shown else f"http://{shown}:{port.host}"
    page = "/lab" if python.application == "jupyterlab" else "/tree"
    ended = threading.Event()
    waiter = threading.Thread(
        target=_call_when_up, args=(base, ended, lambda: ready(f"{base}{page}?token={token}")), daemon=True
    )
    try:
        code = attach(
            engine,
            container,
            command,
            lambda is_stderr, data: write(data),
            lambda exec_id: waiter.start(),
            log_as=["jupyter"],
        )
    finally:
        ended.set()
    if code:
        raise WorkFailed(f"Jupyter ended with exit code {code}", container, f"`reprokit logs {container}` shows why")
    return code


def _put_token(engine: Engine, container: str, token: str) -> str:
    """Write the token to a file that only the server's user can read; returns its path."""
    uid, _, gid = (names.command_user(engine, container) or "0:0").partition(":")
    archive = io.BytesIO()
    name = f".reprokit-{secrets.token_hex(8)}"
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        data = f"{token}\n".encode()
        entry.size, entry.mode, entry.uid, entry.gid = len(data), 0o600, int(uid), int(gid or 0)
        tar.addfile(entry, io.BytesIO(data))
    engine.put_archive(container, _TOKEN_FOLDER, archive.getvalue())
    return f"{_TOKEN_FOLDER}/{name}"


def _call_when_up(base: str, ended: threading.Event, ready: Callable[[], None]) -> None:
    # Loopback needs no proxy, whatever the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while not ended.wait(0.2):
        try:
            opener.open(f"{base}/api", timeout=5).close()
        except (OSError, urllib.error.URLError):
            continue
        ready()
        return


def _free_port(engine: Engine) -> int:
    port = next((number for number in range(INSIDE, 65536) if engine.host.port_is_free(number)), None)
    if port is None:
        raise UsageError(f"no port from {INSIDE} on is free", hint="choose one with -p")
    return port
