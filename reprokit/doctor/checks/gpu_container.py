"""Whether a container really gets the GPUs: asked of one, without network, mounts and rights."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

from reprokit.compat.model import Finding
from reprokit.container.gpu import ALL, ladder, no_gpu_error, refused
from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, unknown
from reprokit.doctor.shell import clipped
from reprokit.engine import LABEL, OWN_IMAGES, Engine
from reprokit.errors import EngineError, ReprokitError
from reprokit.helper.program import helper_image

ROLE = f"{LABEL}.doctor"
_RUN_S = 4.0
_STALE_S = 60
_NO_PROGRAM = "executable file not found"  # the toolkit brings nvidia-smi into the container
_NOBODY = "65534:65534"


def find(host: Examined) -> Iterator[Finding]:
    state = host.gpus()
    if not state.module and not state.rows:
        return
    if state.smi == "hangs" or state.driver_hangs:
        reason = "not asked of a container: the driver does not answer, and the engine would hang as well"
        yield unknown("gpu_container", "container.gpu", reason, "repair the driver first, see `gpu.hangs`")
        return
    engine = host.engine()
    _remove_stale(engine)
    refusal = ""
    for rung in ladder(ALL, engine.host.cdi_devices(host.info())):
        try:
            yield from _judged(rung.name, _gpus_in_container(engine, list(rung.requests)), len(state.rows))
            return
        except EngineError as failure:
            if _NO_PROGRAM in failure.message:
                yield from _judged(rung.name, [failure.message], len(state.rows))
                return
            if not refused(failure.message):
                raise
            refusal = failure.message
        except NoAnswer:
            reason = f"nvidia-smi in a container does not end within {_RUN_S:g} s"
            yield error("gpu_container.hangs", "container.gpu", reason, "see whether `nvidia-smi` works on the host")
            return
    none = no_gpu_error(ALL, refusal)
    yield error("gpu_container.refused", "container.gpu", clipped(f"{none.message} ({none.where})"), none.hint)


def _judged(way: str, listed: list[str] | None, expected: int) -> Iterator[Finding]:
    subject = f"container.gpu={way}"
    if listed is None:
        reason = "the engine accepts the request; no base image is there yet to run nvidia-smi in"
        yield info("gpu_container", subject, reason)
        return
    gpus = [line for line in listed if line.startswith("GPU ")]
    if len(gpus) < max(1, expected):
        said = clipped(" ".join(line for line in listed if line not in gpus)) or "nothing else"
        reason = f"nvidia-smi in a container lists {len(gpus)} GPUs, the host {expected}; it prints: {said}"
        remedy = "restart the engine after a driver update; see `gpu_toolkit`; on cgroup v2 update the toolkit"
        yield error("gpu_container.empty", subject, reason, remedy)
    else:
        yield info("gpu_container", subject, f"nvidia-smi in a container lists {len(gpus)} GPUs")


def _gpus_in_container(engine: Engine, requests: list[dict[str, Any]]) -> list[str] | None:
    """The lines of `nvidia-smi -L` in a container, None if only its start could be tried.

    Raises EngineError, NoAnswer.
    """
    base = _base(engine)
    body = {
        "Image": base or helper_image(engine),
        "Entrypoint": ["nvidia-smi", "-L"] if base else ["/helper"],
        "Cmd": [],
        "User": _NOBODY,
        "Env": ["NVIDIA_DRIVER_CAPABILITIES=utility"],
        "Labels": {ROLE: "gpu"},
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": 32,
            "LogConfig": {"Type": "none"},
            "DeviceRequests": requests,
        },
    }
    container = engine.create_container(f"reprokit-doctor-{secrets.token_hex(6)}", body)
    try:
        with closing(engine.attach(container)) as stream:
            engine.start(container)
            output = Bounded(lambda: b"".join(data for _, data in stream.frames()), _RUN_S).result()
    finally:
        with suppress(ReprokitError):
            engine.remove(container, force=True)
    return output.decode(errors="replace").splitlines() if base else None


def _base(engine: Engine) -> str:
    """A base that reprokit made itself, "" if there is none; nothing of a stranger's image runs for a check."""
    names = [name for image in engine.images([]) for name in image.names]
    return next((name for name in sorted(names) if name.startswith(f"{OWN_IMAGES}/base:")), "")


def _remove_stale(engine: Engine) -> None:
    """Remove containers of checks that were cut off."""
    for container in engine.containers([ROLE]):
        if time.time() - container.created > _STALE_S:
            with suppress(ReprokitError):
                engine.remove(container.id, force=True)
