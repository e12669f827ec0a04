"""Steps of a stranger's Dockerfile against the closed network of a build."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from reprokit.engine import Engine, EngineVersion
from reprokit.errors import EngineError, ReprokitError
from reprokit.image import build as build_module
from reprokit.image.base.resolve import described
from reprokit.image.events import OutputLine
from reprokit.image.lock import supplies
from reprokit.supply.gateway import Gateway
from reprokit.supply.lock.model import Base, VariantLock
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.asking import ask
from tests.support.builds import Builds, root_file_system
from tests.support.names import unique

# What a step may try; each line ends in "reached" or "closed". ADDRESS and NAME are filled in.
PROBE = r"""
say() { if "${@:2}" >/dev/null 2>&1; then echo "$1 reached"; else echo "$1 closed"; fi; }
tcp() { timeout SECONDS bash -c "exec 3<>/dev/tcp/$1/$2"; }
say loopback tcp 127.0.0.1 LOOPBACK
say loopback6 tcp ::1 LOOPBACK
say bridge tcp BRIDGE 0PORT
say metadata tcp 169.254.169.254 80
say world tcp 192.0.2.1 80
say dns getent hosts example.org
say abstract perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack_sockaddr_un("\0NAME")) or die'
say sniffed perl -MSocket -e '
    socket(S, 17, SOCK_RAW, 0x0300) or die; $SIG{ALRM} = sub { exit 1 }; alarm SECONDS;
    while (sysread(S, $_, 65536)) { exit 0 if /NAME/ } die'
"""
# bash's own means: an answer of the gateway, to whom knows the password and to whom does not.
ASK = r"""
ask() { exec 3<>/dev/tcp/127.0.0.1/3128 && printf '%s\r\n' "$@" '' >&3 && head -1 <&3; }
auth="Proxy-Authorization: Basic $(p=${http_proxy#*//}; printf %s "${p%@*}" | base64 -w0)"
"""


class Host:
    """Services of this host, and words that pass over its loopback."""

    def __init__(self, bridge: str) -> None:
        self.name = f"reprokit{secrets.token_hex(6)}"
        self.loopback = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.bridge = socket.create_server((bridge, 0), backlog=100)
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0{self.name}")
        self.abstract.listen(100)
        self.probe = (
            PROBE.replace("LOOPBACK", str(self.loopback.getsockname()[1]))
            .replace("BRIDGE 0PORT", f"{bridge} {self.bridge.getsockname()[1]}")
            .replace("NAME", self.name)
            .replace("SECONDS", "3")
        )
        self._ended = threading.Event()
        threading.Thread(target=self._speak, daemon=True).start()

    def _speak(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not self._ended.wait(0.2):
                sender.sendto(self.name.encode(), ("127.0.0.1", 9))

    def close(self) -> None:
        self._ended.set()
        for each in (self.loopback, self.bridge, self.abstract):
            each.close()


@pytest.fixture
def host(engine: Engine) -> Iterator[Host]:
    config = engine.api.inspect_network("bridge")["IPAM"]["Config"][0]
    # An engine that has made its bridge at this start names no gateway: the bridge has the subnet's first address.
    made = Host(config.get("Gateway") or str(next(ip_network(config["Subnet"]).hosts())))
    yield made
    made.close()


@pytest.fixture
def builds(engine: Engine, bookworm, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Builds]:
    """Builds on Debian 12, which has bash and perl."""
    made = Builds(engine, bookworm.base.name, monkeypatch)
    yield made
    with contextlib.suppress(ReprokitError):
        engine.remove_image(f"reprokit/{made.target.label}", force=True)


@pytest.fixture
def locked(builds: Builds, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Builds:
    """The same from a lock that names nothing but the base."""
    name = builds.target.variant.base
    base = Base(reference=name, digest=f"sha256:{'0' * 64}")
    sections = dict.fromkeys(("base", "apt", "wheels", "git", "files", "conda"), "0" * 64)
    lock = VariantLock(reprokit="1", inputs=sections, python="3.11", glibc="2.36", machine="x86_64", base=base)
    monkeypatch.setattr(build_module, "fresh_lock", lambda target, rendered: lock)
    found = described(name, name, engine.image(name), "engine")
    monkeypatch.setattr(supplies, "locked_base", lambda *arguments: found)
    return builds


def said(builds: Builds) -> list[str]:
    return [event.line for event in builds.seen(OutputLine)]


def script(text: str) -> str:
    """As a RUN instruction of bash."""
    quoted = text.strip().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'RUN ["bash", "-c", "{quoted}"]\n'


def test_a_locked_build_reaches_nothing_of_this_host_or_beyond(locked: Builds, engine: Engine, host: Host):
    locked(script(host.probe))
    names = ["loopback", "loopback6", "bridge", "metadata", "world", "dns", "abstract", "sniffed"]
    assert said(locked) == [f"{name} closed" for name in names]
    patient = host.probe.replace("alarm 3", "alarm 60")
    config = {"Image": locked.target.variant.base, "Cmd": ["bash", "-c", patient]}
    free = engine.create_container(unique("probe"), {**config, "HostConfig": {"NetworkMode": "host"}})
    try:
        engine.start(free)
        found = b"".join(engine.logs(free, follow=True)).decode().splitlines()
    finally:
        engine.remove(free, force=True)
    assert {"loopback reached", "bridge reached", "abstract reached", "sniffed reached"} <= set(found)


def test_a_locked_build_reaches_its_gateway_which_refuses_the_rest(locked: Builds, host: Host):
    port = host.loopback.getsockname()[1]
    asked = [
        "CONNECT 169.254.169.254:80 HTTP/1.1",
        "CONNECT forge.test:443 HTTP/1.1",
        f"CONNECT 127.0.0.1:{port} HTTP/1.1",
        "GET http://169.254.169.254/latest/meta-data HTTP/1.1",
        f"GET http://127.0.0.1:{port}/ HTTP/1.1",
    ]
    lines = "".join(f'ask "{line}" "$auth"\n' for line in asked)
    locked(script(f'{ASK}{lines}ask "GET http://apt.reprokit.invalid/x HTTP/1.1"\n'))
    assert [line.split()[1] for line in said(locked)] == ["403"] * len(asked) + ["407"]
    host.loopback.settimeout(0.1)
    with pytest.raises(TimeoutError):
        host.loopback.accept()


def test_no_step_takes_the_gateways_place(locked: Builds):
    """Neither beside it, nor for a later step, nor by killing what forwards to it."""
    take = (
        "socket(S, AF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, $_, 1) for (SO_REUSEADDR, 15);"
        'bind(S, pack_sockaddr_in(3128, inet_aton("ADDRESS"))) && listen(S, 5) or die; print "taken\n"; fork || sleep 9'
    )
    attempt = "exec 2>/dev/null; perl -MSocket -e '{}' || echo kept; kill -9 -1; true"
    steps = "".join(script(attempt.format(take.replace("ADDRESS", each))) for each in ("127.0.0.1", "0.0.0.0"))
    locked(steps + script(f'{ASK}ask "GET http://x.test/ HTTP/1.1"; ask "GET http://x.test/ HTTP/1.1" "$auth"'))
    assert [line.split()[1] if "HTTP" in line else line for line in said(locked)] == ["kept", "kept", "407", "403"]


def test_connections_of_one_step_do_not_keep_the_next_from_the_gateway(locked: Builds):
    hold = "for n in $(seq 300); do exec {f}<>/dev/tcp/127.0.0.1/3128; done; echo held $n"
    locked(script(hold) + script(f'{ASK}ask "GET http://x.test/ HTTP/1.1" "$auth"'))
    assert said(locked)[0] == "held 300" and "403" in said(locked)[1]


def test_a_base_without_bash_is_built_in_the_closed_network_too(locked: Builds, engine: Engine, monkeypatch):
    name = unique("bare")
    engine.import_image(io.BytesIO(root_file_system()), name, "1", ["ENV PATH=/bin"])
    try:
        bare = described(name, f"{name}:1", engine.image(f"{name}:1"), "engine")
        monkeypatch.setattr(supplies, "locked_base", lambda *arguments: bare)
        locked("RUN ls /bin; cat /proc/net/dev\n")
        assert [line.split(":")[0].strip() for line in said(locked) if ":" in line] == ["lo"]
        assert "bash" not in said(locked) and "sh" in said(locked)
    finally:
        engine.remove_image(f"reprokit/{locked.target.label}", force=True)
        engine.remove_image(f"{name}:1", force=True)


@pytest.mark.parametrize("broken", ["start", "architecture"])
def test_without_a_closed_network_nothing_is_built(locked: Builds, engine: Engine, monkeypatch, broken: str):
    if broken == "start":
        monkeypatch.setattr(Engine, "start", failing)
    else:
        monkeypatch.setattr(Engine, "version", lambda self: EngineVersion(architecture="s390x"))
    with pytest.raises(EngineError) as error:
        locked("RUN true\n")
    assert error.value.exit_code == 3 and "\n" not in error.value.message
    assert engine.image(f"reprokit/{locked.target.label}") is None
    monkeypatch.undo()


def failing(self: Engine, container: str) -> None:
    raise EngineError("cannot start")


SO_RCVBUFFORCE = 33  # Python does not name it


@pytest.fixture
def loopback() -> Iterator[socket.socket]:
    """Every packet of this host's loopback."""
    if os.geteuid() != 0:
        pytest.skip("sniffing takes root")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sniffer:
        sniffer.bind(("lo", 0))
        sniffer.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)  # other tests are loud
        sniffer.settimeout(120)
        yield sniffer


def heard(sniffer: socket.socket, word: str) -> bool:
    """Whether any packet until now has it."""
    mark, found = secrets.token_bytes(16), False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(mark, ("127.0.0.1", 9))
    while mark not in (packet := sniffer.recv(1 << 17)):
        found = word.encode() in packet or found
    return found


def test_the_password_of_an_unlocked_build_does_not_pass_the_hosts_loopback(
    builds: Builds, loopback: socket.socket, tmp_path: Path
):
    builds(script(f'{ASK}echo "$auth"; ask "GET http://apt.reprokit.invalid/x HTTP/1.1" "$auth"'))
    authorization, answer = said(builds)
    assert "404" in answer
    assert not heard(loopback, authorization.split()[-1])
    # It would be seen where a gateway listens on the host itself.
    with Gateway(Mirrors(Store(tmp_path / "store"))) as gateway:
        ask(gateway, "http://apt.reprokit.invalid/x")
        assert heard(loopback, "Proxy-Authorization")
