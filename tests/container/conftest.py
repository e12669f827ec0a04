"""A real engine, an image of a recipe that is there for these tests alone, and the command line in a process."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import remove
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image.base.resolve import BaseImage
from reprokit.recipe.find import Target, target
from reprokit.supply.gateway import Gateway
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.images import built
from tests.support.names import unique
from tests.support.shared import shared
from tests.support.verbs import run_verb

DOCKERFILE = """
FROM {base}
ENV PATH=/opt/first:/usr/local/bin:/usr/bin:/bin LD_LIBRARY_PATH=/opt/lib
RUN mkdir -p /opt/first && ln -s /usr/bin/python3 /opt/first/python && chmod -R a+rX /opt/first
RUN (command -v python; printenv PATH; printenv LD_LIBRARY_PATH) > /made/built && \\
    install -m 666 -o 12 -g 34 /dev/null /made/owned
ENTRYPOINT ["/bin/false"]
HEALTHCHECK CMD /bin/false
STOPSIGNAL SIGUSR1
"""


@pytest.fixture(scope="session")
def base(engine: Engine, debian_12: BaseImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image of Debian 12 with python3, and a folder `/made` that every user can write."""

    def make() -> str:
        name = unique("container-base")
        install = "apt-get update -qq && apt-get install -qq --no-install-recommends python3 && apt-get clean"
        dockerfile = f"FROM {debian_12.name}\nRUN {install} && rm -rf /var/lib/apt/lists/* && mkdir -m 777 /made\n"
        with Gateway(Mirrors(Store()), archives=debian_12.archives) as gateway:
            arguments = gateway.build_arguments()
            built(engine, dockerfile, tag=name, buildargs=arguments, network_mode="host")
        return name

    with shared(tmp_path_factory, "container-base", make, engine.remove_image) as name:
        yield name


@pytest.fixture(scope="session")
def name(engine: Engine, base: str) -> Iterator[str]:
    """The name of a recipe whose image, `cpu`, is built; all that was made of it is removed."""
    recipe = unique("container")
    _build_variant(engine, recipe, DOCKERFILE.format(base=base))
    yield recipe
    for container in engine.containers([f"reprokit.recipe={recipe}"]):
        engine.remove(container.id, force=True)
    for image in engine.images([f"reprokit.recipe={recipe}"]):
        for reference in image.names or [image.id]:
            with contextlib.suppress(ReprokitError):
                engine.remove_image(reference, force=True)


def _build_variant(engine: Engine, recipe: str, dockerfile: str) -> None:
    labels = {"reprokit.recipe": recipe, "reprokit.variant": "cpu"}
    built(engine, dockerfile, tag=f"reprokit/{recipe}:cpu", labels=labels)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user stands here; all that reprokit keeps is below it. Other users may pass, unlike in pytest's folders."""
    with tempfile.TemporaryDirectory(prefix="reprokit-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("REPROKIT_HOME", f"{folder}/home")
        monkeypatch.delenv("REPROKIT_RECIPES", raising=False)
        monkeypatch.chdir(folder)
        yield Path(folder)
        monkeypatch.undo()


@pytest.fixture
def recipe(engine: Engine, name: str, place: Path) -> Iterator[Callable[..., Target]]:
    """`recipe(more)` writes the recipe with more lines of its variant; its containers are gone afterwards."""

    def write(more: str = "") -> Target:
        (place / "recipes").mkdir(exist_ok=True)
        text = f"name: {name}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\n"
        text += f'variants:\n  cpu:\n    base: "debian:12"\n{more}'
        (place / "recipes" / f"{name}.yaml").write_text(text)
        return target(name)

    yield write
    for container in engine.containers([f"reprokit.recipe={name}"]):
        remove(engine, container.name)


@pytest.fixture
def made(recipe: Callable[..., Target]) -> Target:
    return recipe()


@pytest.fixture
def rebuild(engine: Engine, base: str, name: str) -> Iterator[Callable[[str], None]]:
    """`rebuild(dockerfile)` gives the recipe another image, for one test."""
    yield lambda dockerfile: _build_variant(engine, name, dockerfile)
    _build_variant(engine, name, DOCKERFILE.format(base=base))


@pytest.fixture
def sh(engine: Engine) -> Callable[..., str]:
    """`sh(container, script)`: what the script printed; it must succeed."""

    def run(container: str, script: str, **options: object) -> str:
        done = execute(engine, container, ["sh", "-c", script], **options)
        assert done.exit_code == 0, done
        return done.stdout

    return run


@pytest.fixture
def processes(engine: Engine, sh: Callable[..., str]) -> Callable[[str], str]:
    """`processes(container)`: the command lines of what runs in it. The engine's own list needs `ps` on the host."""

    def listed(container: str) -> str:
        described = engine.container(container)
        if not described or not described.running:
            return ""
        return sh(container, r"for file in /proc/[0-9]*/cmdline; do tr '\0' ' ' < $file; echo; done; true")

    return listed


@pytest.fixture(scope="session")
def command() -> Callable[..., list[str]]:
    """`command("run", ...)`: the command line as a process of its own would start it."""
    return lambda *args: [sys.executable, "-m", "reprokit", *args]


@pytest.fixture
def call() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`call("run", ...)` runs the command line to its end, with no input."""
    return run_verb
