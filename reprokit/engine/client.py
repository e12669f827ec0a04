"""The connection to an engine: its address, its reports about itself, and the check of names."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import docker
import docker.errors
import requests

from reprokit.engine.failures import address, client_environment, no_engine, root_cause, translated
from reprokit.engine.info import EngineInfo, EngineVersion
from reprokit.errors import EngineError, UsageError
from reprokit.host.gpu import CDI_KIND
from reprokit.host.machine import Machine

LABEL = "reprokit"
# Images that reprokit makes for itself. A recipe's are `reprokit/NAME:VARIANT`, and no NAME has a slash.
OWN_IMAGES = f"{LABEL}/own"
# The first byte of a commit, save or import of a large image can take minutes.
_TIMEOUT_S = 600
# Parts between slashes begin with a letter, a digit or `_`. The first may be a registry's IPv6 address ([::1]:5000).
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*"
_NAME = re.compile(rf"(\[[0-9A-Fa-f:.]+\](:\d+)?/)?{_PART}(/{_PART})*")
_LONGEST_NAME = 512
_Client = TypeVar("_Client", bound="EngineClient")


class EngineClient:
    """The connection itself; `host` is the machine that the engine runs on."""

    def __init__(self, client: docker.APIClient, host: Machine | None = None) -> None:
        self.api = client
        self.host = host or Machine()

    @classmethod
    def connect(cls: type[_Client]) -> _Client:
        """Connect to the engine of `address()`. Raises EngineError with the cause."""
        environment = client_environment()
        try:
            client = _guarded(docker.DockerClient.from_env(timeout=_TIMEOUT_S, environment=environment).api)
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise no_engine(error) from None
        return cls(client)

    @classmethod
    def behind(cls: type[_Client], socket_path: str, host: Machine) -> _Client:
        """Connect to another machine's engine through a socket that is forwarded to this one. Raises EngineError."""
        try:
            client = _guarded(docker.APIClient(f"unix://{socket_path}", timeout=_TIMEOUT_S, version="auto"))
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise EngineError(f"no Docker Engine answers on the node: {root_cause(error)}", host.name) from None
        return cls(client, host)

    @property
    def url(self) -> str:
        """The address, as DOCKER_HOST would name it; for another machine's engine only the machine's name."""
        return f"ssh://{self.host.name}" if self.host.name else address()

    @property
    def socket(self) -> str | None:
        """The path of the socket that the client connects to; None if it connects over TCP."""
        return getattr(self.api.get_adapter(self.api.base_url), "socket_path", None)

    def info(self) -> EngineInfo:
        with translated():
            return EngineInfo.of(self.api.info())

    def version(self) -> EngineVersion:
        with translated():
            return EngineVersion.of(self.api.version())

    def cdi_devices(self, info: EngineInfo) -> tuple[str, ...]:
        """The GPUs that the engine with this info can give to containers through CDI, such as `nvidia.com/gpu=0`."""
        if not info.cdi_folders:
            return ()
        names = self.host.cdi_devices(info.cdi_folders) if info.cdi_devices is None else info.cdi_devices
        return tuple(name for name in names if name.startswith(f"{CDI_KIND}="))

    def has_gpu(self) -> bool:
        """Whether a request for a GPU can succeed: a device file of a driver exists, or a CDI device."""
        return self.host.has_device_file() or bool(self.cdi_devices(self.info()))

    def stream(self, path: str, *names: str, **options: Any) -> requests.Response:
        """The answer to a GET whose body is not read yet, of a path of the API. docker-py reads bodies to their end."""
        address = self.api._url(path, *names)
        return self.api.get(address, stream=True, timeout=self.api.timeout, **options)


def checked(answer: requests.Response) -> requests.Response:
    """Raises docker.errors.APIError if the engine refused."""
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        docker.errors.create_api_error_from_http_exception(error)
    return answer


def _guarded(client: docker.APIClient) -> docker.APIClient:
    """Make the client check every name before it becomes part of an API address."""
    unchecked = client._url

    def url(path: str, *names: str, **options: Any) -> str:
        for name in names:
            _check_name(name)
        return unchecked(path, *names, **options)

    client._url = url
    return client


def _check_name(name: str) -> None:
    """Raises UsageError unless `name` can be a name, digest or ID of an image, container or network.

    docker-py keeps slashes: an image called `../containers/json` would address another part of the API.
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise UsageError(f"{name[:_LONGEST_NAME]!r} is not the name of an image or container")
