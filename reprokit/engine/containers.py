"""Containers: their life, their files, commands in them, and their networks."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from typing import IO, Any

import docker.errors
import requests

from reprokit.engine.client import EngineClient, checked
from reprokit.engine.failures import translated
from reprokit.engine.info import ChangedPath, ContainerInfo, PathStatus, VolumeInfo, full_id
from reprokit.engine.stream import CommandStream
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import CONTAINER_FILE, Limit

_DELETED = 2  # the API's kind of change


class Containers(EngineClient):
    """The calls of the Engine API about containers and their networks."""

    def containers(self, labels: list[str], sizes: bool = False) -> list[ContainerInfo]:
        """Containers that carry all `labels`, running or not; with `sizes` also the bytes of their own files."""
        with translated():
            # podman refuses a filter without a value.
            listed = self.api.containers(all=True, size=sizes, filters={"label": labels} if labels else None)
        return [ContainerInfo.of(container) for container in listed]

    def container(self, name: str) -> ContainerInfo | None:
        """Inspect a container; None if no container has that name."""
        with translated():
            try:
                return ContainerInfo.of(self.api.inspect_container(name))
            except docker.errors.NotFound:
                return None

    def create_container(self, name: str, config: dict[str, Any]) -> str:
        """Create a container from the API's own body (`Image`, `Cmd`, `HostConfig`, ...); returns its id."""
        with translated(where=name):
            return self.api.create_container_from_config(config, name)["Id"]

    def start(self, container: str) -> None:
        with translated(where=container):
            self.api.start(container)

    def wait(self, container: str) -> int:
        """Wait until a container's command has ended; returns its exit code."""
        with translated(where=container):
            return int(self.api.wait(container, timeout=None)["StatusCode"])

    def stop(self, container: str, timeout_s: int = 10) -> None:
        with translated(where=container):
            self.api.stop(container, timeout=timeout_s)

    def remove(self, container: str, force: bool = False) -> None:
        with translated(where=container):
            self.api.remove_container(container, v=True, force=force)

    def rename(self, container: str, name: str) -> None:
        with translated(where=container):
            self.api.rename(container, name)

    def changes(self, container: str) -> list[ChangedPath]:
        """The paths that differ from the container's image."""
        with translated(where=container):
            changes = self.api.diff(container) or []
        return [ChangedPath(str(change["Path"]), change["Kind"] == _DELETED) for change in changes]

    def commit(self, container: str, repository: str, tag: str) -> str:
        """Make an image of a container's file system; returns its id."""
        with translated(where=container):
            return full_id(self.api.commit(container, repository=repository, tag=tag)["Id"])

    def logs(self, container: str, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        """The output of the main process, the last `tail` lines or all; with `follow` until it ends."""
        with translated(where=container):
            yield from self.api.logs(container, stream=True, follow=follow, tail="all" if tail is None else tail)

    def attach(self, container: str) -> CommandStream:
        """Attach to the input and output of a container that has not started yet."""
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        with translated(where=container):
            return CommandStream(self.api.attach_socket(container, streams))

    def exec_create(self, container: str, command: list[str], **options: Any) -> str:
        """Create a command in a running container; `options` are docker-py's (`user`, `environment`, `workdir`)."""
        with translated(where=container):
            return self.api.exec_create(container, command, **options)["Id"]

    def exec_start(self, exec_id: str) -> None:
        """Start a created command without a connection to its input and output."""
        with translated():
            self.api.exec_start(exec_id, detach=True)

    def exec_attach(self, exec_id: str, tty: bool = False) -> CommandStream:
        """Start a created command, attached to its input and output."""
        with translated():
            return CommandStream(self.api.exec_start(exec_id, tty=tty, socket=True))

    def exec_resize(self, exec_id: str, rows: int, columns: int) -> bool:
        """Set the size of a command's terminal. False if the command has not started yet or has ended."""
        with translated():
            try:
                self.api.exec_resize(exec_id, height=rows, width=columns)
            except docker.errors.APIError:
                return False
            return True

    def exec_exit_code(self, exec_id: str) -> int | None:
        """The command's exit code; None while it runs."""
        with translated():
            return self.api.exec_inspect(exec_id)["ExitCode"]

    def exec_running(self, exec_id: str) -> bool:
        """Whether a command runs; False if the engine no longer knows it."""
        with translated():
            try:
                return bool(self.api.exec_inspect(exec_id)["Running"])
            except docker.errors.NotFound:
                return False

    @contextlib.contextmanager
    def archive(
        self, container: str, path: str, limit: Limit | None = CONTAINER_FILE
    ) -> Iterator[Iterator[bytes] | None]:
        """A file or folder of a container as a tar, in blocks; None if the path does not exist.

        Raises UsageError beyond the limit.
        """
        # `translated` surrounds no `yield`: an error of the caller's block is not the engine's.
        with translated(where=container):
            plain = {"Accept-Encoding": "identity"}
            answer = self.stream("/containers/{0}/archive", container, params={"path": path}, headers=plain)
        with contextlib.closing(answer):
            if answer.status_code == requests.codes.not_found:
                yield None
                return
            with translated(where=container):
                checked(answer)
            yield _bounded(answer.raw, container, path, limit)

    def export(self, container: str) -> Iterator[bytes]:
        """A container's complete file system as a tar."""
        with translated(where=container):
            yield from self.api.export(container)

    def status(self, container: str, path: str) -> PathStatus | None:
        """The status of a container's path, without following a link in its last part; None if it does not exist."""
        with translated(where=container):
            url = self.api._url("/containers/{0}/archive", container)
            answer = self.api.head(url, params={"path": path}, timeout=self.api.timeout)
            if answer.status_code == requests.codes.not_found:
                return None
            status = parsed(base64.b64decode(checked(answer).headers["X-Docker-Container-Path-Stat"]))
            return PathStatus(int(status["mode"]), str(status["linkTarget"]))

    def put_archive(self, container: str, folder: str, tar: bytes | IO[bytes]) -> None:
        """Unpack a tar into a folder of a container."""
        with translated(where=container):
            self.api.put_archive(container, folder, tar)

    def create_volume(self, name: str) -> bool:
        """Make a volume of this name. False if there is one already."""
        with translated(where=name):
            try:
                self.api.inspect_volume(name)
                return False
            except docker.errors.NotFound:
                self.api.create_volume(name)
                return True

    def volumes(self) -> list[VolumeInfo]:
        with translated():
            return [VolumeInfo.of(volume) for volume in self.api.volumes()["Volumes"] or ()]

    def remove_volume(self, name: str) -> None:
        with translated(where=name):
            self.api.remove_volume(name, force=True)

    def has_network(self, name: str) -> bool:
        """Whether a network has this name or ID."""
        with translated(where=name):
            try:
                self.api.inspect_network(name)
            except docker.errors.NotFound:
                return False
        return True


def _bounded(stream: IO[bytes], container: str, path: str, limit: Limit | None) -> Iterator[bytes]:
    count = 0
    with translated(where=container):
        while block := stream.read(1 << 16):
            count += len(block)
            if limit:
                limit.check(count, "bytes to read from a container", f"{container}:{path}")
            yield block
