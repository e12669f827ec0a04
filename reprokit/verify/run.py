"""`reprokit verify`: a rebuild without any cache, compared with an existing image."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Literal

from reprokit import paths
from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import ReprokitError
from reprokit.host import command
from reprokit.image.build import build
from reprokit.image.run import BuildOptions
from reprokit.oci.effect import Files
from reprokit.recipe.find import Target
from reprokit.verify.compare import ComparedLayer, changed_settings, compare_layers
from reprokit.verify.layers import ComparedImage, ImageInEngine, effect, written

Verdict = Literal["same", "other times", "differs"]
# diffoscope gets one pair of files of each layer, each of at most 16 MiB.
_LOOK_BYTES = 16 << 20
_LOOK_S = 60
_LOOK_OUTPUT = 1 << 20
_LOOK_LINES = 40


@dataclass(frozen=True)
class Verification:
    """A comparison of `image` with a rebuild. `settings` are those that differ, with the values of both.

    `only_in_one` are diff IDs of layers at positions that the other image does not have.
    """

    image: str
    image_id: str
    seconds: float
    layers: list[ComparedLayer]
    settings: list[tuple[str, str, str]] = field(default_factory=list)
    only_in_one: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        if self.settings or self.only_in_one or any(layer.differ for layer in self.layers):
            return "differs"
        return "other times" if any(layer.times for layer in self.layers) else "same"


@contextmanager
def rebuilt(
    engine: Engine,
    target: Target,
    offline: bool,
    secrets: Mapping[str, bytes] = {},
) -> Iterator[tuple[ImageInEngine, float]]:
    """Build a variant without any cache, under a name that is removed afterwards. Raises as `build`.

    `secrets` are those of the build, by name.
    """
    name = f"{OWN_IMAGES}/verify:{token_hex(8)}"
    try:
        options = BuildOptions(no_cache=True, offline=offline, name=name, secrets=secrets)
        result = build(engine, target, options)
        yield ImageInEngine.of(engine, name), result.seconds
    finally:
        with suppress(ReprokitError):  # there is none if the build failed
            engine.remove_image(name, force=True)


def known_differences(target: Target) -> dict[str, str]:
    """Patterns of paths that a variant's blocks are known to build in another way each time, with the reasons."""
    specs = [use.spec for use in target.uses]
    specs = [spec for spec in specs if not spec.differs_with or spec.differs_with in target.variant.pins]
    return {pattern: why for spec in specs for pattern, why in spec.differs.items()}


def compare_images(
    image: ComparedImage, again: ComparedImage, reasons: Mapping[str, str] = {}, seconds: float = 0.0
) -> Verification:
    """Compare an image with its rebuild, or with another one. `reasons` are those of `known_differences`.

    Images with the same layers are not read; otherwise all layers are. Raises UsageError for layers that are damaged or
    too large, EngineError.
    """
    made = again.instructions
    pairs = list(zip(image.diff_ids, again.diff_ids, strict=False))
    verification = Verification(image.name, image.id, seconds, [], changed_settings(image.config, again.config))
    verification.only_in_one.extend(max(image.diff_ids, again.diff_ids, key=len)[len(pairs) :])
    with TemporaryDirectory(dir=paths.private(paths.home() / "tmp")) as scratch:
        layers = written(image, again, Path(scratch)) if any(left != right for left, right in pairs) else {}
        left = right = Files()
        for number, (old, new) in enumerate(pairs, 1):
            layer = ComparedLayer(number, made[number - 1])
            verification.layers.append(layer)
            if not layers:
                continue
            if old != new and left is right:
                right = left.copy()
            before = effect(left, layers[old], f"layer {number}")
            after = before if left is right else effect(right, layers[new], f"layer {number}")
            if old != new:
                compare_layers(layer, (before, after), (layers[old], layers[new]), reasons, diffoscope(Path(scratch)))
                if not layer.changes:  # the same effect in a tar that was written differently
                    layer.times += 1
    return verification


def diffoscope(scratch: Path) -> Callable[[Iterator[bytes], Iterator[bytes]], str] | None:
    """A function that returns diffoscope's output for two files; None if it is not installed."""
    program = shutil.which("diffoscope")
    if program is None:
        return None

    def look(before: Iterator[bytes], after: Iterator[bytes]) -> str:
        files = scratch / "one", scratch / "other"
        for path, blocks in zip(files, (before, after), strict=True):
            with path.open("wb") as file:
                for block in blocks:
                    if file.tell() + len(block) > _LOOK_BYTES:
                        return ""
                    file.write(block)
        words = [program, "--text", "-", "--text-color", "never", *map(str, files)]
        try:
            done = command.run(words, _LOOK_S, _LOOK_OUTPUT)
        except (subprocess.TimeoutExpired, command.Flood, OSError):
            return ""
        return "".join(f"\n{line}" for line in done.out.splitlines()[:_LOOK_LINES])

    return look
