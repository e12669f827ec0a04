"""`reprokit build`: from a variant to an image, once for the same inputs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, SourceError, WorkFailed
from reprokit.image.base import Base, resolve_base
from reprokit.image.builders import Plan, builder
from reprokit.image.events import Built, Event, Failed, Note, Output, Step
from reprokit.image.failure import Extractor
from reprokit.image.inputs import Inputs, platform_of, resolve_inputs
from reprokit.image.keep import keep_last_good
from reprokit.image.labels import INPUTS, image_name, labels
from reprokit.image.record import Log, write_record
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.supply import wheels
from reprokit.supply.gateway import Gateway
from reprokit.supply.redact import redact
from reprokit.supply.store import Store


@dataclass(frozen=True)
class Options:
    """`forced` are the findings that the user went past with `--force`."""

    builder: str = "classic"
    no_cache: bool = False
    keep_failed: bool = False
    forced: list[str] = field(default_factory=list)


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


Watch = Callable[[Event], None]


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
        say(f"base {base.described}")
        inputs = _at_hand(target, inputs, store, say)
        with Gateway(store, inputs.wheels, inputs.commits) as gateway:
            traffic(gateway)
            return _Run(engine, target, options, inputs, gateway, watch).go(started)


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
    platform = platform_of(target, inputs.base)
    wheels.forget(wheels_wanted(target), platform, target.variant.wheel_indexes, store)
    return resolve_inputs(target, inputs.rendered, inputs.base, store, say)


def wheels_wanted(target: Target) -> list[str]:
    from reprokit.image.blocks import wheel_requirements

    return wheel_requirements(target)


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


class _Run:
    """One run of a builder: its events go to the log, to the watcher, and to whatever explains a failure."""

    def __init__(
        self, engine: Engine, target: Target, options: Options, inputs: Inputs, gateway: Gateway, watch: Watch
    ) -> None:
        self.engine, self.target, self.options = engine, target, options
        self.inputs, self.gateway, self.watch = inputs, gateway, watch
        self.log = Log(target)
        self.extractor = Extractor()
        self.labels = labels(target, inputs.base, inputs.hash, options.forced)

    def go(self, started: float) -> BuildResult:
        name = image_name(self.target)
        self.watch(Note(f"log {self.log.path}"))
        self.log.line(f"# {self.target.label}, inputs {self.inputs.hash}, base {self.inputs.base.described}")
        result: dict[str, Any] = {"builder": self.options.builder, "result": "interrupted"}
        try:
            end = self._follow(name)
            if isinstance(end, Failed):
                result |= {"result": "failed", "block": end.block, "step": end.step, "message": end.message}
                raise self._failure(end)
            result |= {"result": "built", "image": end.image_id}
        except ReprokitError as error:
            result.setdefault("message", error.message)
            if result["result"] == "interrupted":
                result["result"] = "failed"
            raise
        finally:
            self.log.line(f"# {result['result']}")
            self.log.close()
            record = write_record(self.target, self.inputs, self.gateway, self.log, result)
        seconds = time.monotonic() - started
        return BuildResult(
            name, end.image_id, self.inputs.hash, self.inputs.base, True, seconds, self.log.path, record
        )

    def _follow(self, name: str) -> Built | Failed:
        plan = Plan(
            name=name,
            rendered=self.inputs.rendered,
            base_id=self.inputs.base.image_id,
            base_name=self.inputs.base.name,
            arguments=self.inputs.arguments,
            proxies=self.gateway.build_arguments(),
            labels=self.labels,
            no_cache=self.options.no_cache,
        )
        events = builder(self.options.builder, self.engine).run(plan)
        try:
            for event in events:
                if isinstance(event, Built | Failed):
                    return event
                self._take(event)
        finally:
            events.close()  # type: ignore[attr-defined]
        raise EngineError("the build ended without a result", name)

    def _take(self, event: Event) -> None:
        if isinstance(event, Output):
            event = Output(self.gateway.hide(event.line))
            self.extractor.feed(event.line)
            self.log.line(event.line)
        elif isinstance(event, Step):
            self.extractor = Extractor()
            self.log.line(f"[{event.number}/{event.total}] {event.block}: {event.text}")
        self.watch(event)

    def _failure(self, end: Failed) -> ReprokitError:
        message = self.gateway.hide(end.message)
        self.extractor.feed(message) if not self.extractor.tail else None
        self.log.line(message)
        lines = self.extractor.first()
        what = f"block {end.block} failed in {_short(end.step)}"
        text = "\n".join([what, *(f"  {line}" for line in lines)])
        hint = f"the whole log: {self.log.path}"
        if self.options.keep_failed:
            hint += f"\n  {keep_last_good(self.engine, self.target, end, self.labels)}"
        if self.extractor.no_space or "no space left" in message.lower():
            space = "free space below the engine's root folder (`docker system df` shows what takes it)"
            return EngineError(f"the disk is full: {text}", self.target.label, f"{space}; {hint}")
        kind = SourceError if self.extractor.network and not self.extractor.assertions else WorkFailed
        return kind(text, self.target.label, hint)


def _short(step: str) -> str:
    return step if len(step) <= 100 else step[:97] + "..."
