"""Builds a Dockerfile in containers, through the engine's API alone.

Each stage is a chain of containers: one begins at an image, runs the steps of a block, and is committed. A block of
the result is one layer. Stages whose product is copied are committed after each long step, so that a failed one loses
nothing before it. The configuration of the result is written by itself, over layers that the engine has, so that
nothing of the containers is in it.
"""

from __future__ import annotations

import codecs
import json
import posixpath
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import ReprokitError, UsageError
from reprokit.helper.container import NAME, PATH, BuildContainer, Command, Entry, build_container
from reprokit.image.copying import EPOCH, Trees, copy, image_trees
from reprokit.image.dockerfile import (
    Copy,
    Dockerfile,
    Evaluation,
    Instruction,
    MakeFolder,
    Mount,
    Operation,
    Run,
    Settings,
    Stage,
    Words,
    global_arguments,
)
from reprokit.image.events import BuildStep, Event, Note, OutputLine
from reprokit.image.labels import FAILED
from reprokit.image.lines import Lines
from reprokit.image.made import Steps, step_name
from reprokit.image.reasons import StepFacts, facts, reason
from reprokit.oci.containerd import with_store_blobs
from reprokit.oci.layout import END, small_entries
from reprokit.oci.model import Image, Layer
from reprokit.oci.store import Chain, ImageStore, LayerChains, form_of, layers_of
from reprokit.supply.store import key_of

# A stage that only gives its product is committed after steps that took this many times longer than a commit.
_WORTH = 10
_MOST_ACCOUNTS = 4 << 20


class StepFailed(ReprokitError):
    """A step ended with an exit code; `kept` is the image of what it left, if the plan keeps that."""

    def __init__(self, block: str, step: str, code: int, kept: str = "") -> None:
        super().__init__(f"the command returned a non-zero code: {code}")
        self.block, self.step, self.code, self.kept = block, step, code, kept


@dataclass(frozen=True)
class Plan:
    """A build. `block_of` names the block of a line; `layered` says whether a block is one layer, or an instruction is.

    `arguments` are build arguments, `proxies` variables of every step that reach neither image nor cache. `files` is
    the build context, `base_of` returns the engine's image for a reference. `settings` are entries of `HostConfig`,
    `labels` of the result. The state of a failed step is kept under the name `keep_failed`, unless that is "". `caches`
    tells apart whose cache mounts they are: one stranger's objects must not be another's. Without it none is kept.
    `earlier` are the steps of the last build, to say why one runs again. `gpus` are DeviceRequests of stages whose
    product is copied: NVIDIA's runtime leaves files of the driver in a container, and so in a layer.
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
    caches: str = ""
    earlier: Sequence[StepFacts] = ()
    keep_failed: str = ""
    failed_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Step:
    """One operation of a stage: its key is of everything that its result depends on."""

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
        self.engine, self.plan, self.cache, self.report = engine, plan, cache, report
        self.words = Words(plan.dockerfile, plan.where)
        self.evaluated: dict[int, Evaluated] = {}
        self.images: dict[int, str] = {}
        self.steps = 0
        self.facts: list[StepFacts] = []
        self._said_why = plan.no_cache
        self.total = sum(1 + len(self.stages[at].instructions) for at in self.needed)

    @property
    def stages(self) -> Sequence[Stage]:
        return self.plan.dockerfile.stages

    @cached_property
    def platform(self) -> dict[str, str]:
        """The predefined arguments of platforms: builds are for the engine's own."""
        version = self.engine.version()
        system, architecture = str(version.get("Os", "linux")), str(version.get("Arch", "amd64"))
        found = {"PLATFORM": f"{system}/{architecture}", "OS": system, "ARCH": architecture, "VARIANT": ""}
        return {f"{side}{name}": value for side in ("BUILD", "TARGET") for name, value in found.items()}

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
        found, number = set[int](), (len(self.stages) - 1 if self.stages else None)
        while number is not None:
            found.add(number)
            number = self.stage_of(self._base(self.stages[number]), number)
        return found

    def _base(self, stage: Stage) -> str:
        return self.words.word(stage.base, self.globals, stage.line)

    def _needs(self, number: int) -> set[int]:
        stage = self.stages[number]
        names = [self._base(stage)]
        for each in stage.instructions:
            names += [value for name, value in each.flags if name == "from"]
            mounts = (value for name, value in each.flags if name == "mount")
            names += [part[5:] for mount in mounts for part in mount.split(",") if part.startswith("from=")]
        return {found for name in names if (found := self.stage_of(name, number)) is not None}

    def result(self) -> str:
        for number in self.needed:
            self.evaluated[number] = self._evaluate(number)
        self.total = sum(1 + len(each.steps) for each in self.evaluated.values())
        last = len(self.stages) - 1
        for number in self.needed:
            # Nothing of what is cached needs the stages before it.
            if number not in self._running:
                self._report_stage(number, len(self.evaluated[number].steps))
        for number in self._running:
            self.images[number] = self._run(number)
        name, settings = self.plan.name, self.evaluated[last].settings
        return self._sealed(name, self._image(last), settings, self._history(last), self.plan.labels)

    @cached_property
    def _running(self) -> list[int]:
        """The stages of which something runs, in order."""
        found = set[int]()
        waiting = [len(self.stages) - 1]
        while waiting:
            stage = self.evaluated[number := waiting.pop()]
            left = stage.steps[stage.done + 1 :]
            if number in found or not any(step.operation for step in left):
                continue
            found.add(number)
            if stage.done < 0 and stage.parent is not None:
                waiting.append(stage.parent)
            origins = (origin for step in left if step.operation for origin in _origins(step.operation))
            waiting += [needed for origin in origins if (needed := self.stage_of(origin, number)) is not None]
        return sorted(found)

    def _image(self, number: int) -> str:
        """The image of a stage: of its last step that ran or is cached, else of what it begins at."""
        stage = self.evaluated[number]
        if number in self.images:
            return self.images[number]
        if stage.done >= 0:
            return self.cache.find(stage.steps[stage.done].key)
        return self._image(stage.parent) if stage.parent is not None else stage.base

    def _begin(self, number: int) -> Evaluated:
        """What a stage begins at."""
        stage = self.stages[number]
        base = self._base(stage)
        if (parent := self.stage_of(base, number)) is not None:
            found = self.evaluated[parent]
            return Evaluated(found.settings.copy(), found.key, [], parent)
        image = self._scratch() if base == "scratch" else self.plan.base_of(base)
        described = self.engine.image(image) or {}
        config = {key: value for key, value in (described.get("Config") or {}).items() if key in _KEPT and value}
        history = [
            {"created_by": str(each.get("CreatedBy") or ""), "empty_layer": not each.get("Size")}
            for each in reversed(self.engine.history(image))
        ]
        layers = layers_of(described)
        settings = Settings(config, {}, str(described.get("Author") or ""))
        key = key_of({"layers": list(layers), "config": config})
        return Evaluated(settings, key, _fitting(history, layers), base=image)

    def _scratch(self) -> str:
        """An image of nothing."""
        return self._loaded(f"{OWN_IMAGES}/scratch:1", Settings({}), (), [], "", "2000-01-01T00:00:00Z")

    def _evaluate(self, number: int) -> Evaluated:
        found = self._begin(number)
        begun = found.key
        stage, given = self.stages[number], self.plan.arguments
        evaluation = Evaluation(stage, found.settings, self.words, given, self.globals)
        for instruction, operation in evaluation.operations():
            step = Step(len(found.steps), instruction, operation, self.plan.block_of(instruction.line))
            if operation:
                found.key = step.key = self._key(found.key, operation, step.block, number)
                step.facts = self._facts(number, step, begun)
                self.facts.append(step.facts)
            found.steps.append(step)
        found.done = self._cached(found.steps)
        return found

    def _facts(self, number: int, step: Step, base: str) -> StepFacts:
        operation = step.operation
        variables = operation.environment if isinstance(operation, Run) else {}
        copies = self._origin_key(operation.origin, number) if isinstance(operation, Copy) else ""
        return facts(f"{number}.{step.number}", step.instruction.text, variables, copies, base)

    def _say_why(self, steps: Sequence[Step]) -> None:
        """Say why the first step that runs does so."""
        first = next((step for step in steps if step.facts), None)
        if first and first.facts and not self._said_why:
            self._said_why = True
            if self.plan.earlier:
                self.report(Note(f"block {first.block} runs again: {reason(first.facts, self.plan.earlier)}"))

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
        """What a COPY or a bind takes from."""
        if not origin:
            return self.plan.files_key
        stage = self.stage_of(origin, number)
        return self.evaluated[stage].key if stage is not None else self.plan.base_of(origin)

    def _groups(self, steps: Sequence[Step]) -> Iterator[list[Step]]:
        """The steps that one container does: those of a block, or of one instruction that changes files."""
        group: list[Step] = []
        for step in steps:
            if group and self._ends(group, step):
                yield group
                group = []
            group.append(step)
        if group:
            yield group

    def _ends(self, group: Sequence[Step], step: Step) -> bool:
        """Whether a step is not of this group."""
        works = any(each.operation for each in group)
        if works and any(map(_mounted, (*group, step))):  # mounts are those of the container
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

    def _run(self, number: int) -> str:
        """Run what is not cached of a stage; returns its image."""
        stage = self.evaluated[number]
        self._report_stage(number, stage.done + 1)
        left = stage.steps[stage.done + 1 :]
        self._say_why(left)
        image = self._image(number)
        for group in self._groups(left):
            if any(step.operation for step in group):
                image = self._group(image, group, number, stage.settings)
                continue
            for step in group:
                self._report_step(step.instruction.line, step.instruction.text)
        return image

    def _report_stage(self, number: int, cached: int) -> None:
        """Report the beginning of a stage, and its first steps, which are cached."""
        stage = self.stages[number]
        self._report_step(stage.line, f"FROM {stage.base}" + (f" AS {stage.name}" if stage.name else ""))
        for step in self.evaluated[number].steps[:cached]:
            self._report_step(step.instruction.line, step.instruction.text, cached=True)

    def _group(self, image: str, group: Sequence[Step], number: int, settings: Settings) -> str:
        waiting = list(group)
        while waiting:
            with ExitStack() as stack:
                first = next((step for step in waiting if step.operation), waiting[0])
                mounts = stack.enter_context(self._mounts(first, number))
                gpus = {"DeviceRequests": list(self.plan.gpus)} if number not in self.chain else {}
                limits = {**self.plan.settings, **gpus}
                container = stack.enter_context(build_container(self.engine, image, self.plan.gateway, limits, mounts))
                accounts = Accounts(container)
                began, last = time.monotonic(), ""
                while waiting:
                    step = waiting.pop(0)
                    self._report_step(step.instruction.line, step.instruction.text)
                    if step.operation is None:
                        continue
                    try:
                        self._do(container, accounts, step, number)
                    except StepFailed as failure:
                        if self.plan.keep_failed:
                            temporary = step_name(token_hex(16))
                            kept = self.engine.commit(container.name, *temporary.rsplit(":", 1))
                            name, labels = self.plan.keep_failed, {**self.plan.failed_labels, FAILED: step.block}
                            failure.kept = self._sealed(name, kept, settings, [], labels)
                            self.engine.remove_image(temporary)
                        raise
                    last = step.key
                    # What a stage's product is copied from may have any number of layers.
                    took = time.monotonic() - began
                    if number not in self.chain and took > _WORTH * self._commit_s and any(s.key for s in waiting):
                        break
                if last:
                    image = self._commit(container, last)
        return image

    _commit_s = 0.3  # until one was measured

    def _commit(self, container: BuildContainer, key: str) -> str:
        started = time.monotonic()
        image = self.engine.commit(container.name, *self.cache.name(key).rsplit(":", 1))
        self._commit_s = time.monotonic() - started
        self.cache.keep(key, image)
        return image

    def _do(self, container: BuildContainer, accounts: Accounts, step: Step, number: int) -> None:
        operation, where = step.operation, f"{self.plan.where}:{step.instruction.line}"
        if isinstance(operation, Run):
            lines = _Output(self.report)
            with self._secrets(container, operation, where) as variables:
                code = container.run(self._command(operation, accounts, variables, where), lines.write)
                lines.end()
                if code:
                    raise StepFailed(step.block, step.instruction.text, code)
        elif isinstance(operation, Copy):
            owner = accounts.owner(operation.owner, where) if operation.owner else None
            with self._trees(operation, number) as trees:
                copy(container, operation, trees, owner, where)
        elif isinstance(operation, MakeFolder) and container.status(operation.path) is None:
            parts = operation.path.strip("/").split("/")
            for n in range(1, len(parts) + 1):
                path = "/" + "/".join(parts[:n])
                if container.status(path) is None:
                    entry = Entry(path, stat.S_IFDIR, 0o755, modified=EPOCH * 10**9)
                    container.make(entry)
                    container.settle(entry)
            container.check()

    @contextmanager
    def _trees(self, operation: Copy, number: int) -> Iterator[Trees]:
        if not operation.origin:
            yield self.plan.files
            return
        stage = self.stage_of(operation.origin, number)
        image = self._image(stage) if stage is not None else self.plan.base_of(operation.origin)
        with image_trees(self.engine, image) as trees:
            yield trees

    @contextmanager
    def _mounts(self, step: Step, number: int) -> Iterator[list[dict[str, Any]]]:
        """The mounts of a step, as the API takes them: caches, and copies of what a bind names.

        A bind is a copy in a volume, as the engine mounts no folder of an image. Folders in which they are mounted stay
        in the layer, empty, if the image does not have them.
        """
        found: list[dict[str, Any]] = []
        with ExitStack() as stack:
            for mount in _mounted(step):
                if mount.kind == "tmpfs":
                    found.append({"Type": "tmpfs", "Target": mount.target})
                    continue
                name = f"{NAME}{token_hex(12)}"
                if mount.kind == "cache" and self.plan.caches and not self.plan.no_cache:
                    name = f"{NAME}cache-{key_of([self.plan.caches, mount.id])[:24]}"
                else:
                    stack.callback(self._without_volume, name)
                if self.engine.create_volume(name):
                    self._fill(name, mount, number, f"{self.plan.where}:{step.instruction.line}")
                entry = {"Type": "volume", "Source": name, "Target": mount.target, "ReadOnly": mount.readonly}
                found.append({**entry, "VolumeOptions": {"NoCopy": True}})
            yield found

    def _without_volume(self, name: str) -> None:
        with suppress(ReprokitError):  # left volumes are removed by `clean`
            self.engine.remove_volume(name)

    def _fill(self, volume: str, mount: Mount, number: int, where: str) -> None:
        """Copy into a new volume what a mount names, and give it the owner of a cache."""
        inside = {"Type": "volume", "Source": volume, "Target": "/volume", "VolumeOptions": {"NoCopy": True}}
        with build_container(self.engine, self._scratch(), mounts=[inside]) as container:
            mode = 0o755 if mount.mode is None else mount.mode
            container.settle(Entry("/volume", stat.S_IFDIR, mode, mount.user, mount.group, EPOCH * 10**9))
            container.check()
            if mount.kind == "bind" or mount.origin:
                text = f"--mount of {mount.source or '/'}"
                source = Copy(0, text, (posixpath.join("/", mount.source),), "/volume/", "/", mount.origin)
                with self._trees(source, number) as trees:
                    copy(container, source, trees, None, where)

    @contextmanager
    def _secrets(self, container: BuildContainer, run: Run, where: str) -> Iterator[dict[str, str]]:
        """A step's secrets, as links to files in a new folder of /dev, which no layer has, and as variables."""
        variables: dict[str, str] = {}
        made: list[str] = []
        folder = f"/dev/reprokit-{token_hex(8)}"
        before: dict[str, Entry] = {}
        for mount in (mount for mount in run.mounts if mount.kind == "secret"):
            value = self.plan.secrets.get(mount.id)
            if value is None and mount.required:
                raise UsageError(f"the step needs the secret {mount.id}", where, f"--secret id={mount.id}")
            if value is None:
                continue
            if mount.variable:
                variables[mount.variable] = value.decode("utf-8", "surrogateescape")
            if not mount.target:
                continue
            if not made:
                container.make(Entry(folder, stat.S_IFDIR))
                container.settle(Entry(folder, stat.S_IFDIR, 0o755))
                made.append(folder)
            file = f"{folder}/{len(made)}"
            mode = 0o400 if mount.mode is None else mount.mode
            container.make(Entry(file, stat.S_IFREG, mode, mount.user, mount.group, content=iter([value])))
            made += [file, *self._parents(container, mount.target, before), mount.target]
            container.make(Entry(mount.target, stat.S_IFLNK, 0o777, target=file))
        container.check()
        yield variables
        for path in reversed(made):
            container.remove(path)
        for entry in before.values():
            container.settle(entry)
        if made:
            container.check()

    def _parents(self, container: BuildContainer, path: str, before: dict[str, Entry]) -> Iterator[str]:
        """Make the folders above a path that are missing. `before` gets the one that exists, to restore its time."""
        missing = []
        while (status := container.status(path := posixpath.dirname(path))) is None:
            missing.append(path)
        if path not in missing and path not in before:
            mode = stat.S_IMODE(status.mode)
            before[path] = Entry(path, stat.S_IFDIR, mode, status.user, status.group, status.modified)
        for each in reversed(missing):
            container.make(Entry(each, stat.S_IFDIR))
            yield each

    def _command(self, run: Run, accounts: Accounts, secrets: Mapping[str, str], where: str) -> Command:
        user, group, groups, home = accounts.identity(run.user, where)
        variables = {"PATH": PATH, "HOME": home, "HOSTNAME": "reprokit", **run.environment, **secrets}
        proxies = {} if run.network == "none" else self.plan.proxies
        return Command(run.arguments, {**proxies, **variables}, run.folder, user, group, groups)

    def _report_step(self, line: int, text: str, cached: bool = False) -> None:
        self.steps += 1
        self.report(BuildStep(self.steps, self.total, self.plan.block_of(line), " ".join(text.split()), cached))

    def _history(self, number: int) -> list[dict[str, Any]]:
        """An entry for each setting and each layer: that of a block has all its steps."""
        stage = self.evaluated[number]
        found = list(stage.history) if stage.parent is None else self._history(stage.parent)
        layers = self._layers(self._image(stage.parent) if stage.parent is not None else stage.base)
        for group in self._groups(stage.steps):
            working = [step for step in group if step.operation]
            for step in group:
                if step.operation is None:
                    found.append({"created_by": step.instruction.text, "empty_layer": True})
                elif step is working[-1]:
                    before, layers = layers, self._layers(self.cache.find(step.key))
                    if layers != before or not self.plan.layered:
                        text = "\n".join(map(_created_by, working))
                        found.append({"created_by": text, "empty_layer": layers == before})
        return found

    def _layers(self, image: str) -> int:
        return len(layers_of(self.engine.image(image))) if image else 0

    def _sealed(
        self, name: str, image: str, settings: Settings, history: list[dict[str, Any]], labels: Mapping[str, str]
    ) -> str:
        """An image of the same layers under a configuration of its own; returns its ID."""
        own = settings.copy()
        own.config["Labels"] = {**(own.config.get("Labels") or {}), **labels}
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return self._loaded(name, own, layers_of(self.engine.image(image)), history, image, created)

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
            "history": [{"created": created, **each} for each in _fitting(history, layers)],
        }
        image = Image(name, json.dumps(document).encode(), tuple(Layer(each, 0, None) for each in layers))
        form = form_of(self.engine.info(), self.engine.version())
        image = with_store_blobs(image, ImageStore(self.engine, form, LayerChains([(layers, of)])))
        if name == self.plan.name:
            self.cache.announce(form.id_of(image))
        self.engine.load(iter([small_entries([image]) + END]))
        return str((self.engine.image(name) or {}).get("Id", image.id))


# Of the OCI image specification, and Docker's own (moby/docker-image-spec).
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


def _mounted(step: Step) -> list[Mount]:
    """The mounts of a step that its container has from its beginning."""
    mounts = step.operation.mounts if isinstance(step.operation, Run) else ()
    return [mount for mount in mounts if mount.kind != "secret"]


def _fitting(history: list[dict[str, Any]], layers: Sequence[str]) -> list[dict[str, Any]]:
    """The history, if it names as many layers as there are: engines refuse others."""
    if sum(not each["empty_layer"] for each in history) == len(layers):
        return history
    return [{"created_by": "", "empty_layer": False} for _ in layers]


def _created_by(step: Step) -> str:
    if isinstance(step.operation, Run):
        return f"RUN {' '.join(step.operation.arguments)}"
    return step.instruction.text


class _Output:
    """The output of a step as lines."""

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report, self._lines = report, Lines()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a block may end inside a character

    def write(self, block: bytes) -> None:
        for line in self._lines.add(self._decoder.decode(block)):
            self._shown(line)

    def end(self) -> None:
        self.write(b"\n")
        for line in self._lines.end():
            self._shown(line)

    def _shown(self, line: str) -> None:
        line = line.rstrip("\r").rsplit("\r", 1)[-1]  # the last state of a progress bar
        if line.strip():
            self._report(OutputLine(line))


class Accounts:
    """Users and groups of a container, whose files may say anything."""

    def __init__(self, container: BuildContainer) -> None:
        self._container = container

    def identity(self, text: str, where: str) -> tuple[int, int, list[int], str]:
        """User, group, further groups and home of a USER. Raises UsageError if the container has no such user."""
        name, _, group = (text or "0").partition(":")
        entry = next((each for each in self._entries("passwd", 7) if name in (each[0], each[2])), None)
        uid = int(entry[2]) if entry else self._number(name, "user", where)
        primary = int(entry[3]) if entry else 0
        if group:
            return uid, self.group(group, where), [], entry[5] if entry else "/"
        user = entry[0] if entry else name
        groups = [int(each[2]) for each in self._entries("group", 4) if user in each[3].split(",")]
        return uid, primary, sorted({primary, *groups}), (entry[5] if entry else "") or "/"

    def group(self, text: str, where: str) -> int:
        found = next((each for each in self._entries("group", 4) if text in (each[0], each[2])), None)
        return int(found[2]) if found else self._number(text, "group", where)

    def owner(self, text: str, where: str) -> tuple[int, int]:
        """Of --chown: the group is the user's number where it is not named."""
        name, _, group = text.partition(":")
        uid, primary, *_ = self.identity(name, where)
        return uid, self.group(group, where) if group else primary

    def _number(self, text: str, what: str, where: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text):
            raise UsageError(f"the image has no {what} {text[:60]!r}", where)
        return int(text)

    def _entries(self, file: str, fields: int) -> Iterator[list[str]]:
        text = (self._container.read(posixpath.join("/etc", file)) or b"").decode("utf-8", "replace")
        for line in text.splitlines():
            found = line.split(":")
            if len(found) == fields and re.fullmatch(r"\d{1,9}", found[2]) and found[3].isdigit() | (file == "group"):
                yield found
