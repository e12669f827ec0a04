"""Containers for benchmarks and smoke tests, separate from the one that the user works in."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from reprokit import paths
from reprokit.bench.hardware import Execute
from reprokit.container.execute import Completed
from reprokit.container.gpu import parse_gpus
from reprokit.container.lifecycle import ensure_running, remove, usual_name
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.filelocks import file_lock
from reprokit.host.machine import Machine
from reprokit.recipe.find import Target
from reprokit.redact import MaskedLines, masking, secret_parts


def bench_name(gpus: str | None) -> str:
    """The purpose of the benchmark container: one for the whole machine, one for each choice of devices.

    Raises UsageError.
    """
    return "-".join(["bench", *_devices(gpus)])


def _devices(gpus: str | None) -> list[str]:
    return [f"gpu{device.replace(':', '.')}" for device in (parse_gpus(gpus).devices if gpus else ())]


@contextlib.contextmanager
def machine_lock(gpus: str | None, host: Machine) -> Iterator[None]:
    """Keep other benchmarks off the machine, or off the devices that `gpus` numbers.

    Benchmarks that run at the same time distort each other's results. Raises UsageError.
    """
    machine = host.identity()
    local = machine == Machine().identity()
    start = paths.state() / ("bench" if local else f"bench-{hashlib.sha256(machine.encode()).hexdigest()[:12]}")
    devices = sorted(_devices(gpus))
    if not all(device.removeprefix("gpu").isdigit() for device in devices):
        devices = []  # the number of a UUID is unknown: take the whole machine
    waiting = "another benchmark is running: waiting for it"
    with contextlib.ExitStack() as locks:
        whole = fcntl.LOCK_SH if devices else fcntl.LOCK_EX
        locks.enter_context(file_lock(Path(f"{start}.lock"), waiting, whole))
        for device in devices:  # sorted, so that two processes never wait for each other
            locks.enter_context(file_lock(Path(f"{start}-{device}.lock"), waiting))
        yield


def own_container(engine: Engine, target: Target, purpose: str, gpus: str | None) -> str:
    """A running container of the target's image for `purpose` only; one of an older image or recipe is replaced.

    It lacks the user's changes to their own container, so that results belong to the image's input hash.
    """
    name = f"{usual_name(engine, target)}-{purpose}"
    return ensure_running(engine, target, RunOptions(name=name, gpus=gpus, replace_stale=True))


@contextlib.contextmanager
def container_of_run(engine: Engine, target: Target, purpose: str, options: RunOptions) -> Iterator[str]:
    """A new container of the target's image. It is removed at the end.

    Its name is new, because a killed process may have left a container, and others may run.
    """
    name = f"{usual_name(engine, target)}-{purpose}-{secrets.token_hex(3)}"
    try:
        yield ensure_running(engine, target, replace(options, name=name))
    finally:
        if engine.container(name) is not None:
            with contextlib.suppress(ReprokitError):  # must not hide the first error
                remove(engine, name)


def gpus_for(engine: Engine, target: Target, gpus: str | None) -> str | None:
    """The `--gpus` of a benchmark container: "none" if the recipe or the host has no GPU.

    None follows the recipe, without a GPU if it is optional and unavailable. Raises UsageError.
    """
    if gpus is not None:
        return "none" if parse_gpus(gpus).none else gpus
    required = target.variant.requires.gpu
    if required == "none" or not engine.has_gpu():
        return "none"
    return "all" if required == "required" else None


def hiding(execute: Execute, secrets: Iterable[str]) -> Execute:
    """`execute` with `***` in its output for these values, for records, logs and terminals.

    The container's own log is not written.
    """
    hidden = [value for value in secrets if secret_parts(value)]
    mask = masking(hidden)

    def run(argv: Sequence[str], on_output: Callable[[str, str], None] | None = None, **options: Any) -> Completed:
        shown: dict[str, MaskedLines] = {}
        if on_output is not None:
            for stream in ("stdout", "stderr"):
                shown[stream] = MaskedLines(partial(_decoded, on_output, stream), hidden)
            options["on_output"] = lambda stream, text: shown[stream].write(text.encode(errors="replace"))
        done = execute(argv, **{**options, "logged": False})
        for lines in shown.values():
            lines.finish()
        return replace(done, stdout=mask(done.stdout), stderr=mask(done.stderr))

    return run if hidden else execute


def _decoded(write: Callable[[str, str], None], stream: str, data: bytes) -> None:
    if data:
        write(stream, data.decode(errors="replace"))


def marks(variables: Mapping[str, str]) -> dict[str, str]:
    """A keyed hash of each value, by name: equal for equal values of this user, and not reversible."""
    if not variables:
        return {}
    file = paths.state() / "variables.key"
    with file_lock(file.with_suffix(".lock"), "another reprokit is making the key of the marks: waiting for it"):
        if not file.exists() or not file.stat().st_size:  # empty after a killed process
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as new:
                new.write(secrets.token_bytes(32))
        key = file.read_bytes()
    return {name: hmac.new(key, value.encode(), "sha256").hexdigest()[:16] for name, value in variables.items()}
