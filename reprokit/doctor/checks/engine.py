"""The engine: reachable, allowed, recent; and which of several it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.bounded import NoAnswer
from reprokit.doctor.examined import Examined, NotAsked, text, texts
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.shell import clipped
from reprokit.engine.failures import address, address_source, start_command
from reprokit.errors import ReprokitError
from reprokit.redact import redact

# reprokit is tested with this release and later ones.
_OLDEST = (20, 10)
_SOCKETS = """
for file in "$ROOT/var/run/docker.sock" "$ROOT/run/user/$(id -u)/docker.sock"; do
  [ -S "$file" ] && echo "${file#$ROOT}" | say socket
done
command -v systemctl | say systemctl
"""


def find(host: Examined) -> Iterator[Finding]:
    where = redact(host.node or _address())
    subject = f"engine={where}"
    try:
        engine = host.connection.result()
    except NoAnswer as reason:
        yield error(
            "engine.hangs", subject, f"the Docker Engine gives {reason}",
            f"see its log (`journalctl -u docker`), then `{start_command(where).replace(' start ', ' restart ')}`",
        )  # fmt: skip
        return
    except ReprokitError as reason:
        yield _unreachable(host, where, reason)
        return
    except Exception as reason:
        what = clipped(f"no Docker Engine can be asked: {type(reason).__name__}: {reason}")
        yield error("engine.unreachable", subject, what, "check $DOCKER_HOST and Docker's config.json")
        return
    try:
        engine_info = host.info()
    except NotAsked:
        remedy = "see its log (`journalctl -u docker`); is it a Docker Engine?"
        yield error("engine.info", subject, "an engine answers, but reports nothing about itself", remedy)
        return
    api = text(engine.version().get("ApiVersion"))
    version = text(engine_info.get("ServerVersion"))
    source = "" if host.node else f", from {address_source()}"
    rootless = any("rootless" in option for option in texts(engine_info.get("SecurityOptions")))
    kind = "rootless" if rootless else "rootful"
    yield info("engine", f"engine={version or '?'}", f"{kind}, API {api or '?'}, at {where}{source}")
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    if found and (int(found[1]), int(found[2])) < _OLDEST:
        yield warning(
            "engine.version", f"engine={version}", "reprokit is tested with Engine 20.10 and later",
            "install a later Docker Engine",
        )  # fmt: skip
    others = [f"unix://{socket}" for socket in host.ask(_SOCKETS).all("socket")]
    if not host.node and where in others and len(others) > 1:
        names = " and ".join(others)
        yield info("engine.several", f"engine={where}", f"images and containers of {names} are separate")


def _address() -> str:
    try:
        return address()
    except Exception:  # Docker's settings may be damaged in any way
        return "?"


def _has_systemd(host: Examined) -> bool:
    try:
        return bool(host.ask(_SOCKETS).one("systemctl"))
    except (NoAnswer, OSError):  # the engine's own error counts
        return False


def _unreachable(host: Examined, where: str, reason: ReprokitError) -> Finding:
    stopped = "No such file" in reason.message or "Connection refused" in reason.message
    can_start = where.startswith("unix://") and stopped and _has_systemd(host)
    rule = "engine.permission" if "may not" in reason.message else "engine.unreachable"
    return error(
        rule, f"engine={where}", clipped(reason.message), reason.hint or "start the engine",
        start_command(where) if can_start else "",
    )  # fmt: skip
