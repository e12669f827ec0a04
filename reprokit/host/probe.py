"""Memory, free disk and driver of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ENGINE_ROOT = Path("/var/lib/docker")
_MEMINFO = Path("/proc/meminfo")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_MODULE = Path("/sys/module/nvidia/version")
_SMI_SECONDS = 5.0  # a card that fell off the bus makes nvidia-smi hang for minutes


def memory_bytes(meminfo: Path = _MEMINFO, cgroup_limit: Path = _CGROUP_LIMIT) -> int | None:
    """Total memory in bytes, a cgroup's limit where that is lower; None where the system does not say."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    total = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")), None)
    limit = _limit(cgroup_limit)
    return min(total, limit) if total is not None and limit is not None else total


def disk_free_bytes(path: Path = ENGINE_ROOT) -> int | None:
    """Bytes free to this user where `path` is or would be made; None where that cannot be asked."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def driver_version(command: str = "nvidia-smi", seconds: float = _SMI_SECONDS, module: Path = _MODULE) -> str | None:
    """The NVIDIA driver's version, None where there is none or it does not answer in time."""
    try:
        return module.read_text(encoding="ascii").strip() or None
    except OSError:
        pass
    try:
        answer = subprocess.run(
            [command, "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=seconds, check=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    lines = answer.stdout.split()
    return lines[0] if lines else None


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
