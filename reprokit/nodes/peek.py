"""What a registry says of an image before it is pulled: its manifest and configuration, a few kilobytes.

Layers stay the engine's. Registries differ, and what the engine was told of one (certificates, mirrors) is not known
here: where the registry cannot be asked so, nothing is known beforehand and the engine pulls all the same.
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
from reprokit.nodes.published import Published
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings
from reprokit.untrusted.addresses import Own
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT, LAYERS

# The same in both families: distribution's manifest v2 schema 2, and OCI's image specification.
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
class Seen:
    """`config` is the image's configuration, byte for byte; of its layers, from the base on, the digests as packed
    (`blobs`) and unpacked.
    """

    config: bytes
    blobs: tuple[str, ...]
    diff_ids: tuple[str, ...]
    labels: Mapping[str, str]


def peek(engine: Engine, wanted: Published, digest: str) -> Seen | None:
    """The image of this digest for the engine's machine, None where the registry does not tell."""
    try:
        with Client(Settings(connect_s=_PATIENCE_S, stall_s=_PATIENCE_S, own=Own.of([wanted.host]))) as client:
            asked = _Asked(client, engine, wanted)
            manifest = asked.json("manifests", digest)
            if "manifests" in manifest:
                manifest = asked.json("manifests", _for_machine(manifest, engine))
            text = asked.get("blobs", manifest["config"]["digest"])
            config = parsed(text)
            blobs = tuple(str(layer["digest"]) for layer in manifest["layers"])
            diff_ids = tuple(str(diff_id) for diff_id in config["rootfs"]["diff_ids"])
            labels = dict((config.get("config") or {}).get("Labels") or {})
            LAYERS.check(len(diff_ids), "layers in an image", wanted.named)
            return Seen(text, blobs, diff_ids, labels) if len(blobs) == len(diff_ids) else None
    except (Refusal, ReprokitError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _for_machine(index: dict[str, Any], engine: Engine) -> str:
    machine = engine.version().get("Arch")
    fits = [m for m in index["manifests"] if (m.get("platform") or {}).get("architecture") == machine]
    return str([m for m in fits if m["platform"].get("os") == "linux"][0]["digest"])  # noqa: RUF015 - LookupError


class _Asked:
    """One repository of a registry, with the right to read it. Raises Refusal, ValueError or LookupError."""

    def __init__(self, client: Client, engine: Engine, wanted: Published) -> None:
        self._client = client
        self._login = engine.credentials(wanted.host)
        host = _HUB if wanted.host == "docker.io" else wanted.host
        indexes = (engine.info().get("RegistryConfig") or {}).get("IndexConfigs") or {}
        # The engine's own rule for loopback, and what it was told of others.
        loopback = re.match(r"(localhost|127\.[0-9.]+|\[::1\])(:|$)", host)
        secure = not loopback and (indexes.get(host) or {}).get("Secure", True)
        self._base = f"{'https' if secure else 'http'}://{host}/v2/{wanted.repository.partition('/')[2]}"
        self._authorization = ""

    def json(self, kind: str, digest: str) -> dict[str, Any]:
        return dict(parsed(self.get(kind, digest)))

    def get(self, kind: str, digest: str) -> bytes:
        """A manifest or blob, whose digest is checked."""
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
        """By the challenge, the credentials themselves or the token that they are good for."""
        basic = "Basic " + base64.b64encode(":".join(self._login).encode()).decode() if self._login else ""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            return basic
        fields = dict(re.findall(r'\b(\w{1,40})="([^"]*)"', rest))
        realm = fields.pop("realm")
        # Credentials go where TLS keeps them from others, or not at all.
        self._authorization = basic if realm.startswith("https://") or self._base.startswith("http://") else ""
        query = urlencode({k: v for k, v in fields.items() if k in ("service", "scope")})
        status, _, body = self._get(f"{realm}?{query}")
        answer = parsed(body) if status == 200 else {}
        return "Bearer " + str(answer.get("token") or answer["access_token"])
