"""One run of a builder: its events go to the log, to the watcher, and to what explains a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.host import disk
from reprokit.image.builders import BUILDERS, Plan, builder
from reprokit.image.events import Built, Event, Failed, Note, Output, Step
from reprokit.image.explain import explain
from reprokit.image.failure import Extractor
from reprokit.image.inputs import Inputs
from reprokit.image.keep import keep_last_good
from reprokit.image.labels import image_name, labels
from reprokit.image.record import Log, write_record
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway

Watch = Callable[[Event], None]


@dataclass(frozen=True)
class Options:
    """`forced` are the findings that the user went past with `--force`.

    `offline` asks no network at all, `drift` takes successors of locked apt packages that no mirror has any more, and
    `record` lets a build past its lock and notes what it asked for. `unverified` takes an image that says to be of the
    same inputs, whoever built it.
    """

    builder: str = "classic"
    no_cache: bool = False
    keep_failed: bool = False
    offline: bool = False
    drift: bool = False
    record: bool = False
    forced: list[str] = field(default_factory=list)
    unverified: bool = False


@dataclass(frozen=True)
class End:
    """What a run that worked leaves."""

    image_id: str
    log: Path
    record: Path


def check_options(options: Options) -> None:
    """Raises UsageError where they cannot be had together."""
    if options.builder not in BUILDERS:
        raise UsageError(f"unknown builder {options.builder!r}", hint=f"builders: {', '.join(BUILDERS)}")
    if options.keep_failed and options.builder != "classic":
        raise UsageError(
            "--keep-failed needs the classic builder: BuildKit makes no image of a state before the end",
            hint="leave out --builder, or give --builder classic",
        )
    if options.offline and (options.drift or options.record):
        other = "--drift" if options.drift else "--record"
        raise UsageError(f"--offline and {other} exclude each other: one asks no network, the other needs it")


def check_host(engine: Engine, target: Target, say: Callable[[str], None]) -> None:
    """Say where the disk is short. Raises EngineError where the engine is on another machine."""
    if not engine.url.startswith("unix://"):
        raise EngineError(
            "the engine is on another machine, from where a build cannot reach reprokit's gateway",
            engine.url,
            "run reprokit on that machine, or build there with `reprokit render` and `docker build`",
        )
    info = engine.info()
    free = disk.free_bytes(info.get("DockerRootDir") or disk.ENGINE_ROOT)
    if free is not None and free < target.variant.requires.disk:
        say(
            f"only {free / 1e9:.1f} GB are free below {info.get('DockerRootDir')}; "
            f"{target.label} asks for {target.variant.requires.disk / 1e9:.1f} GB"
        )


class Run:
    """One build by one builder."""

    def __init__(
        self,
        engine: Engine,
        target: Target,
        options: Options,
        inputs: Inputs,
        gateway: Gateway,
        watch: Watch,
        network: str = "host",
    ) -> None:
        self.engine, self.target, self.options = engine, target, options
        self.inputs, self.gateway, self.watch = inputs, gateway, watch
        self.network = network
        self.log = Log(target)
        self.extractors: dict[int, Extractor] = {}
        self.step = 0
        self.labels = labels(target, inputs, options.forced)

    def go(self) -> End:
        """Build; the log is closed and the record written however it ends."""
        self.watch(Note(f"log {self.log.path}"))
        self.log.line(f"# {self.target.label}, inputs {self.inputs.hash}, base {self.inputs.base.described}")
        result: dict[str, Any] = {"builder": self.options.builder, "result": "interrupted"}
        try:
            end = self._follow()
            if isinstance(end, Failed):
                result |= {"block": end.block, "step": end.step}
                raise self._failure(end)
            result |= {"result": "built", "image": end.image_id}
        except ReprokitError as error:
            result |= {"result": "failed", "message": error.message}
            raise
        finally:
            self.log.line(f"# {result['result']}")
            self.log.close()
            record = write_record(self.target, self.inputs, self.gateway, self.log, result)
        return End(end.image_id, self.log.path, record)

    def _follow(self) -> Built | Failed:
        name = image_name(self.target)
        plan = Plan(
            name=name,
            rendered=self.inputs.rendered,
            base_id=self.inputs.base.image_id,
            base_name=self.inputs.base.name,
            arguments=self.inputs.arguments,
            proxies=self.gateway.build_arguments(),
            labels=self.labels,
            no_cache=self.options.no_cache,
            network=self.network,
        )
        events = builder(self.options.builder, self.engine).run(plan)
        try:
            for event in events:
                if isinstance(event, Built | Failed):
                    return event
                self._take(event)
        finally:
            events.close()
        raise EngineError("the build ended without a result", name)

    def _take(self, event: Event) -> None:
        if isinstance(event, Output):
            event = Output(self.gateway.hide(event.line))
            self._extractor.feed(event.line)
            self.log.line(event.line)
        elif isinstance(event, Step):
            self.step = event.number
            self.log.line(f"[{event.number}/{event.total}] {event.block}: {event.text}")
        self.watch(event)

    @property
    def _extractor(self) -> Extractor:
        """That of the step at hand: BuildKit goes back and forth between the steps of several stages."""
        return self.extractors.setdefault(self.step, Extractor())

    def _failure(self, end: Failed) -> ReprokitError:
        message = self.gateway.hide(end.message)
        self.log.line(message)
        error = explain(self.target, end, message, self._extractor, self.gateway)
        hints = [error.hint, f"the whole log: {self.log.path}"]
        if self.options.keep_failed:
            hints.append(keep_last_good(self.engine, self.target, end, self.labels))
        error.hint = "\n      ".join(hint for hint in hints if hint)
        return error
