"""The machine and its login: a recipe's needs, memory, disks, processors, kernel, clock, locale, limits."""

from __future__ import annotations

import re
import shlex
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from functools import partial

from reprokit import paths
from reprokit.compat.model import Finding
from reprokit.doctor.bounded import NoAnswer
from reprokit.doctor.examined import Examined, NotAsked
from reprokit.doctor.findings import error, info, unknown, warning
from reprokit.doctor.gpus import GpuState
from reprokit.doctor.shell import clipped
from reprokit.formatting import binary_size
from reprokit.host.disk import ENGINE_HINT, ENGINE_ROOT, STORE_HINT
from reprokit.host.fit import recipe_findings
from reprokit.host.memory import memory_of
from reprokit.host.mounts import own_container
from reprokit.installation import other_command

_MEMORY = """
grep -E '^(MemTotal|MemAvailable|SwapTotal):' "$ROOT/proc/meminfo" 2>/dev/null | say meminfo
cat "$ROOT/sys/fs/cgroup/memory.max" 2>/dev/null | say limit
"""
_SMALL_MEMORY = 8 << 30  # about the memory of four compilers of CUDA or of C++ templates
_DISK = """
folder={folder}
while [ ! -e "$folder" ] && [ "$folder" != / ]; do folder=$(dirname "$folder"); done
LC_ALL=C df -P -k "$folder" 2>/dev/null | tail -n +2 | say kilobytes
LC_ALL=C df -P -i "$folder" 2>/dev/null | tail -n +2 | say inodes
"""
_LITTLE_DISK = 10 << 30  # about the size of an image with CUDA and torch
_FULL_DISK = 64 << 20
_FEW_INODES = 10_000  # an image has some 10 000 files
_CPU = """
nproc 2>/dev/null | say threads
sed -n 's/^model name[^:]*: *//p' "$ROOT/proc/cpuinfo" 2>/dev/null | head -n 1 | say model
for file in "$ROOT"/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
  [ -r "$file" ] && read -r governor <"$file" && echo "$governor"
done | sort -u | say governor
cut -d ' ' -f 1 "$ROOT/proc/loadavg" 2>/dev/null | say load
"""
_KERNEL = """
uname -r | say release
uname -m | say machine
grep -w overlay "$ROOT/proc/filesystems" 2>/dev/null | say overlay
cat "$ROOT/proc/filesystems" 2>/dev/null | head -n 1 | say known
modinfo overlay 2>/dev/null | head -n 1 | say overlay
"""
_OLDEST_KERNEL = (4, 18)  # for overlay2 on all file systems, and for the glibc of current bases
_MOST_AHEAD_S = 5.0
_LOCALE = """
echo "${LC_ALL:-${LC_CTYPE:-${LANG:-}}}" | say name
locale 2>&1 >/dev/null | grep -i cannot | say complaint
locale charmap 2>/dev/null | say charmap
"""
# By name in /proc/self/limits: rule, option of ulimit, minimum, and what fails below it.
_LIMITS = {
    "Max open files": ("files", "n", 1024, "downloads and parallel builds open many files"),
    "Max processes": ("processes", "u", 1024, "parallel builds start many processes"),
    "Max file size": ("file_size", "f", 64 << 30, "layers, bundles and data sets are large files"),
    "Max address space": ("address_space", "v", 64 << 30, "CUDA and Python reserve large ranges of addresses"),
}


def recipe(host: Examined) -> Iterator[Finding]:
    """The machine against a recipe's requirements, by the rules of `check`."""
    if host.target is None:
        return
    try:
        root = clipped(host.info().root)
        cdi = bool(host.engine().cdi_devices(host.info()))
    except NotAsked:
        root, cdi = "", False
    try:
        state: GpuState | None = host.gpus()
    except NotAsked:  # the check `gpu` reports that
        state = None
    has_gpu = state is None or cdi or bool(state.devices or state.gpus)
    judge = partial(recipe_findings, host.target.variant, has_gpu, state.smi.known_gpus if state else ())
    # A program that hangs must not hide the findings of the others.
    sizes: list[int | None] = [None, None]
    findings = judge(*sizes)
    yield from findings
    silent: NoAnswer | None = None
    for number, ask in enumerate((partial(memory_bytes, host), partial(free_bytes, host, root or ENGINE_ROOT))):
        try:
            sizes[number] = ask()
        except NoAnswer as error:
            silent = error
        more = [finding for finding in judge(*sizes) if finding not in findings]
        yield from more
        findings += more
    if silent:
        raise silent
    if not findings:
        yield info("recipe", f"recipe={host.target.label}", "this machine has what the recipe requires")


def memory_bytes(host: Examined) -> int | None:
    """Bytes of memory, as `check` counts them; None if unknown."""
    answer = host.ask(_MEMORY)
    return memory_of(answer.all("meminfo"), answer.first("limit"))


def memory(host: Examined) -> Iterator[Finding]:
    """Memory and swap, for a recipe if one is named."""
    answer = host.ask(_MEMORY)
    total = memory_of(answer.all("meminfo"), answer.first("limit"))
    if total is None:
        return
    lines = [re.fullmatch(r"(\w+): +(\d{1,15}) kB", line) for line in answer.all("meminfo")]
    sizes = {match[1]: int(match[2]) * 1024 for match in lines if match}
    free, swap = sizes.get("MemAvailable"), sizes.get("SwapTotal")
    parts = [*([f"{binary_size(free)} available"] if free is not None else [])]
    parts.append(f"{binary_size(swap)} of swap" if swap else "no swap")
    subject = f"host.memory={binary_size(total)}"
    yield info("memory", subject, ", ".join(parts))
    if not swap and total < _SMALL_MEMORY:
        reason = "little memory and no swap: the kernel kills compilers that run in parallel"
        remedy = "add swap (`sudo fallocate -l 8G /swapfile`, mkswap, swapon), or build with fewer jobs: MAX_JOBS=1"
        yield warning("memory.swap", subject, reason, remedy)
    if host.target is None:
        return
    needs, shm, label = host.target.variant.requires.memory, host.target.variant.shm, host.target.label
    if free is not None and free < needs <= total:
        subject = f"host.memory_available={binary_size(free)}"
        reason = f"{label} needs {binary_size(needs)}, and other programs use the memory"
        yield warning("memory.available", subject, reason, "end what uses it: `top -o %MEM`")
    if shm and shm > total:
        reason = f"/dev/shm of {label} is larger than the memory that it takes from"
        yield warning("memory.shm", f"shm={binary_size(shm)}", reason, "give a smaller one: `--shm-size`")


def disk(host: Examined) -> Iterator[Finding]:
    """Free space and inodes of the folders of the engine, of reprokit and for temporary files."""
    folders = {} if host.node else {"store": str(paths.home()), "tmp": tempfile.gettempdir()}
    try:
        root = clipped(host.info().root)
    except NotAsked:
        root = ""
    for use, folder in ({"engine": root, **folders} if root else folders).items():
        yield from _folder(host, use, folder)


def _folder(host: Examined, use: str, folder: str) -> Iterator[Finding]:
    answer = host.ask(_DISK.format(folder=shlex.quote(folder)))
    kilobytes, inodes = _counts(answer.first("kilobytes")), _counts(answer.first("inodes"))
    hint = (ENGINE_HINT if use == "engine" else STORE_HINT).format(amount="space")
    if kilobytes is None:
        yield unknown("disk", f"disk.{use}={folder}", "its free space cannot be read", f"look at it: `df {folder}`")
        return
    free = kilobytes[1] * 1024
    subject = f"disk.{use}={binary_size(free)} free"
    yield info("disk", subject, folder)
    if free < _FULL_DISK:
        yield error("disk.full", subject, f"the disk is full ({folder})", hint)
    elif free < _LITTLE_DISK and use == "engine":
        reason = f"an image with CUDA and torch needs {binary_size(_LITTLE_DISK)} ({folder})"
        yield warning("disk.little", subject, reason, hint)
    # 0 of 0: no fixed number of inodes.
    if inodes and inodes[0] and inodes[1] < _FEW_INODES:
        reason = f"only {inodes[1]} more files can be made ({folder}): writes fail as on a full disk"
        yield warning("disk.inodes", subject, reason, hint)


def free_bytes(host: Examined, folder: str) -> int | None:
    """Bytes free to the login in a folder, None if unknown."""
    counts = _counts(host.ask(_DISK.format(folder=shlex.quote(folder))).first("kilobytes"))
    return counts[1] * 1024 if counts else None


def _counts(line: str) -> tuple[int, int] | None:
    """The total and the free count in a line of df. A device's name may contain blanks."""
    match = re.search(r" (\d{1,18}) +-?\d+ +(-?\d{1,18}) +\d+% +/", line)
    return (int(match[1]), max(0, int(match[2]))) if match else None


def cpu(host: Examined) -> Iterator[Finding]:
    """Whether the processors suit benchmarks: clock governor and load."""
    answer = host.ask(_CPU)
    threads = answer.number("threads")
    yield info("cpu", f"host.threads={threads if threads is not None else '?'}", answer.first("model"))
    if slow := ", ".join(governor for governor in answer.all("governor") if governor != "performance"):
        reason = "the clock follows the load, so short benchmarks run slower and vary"
        remedy = "for benchmarks: `sudo cpupower frequency-set -g performance`"
        yield warning("cpu.governor", f"host.governor={slow}", reason, remedy)
    try:
        load = float(answer.first("load"))
    except ValueError:
        return
    if threads and load > threads:
        reason = f"{load:.0f} processes want to run at once: builds are slow, and benchmarks are not believable"
        yield warning("cpu.load", f"host.load={load:.1f}", reason, "end them, or wait: `top`")


def kernel(host: Examined) -> Iterator[Finding]:
    """The kernel's release and features that engines need."""
    answer = host.ask(_KERNEL)
    release = answer.first("release")
    subject = f"host.kernel={release or '?'}"
    yield info("kernel", subject, answer.first("machine"))
    number = re.match(r"(\d{1,4})\.(\d{1,4})", release)
    if number and (int(number[1]), int(number[2])) < _OLDEST_KERNEL:
        reason = "current base images and engines need Linux 4.18 or later"
        yield warning("kernel.version", subject, reason, "install a later kernel of the distribution, and reboot")
    if answer.first("known") and not answer.first("overlay"):
        reason = "the kernel has no overlay file system, so engines keep complete copies of layers"
        yield warning("kernel.overlay", subject, reason, "`sudo modprobe overlay`, or another kernel")


def nesting(host: Examined) -> Iterator[Finding]:
    """Whether the login is in a container of the engine that it uses."""
    script = """grep -E ' /etc/(hostname|hosts|resolv.conf) ' "$ROOT/proc/self/mountinfo" 2>/dev/null | say mount\n"""
    container = own_container("".join(f"{line}\n" for line in host.ask(script).all("mount")))
    if container and host.engine().container(container) is not None:
        reason = (
            "the engine runs outside: it mounts the paths of its own machine. reprokit translates folders that both "
            "share, and refuses others"
        )
        remedy = "keep workspaces and $REPROKIT_HOME in a folder that is mounted into this container"
        yield warning("nesting.engine", f"host.inside=container {container[:12]}", reason, remedy)


def clock(host: Examined) -> Iterator[Finding]:
    """The clocks of a node, or of the engine, against this machine's."""
    if host.node:
        before = time.time()
        there = host.ask("date +%s | say now\n").number("now")
        if there is not None:
            ahead = there - before if there < before else max(0.0, there - time.time())
            yield from _ahead("clock", f"the clock of {host.node}", ahead)
        return
    yield from _ahead("clock.engine", "the engine's clock", host.info().clock_ahead)


def _ahead(rule: str, whose: str, ahead_s: float) -> Iterator[Finding]:
    if abs(ahead_s) > _MOST_AHEAD_S:
        how = "ahead" if ahead_s > 0 else "behind"
        reason = f"{whose} is {abs(ahead_s):.0f} s {how}: TLS, make and the order of results go wrong"
        yield warning(rule, f"host.clock={ahead_s:+.0f} s", reason, "set it: `sudo timedatectl set-ntp true`")


def locale(host: Examined) -> Iterator[Finding]:
    """The locale of the login, which programs that reprokit starts inherit."""
    answer = host.ask(_LOCALE)
    subject = f"host.locale={answer.first('name') or 'C'}"
    remedy = "use one that every system has: `export LC_ALL=C.UTF-8`"
    if answer.first("complaint"):
        reason = "this locale is not installed here: programs fall back to ASCII, and Perl and Python complain"
        yield warning("locale", subject, reason, remedy)
    elif (charmap := answer.first("charmap")) not in ("UTF-8", ""):
        reason = f"the character set is {charmap}: names and messages beyond it become escapes"
        yield warning("locale.charset", subject, reason, remedy)


def ulimits(host: Examined) -> Iterator[Finding]:
    """The limits of the login's processes."""
    for line in host.ask('cat "${ROOT:-}/proc/self/limits" 2>/dev/null | say limit\n').all("limit"):
        match = re.match(r"(Max [a-z ]+?) {2,}(\d{1,20}) ", line)
        if match and match[1] in _LIMITS:
            rule, option, least, why = _LIMITS[match[1]]
            if int(match[2]) < least:
                remedy = f"raise it for this login: `ulimit -{option}`, or limits.conf(5)"
                yield warning(f"ulimits.{rule}", f"host.{rule}={match[2]}", f"a low limit: {why}", remedy)


def command(host: Examined) -> Iterator[Finding]:
    """The command `reprokit` that a shell starts: another project of that name may come first."""
    if not host.node and (other := other_command()):
        remedy = f"uninstall that project, or put {sysconfig.get_path('scripts')} before it on PATH"
        reason = "the command `reprokit` that comes first on PATH belongs to another project"
        yield warning("command", f"command={other}", reason, remedy)
