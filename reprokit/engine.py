"""The container engine. The only module that talks to Docker; everything else goes through `Engine`.

Plain data goes in and out (the Engine API's own JSON), so that callers can be tested with data. Optional fields of the
API's answers differ between engine versions and podman: read them with `.get`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Generator, Iterator
from typing import IO, TYPE_CHECKING, Any

import docker
import docker.auth
import docker.errors
import requests
import urllib3.exceptions

from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError
from reprokit.exec_stream import Connection
from reprokit.untrusted.limits import CONTAINER_FILE

if TYPE_CHECKING:
    from reprokit.container.host import Host

LABEL = "reprokit"
# Images that reprokit makes for itself. A recipe's are `reprokit/NAME:VARIANT`, and no NAME has a slash.
OWN_IMAGES = f"{LABEL}/own"
# The first byte of a commit, save or import of a large image can take minutes.
_TIMEOUT_S = 600
_SAVE_BLOCK = 2 << 20
# Looking for a step in its cache, the classic builder stumbles over an image that someone removes meanwhile. What was
# built so far is in the cache at the next attempt.
_VANISHED = re.compile(r'unable to find image "sha256:')
_BUILD_ATTEMPTS = 10
# Parts between slashes begin with a letter, a digit or `_`, but for the address of a registry ([::1]:5000).
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*"
_NAME = re.compile(rf"(\[[0-9A-Fa-f:.]+\](:\d+)?/)?{_PART}(/{_PART})*")
_LONGEST_NAME = 512


class Engine:
    """A connection to one Docker-compatible engine, on this machine where no other `host` is given."""

    def __init__(self, client: docker.APIClient, host: Host | None = None) -> None:
        self.api = client
        self._host = host

    @classmethod
    def connect(cls) -> Engine:
        """The engine of `DOCKER_HOST` or of the current context. Raises EngineError saying why it cannot be used."""
        try:
            client = _guarded(docker.DockerClient.from_env(timeout=_TIMEOUT_S).api)
            client.ping()
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise _no_engine(error) from None
        return cls(client)

    @classmethod
    def behind(cls, socket_path: str, host: Host) -> Engine:
        """The engine of another machine, whose socket is led to a path here. Raises EngineError."""
        url = f"unix://{socket_path}"
        try:
            client = _guarded(docker.APIClient(url, timeout=_TIMEOUT_S, version="auto"))
            client.ping()
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise EngineError(f"no Docker Engine answers there: {_root_cause(error)}", host.name) from None
        return cls(client, host)

    @property
    def host(self) -> Host:
        """The machine that the engine runs on."""
        if self._host is None:
            from reprokit.container.host import Here

            self._host = Here()
        return self._host

    @property
    def url(self) -> str:
        """The address, as DOCKER_HOST would name it; of another machine's engine only the machine's name."""
        return f"ssh://{self._host.name}" if self._host and self._host.name else _address()

    @property
    def socket(self) -> str | None:
        """The file of the socket that it is reached through, most likely this machine's; None for another way."""
        return getattr(self.api.get_adapter(self.api.base_url), "socket_path", None)

    def info(self) -> dict[str, Any]:
        with _translated():
            return self.api.info()

    def version(self) -> dict[str, Any]:
        with _translated():
            return self.api.version()

    @property
    def rootless(self) -> bool:
        """Whether root in a container is the calling user outside."""
        return any("rootless" in option for option in self.info().get("SecurityOptions") or [])

    # --- images

    def image(self, reference: str) -> dict[str, Any] | None:
        """The image as the engine describes it, or None where it has none of that name."""
        with _translated():
            try:
                return self.api.inspect_image(reference)
            except docker.errors.ImageNotFound:
                return None

    def images(self, labels: list[str], steps: bool = False) -> list[dict[str, Any]]:
        """Images that carry all `labels`; with `steps` also those between the steps of a build."""
        with _translated():
            # podman refuses a filter without a value.
            return self.api.images(filters={"label": labels} if labels else None, all=steps)

    def history(self, reference: str) -> list[dict[str, Any]]:
        with _translated():
            return self.api.history(reference)

    def registry_digest(self, reference: str, timeout_s: float = 20) -> str:
        """The digest that the image's registry has for `reference`. Raises SourceError, after `timeout_s` at most."""
        patience, self.api.timeout = self.api.timeout, timeout_s
        try:
            with _translated(SourceError, reference):
                try:
                    return self.api.inspect_distribution(reference)["Descriptor"]["digest"]
                except requests.exceptions.Timeout:
                    raise SourceError(f"no answer within {timeout_s:g} s", reference) from None
        finally:
            self.api.timeout = patience

    def pull(self, reference: str) -> Iterator[dict[str, Any]]:
        """Pull an image; yields the engine's progress events. Raises SourceError."""
        repository, separator, digest = reference.partition("@")
        tag = digest if separator else None
        if not separator and ":" in repository.rsplit("/", 1)[-1]:
            repository, _, tag = repository.rpartition(":")
        with _translated(SourceError, reference):
            yield from _without_error(
                self.api.pull(repository, tag=tag or "latest", stream=True, decode=True), reference
            )

    def credentials(self, registry: str) -> tuple[str, str] | None:
        """User and password that Docker's configuration keeps for a registry's host; None where it keeps none."""
        with _translated(where=registry):
            found = docker.auth.resolve_authconfig(self.api._auth_configs, registry) or {}
        known = {key.lower(): value for key, value in found.items()}
        return (known["username"], known["password"]) if known.get("username") and known.get("password") else None

    def push(self, repository: str, tag: str) -> Iterator[dict[str, Any]]:
        """Push an image to the registry in its name; yields the engine's progress events. Raises SourceError."""
        where = f"{repository}:{tag}"
        with _translated(SourceError, where):
            yield from _without_error(self.api.push(repository, tag=tag, stream=True, decode=True), where)

    def import_image(self, stream: IO[bytes] | Iterator[bytes], repository: str, tag: str, changes: list[str]) -> str:
        """Make an image of one layer from a tar of a file system; returns its id."""
        with _translated():
            answer = self.api.import_image_from_stream(_blocks(stream), repository=repository, tag=tag, changes=changes)
        last = json.loads(answer.strip().splitlines()[-1])
        if "error" in last:
            raise EngineError(last["error"], f"{repository}:{tag}")
        return last["status"]

    def save(self, reference: str) -> Generator[bytes, None, None]:
        """An image with its layers and this name as a tar, in blocks."""
        return self.save_all([reference])

    def save_all(self, references: list[str]) -> Generator[bytes, None, None]:
        """Several images as one tar in which a layer that they share stands once; each under its name."""
        with _translated(where=", ".join(references)):
            # docker-py's get_image takes one name.
            answer = self.api._get(self.api._url("/images/get"), params={"names": references}, stream=True)
            with contextlib.closing(answer):
                yield from self.api._stream_raw_result(answer, _SAVE_BLOCK, False)

    def load(self, stream: IO[bytes] | Iterator[bytes]) -> list[str]:
        """Take in what `save` gave, under the names in it; returns the ids of those without. Raises EngineError."""
        loaded: list[str] = []
        with _translated():
            # Extracting a large layer takes longer than any patience, and containerd's store says nothing meanwhile;
            # docker-py's load_image would not take another than all calls have.
            address, form = self.api._url("/images/load"), {"quiet": False}
            answer = self.api._post(address, data=_blocks(stream), params=form, stream=True, timeout=None)
            for event in self.api._stream_helper(answer, decode=True):
                # containerd's store keeps an image that it could not unpack, and only mentions it.
                said = str(event.get("stream") or "")
                failed = said if said.startswith("Error unpacking") else ""
                if refusal := event.get("error") or event.get("message") or failed:
                    raise EngineError(f"the engine could not load the image: {refusal}")
                loaded += re.findall(r"^Loaded image ID: (sha256:\w+)", said)
        return loaded

    def tag(self, reference: str, repository: str, tag: str) -> None:
        with _translated():
            self.api.tag(reference, repository, tag, force=True)

    def remove_image(self, reference: str, force: bool = False) -> None:
        with _translated():
            self.api.remove_image(reference, force=force)

    def build(self, context: IO[bytes], **options: Any) -> Generator[dict[str, Any], None, None]:
        """Build with the classic builder from a tar; yields its events, an `error` event among them if it fails. Where
        another image that vanished meanwhile stops it, it starts again, and so do the events.

        `options` are docker-py's (`tag`, `buildargs`, `labels`, `network_mode`, `nocache`, `rm`, ...). The proxies of
        Docker's configuration, which may hold a password, stay out of the build. Closing the
        iterator makes the engine stop the build.
        """
        answers: list[requests.Response] = []
        hooks = self.api.hooks["response"]
        hooks.append(remember := lambda answer, *_, **__: answers.append(answer))
        try:
            for attempt in reversed(range(_BUILD_ATTEMPTS)):
                context.seek(0)
                with _translated():
                    for event in self.api.build(
                        fileobj=context, custom_context=True, decode=True, use_config_proxy=False, **options
                    ):
                        if attempt and _VANISHED.match(event.get("error", "")):
                            break
                        yield event
                    else:
                        return
        finally:
            # docker-py keeps the answer to itself, and the engine builds on until its connection is closed.
            hooks.remove(remember)
            for answer in answers:
                answer.close()

    # --- containers

    def containers(self, labels: list[str]) -> list[dict[str, Any]]:
        """Containers that carry all `labels`, running or not."""
        with _translated():
            return self.api.containers(all=True, filters={"label": labels})

    def container(self, name: str) -> dict[str, Any] | None:
        """The container as the engine describes it, or None where it has none of that name."""
        with _translated():
            try:
                return self.api.inspect_container(name)
            except docker.errors.NotFound:
                return None

    def create_container(self, name: str, config: dict[str, Any]) -> str:
        """Create a container from the API's own body (`Image`, `Cmd`, `HostConfig`, ...); returns its id."""
        with _translated(where=name):
            return self.api.create_container_from_config(config, name)["Id"]

    def start(self, container: str) -> None:
        with _translated(where=container):
            self.api.start(container)

    def wait(self, container: str) -> int:
        """The exit code of a container's command, when that has ended."""
        with _translated(where=container):
            return int(self.api.wait(container, timeout=None)["StatusCode"])

    def stop(self, container: str, timeout_s: int = 10) -> None:
        with _translated(where=container):
            self.api.stop(container, timeout=timeout_s)

    def remove(self, container: str, force: bool = False) -> None:
        with _translated(where=container):
            self.api.remove_container(container, v=True, force=force)

    def rename(self, container: str, name: str) -> None:
        with _translated(where=container):
            self.api.rename(container, name)

    def commit(self, container: str, repository: str, tag: str) -> str:
        """Keep a container's file system as an image; returns its id."""
        with _translated(where=container):
            return self.api.commit(container, repository=repository, tag=tag)["Id"]

    def logs(self, container: str, follow: bool = False, tail: int | str = "all") -> Iterator[bytes]:
        with _translated(where=container):
            yield from self.api.logs(container, stream=True, follow=follow, tail=tail)

    def attach(self, container: str) -> Connection:
        """Hold a container's input and output, from before its start."""
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        with _translated(where=container):
            return Connection(self.api.attach_socket(container, streams), _translated)

    def exec_create(self, container: str, command: list[str], **options: Any) -> str:
        """Prepare a command in a running container; `options` are docker-py's (`user`, `environment`, `workdir`)."""
        with _translated(where=container):
            return self.api.exec_create(container, command, **options)["Id"]

    def exec_stream(self, exec_id: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Start a prepared command; yields pairs of standard output and error as they come."""
        with contextlib.closing(self.exec_attach(exec_id)) as connection:
            for error, data in connection.frames():
                yield (None, data) if error else (data, None)

    def exec_attach(self, exec_id: str, tty: bool = False) -> Connection:
        """Start a prepared command and hold its input and output."""
        with _translated():
            return Connection(self.api.exec_start(exec_id, tty=tty, socket=True), _translated)

    def exec_resize(self, exec_id: str, rows: int, columns: int) -> bool:
        """Tell a command's terminal its size. False where the command has not started yet or has ended."""
        with _translated():
            try:
                self.api.exec_resize(exec_id, height=rows, width=columns)
            except docker.errors.APIError:
                return False
            return True

    def exec_detached(self, exec_id: str) -> None:
        with _translated():
            self.api.exec_start(exec_id, detach=True)

    def exec_exit_code(self, exec_id: str) -> int | None:
        """None while the command runs."""
        with _translated():
            return self.api.exec_inspect(exec_id)["ExitCode"]

    def exec_running(self, exec_id: str) -> bool:
        """Whether a command runs; False where the engine has forgotten it."""
        with _translated():
            try:
                return bool(self.api.exec_inspect(exec_id)["Running"])
            except docker.errors.NotFound:
                return False

    def get_archive(self, container: str, path: str) -> bytes | None:
        """A small file or folder of a container as a tar, or None where it has none of that path.

        Raises UsageError beyond limits.CONTAINER_FILE.
        """
        with self.archive(container, path) as blocks:
            return None if blocks is None else b"".join(blocks)

    @contextlib.contextmanager
    def archive(self, container: str, path: str) -> Iterator[Iterator[bytes] | None]:
        """As `get_archive`, in blocks as they come."""
        with _translated(where=container):
            url = self.api._url("/containers/{0}/archive", container)
            # docker-py's get_archive gives no way to stop before the end.
            answer = self.api._get(url, params={"path": path}, headers={"Accept-Encoding": "identity"}, stream=True)
            with contextlib.closing(answer):
                if answer.status_code == requests.codes.not_found:
                    yield None
                    return
                self.api._raise_for_status(answer)
                yield _bounded(answer.raw, f"{container}:{path}")

    def export(self, container: str) -> Iterator[bytes]:
        """A container's whole file system as a tar."""
        with _translated(where=container):
            yield from self.api.export(container)

    def put_archive(self, container: str, folder: str, tar: bytes | IO[bytes]) -> None:
        """Unpack a tar into a folder of a container."""
        with _translated(where=container):
            self.api.put_archive(container, folder, tar)


def _bounded(stream: IO[bytes], where: str) -> Iterator[bytes]:
    count = 0
    while block := stream.read(1 << 16):
        count += len(block)
        CONTAINER_FILE.check(count, "bytes to read from a container", where)
        yield block


def _guarded(client: docker.APIClient) -> docker.APIClient:
    """The client, which puts no name into an address of the API that would lead to another one."""
    address = client._url

    def checked(path: str, *names: str, **options: Any) -> str:
        for name in names:
            _check_name(name)
        return address(path, *names, **options)

    client._url = checked
    return client


def _check_name(name: str) -> None:
    """Raises UsageError for what can be no name, digest or ID of an image, container or network.

    docker-py leaves slashes as they are: `../containers/json` as an image would be another part of the API.
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise UsageError(f"{name[:_LONGEST_NAME]!r} is no name of an image or container")


def _blocks(stream: IO[bytes] | Iterator[bytes]) -> Iterator[bytes]:
    """docker-py announces chunks and then sends a file as it is; an iterator is sent in chunks."""
    return iter(lambda: stream.read(1 << 20), b"") if hasattr(stream, "read") else stream


@contextlib.contextmanager
def _translated(kind: type[ReprokitError] = EngineError, where: str = "") -> Iterator[None]:
    """Docker's errors as ours, with the daemon's own words."""
    try:
        yield
    except docker.errors.APIError as error:
        words = str(error.explanation or error)
        if "port is already allocated" in words or "address already in use" in words:
            raise UsageError(words, where, "publish another host port with -p") from None
        if "is already in use by container" in words:
            raise UsageError(f"the container name {where!r} is in use", where, "choose another with --name") from None
        if "no space left on device" in words:
            raise _no_space(words, where) from None
        raise kind(words, where) from None
    except UnicodeError:
        raise UsageError(f"this name is not valid UTF-8{f': {where!r}' if where else ''}") from None
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        if isinstance(error, BrokenPipeError | KeyboardInterrupt):
            raise
        if str(error).startswith("Credentials store error"):
            raise SourceError(
                "the program that keeps Docker's credentials failed",
                where,
                "see credsStore and credHelpers in Docker's config.json; `docker login` shows whether it works",
            ) from None
        raise EngineError(
            f"the engine stopped answering: {_root_cause(error)}", where, "start it again and repeat the command"
        ) from None


def _without_error(events: Iterator[dict[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    """A transfer's events. Raises SourceError for what a registry refuses, EngineError for a full disk."""
    for event in events:
        if "error" in event:
            full = "no space left on device" in event["error"]
            raise _no_space(event["error"], where) if full else SourceError(event["error"], where)
        yield event


def _no_space(words: str, where: str) -> EngineError:
    return EngineError(words, where, "free space below the engine's root folder")


def _address() -> str:
    context = docker.ContextAPI.kwargs_from_context().get("base_url")
    return os.environ.get("DOCKER_HOST") or context or "unix:///var/run/docker.sock"


def _root_cause(error: BaseException) -> str:
    while error.__context__ is not None:
        error = error.__context__
    return str(error) or type(error).__name__


def _no_engine(error: Exception) -> EngineError:
    cause = _root_cause(error)
    host = _address()
    if "Permission denied" in cause:
        return EngineError(
            "this user may not talk to the Docker Engine",
            host,
            'sudo usermod -aG docker "$USER" and log in again, or use a rootless engine',
        )
    start = "systemctl --user start docker" if "/run/user/" in host else "sudo systemctl start docker"
    hint = f"start it with `{start}`; in a checkout `make demo` installs and starts one"
    return EngineError(f"no Docker Engine answers: {cause}", host, hint)
