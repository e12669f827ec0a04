"""Kills for want of memory and lost GPUs, from the kernel's files, below a folder that stands for `/`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.host import kills
from reprokit.host.kills import KernelWatch, OomKill, ProcessorWatch, in_group, stuck
from tests.support.waiting import wait_for

ID = "0a916aab1ba7d20e2ad03718fbe09f7f1a7076a6e5869e6cafd16b3bb47450e3"
OTHER = "ff" * 32
RECORD = (
    "6,1,{time},-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={id},mems_allowed=0,"
    "oom_memcg=/docker/{id},task_memcg=/docker/{id},task={name},pid={pid},uid=0\n"
    "3,2,{time},-;Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:99kB, anon-rss:2048kB, uid:0\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with cgroup v1, whose process 7 is in a container."""
    put(tmp_path, "proc/vmstat", "nr_free_pages 1\noom_kill 5\noom_kill_x 9\n")
    put(tmp_path, "proc/7/cgroup", f"9:cpuset:/docker/{ID}\n4:memory:/docker/{ID}\n0::/\n")
    put(tmp_path, f"sys/fs/cgroup/memory/docker/{ID}/memory.oom_control", "oom_kill_disable 0\noom_kill 2\n")
    put(tmp_path, "dev/kmsg", RECORD.format(time=1, id=ID, name="earlier", pid=1))
    return tmp_path


def put(root: Path, name: str, text: str, mode: str = "w") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    with (root / name).open(mode) as file:
        file.write(text)


def test_the_containers_own_counter_counts(root: Path):
    with KernelWatch(7, root) as watch:
        put(root, "proc/vmstat", "oom_kill 9\n")
        assert watch.kills() == 0
        assert watch.signal_facts(137) == [
            "reprokit: exit code 137 (SIGKILL), and the kernel killed nothing for want of memory"
        ]
        put(root, f"sys/fs/cgroup/memory/docker/{ID}/memory.oom_control", "oom_kill 4\n")
        assert watch.kills() == 2
        assert watch.killed(ID) == ("2 processes", 0)
        assert watch.signal_facts(137) == ["reprokit: exit code 137 (SIGKILL)"]


def test_another_process_of_the_number_is_not_the_containers(root: Path):
    assert in_group(7, ID, root)
    put(root, "proc/8/cgroup", "0::/user.slice/session-1.scope\n")
    assert not in_group(8, ID, root) and not in_group(9, ID, root)


def test_cgroup_2(root: Path):
    put(root, "proc/7/cgroup", "0::/system.slice/docker-x.scope\n")
    events = "sys/fs/cgroup/system.slice/docker-x.scope/memory.events"
    put(root, events, "low 0\noom 3\noom_kill 1\noom_group_kill 0\n")
    with KernelWatch(7, root) as watch:
        put(root, events, "oom_kill 2\n")
        assert watch.killed() == ("1 process", 0)


def test_new_records_of_the_kernel_name_the_process(root: Path):
    with KernelWatch(7, root) as watch:
        put(root, "dev/kmsg", "6,3,4,-;usb 1-1: new device\n", "a")
        put(root, "dev/kmsg", RECORD.format(time=5, id=ID, name="py) x", pid=31), "a")
        put(root, "dev/kmsg", RECORD.format(time=6, id=OTHER, name="other", pid=32), "a")
        assert watch.killed(ID) == ("py) x (PID 31 of the host)", 2 << 20)
        assert watch.records() == []


def test_many_records_are_counted(root: Path):
    with KernelWatch(7, root) as watch:
        put(root, "dev/kmsg", "".join(RECORD.format(time=5, id=ID, name="cc1plus", pid=n) for n in range(40, 50)), "a")
        assert watch.records()[0] == OomKill("cc1plus", 40, ID, 2 << 20)
        put(root, "dev/kmsg", "".join(RECORD.format(time=5, id=ID, name="cc1plus", pid=n) for n in range(50, 55)), "a")
        assert watch.killed()[0].endswith("cc1plus (PID 52 of the host) and 2 more")


def test_a_gpu_that_no_longer_answers_is_lost(root: Path):
    for number, vendor in enumerate(("0x10de", "0x10de", "0x10de", "0x1234")):
        device = f"sys/bus/pci/devices/0000:0{number}:00.0"
        put(root, f"{device}/vendor", f"{vendor}\n")
        put(root, f"{device}/class", "0x030200\n" if number != 2 else "0x040300\n")
        put(root, f"{device}/config", "abcdefgh")
        put(root, f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information", "GPU UUID: GPU-1\n")
    with KernelWatch(7, root) as watch:
        assert watch.lost_gpus() == []
        (root / "sys/bus/pci/devices/0000:00:00.0/config").write_bytes(b"\xff" * 64)
        put(root, "proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: GPU-????????\n")
        assert watch.lost_gpus() == ["0000:00:00.0", "0000:01:00.0"]


@pytest.mark.parametrize("spoil", ["nothing", "rubbish", "pipes"])
def test_what_cannot_be_read_is_unknown(root: Path, tmp_path: Path, spoil: str):
    for file in ("proc/vmstat", "proc/7/cgroup", "dev/kmsg"):
        (root / file).unlink()
        if spoil == "rubbish":
            (root / file).write_bytes(os.urandom(5000) + b"\n:::\n0::/\0\n4:memory:/../../x\noom_kill many\n")
    if spoil == "pipes":
        os.mkfifo(root / "dev/kmsg")
    with KernelWatch(7, root) as watch:
        assert watch.kills() is None and watch.records() == [] and watch.killed() == ("", 0)
        assert watch.signal_facts(137) == ["reprokit: exit code 137 (SIGKILL)"]


def test_without_a_container_the_machine_counts_and_only_signals_are_facts(root: Path):
    with KernelWatch(0, root) as watch:
        put(root, "proc/vmstat", "oom_kill 6\n")
        assert watch.kills() == 1
        assert [code for code in (0, 1, 127, 128, 134, 139, 255) if watch.signal_facts(code)] == [134, 139]


# The kernel lets no signal but SIGKILL end a process whose vfork()ed child has neither ended nor called exec().
VFORK = "import ctypes, time; ctypes.CDLL(None).vfork() or time.sleep(60)"


def test_a_process_that_waits_inside_the_kernel_is_stuck():
    with subprocess.Popen([sys.executable, "-c", VFORK], start_new_session=True) as process:
        try:
            name = f"{Path(sys.executable).name} (PID {process.pid} of the host)"
            found: list[tuple[str, str]] = []
            wait_for(lambda: found.extend(each for each in stuck("/") if each[0] == name) or found)
            assert found[0][1]
            assert not [what for what, _ in stuck("f" * 64) if what == name]
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_what_a_process_calls_itself_is_no_state(tmp_path: Path):
    for pid, (name, state) in {"7": ("a) D 1 (b", "S"), "8": (") S 1 (", "D"), "9": ("x", "D")}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "stat").write_text(f"{pid} ({name}) {state} 1 1 1")
        (tmp_path / pid / "cgroup").write_text("0::/docker/" + ("ab" * 32 if pid != "9" else "cd" * 32))
        (tmp_path / pid / "wchan").write_text("nvidia_\x1b[2Jioctl")
    assert stuck("ab" * 32, tmp_path) == [(") S 1 ( (PID 8 of the host)", "nvidia_2Jioctl")]


@pytest.mark.parametrize(
    ("group", "file", "unit"),
    [
        (f"4:cpu,cpuacct:/docker/{ID}\n", f"cpu,cpuacct/docker/{ID}/cpuacct.usage", "{}000000000\n"),
        ("0::/system.slice/docker-x.scope\n", "system.slice/docker-x.scope/cpu.stat", "usage_usec {}000000\n"),
    ],
)
def test_how_long_no_processor_was_used(tmp_path: Path, monkeypatch, group: str, file: str, unit: str):
    now = [100.0]
    monkeypatch.setattr(kills.time, "monotonic", lambda: now[0])
    put(tmp_path, "proc/7/cgroup", group)
    put(tmp_path, f"sys/fs/cgroup/{file}", unit.format(3))
    processor = ProcessorWatch(7, tmp_path)
    now[0] = 160.0
    assert processor.idle_s() == 60
    put(tmp_path, f"sys/fs/cgroup/{file}", unit.format(9))
    assert processor.idle_s() == 0
    assert ProcessorWatch(8, tmp_path).idle_s() == 0  # not known
