"""Docker's errors as reprokit's, with the daemon's own message."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

import docker
import docker.errors
import requests
import urllib3.exceptions

from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError

_ADDRESS = re.compile(r"(\S+:\d+)(?:/\w+)?(?: failed)?: (?:bind: )?(?:port is already|address already)")
_DEFAULT = "unix:///var/run/docker.sock"
_PODMANS = "$CONTAINER_HOST"
_OTHER_PORT = "publish another port of the host with -p"


def port_taken(address: str) -> UsageError:
    return UsageError(f"{address} is in use, by another program or container", hint=_OTHER_PORT)


@contextlib.contextmanager
def translated(kind: type[ReprokitError] = EngineError, where: str = "") -> Iterator[None]:
    """Raise Docker's errors as reprokit's: `kind` for what the daemon refuses, EngineError if it is unreachable."""
    try:
        yield
    except docker.errors.APIError as error:
        message = str(error.explanation or error)
        if "port is already allocated" in message or "address already in use" in message:
            address = _ADDRESS.search(message)
            raise port_taken(address[1]) if address else UsageError(message, where, _OTHER_PORT) from None
        if "is already in use by container" in message:
            raise UsageError(f"the container name {where!r} is in use", where, "choose another with --name") from None
        if "no space left on device" in message:
            raise _disk_full(message, where) from None
        if "container-init binary not found" in message:  # podman's, which its package only recommends
            raise EngineError(message, where, "install the package catatonit where the engine runs") from None
        raise kind(message, where) from None
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
            f"the engine stopped answering: {root_cause(error)}", where, "start it again and repeat the command"
        ) from None
    except (LookupError, TypeError, ValueError) as error:
        fault = f"{type(error).__name__}: {error}"
        raise EngineError(f"the engine's answer is not one of the Engine API ({fault})", where) from error


def without_errors(events: Iterator[dict[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    """The events of a push or pull. Raises SourceError for a registry's refusal, EngineError for a full disk."""
    for event in events:
        if "error" in event:
            full = "no space left on device" in event["error"]
            raise _disk_full(event["error"], where) if full else SourceError(event["error"], where)
        yield event


def address() -> str:
    """The engine's address. Raises EngineError if Docker's current context does not exist."""
    return _chosen()[0]


def address_source() -> str:
    """The source of `address`."""
    return _chosen()[1]


def client_environment() -> dict[str, str]:
    """The variables from which docker-py finds the engine of `address`: it does not read `CONTAINER_HOST`."""
    host, source = _chosen()
    return {**os.environ, "DOCKER_HOST": host} if source == _PODMANS else dict(os.environ)


def _chosen() -> tuple[str, str]:
    """The address and its source: `DOCKER_HOST`, Docker's context, podman's `CONTAINER_HOST`, or the default socket."""
    if host := os.environ.get("DOCKER_HOST"):
        return host, "$DOCKER_HOST"
    name = os.environ.get("DOCKER_CONTEXT")
    context = docker.ContextAPI.get_context(name)
    if context is None:
        missing = f"context {name}" if name else "current context"
        raise EngineError(f"Docker's {missing} does not exist", hint="`docker context ls` lists those that do")
    if context.name != "default":
        return context.Host or _DEFAULT, f"Docker's context {context.name}"
    if host := os.environ.get("CONTAINER_HOST"):
        return host, _PODMANS
    return _DEFAULT, "the default socket"


def start_command(host: str) -> str:
    """The command that starts the engine of a socket."""
    unit = "podman.socket" if "podman" in host else "docker"
    return f"systemctl --user start {unit}" if "/run/user/" in host else f"sudo systemctl start {unit}"


def no_engine(error: Exception) -> EngineError:
    """The error for an engine that cannot be connected to, with the remedy that fits its cause."""
    cause, host = root_cause(error), address()
    if "Permission denied" in cause:
        return EngineError(
            "this user may not talk to the Docker Engine",
            host,
            'sudo usermod -aG docker "$USER" and log in again, or use a rootless engine',
        )
    if "SSHHTTPAdapter" in cause:
        cause = "ssh needs the Python package paramiko, which is not installed"
    if host.startswith("unix://"):
        source = address_source()
        other = "in a checkout `make demo` installs and starts one"
        if source.startswith("$"):
            other = f"the socket is from {source}, `unset {source[1:]}` takes the default one"
        hint = f"start it with `{start_command(host)}`; {other}"
    else:
        hint = f"the address is from {address_source()}: correct it; for another machine, use --on NODE without it"
    return EngineError(f"no Docker Engine answers: {cause}", host, hint)


def root_cause(error: BaseException) -> str:
    while error.__context__ is not None:
        error = error.__context__
    return str(error) or type(error).__name__


def _disk_full(message: str, where: str) -> EngineError:
    return EngineError(message, where, "free space below the engine's root folder")
