"""`reprokit build`: from a variant to an image, once for the same inputs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from reprokit import paths
from reprokit.engine import Engine
from reprokit.image import run
from reprokit.image.base import Base, resolve_base
from reprokit.image.blocks import wheel_requirements
from reprokit.image.events import Note
from reprokit.image.inputs import Inputs, resolve_inputs
from reprokit.image.labels import INPUTS, image_name
from reprokit.image.platform import platform_of
from reprokit.image.render import render
from reprokit.image.run import Options, Watch
from reprokit.recipe.find import Target
from reprokit.supply import wheels
from reprokit.supply.gateway import Gateway
from reprokit.supply.redact import redact
from reprokit.supply.store import Store


@dataclass(frozen=True)
class BuildResult:
    """`built` is false where an image of the same inputs was there; then there is no log."""

    name: str
    image_id: str
    inputs: str
    base: Base
    built: bool
    seconds: float
    log: Path | None = None
    record: Path | None = None


def build(
    engine: Engine,
    target: Target,
    options: Options,
    watch: Watch = lambda event: None,
    traffic: Callable[[Gateway], None] = lambda gateway: None,
) -> BuildResult:
    """Build the image of one variant, or find it built.

    `traffic` is given the gateway once it runs, for its count of bytes. Raises WorkFailed with the first causal lines
    where a step fails, SourceError where the network is the cause, EngineError where the engine or its disk is.
    """
    started = time.monotonic()
    store = Store()
    run.check_options(options)

    def say(text: str) -> None:
        watch(Note(redact(text)))

    rendered = render(target)
    base = resolve_base(engine, target.variant.base, say)
    inputs = resolve_inputs(target, rendered, base, store, say)
    name = image_name(target)
    if not options.no_cache and (found := _same(engine, name, inputs)):
        return BuildResult(name, found, inputs.hash, base, False, time.monotonic() - started)
    with _alone(target, say):
        # Another process may have built it while this one waited.
        if not options.no_cache and (found := _same(engine, name, inputs)):
            return BuildResult(name, found, inputs.hash, base, False, time.monotonic() - started)
        run.check_host(engine, target, say)
        say(f"base {base.described}")
        inputs = _at_hand(target, inputs, store, say)
        if inputs.wheels.wheels or inputs.commits:
            say(f"from the store: {inputs.described}")
        with Gateway(store, inputs.offer, archives=base.archives) as gateway:
            traffic(gateway)
            end = run.Run(engine, target, options, inputs, gateway, watch).go()
        seconds = time.monotonic() - started
        return BuildResult(name, end.image_id, inputs.hash, base, True, seconds, end.log, end.record)


def _same(engine: Engine, name: str, inputs: Inputs) -> str | None:
    """The image's id where it was built from the same inputs."""
    image = engine.image(name)
    if image and (image["Config"].get("Labels") or {}).get(INPUTS) == inputs.hash:
        return str(image["Id"])
    return None


def _at_hand(target: Target, inputs: Inputs, store: Store, say: Callable[[str], None]) -> Inputs:
    """The same inputs with every file in the store: wheels may have been remembered and their files deleted."""
    if not wheels.missing(inputs.wheels, store):
        return inputs
    say("wheels have left the store; fetching them again")
    platform = platform_of(target, inputs.base.architecture)
    wheels.forget(wheel_requirements(target), platform, target.variant.wheel_indexes, store)
    return resolve_inputs(target, inputs.rendered, inputs.base, store, say)


class _alone:
    """One build of an image at a time; the second waits and says so."""

    def __init__(self, target: Target, say: Callable[[str], None]) -> None:
        folder = paths.home() / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / f"build-{target.recipe.name}-{target.variant_name}.lock")
        self.target, self.say = target, say

    def __enter__(self) -> None:
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            self.say(f"another build of {self.target.label} is running; waiting for it")
            self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
