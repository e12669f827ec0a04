"""Builds a Dockerfile in containers, through the engine's API alone.

Each stage is a chain of containers: one begins at an image, runs the steps of a block, and is committed. A block of the
result is one layer. Stages whose product is copied are committed after each long step, so that a failed one loses
nothing before it. The configuration of the result is written separately, over layers that the engine has, and contains
nothing of the containers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reprokit.display import notify
from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import EngineError
from reprokit.image.copying import Trees
from reprokit.image.dockerfile import (
    Copy,
    Dockerfile,
    Evaluation,
    Instruction,
    Operation,
    Run,
    Settings,
    Stage,
    Words,
    global_arguments,
)
from reprokit.image.events import BuildStep, Event
from reprokit.image.made import Steps
from reprokit.image.reasons import StepFacts, facts, reason
from reprokit.image.stage import OrderedEvents, StageRun, mounted, numbered
from reprokit.oci.containerd import with_store_blobs
from reprokit.oci.layout import END, small_entries
from reprokit.oci.model import Image, Layer
from reprokit.oci.store import Chain, ImageStore, LayerChains, form_of
from reprokit.supply.store import key_of


@dataclass(frozen=True)
class Plan:
    """A build. `block_of` names the block of a line; with `layered` a block is one layer, else an instruction is.

    `arguments` are build arguments, `proxies` variables of every step that reach neither image nor cache. `files` is
    the build context, `base_of` returns the engine's image for a reference. `settings` are entries of `HostConfig`,
    `labels` of the result. The state of a failed step is kept under the name `keep_failed`, unless that is "". `caches`
    names the owner of the cache mounts, which strangers must not share; if empty, none is kept. `parallel` stages run
    at once. `earlier` are the steps of the last build, to report why a step runs again. `gpus` are DeviceRequests of
    stages whose product is copied: NVIDIA's runtime leaves files of the driver in a container, and so in a layer.
    """

    name: str
    dockerfile: Dockerfile
    block_of: Callable[[int], str]
    base_of: Callable[[str], str]
    files: Trees
    files_key: str
    where: str = "Dockerfile"
    layered: bool = True
    arguments: Mapping[str, str] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    gpus: Sequence[Mapping[str, Any]] = ()
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    gateway: Path | None = None
    no_cache: bool = False
    parallel: int = 1
    caches: str = ""
    earlier: Sequence[StepFacts] = ()
    keep_failed: str = ""
    failed_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Step:
    """One operation of a stage; `key` hashes everything that its result depends on."""

    number: int
    instruction: Instruction
    operation: Operation | None
    block: str
    key: str = ""
    facts: StepFacts | None = None


@dataclass
class Evaluated:
    """A stage before it runs: its steps, settings, last key, and the history of its base.

    It begins at the stage `parent`, or at the image `base`. `done` is the number of the last step that is cached, -1
    for none.
    """

    settings: Settings
    key: str
    history: list[dict[str, Any]]
    parent: int | None = None
    base: str = ""
    steps: list[Step] = field(default_factory=list)
    done: int = -1


class Executor:
    """One build. `result` returns the image's ID. Raises StepFailed, UsageError, EngineError."""

    def __init__(self, engine: Engine, plan: Plan, cache: Steps, report: Callable[[Event], None]) -> None:
        self.engine, self.plan, self.cache = engine, plan, cache
        self.report = numbered(report)
        self.words = Words(plan.dockerfile, plan.where)
        self.evaluated: dict[int, Evaluated] = {}
        self.images: dict[int, str] = {}
        self.commit_s = 0.3  # until a commit was measured
        self.facts: list[StepFacts] = []
        self._reported_reason = plan.no_cache
        self.total = sum(1 + len(self.stages[at].instructions) for at in self.needed)

    @property
    def stages(self) -> Sequence[Stage]:
        return self.plan.dockerfile.stages

    @cached_property
    def platform(self) -> dict[str, str]:
        """The predefined platform arguments: builds are for the engine's platform."""
        version = self.engine.version()
        system, architecture = version.os or "linux", version.architecture or "amd64"
        values = {"PLATFORM": f"{system}/{architecture}", "OS": system, "ARCH": architecture, "VARIANT": ""}
        return {f"{side}{name}": value for side in ("BUILD", "TARGET") for name, value in values.items()}

    @cached_property
    def globals(self) -> dict[str, str]:
        return global_arguments(self.plan.dockerfile, self.words, self.plan.arguments, self.platform)

    def stage_of(self, name: str, before: int) -> int | None:
        """The number of an earlier stage by name or number, None for an image."""
        if name.isascii() and name.isdigit():
            return int(name) if int(name) < before else None
        return next((n for n in reversed(range(before)) if self.stages[n].name == name.lower() != ""), None)

    @cached_property
    def needed(self) -> list[int]:
        """The stages that the last one needs, in order; `chain` are those that it begins at."""
        needs = {len(self.stages) - 1}
        for number in reversed(range(len(self.stages))):
            if number in needs:
                needs |= self._needs(number)
        return sorted(needs)

    @cached_property
    def chain(self) -> set[int]:
        chain, number = set[int](), (len(self.stages) - 1 if self.stages else None)
        while number is not None:
            chain.add(number)
            number = self.stage_of(self._base(self.stages[number]), number)
        return chain

    def _base(self, stage: Stage) -> str:
        return self.words.word(stage.base, self.globals, stage.line)

    def _needs(self, number: int) -> set[int]:
        stage = self.stages[number]
        names = [self._base(stage)]
        for instruction in stage.instructions:
            names += [value for name, value in instruction.flags if name == "from"]
            mounts = (value for name, value in instruction.flags if name == "mount")
            names += [part[5:] for mount in mounts for part in mount.split(",") if part.startswith("from=")]
        return {origin for name in names if (origin := self.stage_of(name, number)) is not None}

    def result(self) -> str:
        for number in self.needed:
            self.evaluated[number] = self._evaluate(number)
        self.total = sum(1 + len(stage.steps) for stage in self.evaluated.values())
        last = len(self.stages) - 1
        for number in self.needed:
            # A cached stage needs no stage before it.
            if number not in self._running:
                self.report_stage(number, len(self.evaluated[number].steps), self.report)
        self._run()
        name, settings = self.plan.name, self.evaluated[last].settings
        return self.sealed(name, self.image(last), settings, self._history(last), self.plan.labels)

    @cached_property
    def _running(self) -> dict[int, set[int]]:
        """The stages with steps to run, in order, each with the stages among them that it waits for."""
        running: dict[int, set[int]] = {}
        waiting = [len(self.stages) - 1]
        while waiting:
            stage = self.evaluated[number := waiting.pop()]
            operations = [step.operation for step in stage.steps[stage.done + 1 :] if step.operation]
            if number in running or not operations:
                continue
            running[number] = set()
            if stage.done < 0 and stage.parent is not None:
                running[number].add(stage.parent)
            origins = (self.stage_of(origin, number) for operation in operations for origin in _origins(operation))
            running[number] |= {origin for origin in origins if origin is not None}
            waiting += running[number]
        return {number: running[number] & running.keys() for number in sorted(running)}

    def _run(self) -> None:
        """Run the stages, independent ones at once. Raises the error of the first that fails."""
        events = OrderedEvents(self.report, self._running)
        runs = {number: StageRun(self, number, events) for number in self._running}
        futures: dict[int, Future[None]] = {}
        with ThreadPoolExecutor(max(1, self.plan.parallel)) as pool:
            try:
                for number, before in self._running.items():  # each after the stages it waits for
                    futures[number] = pool.submit(runs[number].run, [futures[earlier] for earlier in before])
                for future in as_completed(futures.values()):
                    future.result()
            except BaseException:
                events.stop(next((n for n, future in futures.items() if future.done() and future.exception()), None))
                for run in runs.values():
                    run.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def image(self, number: int) -> str:
        """The image of a stage's last step that ran or is cached, else the image that it begins at."""
        stage = self.evaluated[number]
        if number in self.images:
            return self.images[number]
        if stage.done >= 0:
            return self.cache.find(stage.steps[stage.done].key)
        return self.image(stage.parent) if stage.parent is not None else stage.base

    def _begin(self, number: int) -> Evaluated:
        """A stage before its first step."""
        stage = self.stages[number]
        base = self._base(stage)
        if (parent := self.stage_of(base, number)) is not None:
            evaluated = self.evaluated[parent]
            return Evaluated(evaluated.settings.copy(), evaluated.key, [], parent)
        image = self.scratch() if base == "scratch" else self.plan.base_of(base)
        info = self.engine.image(image)
        if info is None:
            raise EngineError("the engine lacks the base image of a stage", image)
        config = {key: value for key, value in info.config.items() if key in _KEPT and value}
        history: list[dict[str, Any]] = [
            {"created_by": step.command, "empty_layer": not step.size} for step in reversed(self.engine.history(image))
        ]
        key = key_of({"layers": list(info.layers), "config": config})
        return Evaluated(Settings(config, {}, info.author), key, _fitting(history, info.layers), base=image)

    def scratch(self) -> str:
        """An empty image."""
        return self._loaded(f"{OWN_IMAGES}/scratch:1", Settings({}), (), [], "", "2000-01-01T00:00:00Z")

    def _evaluate(self, number: int) -> Evaluated:
        evaluated = self._begin(number)
        begun = evaluated.key
        stage, given = self.stages[number], self.plan.arguments
        evaluation = Evaluation(stage, evaluated.settings, self.words, given, self.globals)
        for instruction, operation in evaluation.operations():
            step = Step(len(evaluated.steps), instruction, operation, self.plan.block_of(instruction.line))
            if operation:
                evaluated.key = step.key = self._key(evaluated.key, operation, step.block, number)
                step.facts = self._facts(number, step, begun)
                self.facts.append(step.facts)
            evaluated.steps.append(step)
        evaluated.done = self._cached(evaluated.steps)
        return evaluated

    def _facts(self, number: int, step: Step, base: str) -> StepFacts:
        operation = step.operation
        variables = operation.environment if isinstance(operation, Run) else {}
        copies = self._origin_key(operation.origin, number) if isinstance(operation, Copy) else ""
        return facts(f"{number}.{step.number}", step.instruction.text, variables, copies, base)

    def report_reason(self, steps: Sequence[Step]) -> None:
        """Report why the first of these steps runs."""
        first = next((step for step in steps if step.facts), None)
        if first and first.facts and not self._reported_reason:
            self._reported_reason = True
            if self.plan.earlier:
                notify(f"block {first.block} runs again: {reason(first.facts, self.plan.earlier)}")

    def _key(self, before: str, operation: Operation, block: str, number: int) -> str:
        parts: dict[str, Any] = {"before": before, **operation.key}
        if self.plan.gpus and number not in self.chain:
            parts["gpus"] = True
        if self.plan.layered:
            parts["block"] = block  # the same steps as two blocks are two layers
        if isinstance(operation, Copy):
            parts["origin"] = self._origin_key(operation.origin, number)
        elif isinstance(operation, Run):
            binds = (mount for mount in operation.mounts if mount.kind == "bind")
            parts["binds"] = [self._origin_key(mount.origin, number) for mount in binds]
        return key_of(parts)

    def _origin_key(self, origin: str, number: int) -> str:
        """The key of the files that a COPY or a bind copies from."""
        if not origin:
            return self.plan.files_key
        stage = self.stage_of(origin, number)
        return self.evaluated[stage].key if stage is not None else self.plan.base_of(origin)

    def groups(self, steps: Sequence[Step]) -> Iterator[list[Step]]:
        """The steps that one container runs: those of a block, or of one instruction that changes files."""
        group: list[Step] = []
        for step in steps:
            if group and self._ends(group, step):
                yield group
                group = []
            group.append(step)
        if group:
            yield group

    def _ends(self, group: Sequence[Step], step: Step) -> bool:
        """Whether a group ends before this step."""
        works = any(member.operation for member in group)
        if works and any(map(mounted, (*group, step))):  # a container's mounts are fixed
            return True
        return group[-1].block != step.block if self.plan.layered else works

    def _cached(self, steps: Sequence[Step]) -> int:
        """The number of the last step whose result an earlier build committed, -1 for none."""
        if self.plan.no_cache:
            return -1
        for step in reversed(steps):
            if step.key and self.cache.find(step.key):
                return step.number
        return -1

    def event(self, line: int, text: str, cached: bool = False) -> BuildStep:
        return BuildStep(0, self.total, self.plan.block_of(line), " ".join(text.split()), cached)

    def report_stage(self, number: int, cached: int, report: Callable[[Event], None]) -> None:
        """Report the beginning of a stage and its `cached` first steps."""
        stage = self.stages[number]
        report(self.event(stage.line, f"FROM {stage.base}" + (f" AS {stage.name}" if stage.name else "")))
        for step in self.evaluated[number].steps[:cached]:
            report(self.event(step.instruction.line, step.instruction.text, cached=True))

    def _history(self, number: int) -> list[dict[str, Any]]:
        """An entry for each setting and each layer; a block's layer lists all its steps."""
        stage = self.evaluated[number]
        history = list(stage.history) if stage.parent is None else self._history(stage.parent)
        layers = self._layers(self.image(stage.parent) if stage.parent is not None else stage.base)
        for group in self.groups(stage.steps):
            working = [step for step in group if step.operation]
            for step in group:
                if step.operation is None:
                    history.append({"created_by": step.instruction.text, "empty_layer": True})
                elif step is working[-1]:
                    before, layers = layers, self._layers(self.cache.find(step.key))
                    if layers != before or not self.plan.layered:
                        text = "\n".join(map(_created_by, working))
                        history.append({"created_by": text, "empty_layer": layers == before})
        return history

    def _layers(self, image: str) -> int:
        return len(self.engine.layers(image)) if image else 0

    def sealed(
        self, name: str, image: str, settings: Settings, history: list[dict[str, Any]], labels: Mapping[str, str]
    ) -> str:
        """Make an image of the same layers with its own configuration; returns its ID."""
        own = settings.copy()
        own.config["Labels"] = {**(own.config.get("Labels") or {}), **labels}
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return self._loaded(name, own, self.engine.layers(image), history, image, created)

    def _loaded(
        self, name: str, settings: Settings, layers: Chain, history: list[dict[str, Any]], of: str, created: str
    ) -> str:
        """Load a configuration over the layers of the image `of`."""
        document = {
            "architecture": self.platform["TARGETARCH"],
            "os": self.platform["TARGETOS"],
            "created": created,
            **({"author": settings.author} if settings.author else {}),
            "config": settings.config,
            "rootfs": {"type": "layers", "diff_ids": list(layers)},
            "history": [{"created": created, **entry} for entry in _fitting(history, layers)],
        }
        image = Image(name, json.dumps(document).encode(), tuple(Layer(diff_id, 0, None) for diff_id in layers))
        form = form_of(self.engine.info(), self.engine.version())
        image = with_store_blobs(image, ImageStore(self.engine, form, LayerChains([(layers, of)])))
        if name == self.plan.name:
            self.cache.announce(form.id_of(image))
        self.engine.load(iter([small_entries([image]) + END]))
        return self.engine.image_id(name) or image.id


# Keys of the OCI image specification and of Docker's own (moby/docker-image-spec).
_KEPT = (
    "User",
    "ExposedPorts",
    "Env",
    "Entrypoint",
    "Cmd",
    "Volumes",
    "WorkingDir",
    "Labels",
    "StopSignal",
    "Healthcheck",
    "OnBuild",
    "Shell",
)


def _origins(operation: Operation) -> list[str]:
    """The stages and images that an operation takes files from."""
    mounts = operation.mounts if isinstance(operation, Run) else ()
    names = [operation.origin] if isinstance(operation, Copy) else [mount.origin for mount in mounts]
    return [name for name in names if name]


def _fitting(history: list[dict[str, Any]], layers: Sequence[str]) -> list[dict[str, Any]]:
    """The history if it matches the number of layers, else empty entries: engines refuse a mismatch."""
    if sum(not entry["empty_layer"] for entry in history) == len(layers):
        return history
    return [{"created_by": "", "empty_layer": False} for _ in layers]


def _created_by(step: Step) -> str:
    if isinstance(step.operation, Run):
        return f"RUN {' '.join(step.operation.arguments)}"
    return step.instruction.text
