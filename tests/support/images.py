"""Small images for tests, made in the engine and taken out of it afterwards."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Mapping
from typing import Any

from reprokit.engine import Engine
from tests.support.names import unique


def tar_of(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def built(engine: Engine, dockerfile: str, files: Mapping[str, bytes] | None = None, **options: Any) -> str:
    """The ID of the image that the engine's own builder makes of a Dockerfile; `options` are those of docker-py."""
    context = io.BytesIO(tar_of({"Dockerfile": dockerfile.encode(), **(files or {})}))
    # With a cache, the builder would read images that another worker's test removes.
    made = {"fileobj": context, "custom_context": True, "decode": True, "rm": True, "nocache": True}
    events = list(engine.api.build(**{**made, **options}, use_config_proxy=False))
    assert not [event for event in events if "error" in event], events
    return next(event["aux"]["ID"] for event in reversed(events) if "aux" in event)


def noise(size: int, seed: int) -> bytes:
    """Half of it can be compressed."""
    return b"".join(random.Random(seed + i).randbytes(512) + bytes(512) for i in range(size // 1024))


class Images:
    """Makes images `reprokit/reprokit-test-bundle-RANDOM-NAME:1`, as of recipes, and removes them in the end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.prefix = f"reprokit/{unique('bundle')}"
        self.names: list[str] = []

    def base(self, name: str, files: Mapping[str, bytes], changes: list[str] | None = None) -> str:
        """An image of one layer."""
        self.engine.import_image(io.BytesIO(tar_of(files)), f"{self.prefix}-{name}", "1", changes or ["ENV A=b"])
        return self._made(name)

    def on(self, base: str, name: str, layers: list[Mapping[str, bytes]], lines: str = "") -> str:
        """An image with a layer more for each mapping."""
        context: dict[str, bytes] = {}
        dockerfile = [f"FROM {base}"]
        for number, files in enumerate(layers):
            context |= {f"{number}/{path}": content for path, content in files.items()}
            dockerfile.append(f"COPY {number} /")
        built(self.engine, "\n".join([*dockerfile, lines]), context, tag=f"{self.prefix}-{name}:1")
        return self._made(name)

    def common_base(self) -> str:
        """An image with settings of its own."""
        return self.base("base", {"bin/a": noise(3 << 20, 1)}, ["ENV PATH=/bin:/opt/x", "WORKDIR /w", "USER 7"])

    def two_on(self, base: str) -> tuple[str, str]:
        """Two images of a common base, each with layers of its own."""
        left = self.on(base, "left", [{"l/one": noise(1 << 20, 20)}, {"l/two": noise(1 << 20, 300)}])
        return left, self.on(base, "right", [{"r/one": noise(2 << 20, 50)}], "LABEL x=y")

    def _made(self, name: str) -> str:
        full = f"{self.prefix}-{name}:1"
        self.names.append(full)
        return full

    def close(self) -> None:
        for name in reversed(self.names):
            if self.engine.image(name):
                self.engine.remove_image(name, force=True)
