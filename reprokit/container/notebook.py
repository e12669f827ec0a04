"""Serve Jupyter from a container until it ends or is interrupted.

An image without Jupyter gets it from wheels that the host fetches, unpacked beside the image's packages.
"""

from __future__ import annotations

import http.client
import secrets
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from reprokit.container import names
from reprokit.container.attach import Command, attach
from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running, free_port, stop, usual_name
from reprokit.container.mounts import WORKSPACE
from reprokit.container.recreate import running_commands
from reprokit.container.settings import ContainerSettings, Port, RunOptions
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, UsageError, WorkFailed
from reprokit.recipe.find import Target
from reprokit.tarfiles import add, tar_of
from reprokit.untrusted.documents import understood, validated

INSIDE = 8888
_FOLDER = "/opt/reprokit-jupyter"
_APPLICATIONS = ("jupyterlab", "notebook", "jupyter_server")
_REQUIREMENTS = ("jupyterlab", "ipykernel")
_PROBE = f"""
import importlib.util, json, platform, sys
found = [m for m in {_APPLICATIONS!r} if importlib.util.find_spec(m)]
print(json.dumps({{"application": found[0] if found else "", "python": "%d.%d" % sys.version_info[:2],
  "libc": platform.libc_ver()[1], "machine": platform.machine(),
  "site": [p for p in sys.path if p.endswith(("/site-packages", "/dist-packages"))][-1]}}))
"""
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


def serve(engine: Engine, target: Target, options: RunOptions, ready: Callable[[str], None]) -> int:
    """Serve until the server ends; returns its exit code. `ready` gets the address with its token.

    The port is that of `options`, the one already published for Jupyter, or the first free one from 8888. At the end
    the container is stopped, which frees the port, unless other commands run in it. The server's output is in the
    container's log only: the addresses in it are the container's own. Raises UsageError, EngineError, SourceError,
    WorkFailed.
    """
    name = options.name or usual_name(engine, target)
    present = engine.container(name)
    settings = names.settings_of(present.labels) if present else ContainerSettings()
    network = options.network or settings.network
    if network == "none":
        raise UsageError("Jupyter needs a network, and this container has none", name, "use --network bridge")
    published = next((p for p in settings.ports if p.container == INSIDE), None)
    if present and published and not present.running and not engine.host.port_is_free(published.host):
        published = None
    port = next(iter(options.ports), None) or published or Port("127.0.0.1", free_port(engine, INSIDE), INSIDE)
    on_host = network == "host"
    if on_host:
        port = Port("127.0.0.1", port.host, port.host)
    container = ensure_running(engine, target, replace(options, ports=() if on_host else (port,)))
    try:
        return _serve(engine, container, port, on_host, ready)
    finally:
        if not on_host:
            with suppress(ReprokitError):  # must not hide the first error
                _free_port(engine, container, port)


def _serve(engine: Engine, container: str, port: Port, on_host: bool, ready: Callable[[str], None]) -> int:
    python = probe(engine, container)
    if not python.application:
        install(engine, container, python)
        python = probe(engine, container)
    token = secrets.token_urlsafe(24)
    file = _put_token(engine, container, token)
    address = "127.0.0.1" if on_host else "0.0.0.0"
    arguments = [file, python.application, address, str(port.container), _FOLDER, WORKSPACE]
    command = Command(["sh", "-c", _SERVE, "jupyter", *arguments], log_as=["jupyter"])
    shown = "127.0.0.1" if port.address in ("0.0.0.0", "::") else port.address
    base = f"http://[{shown}]:{port.host}" if ":" in shown else f"http://{shown}:{port.host}"
    page = "/lab" if python.application == "jupyterlab" else "/tree"
    notify(f"starting Jupyter in {container}; Ctrl-C ends it, `reprokit logs {container}` shows its output")
    ended = threading.Event()
    call = (base, ended, lambda: ready(f"{base}{page}?token={token}"))
    waiter = threading.Thread(target=_call_when_up, args=call, daemon=True)
    try:
        code = attach(engine, container, command, lambda *_: None, lambda exec_id: waiter.start())
    finally:
        ended.set()
    if code:
        raise WorkFailed(f"Jupyter ended with exit code {code}", container, f"`reprokit logs {container}` shows why")
    return code


def _free_port(engine: Engine, container: str, port: Port) -> None:
    """Stop the container: the engine publishes a port for as long as its container runs."""
    info = engine.container(container)
    if info and running_commands(engine, info):
        notify(f"port {port.host} stays in use: other commands run in {container}")
        return
    stop(engine, container)
    notify(f"stopped {container}, and port {port.host} is free; its files stay")


def _put_token(engine: Engine, container: str, token: str) -> str:
    """Write the token to a file that only the server's user can read; returns its path."""
    uid, _, gid = (names.command_user(engine, container) or "0:0").partition(":")
    name = f".reprokit-{secrets.token_hex(8)}"
    archive = tar_of({name: f"{token}\n".encode()}, 0o600, int(uid), int(gid or 0))
    engine.put_archive(container, _TOKEN_FOLDER, archive)
    return f"{_TOKEN_FOLDER}/{name}"


def _call_when_up(base: str, ended: threading.Event, ready: Callable[[], None]) -> None:
    address = urlsplit(base)
    while not ended.wait(0.2):
        # No proxy and no redirects: the server is in the container, and this process is not.
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=5)
        try:
            connection.request("GET", "/api")
            if connection.getresponse().status != http.HTTPStatus.OK:
                continue
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
        ready()
        return


class Python(BaseModel):
    """A container's `python3`: the Jupyter module it can import (or ""), version, glibc, machine, last site folder."""

    model_config = ConfigDict(strict=True, frozen=True)
    application: Literal["", "jupyterlab", "notebook", "jupyter_server"]
    python: str = Field(max_length=20)
    libc: str = Field(max_length=20)
    machine: str = Field(pattern=r"^\w{1,20}$")
    site: str = Field(pattern=r"^/[^\x00-\x1f]{1,1000}$")


def probe(engine: Engine, container: str) -> Python:
    """Raises WorkFailed if the container has no working python3."""
    answer = execute(engine, container, ["python3", "-c", _PROBE], logged=False)
    if answer.exit_code:
        raise WorkFailed("Jupyter needs python3 in the image", container, "add the block `python` to the recipe")
    with understood("what the container's python3 prints", container):
        return validated(Python, answer.stdout.splitlines()[-1], container)


def install(engine: Engine, container: str, python: Python) -> None:
    """Install Jupyter into the container. Raises SourceError if it cannot be fetched.

    A .pth file puts its folder last on Python's path, so that no dependency of Jupyter shadows a pinned package. The
    host fetches the wheels, so that the container needs neither network nor pip.
    """
    from reprokit.supply.fetch.pool import fetch_all
    from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
    from reprokit.supply.kinds.wheels.resolve import resolve_wheels
    from reprokit.supply.mirrors import Mirrors
    from reprokit.supply.store import Store

    notify("the image has no Jupyter: fetching it for this container (the image is not changed)")
    store = Store()
    mirrors = Mirrors(store)
    platform = Platform(python.python, python.libc or "2.28", python.machine)
    wheels = resolve_wheels(WheelRequest(_REQUIREMENTS, platform), mirrors)
    fetch_all([wheel.locked_input() for wheel in wheels], mirrors)
    with tempfile.TemporaryFile() as archive:
        _pack((store.path(w.sha256) for w in wheels), python.site, archive)
        archive.seek(0)
        engine.put_archive(container, "/", archive)


def _pack(wheels: Iterator[Path], site: str, archive: IO[bytes]) -> None:
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as opened:
                for entry in opened.infolist():
                    place = placed(entry.filename)
                    if place and not entry.is_dir():
                        # Executable: some packages start their own programs.
                        add(tar, f"{_FOLDER}/{place}", opened.read(entry), 0o755)
        add(tar, f"{site}/reprokit-jupyter.pth", f"{_FOLDER}/site\n".encode())


def placed(name: str) -> str:
    """The path of a wheel's file below _FOLDER, by the wheel format's `.data` folders; "" for unneeded files."""
    parts = name.split("/")
    if ".." in parts or name.startswith("/"):
        return ""
    if not parts[0].endswith(".data"):
        return f"site/{name}"
    path = "/".join(parts[2:])
    return {"purelib": f"site/{path}", "platlib": f"site/{path}", "data": path}.get(parts[1], "")
