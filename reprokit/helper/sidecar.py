"""A closed network: that of a sidecar container, whose loopback leads to a socket of this process and nowhere else.

The sidecar has no network, and runs the helper program from an image that contains nothing else. Containers that join
it (`network_mode=container:ID`) have only a loopback; the helper forwards connections to `ADDRESS` to a unix socket. No
address of this host is reachable, whatever its firewall and the engine's own network are.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from reprokit.engine import LABEL, OWN_IMAGES, Engine
from reprokit.engine.stream import CommandStream
from reprokit.errors import EngineError, ReprokitError
from reprokit.helper.program import program
from reprokit.tarfiles import tar_of

# The usual port of HTTP proxies. It is constant, as each network is new.
ADDRESS = ("127.0.0.1", 3128)
ROLE = f"{LABEL}.sidecar"
_READY_S = 60
_STALE_S = 600
_BACKLOG = 128
_NOBODY = "65534:65534"


@dataclass(frozen=True)
class Network:
    """A network for containers: `name` is the engine's `NetworkMode`.

    Connections to `address` arrive at `listening`, a socket of this process.
    """

    name: str
    listening: socket.socket
    address: tuple[str, int]


@contextmanager
def closed_network(engine: Engine) -> Iterator[Network]:
    """A closed network for the duration of the context. Raises EngineError where it cannot be created."""
    with TemporaryDirectory(prefix="reprokit-gateway-") as scratch:
        folder = Path(scratch) / "gateway"
        with _listen(folder) as listening, ExitStack() as stack:
            try:
                container = stack.enter_context(_sidecar(engine, folder))
            except ReprokitError as error:
                what = f"no closed network: {error.message}"
                raise EngineError(what, error.where or engine.url, "the engine's own log may say why") from None
            yield Network(f"container:{container}", listening, ADDRESS)


def joined(engine: Engine, network: str) -> list[str]:
    """The IDs of the containers in a closed network, without its sidecar; none for other networks."""
    if not network.startswith("container:"):
        return []
    return [each["Id"] for each in engine.containers([]) if each["HostConfig"].get("NetworkMode") == network]


def _listen(folder: Path) -> socket.socket:
    """A socket in this new folder, whose parent keeps other users of this host out.

    In the sidecar everyone may connect, so the helper needs no rights, however the engine maps user ids.
    """
    folder.mkdir()
    handle = os.open(folder, os.O_PATH)
    try:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(f"/proc/self/fd/{handle}/socket")  # $TMPDIR may be longer than the 107 bytes of an address
    finally:
        os.close(handle)
    (folder / "socket").chmod(0o666)
    folder.chmod(0o711)
    listening.listen(_BACKLOG)
    return listening


@contextmanager
def _sidecar(engine: Engine, folder: Path) -> Iterator[str]:
    """Run a sidecar for the duration of the context; yields its id.

    It ends with this process, because the helper ends with its standard input.
    """
    _remove_stale(engine)
    container = engine.create_container(
        f"reprokit-sidecar-{secrets.token_hex(6)}", _configuration(helper_image(engine), folder)
    )
    try:
        with closing(engine.attach(container)) as connection:
            engine.start(container)
            _wait(connection)
            yield container
    finally:
        with suppress(ReprokitError):  # the engine may be removing it already
            engine.remove(container, force=True)


def _wait(connection: CommandStream) -> None:
    """Raises EngineError unless the helper reports that it listens."""
    output = {False: b"", True: b""}
    if select.select([connection], [], [], _READY_S)[0]:
        for is_error, data in connection.frames():
            output[is_error] += data
            if output[False] == b"listening\n":
                return
    why = output[True].decode(errors="replace").strip() or "no message"
    raise EngineError(f"the sidecar container does not listen: {why}")


def _configuration(image: str, folder: Path) -> dict[str, object]:
    host = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", "label=disable"],
        "Mounts": [{"Type": "bind", "Source": str(folder), "Target": "/gateway", "ReadOnly": True}],
        "LogConfig": {"Type": "none"},
        "Init": False,
        "AutoRemove": True,
        # Containers that join have the sidecar's host name, and programs look up their own.
        "ExtraHosts": ["reprokit:127.0.0.1"],
    }
    streams = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "OpenStdin": True, "StdinOnce": True}
    return {
        "Image": image,
        "Hostname": "reprokit",
        "Entrypoint": ["/helper"],
        "Cmd": ["forward", str(ADDRESS[1]), "/gateway/socket"],
        "User": _NOBODY,
        "Labels": {ROLE: "gateway"},
        "HostConfig": host,
        **streams,
    }


def helper_image(engine: Engine) -> str:
    """Load an image that contains only the helper; returns its ID. It is kept: equal bytes are the same image."""
    architecture = str(engine.version().get("Arch", ""))
    layer = tar_of({"helper": program(architecture).read_bytes()}, 0o755)
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "created": "2000-01-01T00:00:00Z",
        "config": {"Labels": {"org.opencontainers.image.title": "reprokit's helper program"}},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        "history": [{"created": "2000-01-01T00:00:00Z", "created_by": "reprokit"}],
    }
    config = json.dumps(configuration).encode()
    # An image without a name would be listed as a leftover, and pruned.
    name = f"{OWN_IMAGES}/helper:{_digest(config)[7:19]}"
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"layer.tar": layer, "config.json": config, "manifest.json": json.dumps(manifest).encode()}
    engine.load(iter([tar_of(files)]))
    return str((engine.image(name) or {}).get("Id", _digest(config)))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _remove_stale(engine: Engine) -> None:
    """Remove sidecars of processes that were killed between creating and starting one."""
    for container in engine.containers([ROLE]):
        if container.get("State") == "created" and time.time() - container.get("Created", 0) > _STALE_S:
            with suppress(ReprokitError):
                engine.remove(container["Id"])
