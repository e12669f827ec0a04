"""The engine: reachable and recent, its storage, its isolation of containers, and its proxies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.bounded import NoAnswer
from reprokit.doctor.examined import Examined, NotAsked
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.shell import clipped
from reprokit.engine.failures import address, address_source, start_command
from reprokit.errors import ReprokitError
from reprokit.redact import redact

# reprokit is tested with this release and later ones.
_OLDEST = (20, 10)
_GOOD_STORAGE = ("overlay2", "overlayfs", "fuse-overlayfs", "btrfs", "zfs", "overlay")


def reachable(host: Examined) -> Iterator[Finding]:
    """Whether the engine answers, may be used and is recent enough."""
    where = redact(host.node or _address())
    subject = f"engine={where}"
    try:
        engine = host.connection.result()
    except NoAnswer as reason:
        restart = start_command(where).replace(" start ", " restart ")
        remedy = f"see its log (`journalctl -u docker`), then `{restart}`"
        yield error("engine.hangs", subject, f"the Docker Engine gives {reason}", remedy)
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
    api, version = clipped(engine.version().api), clipped(engine_info.version)
    source = "" if host.node else f", from {address_source()}"
    kind = "rootless" if engine_info.has_option("rootless") else "rootful"
    yield info("engine", f"engine={version or '?'}", f"{kind}, API {api or '?'}, at {where}{source}")
    release = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    if release and (int(release[1]), int(release[2])) < _OLDEST:
        tested = "reprokit is tested with Engine 20.10 and later"
        yield warning("engine.version", f"engine={version}", tested, "install a later Docker Engine")


def _address() -> str:
    try:
        return address()
    except Exception:  # Docker's settings may be damaged
        return "?"


def _has_systemd(host: Examined) -> bool:
    try:
        return bool(host.ask("command -v systemctl | say systemctl\n").first("systemctl"))
    except (NoAnswer, OSError):  # report the engine's own error instead
        return False


def _unreachable(host: Examined, where: str, reason: ReprokitError) -> Finding:
    stopped = "No such file" in reason.message or "Connection refused" in reason.message
    fix = start_command(where) if where.startswith("unix://") and stopped and _has_systemd(host) else ""
    rule = "engine.permission" if "may not" in reason.message else "engine.unreachable"
    return error(rule, f"engine={where}", clipped(reason.message), reason.hint or "start the engine", fix)


def storage(host: Examined) -> Iterator[Finding]:
    """The storage driver, and the file system below it."""
    engine_info = host.info()
    driver, status, root = clipped(engine_info.driver), engine_info.driver_status, clipped(engine_info.root)
    subject = f"engine.storage={driver or '?'}"
    file_system = clipped(status.get("Backing Filesystem", ""))
    yield info("storage", subject, f"at {root or '?'}{f' on {file_system}' if file_system else ''}")
    if driver and driver not in _GOOD_STORAGE:
        reason = "later engines no longer have this storage driver"
        if driver == "vfs":
            reason = "each layer is a complete copy: images need several times their size, and builds are slow"
        remedy = 'set "storage-driver": "overlay2" in /etc/docker/daemon.json and restart the engine (its images go)'
        yield warning("storage.driver", subject, reason, remedy)
    if status.get("Supports d_type") == "false":
        reason = "the file system has no d_type, so files that a layer removes stay visible"
        remedy = "make the file system anew (`mkfs.xfs -n ftype=1`), or move the engine's root folder"
        yield error("storage.d_type", subject, reason, remedy)


def isolation(host: Examined) -> Iterator[Finding]:
    """Whether the engine can limit containers."""
    engine_info = host.info()
    if not engine_info.limits_memory:
        version = clipped(engine_info.cgroup_version) or "1"
        reason = "the engine cannot limit a container's memory, so one that takes too much takes the machine down"
        remedy = "boot with the memory cgroup (`cgroup_enable=memory` on the kernel's command line), or use cgroup v2"
        yield warning("isolation.memory", f"engine.cgroup={version}", reason, remedy)
    if not engine_info.has_option("name=seccomp"):
        reason = "the engine runs containers without seccomp, so they may call more of the kernel"
        remedy = "use a kernel with CONFIG_SECCOMP, and remove `seccomp-profile` from /etc/docker/daemon.json"
        yield warning("isolation.seccomp", "engine.seccomp=none", reason, remedy)


def registry(host: Examined) -> Iterator[Finding]:
    """The engine pulls images through a proxy of its own settings."""
    if not host.info().has_proxy and host.ask("env | grep -iE '^https?_proxy=.' | say proxy\n").first("proxy"):
        reason = "this login uses a proxy and the engine does not: pulls fail if the proxy is the only way out"
        remedy = (
            "give the engine a proxy: HTTPS_PROXY in a drop-in of its service (`sudo systemctl edit docker`), then "
            "`sudo systemctl restart docker`"
        )
        yield warning("registry.proxy", "engine.proxy=no", reason, remedy)
