"""A node as the host of containers that are started from here."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from reprokit.errors import EngineError, UsageError
from reprokit.host.gpu import Gpu, devices_of, engine_devices
from reprokit.host.machine import Machine
from reprokit.host.mounts import BindMount
from reprokit.host.user import Caller
from reprokit.nodes import workspace_copy
from reprokit.nodes.probe import SCRIPT, NodeFacts, free_bytes, parse
from reprokit.nodes.ssh import SshConnection
from reprokit.recipe.find import Target

_CDI_FILES = """
for folder in {folders}; do
  for file in "$folder"/*.json "$folder"/*.yaml "$folder"/*.yml; do
    [ -f "$file" ] && printf 'reprokit:file %s\\n' "$file" && cat "$file" && echo
  done
done
true
"""


class Remote(Machine):
    """A node behind a connection. Its facts are collected once."""

    def __init__(self, connection: SshConnection) -> None:
        self.connection = connection
        self.name = connection.node.name

    @cached_property
    def seen(self) -> NodeFacts:
        """Raises EngineError if the node's answer is not valid, SourceError if the connection breaks."""
        try:
            return parse(self.connection.run(SCRIPT).stdout)
        except ValueError as error:
            raise EngineError(str(error), self.name, "is its login shell a POSIX shell?") from None

    def identity(self) -> str:
        return self.seen.machine or self.name

    def caller(self) -> Caller:
        return self.seen.caller

    def environment(self) -> Mapping[str, str]:
        return self.seen.proxies | {"TERM": os.environ.get("TERM", "")}

    def cdi_devices(self, info: Mapping[str, Any]) -> tuple[str, ...]:
        return engine_devices(info, self._cdi_devices)

    def has_gpu(self, info: Mapping[str, Any]) -> bool:
        return bool(self.seen.devices or self.cdi_devices(info))

    def gpus(self) -> list[Gpu]:
        return list(self.seen.gpus)

    def port_is_free(self, port: int) -> bool:
        return port not in self.seen.listening

    def memory_bytes(self) -> int | None:
        return self.seen.memory

    def disk_free_bytes(self, folder: str) -> int | None:
        answer = self.connection.run(f"df -P -k {shlex.quote(folder)}").stdout.splitlines()
        fields = answer[1].split() if len(answer) > 1 else []
        try:
            return free_bytes(fields[3])
        except (LookupError, ValueError):
            return None

    def require_source(self, mount: BindMount) -> None:
        if not mount.source.startswith("/"):
            raise UsageError(f"-v {mount.source}: folders of {self.name} need absolute paths")
        real = self.connection.run(f"readlink -e {shlex.quote(mount.source)}")
        if real.returncode:
            raise UsageError(
                f"nothing to mount at {mount.target}: {self.name} has no {mount.source}",
                hint=f"make it on the node: mkdir -p {shlex.quote(mount.source)}",
            )
        if (path := real.stdout.rstrip("\n")) != mount.source.rstrip("/"):
            raise UsageError(
                f"{mount.source} of {self.name} is reached through a link", hint=f"mount its real path: {path}"
            )

    def workspace_path(self, target: Target) -> str:
        return workspace_copy.folder_of(self.seen.cache, target)

    def workspace(self, target: Target) -> str:
        return workspace_copy.workspace(self.connection, self.seen.cache, target)

    def mountinfo(self) -> str:
        return self.seen.mountinfo

    def _cdi_devices(self, folders: list[str]) -> tuple[str, ...]:
        answer = self.connection.run(_CDI_FILES.format(folders=" ".join(map(shlex.quote, folders)))).stdout
        names: list[str] = []
        for part in ("\n" + answer).split("\nreprokit:file ")[1:]:
            file, _, text = part.partition("\n")
            try:
                names += devices_of(file, text)
            except ValueError:
                continue
        return tuple(dict.fromkeys(names))
