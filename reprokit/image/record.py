"""The log and the record of a build, in the state folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from reprokit import __version__, paths
from reprokit.image.inputs import Inputs
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway
from reprokit.untrusted.limits import BUILD_LOG


class Log:
    """The log of one build, flushed after each line so that it is complete after a crash.

    The output of its steps is limited; `cut` says whether it exceeded the limit.
    """

    def __init__(self, target: Target) -> None:
        self.started = datetime.now().astimezone()
        self.stem = f"{target.recipe.name}-{target.variant_name}-{self.started:%Y%m%dT%H%M%S}"
        self.file, self.path = _new_file(paths.private(paths.state() / "logs"), self.stem)
        self.left = BUILD_LOG.most
        self.cut = False

    def output(self, text: str) -> None:
        """A line of a step's output."""
        self.left -= len(text) + 1
        if self.left >= 0:
            self.line(text)
        elif not self.cut:
            self.cut = True
            self.line(f"# the output exceeds {BUILD_LOG.most} characters, the rest is left out ({BUILD_LOG.variable})")

    def line(self, text: str) -> None:
        self.file.write(f"{text}\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


def _new_file(folder: Path, stem: str) -> tuple[IO[str], Path]:
    for suffix in ("", *(f"-{n}" for n in range(1, 1000))):
        path = folder / f"{stem}{suffix}.log"
        try:
            return path.open("x", encoding="utf-8"), path
        except FileExistsError:
            continue
    raise FileExistsError(folder / stem)


def write_record(target: Target, inputs: Inputs, gateway: Gateway, log: Log, result: dict[str, Any]) -> Path:
    """Write the inputs and the result of a build as JSON; returns the file."""
    path = paths.private(paths.state() / "builds") / f"{log.path.stem}.json"
    record = {
        "target": target.label,
        "recipe_file": str(target.path),
        "reprokit": __version__,
        "started": log.started.isoformat(timespec="seconds"),
        "seconds": round((datetime.now().astimezone() - log.started).total_seconds(), 1),
        "inputs": inputs.hash,
        "base": asdict(inputs.base),
        "lock": inputs.lock.hash if inputs.lock else None,
        "drift": list(inputs.drift),
        "served": inputs.served.listed,
        "hosts_asked": dict(sorted(gateway.hosts.items())),
        "asked_in_vain": dict(sorted(gateway.missing.items())),
        "refused": dict(sorted(gateway.refused.items())),
        "bytes_through_gateway": gateway.bytes_served,
        "log": str(log.path),
        **result,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path
