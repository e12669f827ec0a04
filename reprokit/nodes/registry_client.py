"""An image's manifest and config, read from its registry before the engine pulls it.

The engine's own settings for a registry (certificates, mirrors) are unknown here. If the registry cannot be read
without them, the engine pulls without this information.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.nodes.image_reference import ImageReference
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings
from reprokit.untrusted.addresses import Own
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT, LAYERS

# Both have the same structure: distribution's manifest v2 schema 2, and OCI's image specification.
_LISTS = (
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.index.v1+json",
)
_MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
)
_PATIENCE_S = 10.0
_HUB = "registry-1.docker.io"


@dataclass(frozen=True)
class RemoteImage:
    """`config` byte for byte, and the layers' digests from the base up, compressed (`blobs`) and uncompressed."""

    config: bytes
    blobs: tuple[str, ...]
    diff_ids: tuple[str, ...]
    labels: Mapping[str, str]


def peek(engine: Engine, wanted: ImageReference, digest: str) -> RemoteImage | None:
    """The image of this digest for the engine's architecture, None where the registry cannot be read."""
    try:
        with Client(Settings(connect_s=_PATIENCE_S, stall_s=_PATIENCE_S, own=Own.of([wanted.host]))) as client:
            asked = _Repository(client, engine, wanted)
            manifest = asked.json("manifests", digest)
            if "manifests" in manifest:
                manifest = asked.json("manifests", _for_machine(manifest, engine))
            text = asked.get("blobs", manifest["config"]["digest"])
            config = parsed(text)
            blobs = tuple(str(layer["digest"]) for layer in manifest["layers"])
            diff_ids = tuple(str(diff_id) for diff_id in config["rootfs"]["diff_ids"])
            labels = dict((config.get("config") or {}).get("Labels") or {})
            LAYERS.check(len(diff_ids), "layers in an image", wanted.named)
            return RemoteImage(text, blobs, diff_ids, labels) if len(blobs) == len(diff_ids) else None
    except (Refusal, ReprokitError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _for_machine(index: dict[str, Any], engine: Engine) -> str:
    machine = engine.version().get("Arch")
    fits = [m for m in index["manifests"] if (m.get("platform") or {}).get("architecture") == machine]
    return str([m for m in fits if m["platform"].get("os") == "linux"][0]["digest"])  # noqa: RUF015 - LookupError


class _Repository:
    """Reads one repository of a registry. Raises Refusal, ValueError or LookupError."""

    def __init__(self, client: Client, engine: Engine, wanted: ImageReference) -> None:
        self._client = client
        self._login = engine.credentials(wanted.host)
        host = _HUB if wanted.host == "docker.io" else wanted.host
        indexes = (engine.info().get("RegistryConfig") or {}).get("IndexConfigs") or {}
        # The engine's own rule for loopback, and its configuration for other hosts.
        loopback = re.match(r"(localhost|127\.[0-9.]+|\[::1\])(:|$)", host)
        secure = not loopback and (indexes.get(host) or {}).get("Secure", True)
        self._base = f"{'https' if secure else 'http'}://{host}/v2/{wanted.repository.partition('/')[2]}"
        self._authorization = ""

    def json(self, kind: str, digest: str) -> dict[str, Any]:
        return dict(parsed(self.get(kind, digest)))

    def get(self, kind: str, digest: str) -> bytes:
        """A manifest or blob with the right digest."""
        status, challenge, body = self._get(f"{self._base}/{kind}/{digest}")
        if status == 401 and not self._authorization:
            self._authorization = self._permitted(challenge)
            status, _, body = self._get(f"{self._base}/{kind}/{digest}")
        if status != 200 or f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
            raise ValueError(f"the registry answers {status}")
        return body

    def _get(self, url: str) -> tuple[int, str, bytes]:
        headers = {"Accept": ", ".join((*_MANIFESTS, *_LISTS))}
        if self._authorization:
            headers["Authorization"] = self._authorization
        with self._client.ask(url, headers) as answer:
            body = b""
            while block := answer.read():
                body += block
                DOCUMENT.check(len(body), "bytes in a registry's answer", url)
            return answer.status, answer.headers.get("WWW-Authenticate", ""), body

    def _permitted(self, challenge: str) -> str:
        """The authorization that the challenge asks for: the credentials, or a token."""
        basic = "Basic " + base64.b64encode(":".join(self._login).encode()).decode() if self._login else ""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            return basic
        fields = dict(re.findall(r'\b(\w{1,40})="([^"]*)"', rest))
        realm = fields.pop("realm")
        # Credentials are sent through TLS only.
        self._authorization = basic if realm.startswith("https://") or self._base.startswith("http://") else ""
        query = urlencode({k: v for k, v in fields.items() if k in ("service", "scope")})
        status, _, body = self._get(f"{realm}?{query}")
        answer = parsed(body) if status == 200 else {}
        return "Bearer " + str(answer.get("token") or answer["access_token"])
