"""Builds of rendered variants behind a gateway that serves their locked inputs."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack

import docker

from reprokit.engine import Engine
from reprokit.helper.container import ADDRESS, listening
from reprokit.image.base.resolve import BaseImage
from reprokit.image.events import Event
from reprokit.image.inputs import Inputs
from reprokit.image.render import Rendered
from reprokit.image.run import BuildOptions, BuildRun
from reprokit.supply.gateway import Gateway, Policy, locked
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.builds import target_of
from tests.support.names import unique


class LockedBuilds:
    """Builds of Dockerfiles from the served inputs, all under one name. `events` and `gateway` are the last build's."""

    def __init__(self, engine: Engine, base: BaseImage, store: Store, served: ServedSet) -> None:
        self.engine, self.base, self.store, self.served = engine, base, store, served
        self.target = target_of(unique("locked"), base.name)
        self.name = f"reprokit/{self.target.label}"
        self.events: list[Event] = []

    def __call__(self, made: Rendered, policy: Policy | None = None) -> str:
        """Build, from nothing but the lock unless told otherwise; returns the image's ID. Raises as `BuildRun`."""
        self.events.clear()
        inputs = Inputs(made, self.base, ServedSet(made.sets, **self.served.entries))
        with ExitStack() as stack:
            path, listens = stack.enter_context(listening())
            policy, archives = policy or locked(self.target.label), self.base.archives
            self.gateway = stack.enter_context(
                Gateway(Mirrors(self.store), inputs.served, policy, archives, listening=listens, address=ADDRESS)
            )
            options = BuildOptions(name=self.name)
            run = BuildRun(self.engine, self.target, options, inputs, self.gateway, path, self.events.append)
            return run.result()[0]

    def layers(self) -> Iterator[tarfile.TarFile]:
        """The layers that stand on the base."""
        base = len(self.engine.image(self.base.image_id).layers)
        saved = b"".join(docker.APIClient(self.engine.url).get_image(self.name))
        with tarfile.open(fileobj=io.BytesIO(saved)) as image:
            manifest = json.loads(image.extractfile("manifest.json").read())[0]
            for layer in manifest["Layers"][base:]:
                with tarfile.open(fileobj=image.extractfile(layer)) as tar:
                    yield tar
