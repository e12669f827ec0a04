"""A `devcontainer.json` for VS Code and other tools of the Dev Container specification (containers.dev).

A GPU is requested through `hostRequirements`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reprokit.bundle.tools.tool import ToolJob
from reprokit.container.mounts import WORKSPACE

_HOME = "/tmp/home"
# Docker resolves the source of a mount at each start. A process in the container can replace a folder of the workspace
# by a link to any path of the host, so each start first checks that there is no link.
_NO_LINKS = 'for folder; do test "$(realpath -- "$folder")" = "$folder" || exit 1; done'
_GPUS: dict[str, bool | str] = {"required": True, "optional": "optional"}


def usual_path(job: ToolJob) -> Path:
    return Path(".devcontainer") / "devcontainer.json"


def text(job: ToolJob) -> str:
    # Variables such as ${localEnv:TOKEN} are replaced in every text; a mount's parts are joined by commas.
    job.check(r"\$\{|,", "a dev container")
    variant = job.target.variant
    config: dict[str, Any] = {
        "name": job.target.label,
        "image": job.image,
        "workspaceMount": f"type=bind,source={job.workspace},target={WORKSPACE}",
        "workspaceFolder": WORKSPACE,
        "containerUser": job.user,
        "updateRemoteUserUID": False,
        # The user has no account in the image, and editors install their server below HOME.
        "containerEnv": {"HOME": _HOME},
        "init": True,
        "securityOpt": ["no-new-privileges"],
        "runArgs": [f"--shm-size={variant.shm}"],
    }
    if variant.ports:
        config["forwardPorts"] = list(variant.ports)
    if job.folders:
        sources = [str(job.workspace / source) for source in job.folders.values()]
        config["initializeCommand"] = ["sh", "-c", _NO_LINKS, "sh", *sources]
        config["mounts"] = [
            {"type": "bind", "source": source, "target": target}
            for source, target in zip(sources, job.folders, strict=True)
        ]
    requires: dict[str, Any] = {}
    if variant.requires.gpu in _GPUS:
        requires["gpu"] = _GPUS[variant.requires.gpu]
    if job.memory_gib:
        requires["memory"] = f"{job.memory_gib}gb"
    if requires:
        config["hostRequirements"] = requires
    return json.dumps(config, indent=2) + "\n"


def finish(path: Path) -> str:
    return "open the folder in VS Code and choose `Reopen in Container`, or run `devcontainer up`"
