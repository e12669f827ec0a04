"""`reprokit build`: the image of a variant, built once for the same inputs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from reprokit import paths
from reprokit.compat.model import KnownHost
from reprokit.display import notify
from reprokit.engine import OWN_IMAGES, Engine
from reprokit.errors import ReprokitError, UsageError
from reprokit.explain.last import explained
from reprokit.filelocks import file_lock
from reprokit.helper.container import ADDRESS, listening
from reprokit.host.disk import ENGINE_ROOT
from reprokit.host.fit import host_errors_of
from reprokit.image import build_secrets, made, run, trust
from reprokit.image.base.resolve import resolve_base
from reprokit.image.inputs import Inputs, resolve_inputs
from reprokit.image.labels import ImageLabels, image_name
from reprokit.image.lock.fit import errors_of
from reprokit.image.lock.read import fresh_lock
from reprokit.image.lock.supplies import Supplier
from reprokit.image.progress import BuildDisplay
from reprokit.image.render import Rendered, render
from reprokit.image.run import BuildOptions, OnEvent
from reprokit.recipe.find import Target
from reprokit.redact import masking
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.gateway import Gateway, Recorder, locked, pass_all, recipe_lines
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.model import VariantLock
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store


@dataclass(frozen=True)
class BuildResult:
    """`built` is false if an image of the same inputs existed; then there is no log. `state` is the image's.

    `undeclared` lists the downloads that the lock does not name (`--record`); that image is not kept, so `name` and
    `image_id` are empty. `steps` are the instructions with the time of each.
    """

    name: str
    image_id: str
    inputs: str
    built: bool
    seconds: float
    log: Path | None = None
    record: Path | None = None
    undeclared: tuple[str, ...] = ()
    state: trust.State = "built here"
    steps: tuple[run.StepTime, ...] = ()


def free_disk(engine: Engine, target: Target) -> int | None:
    """Free bytes on the engine's disk; None if unknown, or if the image is built already and needs no more."""
    if engine.image(image_name(target)) is not None:
        return None
    return engine.host.disk_free_bytes(engine.info().root or ENGINE_ROOT)


def engine_errors_of(engine: Engine, target: Target, force: bool) -> list[str]:
    """What the engine's machine lacks to build `target`, one line each, if `force` ignores it. Raises EngineError."""
    host = KnownHost(engine.host.memory_bytes(), free_disk(engine, target))
    return host_errors_of(target, host, force, "or build anyway with --force")


def build(
    engine: Engine,
    target: Target,
    options: BuildOptions = BuildOptions(),  # noqa: B008 - frozen
    progress: OnEvent | None = None,
) -> BuildResult:
    """Build the image of one variant, unless it is up to date.

    With a lock, everything is fetched before the build, and the gateway serves nothing else. Without one, the gateway
    forwards the build's requests. `progress` gets the events instead of the terminal. Raises
    WorkFailed with the first lines that name the cause if a step fails or the lock is stale, SourceError if the network
    is the cause, EngineError if the engine or its disk is.

    With `record` neither the image nor its steps remain, as they hold more than the lock names.
    """
    with explained(target), ExitStack() as stack:
        if progress is None:
            shown = stack.enter_context(BuildDisplay(sys.stderr))
            started = _Build(engine, target, options, shown.progress, shown)
        else:
            started = _Build(engine, target, options, progress)
        try:
            result = started.result()
        finally:
            if options.record:
                with suppress(ReprokitError):  # there is none if the build failed
                    engine.remove_image(started.name, force=True)
        if options.record:
            result = replace(result, name="", image_id="")
        if result.built:
            with started.store.alone_now() as alone:
                if alone:  # else the next build removes them
                    made.drop_replaced(engine)
        return result


def built(engine: Engine, target: Target) -> BuildResult:
    """The target's image, built if it is missing or its inputs have changed.

    An unverified image is used with a notice. Raises WorkFailed if `check` finds errors, unless the present image,
    built here or trusted, was built with `--force`.
    """
    present = engine.image(image_name(target))
    force = present is not None and trust.is_trusted(present.id) and ImageLabels.read(present.labels).forced
    image = build(engine, target, BuildOptions(forced=errors_of(target, force), unverified=True))
    if notice := trust.notice(image.image_id, target.label):
        notify(notice)
    return image


@dataclass
class _Build:
    engine: Engine
    target: Target
    options: BuildOptions
    progress: OnEvent
    display: BuildDisplay | None = None

    def __post_init__(self) -> None:
        run.check_options(self.options)
        self.store = Store()
        own = f"{OWN_IMAGES}/record:{token_hex(8)}" if self.options.record else image_name(self.target)
        self.name = self.options.name or own
        self.reported = ""  # the unverified image that was reported already
        self.started = time.monotonic()

    def result(self) -> BuildResult:
        rendered = render(self.target)
        build_secrets.check_known(self.target, rendered, self.options.secrets)
        lock = fresh_lock(self.target, rendered)
        if lock is None and self.options.offline:
            raise UsageError(
                f"{self.target.label} has no lock, and --offline builds from a lock only",
                str(self.target.path),
                f"with a network: `reprokit lock {self.target.label}`, then `reprokit fetch {self.target.label}`",
            )
        if self.options.no_cache or self.engine.image(self.name) is None:
            self.check_secrets(rendered)
        self.mirrors = Mirrors(self.store, indexes=self.target.variant.wheel_indexes)
        with self.store.in_use():
            if lock:
                return self.once(rendered, rendered.locked_hash(lock), lambda: self.locked(rendered, lock))
            base = resolve_base(self.engine, self.target.variant.base)
            inputs = resolve_inputs(self.target, rendered, base, self.mirrors)
            return self.once(rendered, inputs.hash, lambda: self.unlocked(inputs))

    def check_secrets(self, rendered: Rendered) -> None:
        """Raises UsageError if the user gave no value of a secret."""
        build_secrets.check_complete(self.target, rendered, self.options.secrets)

    def once(self, rendered: Rendered, required: str, inputs: Callable[[], Inputs]) -> BuildResult:
        """The image of the same inputs, or else a new one. One build of an image runs at a time."""
        if same := self.same(required):
            return same
        file = paths.home() / "locks" / f"build-{self.target.recipe.name}-{self.target.variant_name}.lock"
        with file_lock(file, f"another build of {self.target.label} is running; waiting for it"):
            # Another process may have built it while this one waited.
            if same := self.same(required):
                return same
            self.check_secrets(rendered)
            run.check_host(self.engine, self.target)
            return self.run(inputs())

    def locked(self, rendered: Rendered, lock: VariantLock) -> Inputs:
        self.store.used(lock_path(self.target.path))
        supplier = Supplier(self.mirrors, self.progress, self.options.offline)
        return supplier.inputs(self.engine, self.target.label, rendered, lock, self.options.drift)

    def unlocked(self, inputs: Inputs) -> Inputs:
        notify(f"{self.target.label} has no lock: its inputs may change between builds")
        # A remembered wheel may have been removed from the store since.
        fetch_all([wheel.locked_input() for wheel in inputs.served.of("wheels")], self.mirrors)
        return inputs

    def same(self, required: str) -> BuildResult | None:
        """The image of the same inputs, if it was built here or is trusted: anyone can copy a label."""
        image = None if self.options.no_cache else self.engine.image(self.name)
        if image is None or (labels := ImageLabels.read(image.labels)).inputs != required:
            return None
        state = trust.state(image.id)
        if state == "unverified" and not self.options.unverified:
            if image.id != self.reported:
                notify(
                    f"{self.name} ({image.id[:19]}) is unverified (not built here, not trusted), so it is built again; "
                    f"to use it as it is: `reprokit images trust {self.target.label}`"
                )
            self.reported = image.id
            return None
        if labels.drift:
            notify(f"{self.name} was built with --drift: it has newer apt packages than the lock names")
        seconds = time.monotonic() - self.started
        return BuildResult(self.name, image.id, required, False, seconds, state=state)

    def run(self, inputs: Inputs) -> BuildResult:
        notify(f"base {inputs.base.described}")
        if inputs.served.described:
            notify(f"from the store: {inputs.served.described}")
        recorder = Recorder() if self.options.record else None
        policy = locked(self.target.label) if inputs.lock is not None and recorder is None else pass_all
        with ExitStack() as stack:
            path, listens = stack.enter_context(listening())
            gateway = stack.enter_context(
                Gateway(
                    self.mirrors,
                    inputs.served,
                    policy,
                    inputs.base.archives,
                    recorder,
                    listens,
                    ADDRESS,
                    mask=masking(value.decode(errors="replace") for value in self.options.secrets.values()),
                )
            )
            if self.display:
                self.display.traffic(gateway)
            options = replace(self.options, name=self.name)
            started = run.BuildRun(self.engine, self.target, options, inputs, gateway, path, self.progress)
            image_id, written = started.result()
            if gateway.refused:
                notify(f"built, although these requests were refused: {', '.join(sorted(gateway.refused))}")
            lines = recipe_lines(recorder.downloads, gateway.hosts, gateway.missing) if recorder else ()
            undeclared = tuple(map(gateway.hide, lines))
        if origin := started.steps.origin:
            trust.record(self.engine, image_id, "trusted", f"build --cache-from {origin}")
        else:
            trust.record(self.engine, image_id, "built here", "build")
        started.steps.share()
        seconds = time.monotonic() - self.started
        return BuildResult(
            self.name,
            image_id,
            inputs.hash,
            True,
            seconds,
            started.log.path,
            written,
            undeclared,
            steps=tuple(started.times),
        )
