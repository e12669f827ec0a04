"""An image read from its registry: its manifest and config before the engine pulls it, its blobs if the engine cannot.

The engine's own settings for a registry (certificates, mirrors) are unknown here. If the registry cannot be read
without them, the engine pulls without this information.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from reprokit.display import ByteProgress
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, SourceError
from reprokit.nodes.image_reference import ImageReference
from reprokit.nodes.transfer_progress import TransferProgress
from reprokit.oci.layout import END, header, padding, published_entries
from reprokit.oci.model import (
    MANIFEST_TYPE,
    Descriptor,
    Image,
    ImageConfig,
    ImageManifest,
    Layer,
    blob_path,
    digest_of,
    hex_of,
)
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Answer, Client
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
# A registry's answer that is not one, or none at all.
_UNREADABLE = (Refusal, ValueError, LookupError, TypeError, AttributeError)
_SHORT = 12  # hexadecimal digits of a layer's digest in the engine's events
_PATIENCE_S = 10.0
_HUB = "registry-1.docker.io"


def remote_image(engine: Engine, reference: ImageReference, digest: str) -> Image | None:
    """The image of this digest for the engine's architecture, unnamed; None if the registry cannot be read."""
    try:
        with _opened(engine, reference) as repository:
            manifest = validated(ImageManifest, repository.manifest(digest))
            config = repository.get("blobs", manifest.config.digest)
            diff_ids = validated(ImageConfig, config).rootfs.diff_ids
            LAYERS.check(len(diff_ids), "layers in an image", reference.named)
            layers = zip(diff_ids, manifest.layers, strict=True)
            return Image("", config, tuple(Layer(diff_id, 0, blob) for diff_id, blob in layers))
    except (*_UNREADABLE, ReprokitError):
        return None


def archive(
    engine: Engine, reference: ImageReference, digest: str, transfer: TransferProgress, progress: ByteProgress
) -> Iterator[bytes]:
    """The image of this digest as an archive for a containerd store, unnamed, without the blobs that were transferred.

    `transfer` counts the others too. Raises SourceError if the registry cannot be read.
    """
    try:
        with _opened(engine, reference) as repository:
            text = repository.manifest(digest)
            manifest = validated(ImageManifest, text)
            config = repository.get("blobs", manifest.config.digest)
            yield published_entries(text, str(parsed(text).get("mediaType") or MANIFEST_TYPE), config)
            missing = (layer for layer in manifest.layers if hex_of(layer.digest)[:_SHORT] not in transfer.moved)
            blobs = {layer.digest: layer for layer in missing}
            done, total = 0, sum(blob.size for blob in blobs.values())
            for blob in blobs.values():
                yield header(blob_path(blob.digest), blob.size)
                for block in repository.blocks(blob):
                    yield block
                    done += len(block)
                    progress(done, total)
                yield padding(blob.size)
                transfer.moved.add(hex_of(blob.digest)[:_SHORT])
            yield END
    except _UNREADABLE as error:
        raise SourceError(f"the registry does not give the image's blobs: {error}", reference.named) from None


@contextmanager
def _opened(engine: Engine, reference: ImageReference) -> Iterator[_Repository]:
    with Client(Settings(connect_s=_PATIENCE_S, stall_s=_PATIENCE_S, own=Own.of([reference.host]))) as client:
        yield _Repository(client, engine, reference)


class _Repository:
    """Reads one repository of a registry. Raises `_UNREADABLE`."""

    def __init__(self, client: Client, engine: Engine, reference: ImageReference) -> None:
        self._client, self._engine = client, engine
        self._login = engine.credentials(reference.host)
        host = _HUB if reference.host == "docker.io" else reference.host
        indexes = (engine.info().get("RegistryConfig") or {}).get("IndexConfigs") or {}
        # The engine's own rule for loopback, and its configuration for other hosts.
        loopback = re.match(r"(localhost|127\.[0-9.]+|\[::1\])(:|$)", host)
        secure = not loopback and (indexes.get(host) or {}).get("Secure", True)
        self._base = f"{'https' if secure else 'http'}://{host}/v2/{reference.repository.partition('/')[2]}"
        self._authorization = ""

    def manifest(self, digest: str) -> bytes:
        """The manifest of the image for the engine's architecture, which the digest or an index of it names."""
        text = self.get("manifests", digest)
        if "manifests" not in (index := parsed(text)):
            return text
        machine = self._engine.version().get("Arch")
        fits = [m for m in index["manifests"] if (m.get("platform") or {}).get("architecture") == machine]
        linux = [m for m in fits if m["platform"].get("os") == "linux"]
        return self.get("manifests", str(linux[0]["digest"]))

    def get(self, kind: str, digest: str) -> bytes:
        """A manifest or a small blob with the right digest."""
        with self._ask(f"{self._base}/{kind}/{digest}") as answer:
            body = _body(answer)
        if digest_of(body) != digest:
            raise ValueError("the registry sent other bytes than the digest names")
        return body

    def blocks(self, blob: Descriptor) -> Iterator[bytes]:
        """A blob of any size, checked at its end."""
        hashed, size = hashlib.sha256(), 0
        with self._ask(f"{self._base}/blobs/{blob.digest}") as answer:
            while block := answer.read():
                hashed.update(block)
                size += len(block)
                if size > blob.size:
                    break
                yield block
        if (f"sha256:{hashed.hexdigest()}", size) != (blob.digest, blob.size):
            raise ValueError("the registry sent other bytes than the digest names")

    @contextmanager
    def _ask(self, url: str) -> Iterator[Answer]:
        """The answer to a request; a 401 is followed by one with a new authorization, as tokens expire."""
        accept = {"Accept": ", ".join((*_MANIFESTS, *_LISTS))}
        for attempt in range(2):
            allowed = {"Authorization": self._authorization} if self._authorization else {}
            with self._client.ask(url, {**accept, **allowed}) as answer:
                if answer.status == 401 and not attempt:
                    challenge = answer.headers.get("WWW-Authenticate", "")
                elif answer.status == 200:
                    yield answer
                    return
                else:
                    raise ValueError(f"it answers {answer.status}")
            self._authorization = self._permitted(challenge)

    def _permitted(self, challenge: str) -> str:
        """The authorization that the challenge asks for: the credentials, or a token."""
        basic = "Basic " + base64.b64encode(":".join(self._login).encode()).decode() if self._login else ""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            return basic
        fields = dict(re.findall(r'\b(\w{1,40})="([^"]*)"', rest))
        realm = fields.pop("realm")
        # Credentials are sent through TLS only.
        login = basic if realm.startswith("https://") or self._base.startswith("http://") else ""
        query = urlencode({k: v for k, v in fields.items() if k in ("service", "scope")})
        with self._client.ask(f"{realm}?{query}", {"Authorization": login} if login else {}) as reply:
            token = parsed(_body(reply)) if reply.status == 200 else {}
        return "Bearer " + str(token.get("token") or token["access_token"])


def _body(answer: Answer) -> bytes:
    body = b""
    while block := answer.read():
        body += block
        DOCUMENT.check(len(body), "bytes in a registry's answer", "")
    return body
