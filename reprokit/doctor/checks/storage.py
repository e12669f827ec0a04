"""Where and how the engine keeps images."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined, pairs, text
from reprokit.doctor.findings import error, info, warning

_GOOD = ("overlay2", "overlayfs", "fuse-overlayfs", "btrfs", "zfs", "overlay")
_CHANGE = 'set "storage-driver": "overlay2" in /etc/docker/daemon.json and restart the engine (its images start anew)'


def find(host: Examined) -> Iterator[Finding]:
    engine_info = host.info()
    driver, status = text(engine_info.get("Driver")), pairs(engine_info.get("DriverStatus"))
    subject = f"engine.storage={driver or '?'}"
    behind = status.get("Backing Filesystem", "")
    root = text(engine_info.get("DockerRootDir"))
    yield info("storage", subject, f"at {root or '?'}{f' on {behind}' if behind else ''}")
    if driver == "vfs":
        reason = "each layer is a complete copy: images need several times their size, and builds are slow"
        yield warning("storage.driver", subject, reason, _CHANGE)
    elif driver and driver not in _GOOD:
        yield warning("storage.driver", subject, "later engines no longer have this storage driver", _CHANGE)
    if status.get("Supports d_type") == "false":
        reason = "the file system has no d_type, so files that a layer removes stay visible"
        remedy = "make the file system anew (`mkfs.xfs -n ftype=1`), or move the engine's root folder"
        yield error("storage.d_type", subject, reason, remedy)
