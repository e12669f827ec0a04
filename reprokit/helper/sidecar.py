"""A closed network: a sidecar container's own, whose loopback leads to a socket of this process and nowhere else.

The sidecar has no network, and runs the helper program from an image that holds nothing else. Containers that join it
(`network_mode=container:ID`) see a loopback; what they send to `ADDRESS` the helper carries to a unix socket.
No address of this host is in reach, so no firewall matters, and neither does where the engine's own network is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import select
import socket
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from reprokit.engine import LABEL, Engine
from reprokit.engine.stream import CommandStream
from reprokit.errors import EngineError, ReprokitError
from reprokit.helper.program import program

# The port is that of HTTP proxies (squid). It is always the same, as the network is a new one each time.
ADDRESS = ("127.0.0.1", 3128)
ROLE = f"{LABEL}.sidecar"
_READY_S = 60
_STALE_S = 600
_BACKLOG = 128
_NOBODY = "65534:65534"


@dataclass(frozen=True)
class Network:
    """A network for containers: `name` is the engine's `NetworkMode`. What they send to `address` arrives at
    `listening`, a socket of this process."""

    name: str
    listening: socket.socket
    address: tuple[str, int]


@contextmanager
def closed_network(engine: Engine) -> Iterator[Network]:
    """A closed network inside the context. Raises EngineError where it cannot be had."""
    with TemporaryDirectory(prefix="reprokit-gateway-") as scratch:
        folder = Path(scratch) / "gateway"
        with _listen(folder) as listening, ExitStack() as stack:
            try:
                container = stack.enter_context(_sidecar(engine, folder))
            except ReprokitError as error:
                what = f"no closed network: {error.message}"
                raise EngineError(what, error.where or engine.url, "the engine's own log may say why") from None
            yield Network(f"container:{container}", listening, ADDRESS)


def _listen(folder: Path) -> socket.socket:
    """A socket in this new folder. The folder above keeps other users of this host out; in the sidecar anybody reaches
    it, so that the helper needs no rights and no matter how the engine maps user ids."""
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
    """The id of a sidecar that runs inside the context, and no longer than this process: the helper ends with its
    standard input."""
    _remove_stale(engine)
    container = engine.create_container(
        f"reprokit-sidecar-{secrets.token_hex(6)}", _configuration(_image(engine), folder)
    )
    try:
        with closing(engine.attach(container)) as connection:
            engine.start(container)
            _wait(connection)
            yield container
    finally:
        with suppress(ReprokitError):  # the engine may be at it already
            engine.remove(container, force=True)


def _wait(connection: CommandStream) -> None:
    """Raises EngineError unless the helper reports that it listens."""
    output = {False: b"", True: b""}
    if select.select([connection], [], [], _READY_S)[0]:
        for is_error, data in connection.frames():
            output[is_error] += data
            if output[False] == b"listening\n":
                return
    why = output[True].decode(errors="replace").strip() or "it reported nothing"
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
        # Who joins has the sidecar's name, and programs look up their own.
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


def _image(engine: Engine) -> str:
    """The id of an image that holds the helper alone. The same bytes are the same image, which stays for next time."""
    architecture = str(engine.version().get("Arch", ""))
    layer = _tar({"helper": program(architecture).read_bytes()})
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "created": "2000-01-01T00:00:00Z",
        "config": {"Labels": {"org.opencontainers.image.title": "reprokit's helper program"}},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        "history": [{"created": "2000-01-01T00:00:00Z", "created_by": "reprokit"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": ["layer.tar"]}]
    config = json.dumps(configuration).encode()
    files = {"layer.tar": layer, "config.json": config, "manifest.json": json.dumps(manifest).encode()}
    loaded = engine.load(iter([_tar(files)]))
    return loaded[0] if loaded else _digest(config)  # podman reports no id; there it is always the digest


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _remove_stale(engine: Engine) -> None:
    """Remove what processes left that were killed between creating a sidecar and starting it."""
    for container in engine.containers([ROLE]):
        if container.get("State") == "created" and time.time() - container.get("Created", 0) > _STALE_S:
            with suppress(ReprokitError):
                engine.remove(container["Id"])
