"""Images: look up, pull, push, save, load and import."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator
from typing import IO, Any

import docker.errors
import requests
from docker.utils.json_stream import json_stream

from reprokit.engine.client import EngineClient, checked
from reprokit.engine.failures import translated, without_errors
from reprokit.engine.info import HistoryStep, ImageInfo, TransferEvent, full_id
from reprokit.errors import EngineError, SourceError
from reprokit.untrusted.documents import parsed

_SAVE_BLOCK = 2 << 20
_REGISTRY_TIMEOUT_S = 20


class Images(EngineClient):
    """The calls of the Engine API about images."""

    def image(self, reference: str) -> ImageInfo | None:
        """Inspect an image; None if no image has that name."""
        with translated():
            try:
                return ImageInfo.of(self.api.inspect_image(reference))
            except docker.errors.ImageNotFound:
                return None

    def image_id(self, reference: str) -> str:
        """The ID of an image, "" if no image has that name."""
        image = self.image(reference)
        return image.id if image else ""

    def layers(self, reference: str) -> tuple[str, ...]:
        """The diff IDs of an image from the base up, none if no image has that name."""
        image = self.image(reference)
        return image.layers if image else ()

    def images(self, labels: list[str], steps: bool = False) -> list[ImageInfo]:
        """Images that carry all `labels`; with `steps` also the intermediate images of builds."""
        with translated():
            # podman refuses a filter without a value.
            listed = self.api.images(filters={"label": labels} if labels else None, all=steps)
        return [ImageInfo.of(image) for image in listed]

    def has_blobs(self, image_id: str) -> bool:
        """Whether a containerd store has every blob of an image, without which it can be neither saved nor pushed."""
        with translated():
            # docker-py's images() does not know `manifests`, which Engine 28 needs to report missing blobs.
            listed = checked(self.stream("/images/json", params={"manifests": 1})).json()
        return complete(listed, image_id)

    def history(self, reference: str) -> list[HistoryStep]:
        """The steps that made an image, the newest first; none if its config names none."""
        with translated():
            return [HistoryStep.of(step) for step in self.api.history(reference) or ()]

    def registry_digest(self, reference: str) -> str:
        """Ask the registry for the digest of `reference`. Raises SourceError, after 20 s at most."""
        timeout_before, self.api.timeout = self.api.timeout, _REGISTRY_TIMEOUT_S
        try:
            with translated(SourceError, reference):
                try:
                    return self.api.inspect_distribution(reference)["Descriptor"]["digest"]
                except requests.exceptions.Timeout:
                    raise SourceError(f"no answer within {_REGISTRY_TIMEOUT_S} s", reference) from None
        finally:
            self.api.timeout = timeout_before

    def pull(self, reference: str) -> Iterator[TransferEvent]:
        """Pull an image. Raises SourceError."""
        repository, separator, digest = reference.partition("@")
        tag = digest if separator else None
        if not separator and ":" in repository.rsplit("/", 1)[-1]:
            repository, _, tag = repository.rpartition(":")
        with translated(SourceError, reference):
            events = self.api.pull(repository, tag=tag or "latest", stream=True, decode=True)
            yield from map(TransferEvent.of, without_errors(events, reference))

    def push(self, repository: str, tag: str) -> Iterator[TransferEvent]:
        """Push an image to the registry in its name. Raises SourceError."""
        where = f"{repository}:{tag}"
        with translated(SourceError, where):
            events = self.api.push(repository, tag=tag, stream=True, decode=True)
            yield from map(TransferEvent.of, without_errors(events, where))

    def import_image(self, stream: IO[bytes] | Iterator[bytes], repository: str, tag: str, changes: list[str]) -> str:
        """Make an image of one layer from a tar of a file system; returns its id."""
        with translated():
            answer = self.api.import_image_from_stream(_blocks(stream), changes=changes)
        last = parsed(answer.strip().splitlines()[-1])
        if "error" in last:
            raise EngineError(last["error"], f"{repository}:{tag}")
        # Not in the import: podman 4.3 ignores its tag, and calls the image `latest`.
        self.tag(last["status"], repository, tag)
        return full_id(last["status"])

    def save(self, *references: str) -> Generator[bytes, None, None]:
        """Save images, each under its name, as one tar that holds a shared layer once; yields its blocks."""
        with (
            translated(where=", ".join(references)),
            # docker-py's get_image takes one name.
            contextlib.closing(self.stream("/images/get", params={"names": references})) as answer,
        ):
            yield from checked(answer).iter_content(_SAVE_BLOCK)

    def load(self, stream: IO[bytes] | Iterator[bytes]) -> list[str]:
        """Load images from `save` under the names in the tar; returns the ids of unnamed ones. Raises EngineError."""
        loaded: list[str] = []
        with translated():
            # Unpacking a large layer takes longer than any timeout, and containerd's store reports nothing meanwhile.
            # docker-py's load_image cannot change the timeout that all calls share.
            address, form = self.api._url("/images/load"), {"quiet": False}
            answer = self.api.post(address, data=_blocks(stream), params=form, stream=True, timeout=None)
            for event in json_stream(answer.iter_content(None)):
                # containerd's store keeps an image that it could not unpack, and reports that as plain output.
                line = str(event.get("stream") or "")
                failed = line if line.startswith("Error unpacking") else ""
                if refusal := event.get("error") or event.get("message") or failed:
                    raise EngineError(f"the engine could not load the image: {refusal}")
                loaded += re.findall(r"^Loaded image ID: (sha256:\w+)", line)
        return loaded

    def tag(self, reference: str, repository: str, tag: str) -> None:
        with translated():
            self.api.tag(reference, repository, tag, force=True)

    def remove_image(self, reference: str, force: bool = False) -> None:
        with translated():
            self.api.remove_image(reference, force=force)


def complete(listed: list[dict[str, Any]], image_id: str) -> bool:
    """Whether a containerd store lists an image as complete: until Engine 26 it lists no other images."""
    image = next((image for image in listed if image["Id"] == image_id), {})
    manifests = image.get("Manifests")
    return bool(image) and (manifests is None or any(m["Available"] for m in manifests if m["Kind"] == "image"))


def _blocks(stream: IO[bytes] | Iterator[bytes]) -> Iterator[bytes]:
    """The stream as an iterator, which docker-py sends in chunks; it announces chunks for a file and sends none."""
    return iter(lambda: stream.read(1 << 20), b"") if hasattr(stream, "read") else stream
