"""An image's manifest and config, read from its registry before the engine pulls it.

The engine's own settings for a registry (certificates, mirrors) are unknown here. If the registry cannot be read
without them, the engine pulls without this information.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlencode

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.nodes.image_reference import ImageReference
from reprokit.oci.model import Image, ImageConfig, ImageManifest, Layer, digest_of
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings
from reprokit.untrusted.addresses import Own
from reprokit.untrusted.documents import parsed, validated
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


def remote_image(engine: Engine, reference: ImageReference, digest: str) -> Image | None:
    """The image of this digest for the engine's architecture, unnamed; None where the registry cannot be read."""
    try:
        with Client(Settings(connect_s=_PATIENCE_S, stall_s=_PATIENCE_S, own=Own.of([reference.host]))) as client:
            repository = _Repository(client, engine, reference)
            text = repository.get("manifests", digest)
            if "manifests" in (index := parsed(text)):
                text = repository.get("manifests", _for_machine(index, engine))
            manifest = validated(ImageManifest, text)
            config = repository.get("blobs", manifest.config.digest)
            diff_ids = validated(ImageConfig, config).rootfs.diff_ids
            LAYERS.check(len(diff_ids), "layers in an image", reference.named)
            layers = zip(diff_ids, manifest.layers, strict=True)
            return Image("", config, tuple(Layer(diff_id, 0, blob) for diff_id, blob in layers))
    except (Refusal, ReprokitError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _for_machine(index: dict[str, Any], engine: Engine) -> str:
    machine = engine.version().get("Arch")
    fits = [m for m in index["manifests"] if (m.get("platform") or {}).get("architecture") == machine]
    return str([m for m in fits if m["platform"].get("os") == "linux"][0]["digest"])  # noqa: RUF015 - LookupError


class _Repository:
    """Reads one repository of a registry. Raises Refusal, ValueError or LookupError."""

    def __init__(self, client: Client, engine: Engine, reference: ImageReference) -> None:
        self._client = client
        self._login = engine.credentials(reference.host)
        host = _HUB if reference.host == "docker.io" else reference.host
        indexes = (engine.info().get("RegistryConfig") or {}).get("IndexConfigs") or {}
        # The engine's own rule for loopback, and its configuration for other hosts.
        loopback = re.match(r"(localhost|127\.[0-9.]+|\[::1\])(:|$)", host)
        secure = not loopback and (indexes.get(host) or {}).get("Secure", True)
        self._base = f"{'https' if secure else 'http'}://{host}/v2/{reference.repository.partition('/')[2]}"
        self._authorization = ""

    def get(self, kind: str, digest: str) -> bytes:
        """A manifest or blob with the right digest."""
        status, challenge, body = self._get(f"{self._base}/{kind}/{digest}")
        if status == 401 and not self._authorization:
            self._authorization = self._permitted(challenge)
            status, _, body = self._get(f"{self._base}/{kind}/{digest}")
        if status != 200 or digest_of(body) != digest:
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
