"""`reprokit build`: from a variant to an image, once for the same inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reprokit import paths
from reprokit.engine import Engine
from reprokit.engine.listen import listen
from reprokit.errors import UsageError
from reprokit.filelocks import file_lock
from reprokit.helper.sidecar import Network, closed_network
from reprokit.image import run, trust
from reprokit.image.base.resolve import resolve_base
from reprokit.image.events import Note
from reprokit.image.inputs import Inputs, locked_hash, resolve_inputs
from reprokit.image.labels import INPUTS, image_name
from reprokit.image.lock.read import fresh_lock
from reprokit.image.lock.supplies import Supplier
from reprokit.image.render import Rendered, render
from reprokit.image.run import Options, Watch
from reprokit.recipe.find import Target
from reprokit.redact import redact
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.wheels.unlocked import fetch_wheels
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.model import VariantLock
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.policy import Recorder, locked, pass_all, recipe_lines
from reprokit.supply.store import Store


@dataclass(frozen=True)
class BuildResult:
    """`built` is false where an image of the same inputs was there; then there is no log. `state` is the image's.

    `undeclared` is what `--record` heard the build ask for beside its lock.
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


def build(
    engine: Engine,
    target: Target,
    options: Options,
    watch: Watch = lambda event: None,
    traffic: Callable[[Gateway], None] = lambda gateway: None,
) -> BuildResult:
    """Build the image of one variant, or find it built.

    With a lock, everything is fetched before the build and the gateway serves nothing else; without one the build asks
    the world through the gateway. `traffic` is given the gateway once it runs, for its count of bytes. Raises
    WorkFailed with the first causal lines where a step fails or the lock is stale, SourceError where the network is
    the cause, EngineError where the engine or its disk is.
    """
    return _Build(engine, target, options, watch, traffic).go()


class _Build:
    def __init__(
        self, engine: Engine, target: Target, options: Options, watch: Watch, traffic: Callable[[Gateway], None]
    ) -> None:
        run.check_options(options)
        self.engine, self.target, self.options = engine, target, options
        self.watch, self.traffic = watch, traffic
        self.store = Store()
        self.name = image_name(target)
        self.passed_over = ""
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        self.watch(Note(redact(text)))

    def go(self) -> BuildResult:
        rendered = render(self.target)
        lock = fresh_lock(self.target, rendered)
        if lock is None and self.options.offline:
            raise UsageError(
                f"{self.target.label} has no lock, so nothing says what to build it from without a network",
                str(self.target.path),
                f"where there is one: `reprokit lock {self.target.label}`, then `reprokit fetch {self.target.label}`",
            )
        if lock and self.options.builder == "buildkit" and not self.options.record:
            raise UsageError(
                f"BuildKit cannot build {self.target.label} from its lock: its steps run on the host's network",
                hint="leave out --builder: the classic builder runs them in a closed network",
            )
        with self.store.in_use(self.say):
            return self.locked(rendered, lock) if lock else self.unlocked(rendered)

    def locked(self, rendered: Rendered, lock: VariantLock) -> BuildResult:
        wanted = locked_hash(rendered, lock)
        if found := self.same(wanted):
            return found
        with _alone(self.target, self.say):
            # Another process may have built it while this one waited.
            if found := self.same(wanted):
                return found
            run.check_host(self.engine, self.target, self.say)
            self.store.used(lock_path(self.target.path))
            mirrors = Mirrors(self.store, indexes=self.target.variant.wheel_indexes)
            supplier = Supplier(self.store, mirrors, self.say, self.watch, self.options.offline)
            return self.run(supplier.inputs(self.engine, self.target.label, rendered, lock, self.options.drift))

    def unlocked(self, rendered: Rendered) -> BuildResult:
        base = resolve_base(self.engine, self.target.variant.base, self.say)
        inputs = resolve_inputs(self.target, rendered, base, self.store, self.say)
        if found := self.same(inputs.hash):
            return found
        with _alone(self.target, self.say):
            if found := self.same(inputs.hash):
                return found
            run.check_host(self.engine, self.target, self.say)
            self.say(f"{self.target.label} has no lock: what it takes in may be other things tomorrow")
            return self.run(self.at_hand(inputs))

    def same(self, wanted: str) -> BuildResult | None:
        """The image that was built from the same inputs, here or by someone trusted: anyone can copy a label."""
        image = None if self.options.no_cache else self.engine.image(self.name)
        if image is None or (image["Config"].get("Labels") or {}).get(INPUTS) != wanted:
            return None
        image_id = str(image["Id"])
        state = trust.state(image_id)
        if state == "unverified" and not self.options.unverified:
            if image_id != self.passed_over:
                self.say(
                    f"{self.name} ({image_id[:19]}) is unverified: neither built here nor trusted. Building it anew; "
                    f"`reprokit trust add {self.target.label}` would keep it"
                )
            self.passed_over = image_id
            return None
        seconds = time.monotonic() - self.started
        return BuildResult(self.name, image_id, wanted, False, seconds, state=state)

    def at_hand(self, inputs: Inputs) -> Inputs:
        """The same with every file in the store: what is remembered may never have been fetched, or be gone."""
        mirrors = Mirrors(self.store, indexes=self.target.variant.wheel_indexes)
        fetch_wheels(inputs.offer.wheels, mirrors, self.store, self.say)
        return inputs

    @contextmanager
    def network(self) -> Iterator[Network]:
        """Where the build runs: a closed network, or the host's for BuildKit, which cannot join that of a container."""
        if self.options.builder == "classic":
            with closed_network(self.engine) as network:
                yield network
        else:
            self.say("BuildKit's steps run on the host's network")
            with listen(self.engine, "127.0.0.1") as listening:
                yield Network("host", listening, listening.getsockname())

    def run(self, inputs: Inputs) -> BuildResult:
        self.say(f"base {inputs.base.described}")
        if inputs.described:
            self.say(f"from the store: {inputs.described}")
        recorder = Recorder() if self.options.record else None
        policy = locked(self.target.label) if inputs.lock is not None and recorder is None else pass_all
        with (
            self.network() as network,
            Gateway(
                self.store, inputs.offer, policy, inputs.base.archives, recorder, network.listening, network.address
            ) as gateway,
        ):
            self.traffic(gateway)
            end = run.Run(self.engine, self.target, self.options, inputs, gateway, self.watch, network.name).go()
            if gateway.refused:
                self.say(f"refused, and built all the same: {', '.join(sorted(gateway.refused))}")
            found = recipe_lines(recorder.downloads, gateway.hosts, gateway.missing) if recorder else ()
        # With containerd's store BuildKit names the configuration, and the engine the manifest.
        image = self.engine.image(end.image_id) or self.engine.image(self.name) or {}
        trust.record(self.engine, str(image.get("Id", end.image_id)), "built here", "build")
        seconds = time.monotonic() - self.started
        return BuildResult(self.name, end.image_id, inputs.hash, True, seconds, end.log, end.record, tuple(found))


def _alone(target: Target, say: Callable[[str], None]) -> AbstractContextManager[None]:
    """One build of an image at a time."""
    file = paths.home() / "locks" / f"build-{target.recipe.name}-{target.variant_name}.lock"
    return file_lock(file, f"another build of {target.label} is running; waiting for it", say)
