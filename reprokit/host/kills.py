"""Failures without an error message: out-of-memory kills, unkillable processes, lost GPUs.

Only files of the kernel are read, so that nothing hangs with a broken driver. Unreadable values are unknown.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from reprokit.explain.last import EXIT_CODE

_ROOT = Path("/")
_CONSTRAINT = re.compile(r"oom-kill:.*?(?:,task_memcg=(?P<group>[^,]*))?,task=(?P<name>.*),pid=(?P<pid>\d+),uid=\d+$")
_KILLED = re.compile(
    r"Killed process (?P<pid>\d+) \((?P<name>.*?)\),? (?:UID \d+, )?total-vm:\d+kB, anon-rss:(?P<rss>\d+)kB"
)
_ID = re.compile(r"[0-9a-f]{64}")
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_LARGEST = 1 << 16
_MOST_NAMED = 3
_MOST_RECORDS = 100_000
# A process that uses less of a processor than this share is waiting.
_IDLE_SHARE = 0.01


@dataclass(frozen=True)
class OomKill:
    """One record of the kernel. `pid` is the host's; `container` is the id in the name of the process's cgroup."""

    name: str
    pid: int
    container: str = ""
    rss_bytes: int = 0


class KernelWatch:
    """The kernel's counters while a command runs, from the start of the context."""

    def __init__(self, pid: int = 0, root: Path = _ROOT) -> None:
        """`pid` is the host's PID of a process of the command's container; `root` is the machine's `/`."""
        self._root, self._pid = root, pid
        self._before = self._count()
        self._gpus = _working_gpus(root)
        self._log = -1

    def __enter__(self) -> KernelWatch:
        with contextlib.suppress(OSError):
            self._log = os.open(self._root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def kills(self) -> int | None:
        """The number of processes killed since, in the container's cgroup, else on the machine; None if unknown."""
        now = self._count()
        return None if now is None or self._before is None else now - self._before

    def _count(self) -> int | None:
        return _group_kills(self._root, self._pid) if self._pid else _machine_kills(self._root)

    def records(self) -> list[OomKill]:
        """The kernel's own records since the last call; none if its log may not be read."""
        kills: dict[int, OomKill] = {}
        for text in _kernel_log(self._log) if self._log >= 0 else ():
            if match := _CONSTRAINT.search(text):
                ids = _ID.findall(match["group"] or "")
                kills[int(match["pid"])] = OomKill(match["name"], int(match["pid"]), ids[-1] if ids else "")
            elif match := _KILLED.search(text):
                pid = int(match["pid"])
                container = kills[pid].container if pid in kills else ""
                kills[pid] = OomKill(match["name"], pid, container, int(match["rss"]) << 10)
        return list(kills.values())

    def killed(self, container: str = "") -> tuple[str, int]:
        """The processes that the kernel killed in a container (its id) or on the machine, and the bytes of the largest.

        The processes are text, "" for none.
        """
        records = [record for record in self.records() if container in ("", record.container)]
        if records:
            names = ", ".join(f"{record.name} (PID {record.pid} of the host)" for record in records[:_MOST_NAMED])
            more = f" and {len(records) - _MOST_NAMED} more" if len(records) > _MOST_NAMED else ""
            return names + more, max(record.rss_bytes for record in records)
        count = self.kills() or 0
        return (f"{count} process{'es' if count > 1 else ''}" if count > 0 else ""), 0

    def signal_facts(self, code: int, local: bool = True) -> list[str]:
        """A line about an exit code that stands for a signal; not `local` if the command ran on another machine."""
        if code - 128 not in {int(s) for s in signal.Signals}:
            return []
        name = signal.Signals(code - 128).name
        nothing = ", and the kernel killed nothing for want of memory"
        return [f"{EXIT_CODE}{code} ({name}){nothing if local and name == 'SIGKILL' and self.kills() == 0 else ''}"]

    def lost_gpus(self) -> list[str]:
        """PCI addresses of GPUs that worked before and do not answer now."""
        return sorted(self._gpus - _working_gpus(self._root))


class ProcessorWatch(threading.Thread):
    """Watches how long a container's processes have used no processor."""

    def __init__(self, pid: int, root: Path = _ROOT, interval_s: float = 5.0) -> None:
        """`pid` is the host's PID of a process of the container."""
        super().__init__(daemon=True)
        self._pid, self._root, self._interval = pid, root, interval_s
        self._ended = threading.Event()
        self._busy = time.monotonic()
        self._used = _processor_s(root, pid)

    def run(self) -> None:
        while not self._ended.wait(self._interval):
            self._look()

    def idle_s(self) -> float:
        """Seconds since a processor was used; 0 if unknown."""
        self._look()
        return 0.0 if self._used is None else time.monotonic() - self._busy

    def end(self) -> None:
        self._ended.set()

    def _look(self) -> None:
        used = _processor_s(self._root, self._pid)
        if used is None or self._used is None or used - self._used > _IDLE_SHARE * self._interval:
            self._busy = time.monotonic()
        self._used = used


def _processor_s(root: Path, pid: int) -> float | None:
    """The processor seconds used by the cgroup of a process."""
    for line in _text(root / f"proc/{pid}/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if ".." in path.split("/"):
            continue
        if "cpuacct" in controllers.split(","):
            used = _text(root / f"sys/fs/cgroup/{controllers}{path}/cpuacct.usage").strip()
            return int(used) / 1e9 if used.isdecimal() else None
        if not controllers and (
            match := re.search(r"^usage_usec (\d+)$", _text(root / f"sys/fs/cgroup{path}/cpu.stat"), re.M)
        ):
            return int(match[1]) / 1e6
    return None


def in_group(pid: int, name: str, root: Path = _ROOT) -> bool:
    """Whether a process is in a cgroup whose name contains `name`."""
    return name in _text(root / f"proc/{pid}/cgroup")


def stuck(container: str, proc: Path = _ROOT / "proc") -> list[tuple[str, str]]:
    """Processes of a container (its id) that wait in the kernel and ignore signals, each with the kernel's function.

    They hang in a driver, for example. A slow disk looks the same for a moment.
    """
    processes = []
    for folder in proc.glob("[0-9]*"):
        # The name in parentheses may itself contain any character.
        name, _, fields = _text(folder / "stat").partition(" (")[2].rpartition(") ")
        if fields.startswith("D ") and container in _text(folder / "cgroup"):
            where = re.sub(r"\W", "", _text(folder / "wchan")).strip("0") or "unknown"
            processes.append((f"{name} (PID {folder.name} of the host)", where))
    return sorted(processes)


def _machine_kills(root: Path) -> int | None:
    match = re.search(r"^oom_kill (\d+)$", _text(root / "proc/vmstat"), re.MULTILINE)
    return int(match[1]) if match else None


def _group_kills(root: Path, pid: int) -> int | None:
    """The counter of the memory cgroup that a process is in."""
    for line in _text(root / f"proc/{pid}/cgroup").splitlines() if pid else ():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if ".." in path.split("/"):
            continue
        if controllers == "memory":
            file = root / f"sys/fs/cgroup/memory{path}/memory.oom_control"
        elif not controllers:
            file = root / f"sys/fs/cgroup{path}/memory.events"
        else:
            continue
        if match := re.search(r"^oom_kill (\d+)$", _text(file), re.MULTILINE):
            return int(match[1])
    return None


def _kernel_log(handle: int) -> Iterator[str]:
    """The kernel's records from the handle's position; each read returns one."""
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(handle, _LARGEST)
        except BrokenPipeError:  # a record was overwritten before it was read
            continue
        except OSError:  # the end
            return
        if not record:
            return
        for line in record.decode("utf-8", "replace").splitlines():
            yield line.partition(";")[2]


def _working_gpus(root: Path) -> set[str]:
    """PCI addresses of the NVIDIA GPUs that the driver lists and that answer on the bus."""
    addresses = set()
    with contextlib.suppress(OSError):
        for device in sorted((root / "sys/bus/pci/devices").iterdir()):
            kind = _text(device / "vendor").strip(), _text(device / "class")[: len(_DISPLAY)]
            driver = root / "proc/driver/nvidia/gpus" / device.name / "information"
            if kind == (_NVIDIA, _DISPLAY) and driver.exists() and _answers(device) and "GPU-?" not in _text(driver):
                addresses.add(device.name)
    return addresses


def _answers(device: Path) -> bool:
    """Whether a device answers: one that fell off the bus reads as ones."""
    try:
        with (device / "config").open("rb") as file:
            return file.read(4) != b"\xff\xff\xff\xff"
    except OSError:
        return False


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_LARGEST)
    except (OSError, ValueError):  # a zero byte in the path
        return ""
