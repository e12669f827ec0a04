"""The helper program that reprokit runs inside containers: static, so that no file of an image affects it.

Its source is `helper.c`; `build.sh` compiles it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import EngineError
from reprokit.tarfiles import tar_of

_ARCHITECTURES = ("amd64", "arm64")


def program(architecture: str) -> Path:
    """The program for an engine's architecture, `Arch` of its version (`amd64`, `arm64`). Raises EngineError."""
    if architecture not in _ARCHITECTURES:
        raise EngineError(
            f"reprokit's helper program is not compiled for {architecture or 'an unknown architecture'}",
            hint=f"use an engine on {' or '.join(_ARCHITECTURES)}",
        )
    return Path(__file__).parent / f"helper-{architecture}"


def helper_image(engine: Engine) -> str:
    """Load an image that contains only the helper; returns its ID. It is kept: equal bytes are the same image."""
    architecture = engine.version().architecture
    layer = tar_of({"helper": program(architecture).read_bytes()}, 0o755)
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "created": "2000-01-01T00:00:00Z",
        "config": {"Labels": {"org.opencontainers.image.title": "reprokit's helper program"}},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        "history": [{"created": "2000-01-01T00:00:00Z", "created_by": "reprokit"}],
    }
    config = json.dumps(configuration).encode()
    # An image without a name would be listed as a leftover, and pruned.
    name = f"{OWN_IMAGES}/helper:{_digest(config)[7:19]}"
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"layer.tar": layer, "config.json": config, "manifest.json": json.dumps(manifest).encode()}
    engine.load(iter([tar_of(files)]))
    return engine.image_id(name) or _digest(config)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
