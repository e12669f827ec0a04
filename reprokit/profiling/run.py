"""Profile a command in its own container, and copy the profiler's files out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from reprokit import tarfiles
from reprokit.bench.container import container_of_run
from reprokit.container.attach import Command
from reprokit.container.execute import Completed, execute
from reprokit.container.session import numeric_user
from reprokit.container.settings import RunOptions
from reprokit.container.user import is_root
from reprokit.display import notify, reporting
from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError, WorkFailed
from reprokit.profiling import host_tools
from reprokit.profiling.model import Summary
from reprokit.profiling.tools import FOLDER, HOME, Profiler, choose, python_of
from reprokit.recipe.find import Target
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import PROFILE
from reprokit.untrusted.tar import Stream, members

Run = Callable[[Engine, str, Command], int]
_PROGRAMS = ("launcher.py", "reduce.py")
# What NVIDIA's driver lets only administrators read.
_PARAMETERS = "/proc/driver/nvidia/params"
_RESTRICTED = "RmProfilingAdminOnly: 1"
_NO_COUNTERS = "ERR_NVGPUCTRPERM"
# Printed by `nsys stats`.
_NO_KERNELS = "does not contain CUDA kernel data"


@dataclass(frozen=True)
class Profiled:
    """`files` maps names of reports in the folder to the programs that open them. `summary` is None if unreadable."""

    tool: Profiler
    exit_code: int
    files: dict[str, str]
    summary: Summary | None


def profile(
    engine: Engine,
    target: Target,
    command: Command,
    options: RunOptions,
    requested: str | None,
    folder: Folder,
    run: Run,
) -> Profiled:
    """Run `command` under a profiler, the one `requested` or the best of the image; reports go into `folder`.

    `run` runs it with the caller's input and output. An interrupt ends the command, not the profile. The containers are
    removed. Raises UsageError if the image lacks the profiler, WorkFailed if it left no report.
    """
    root = command.user is not None and is_root(command.user)
    options = replace(options, root=root)
    with container_of_run(engine, target, "profile", options) as container:
        tool = _chosen(engine, container, command, requested)
        if tool.capabilities == ((),) and tool.mount is None:
            return _in_container(engine, container, tool, command, folder, run)
    # An existing container can get neither capabilities nor mounts.
    if tool.mount:
        notify(f"{tool.name}: this machine's, from {tool.mount.source}")
        options = replace(options, mounts=(*options.mounts, tool.mount))
    with _capable(engine, target, options, tool) as container:
        return _in_container(engine, container, tool, command, folder, run)


def _chosen(engine: Engine, container: str, command: Command, requested: str | None) -> Profiler:
    ask = partial(execute, engine, container, env=command.env, workdir=command.workdir, logged=False)
    present = [name for name in ("nsys", "ncu", "perf", "py-spy") if _succeeds(ask, ["sh", "-c", f"command -v {name}"])]
    python = python_of(command.argv)
    if python and _succeeds(ask, [python, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"]):
        present.append("torch")
    # A node's folders are unknown.
    nsight = {} if engine.host.name else host_tools.nsight()
    brought = {name: path for name, (_, path) in nsight.items()} | ({"py-spy": host_tools.PY_SPY} if python else {})
    gpu = _succeeds(ask, ["sh", "-c", "ls /dev/nvidia[0-9]*"])
    tool = choose(command.argv, requested, present, gpu, brought)
    if tool.name not in present and tool.name in nsight:
        tool = replace(tool, mount=nsight[tool.name][0])
    elif tool.name not in present:
        notify("the image has no py-spy: fetching it for this run (the image is not changed)")
        engine.put_archive(container, "/", host_tools.py_spy(engine))
    if tool.name == "ncu" and _RESTRICTED in ask(["cat", _PARAMETERS]).stdout:
        if command.user is None or not is_root(command.user):
            raise UsageError(
                "the NVIDIA driver lets only administrators read the GPU's counters",
                _PARAMETERS,
                "allow everybody to: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, and "
                "reboot; or profile as root of a container with SYS_ADMIN: --user root",
            )
        return replace(tool, capabilities=(("SYS_ADMIN",),), why="the GPU's counters, as the driver is set")
    return tool


def _succeeds(ask: Callable[..., Completed], argv: Sequence[str]) -> bool:
    return ask(argv).exit_code == 0


@contextlib.contextmanager
def _capable(engine: Engine, target: Target, options: RunOptions, tool: Profiler) -> Iterator[str]:
    """As `container_of_run`, with the first set of the tool's capabilities that the engine knows."""
    with contextlib.ExitStack() as stack:
        for last, added in ((names is tool.capabilities[-1], names) for names in tool.capabilities):
            try:
                requested = replace(options, capabilities=added)
                with reporting(lambda line: None):
                    container = stack.enter_context(container_of_run(engine, target, "profile", requested))
            except EngineError as error:
                if last or "capability" not in error.message.lower():
                    raise
                continue
            if added:
                notify(f"{tool.name}: the container of this run has {', '.join(added)}, for {tool.why}")
            yield container
            return


def _in_container(
    engine: Engine, container: str, tool: Profiler, command: Command, folder: Folder, run: Run
) -> Profiled:
    if command.user and (info := engine.container(container)):
        command = replace(command, user=numeric_user(engine, info, command.user))
    ask = partial(execute, engine, container, env=command.env, workdir=command.workdir, user=command.user, logged=False)
    engine.put_archive(container, "/", _programs(ask))
    notify(f"profiling with {tool.name}")
    try:
        code = run(engine, container, replace(command, argv=tool.wrap(command.argv), log_as=None))
    except KeyboardInterrupt:
        notify("interrupted: what the profiler has written is kept")
        code = 130
    for argv in tool.then:
        ask(argv)
    files = {name: what for name, what in tool.reports.items() if _copied_out(engine, container, name, folder)}
    if not files:
        raise WorkFailed(f"{tool.name} left no report, and ended with exit code {code}", container, tool.refused)
    return Profiled(tool, code, files, _summary(ask, tool))


def _summary(ask: Callable[..., Completed], tool: Profiler) -> Summary | None:
    why = "it has no rows"
    for argv in tool.summaries:
        try:
            done = ask(list(argv))
        except WorkFailed as error:  # too much output
            why = f"{error.message}; {error.hint}"
            continue
        if _NO_COUNTERS in done.stdout or _NO_COUNTERS in done.stderr:
            notify("the driver refused the GPU's counters: NVreg_RestrictProfilingToAdminUsers=0 allows them")
        try:
            summary = tool.read(done.stdout)
        except SourceError as error:
            why = _failure(done) or error.message
            continue
        except UsageError as error:  # beyond a limit
            why = f"{error.message}; {error.hint}"
            continue
        if summary.rows:
            return summary
        if _NO_KERNELS in done.stdout:
            why = f"{tool.name} recorded no CUDA kernels"
            break
        why = _failure(done) or why
    notify(f"the profile has no summary: {why[:300]}")
    return None


def _failure(done: Completed) -> str:
    """Why a command failed: its first line with an error, else its last line; "" for a success."""
    if not done.exit_code:
        return ""
    errors = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.startswith("ERROR: ")]
    return errors[0] if errors else done.stderr.strip().rpartition("\n")[2]


def _programs(ask: Callable[..., Completed]) -> bytes:
    """A tar of our programs, and a folder for reports that belongs to the container's user."""
    import io
    import tarfile

    ids = ask(["sh", "-c", "id -u; id -g"]).stdout.split()
    if len(ids) != 2 or not all(text.isdecimal() and len(text) < 11 for text in ids):
        raise EngineError("the container's shell did not answer")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, mode, uid, gid in ((HOME, 0o755, 0, 0), (FOLDER, 0o755, int(ids[0]), int(ids[1]))):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, uid, gid
            tar.addfile(entry)
        with Folder(Path(__file__).parent) as own:
            for name in _PROGRAMS:
                tarfiles.add(tar, f"{HOME}/{name}", own.read(name, 1 << 20))
    return stream.getvalue()


def _copied_out(engine: Engine, container: str, name: str, folder: Folder) -> bool:
    """Copy a report out; False if there is none. Raises UsageError beyond the limit, WorkFailed for a link."""
    where = f"{container}:{FOLDER}/{name}"
    with engine.archive(container, f"{FOLDER}/{name}", PROFILE) as blocks:
        if blocks is None:
            return False
        stream = Stream(blocks)
        member = next(members(stream, where), None)
        if member is None or not member.isreg():
            raise WorkFailed("the report is not a regular file", where)
        PROFILE.check(member.size, "bytes in a profiler's report", where)
        with folder.replacing(name) as file:
            _copy(stream, member.size, file, where)
    return True


def _copy(stream: Stream, size: int, file: IO[bytes], where: str) -> None:
    count = 0
    for block in stream.body(size):
        count += file.write(block)
    if count != size:
        raise WorkFailed("the report is incomplete", where)
