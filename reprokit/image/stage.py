"""One stage of a build that runs: its containers, its commits, and its reports while other stages run."""

from __future__ import annotations

import codecs
import posixpath
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.helper.container import NAME, PATH, BuildContainer, Command, Entry, build_container
from reprokit.image.copying import EPOCH, Trees, copy, image_trees
from reprokit.image.dockerfile import Copy, MakeFolder, Mount, Run, Settings
from reprokit.image.events import BuildStep, Event, OutputLine, StepEnd
from reprokit.image.labels import FAILED
from reprokit.image.lines import Lines
from reprokit.image.made import step_name
from reprokit.supply.store import key_of

if TYPE_CHECKING:
    from reprokit.image.executor import Executor, Step

# A stage whose product is copied is committed after steps that took this many times longer than a commit.
_WORTH = 10
_MOST_WAITING = 10_000  # events of a stage whose turn has not come


class StepFailed(ReprokitError):
    """A step ended with an exit code; `kept` is the image of its remaining state, if the plan keeps that."""

    def __init__(self, block: str, step: str, code: int, kept: str = "") -> None:
        super().__init__(f"the command returned a non-zero code: {code}")
        self.block, self.step, self.code, self.kept = block, step, code, kept


def numbered(report: Callable[[Event], None]) -> Callable[[Event], None]:
    """Count the steps that are reported."""
    numbers = count(1)
    return lambda event: report(replace(event, number=next(numbers)) if isinstance(event, BuildStep) else event)


class OrderedEvents:
    """Events of parallel stages, reported as if the stages ran one after the other.

    The first unfinished stage reports at once. The others wait for their turn once many events are queued.
    """

    def __init__(self, report: Callable[[Event], None], order: Iterable[int]) -> None:
        self._report = report
        self._queued = {number: deque[Event]() for number in order}
        self._ended = set[int]()
        self._changed = threading.Condition()
        self._stopped = False

    def report(self, number: int, event: Event) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped or self._is_first(number) or len(self._queued[number]) < _MOST_WAITING
            )
            if self._stopped:
                return
            self._queued[number].append(event)
            if self._is_first(number):
                self._flush(number)

    def end(self, number: int) -> None:
        with self._changed:
            self._ended.add(number)
            while self._queued and (first := next(iter(self._queued))) in self._ended:
                self._flush(first)
                del self._queued[first]
            if self._queued:
                self._flush(next(iter(self._queued)))
            self._changed.notify_all()

    def stop(self, failed: int | None) -> None:
        """Report only the remaining events of the stage that failed."""
        with self._changed:
            if failed is not None and not self._stopped:
                self._flush(failed)
            self._stopped = True
            self._changed.notify_all()

    def _is_first(self, number: int) -> bool:
        return next(iter(self._queued)) == number

    def _flush(self, number: int) -> None:
        while self._queued[number]:
            self._report(self._queued[number].popleft())


class StageRun:
    """Runs the stage `number` of a build."""

    def __init__(self, build: Executor, number: int, events: OrderedEvents) -> None:
        self.build, self.number, self.engine, self.plan = build, number, build.engine, build.plan
        self.report: Callable[[Event], None] = partial(events.report, number)
        self._events = events
        self._container: BuildContainer | None = None
        self._stopped = False

    def run(self, before: Sequence[Future[None]]) -> None:
        """Run the uncached steps, after the stages `before`."""
        for future in before:
            future.result()
        stage = self.build.evaluated[self.number]
        self.build.report_stage(self.number, stage.done + 1, self.report)
        uncached = stage.steps[stage.done + 1 :]
        self.build.report_reason(uncached)
        image = self.build.image(self.number)
        for group in self.build.groups(uncached):
            if working := [step for step in group if step.operation]:
                try:
                    image = self._group(image, group, stage.settings)
                except EngineError as error:  # such as runc's, which names no step
                    error.message = f"block {working[0].block}: {error.message}"
                    raise
                continue
            for step in group:
                self.report(self.build.event(step.instruction.line, step.instruction.text))
        self.build.images[self.number] = image
        self._events.end(self.number)

    def stop(self) -> None:
        """End the stage, even before it runs."""
        self._stopped = True
        if self._container:
            self._container.abort()

    def _group(self, image: str, group: Sequence[Step], settings: Settings) -> str:
        waiting = list(group)
        while waiting:
            with ExitStack() as stack:
                first = next((step for step in waiting if step.operation), waiting[0])
                mounts = stack.enter_context(self._mounts(first))
                gpus = {"DeviceRequests": list(self.plan.gpus)} if self.number not in self.build.chain else {}
                limits = {**self.plan.settings, **gpus}
                made = build_container(self.engine, image, self.plan.gateway, limits, mounts)
                self._container = container = stack.enter_context(made)
                if self._stopped:
                    raise EngineError("the build was stopped", self.engine.url)
                accounts = Accounts(container)
                began, last = time.monotonic(), ""
                while waiting:
                    step = waiting.pop(0)
                    self.report(self.build.event(step.instruction.line, step.instruction.text))
                    if step.operation is None:
                        continue
                    started = time.monotonic()
                    try:
                        self._do(container, accounts, step)
                    except StepFailed as failure:
                        if self.plan.keep_failed:
                            temporary = step_name(token_hex(16))
                            kept = self.engine.commit(container.name, *temporary.rsplit(":", 1))
                            name, labels = self.plan.keep_failed, {**self.plan.failed_labels, FAILED: step.block}
                            failure.kept = self.build.sealed(name, kept, settings, [], labels)
                            self.engine.remove_image(temporary)
                        raise
                    finally:
                        self.report(StepEnd(round(time.monotonic() - started, 2)))
                    last = step.key
                    # A stage whose product is copied may have any number of layers.
                    is_long = time.monotonic() - began > _WORTH * self.build.commit_s
                    if self.number not in self.build.chain and is_long and any(later.key for later in waiting):
                        break
                if last:
                    image = self._commit(container, last)
        return image

    def _commit(self, container: BuildContainer, key: str) -> str:
        started = time.monotonic()
        image = self.engine.commit(container.name, *self.build.cache.name(key).rsplit(":", 1))
        self.build.commit_s = time.monotonic() - started
        self.build.cache.keep(key, image)
        return image

    def _do(self, container: BuildContainer, accounts: Accounts, step: Step) -> None:
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
            with self._trees(operation) as trees:
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
    def _trees(self, operation: Copy) -> Iterator[Trees]:
        if not operation.origin:
            yield self.plan.files
            return
        stage = self.build.stage_of(operation.origin, self.number)
        image = self.build.image(stage) if stage is not None else self.plan.base_of(operation.origin)
        with image_trees(self.engine, image) as trees:
            yield trees

    @contextmanager
    def _mounts(self, step: Step) -> Iterator[list[dict[str, Any]]]:
        """The mounts of a step, as the API takes them: caches, and copies of the sources of binds.

        A bind is a copy in a volume, as the engine mounts no folder of an image. Folders in which they are mounted stay
        in the layer, empty, if the image does not have them.
        """
        mounts: list[dict[str, Any]] = []
        with ExitStack() as stack:
            for mount in mounted(step):
                if mount.kind == "tmpfs":
                    mounts.append({"Type": "tmpfs", "Target": mount.target})
                    continue
                name = f"{NAME}{token_hex(12)}"
                if mount.kind == "cache" and self.plan.caches and not self.plan.no_cache:
                    name = f"{NAME}cache-{key_of([self.plan.caches, mount.id])[:24]}"
                else:
                    stack.callback(self._without_volume, name)
                if self.engine.create_volume(name):
                    self._fill(name, mount, f"{self.plan.where}:{step.instruction.line}")
                entry = {"Type": "volume", "Source": name, "Target": mount.target, "ReadOnly": mount.readonly}
                mounts.append({**entry, "VolumeOptions": {"NoCopy": True}})
            yield mounts

    def _without_volume(self, name: str) -> None:
        with suppress(ReprokitError):  # `clean` removes leftover volumes
            self.engine.remove_volume(name)

    def _fill(self, volume: str, mount: Mount, where: str) -> None:
        """Copy the source of a mount into a new volume, and give it the owner of a cache."""
        inside = {"Type": "volume", "Source": volume, "Target": "/volume", "VolumeOptions": {"NoCopy": True}}
        with build_container(self.engine, self.build.scratch(), mounts=[inside]) as container:
            mode = 0o755 if mount.mode is None else mount.mode
            container.settle(Entry("/volume", stat.S_IFDIR, mode, mount.user, mount.group, EPOCH * 10**9))
            container.check()
            if mount.kind == "bind" or mount.origin:
                text = f"--mount of {mount.source or '/'}"
                source = Copy(0, text, (posixpath.join("/", mount.source),), "/volume/", "/", mount.origin)
                with self._trees(source) as trees:
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
        for folder in reversed(missing):
            container.make(Entry(folder, stat.S_IFDIR))
            yield folder

    def _command(self, run: Run, accounts: Accounts, secrets: Mapping[str, str], where: str) -> Command:
        user, group, groups, home = accounts.identity(run.user, where)
        variables = {"PATH": PATH, "HOME": home, "HOSTNAME": "reprokit", **run.environment, **secrets}
        proxies = {} if run.network == "none" else self.plan.proxies
        return Command(run.arguments, {**proxies, **variables}, run.folder, user, group, groups)


def mounted(step: Step) -> list[Mount]:
    """The mounts of a step that its container has from its beginning."""
    mounts = step.operation.mounts if isinstance(step.operation, Run) else ()
    return [mount for mount in mounts if mount.kind != "secret"]


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
    """Users and groups of a container, whose files are untrusted."""

    def __init__(self, container: BuildContainer) -> None:
        self._container = container

    def identity(self, text: str, where: str) -> tuple[int, int, list[int], str]:
        """User, group, further groups and home of a USER. Raises UsageError if the container has no such user."""
        name, _, group = (text or "0").partition(":")
        entry = next((fields for fields in self._entries("passwd", 7) if name in (fields[0], fields[2])), None)
        uid = int(entry[2]) if entry else self._number(name, "user", where)
        primary = int(entry[3]) if entry else 0
        if group:
            return uid, self.group(group, where), [], entry[5] if entry else "/"
        user = entry[0] if entry else name
        groups = [int(fields[2]) for fields in self._entries("group", 4) if user in fields[3].split(",")]
        return uid, primary, sorted({primary, *groups}), (entry[5] if entry else "") or "/"

    def group(self, text: str, where: str) -> int:
        entry = next((fields for fields in self._entries("group", 4) if text in (fields[0], fields[2])), None)
        return int(entry[2]) if entry else self._number(text, "group", where)

    def owner(self, text: str, where: str) -> tuple[int, int]:
        """The owner of --chown: without a group, the group has the user's number."""
        name, _, group = text.partition(":")
        uid, primary, *_ = self.identity(name, where)
        return uid, self.group(group, where) if group else primary

    def _number(self, text: str, account: str, where: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text):
            raise UsageError(f"the image has no {account} {text[:60]!r}", where)
        return int(text)

    def _entries(self, file: str, fields: int) -> Iterator[list[str]]:
        text = (self._container.read(posixpath.join("/etc", file)) or b"").decode("utf-8", "replace")
        for line in text.splitlines():
            entry = line.split(":")
            if len(entry) == fields and re.fullmatch(r"\d{1,9}", entry[2]) and entry[3].isdigit() | (file == "group"):
                yield entry
