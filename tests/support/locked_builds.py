"""Builds of rendered variants behind a gateway that serves their locked inputs."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

import docker

from reprokit.engine import Engine
from reprokit.helper.sidecar import closed_network
from reprokit.image.base.resolve import BaseImage
from reprokit.image.events import BuildPlan, Event
from reprokit.image.render import Rendered
from reprokit.image.run import BUILDERS
from reprokit.supply.gateway import Gateway
from reprokit.supply.policy import Policy, locked
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.names import unique

LOCKED = locked("paper:v")


class LockedBuilds:
    """Builds of Dockerfiles from the served inputs, under a name that is removed afterwards."""

    def __init__(self, engine: Engine, base: BaseImage, store: Store, served: ServedSet) -> None:
        self.engine, self.base, self.store, self.served = engine, base, store, served
        self.name = unique("locked")

    def __call__(self, made: Rendered, kind: str = "classic", policy: Policy = LOCKED) -> tuple[list[Event], Gateway]:
        served = ServedSet(made.sets, **self.served.entries)
        with (
            self.network(kind) as (name, *where),
            Gateway(self.store, served, policy, (), None, *where) as gateway,
        ):
            plan = BuildPlan(
                self.name, made, self.base.image_id, self.base.name, served.arguments(),
                gateway.build_arguments(), {"org.example.test": "1"}, network=name,
            )  # fmt: skip
            return list(BUILDERS[kind](self.engine).run(plan)), gateway

    @contextmanager
    def network(self, kind: str) -> Iterator[tuple]:
        if kind == "buildkit":
            yield ("host",)
            return
        with closed_network(self.engine) as network:
            yield network.name, network.listening, network.address

    def layers(self) -> Iterator[tarfile.TarFile]:
        """The layers that stand on the base."""
        base = len((self.engine.image(self.base.image_id) or {})["RootFS"]["Layers"])
        saved = b"".join(docker.APIClient(self.engine.url).get_image(self.name))
        with tarfile.open(fileobj=io.BytesIO(saved)) as image:
            manifest = json.loads(image.extractfile("manifest.json").read())[0]
            for layer in manifest["Layers"][base:]:
                with tarfile.open(fileobj=image.extractfile(layer)) as tar:
                    yield tar
