"""What every test shares."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.image import base as bases
from reprokit.image.bootstrap import bootstrap, name_of
from reprokit.image.bootstraplock import resolve
from reprokit.image.release import Release
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.lock.model import Base
from reprokit.supply.locked_input import of_base
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.engines import debian_13
from tests.support.names import unique
from tests.support.shared import shared

pytest_plugins = ["tests.support.suite"]

# The mirrors of whoever runs the tests have no part in them, nor in what they start.
os.environ["REPROKIT_CONFIG"] = str(Path(__file__).parent / "support" / "hosts.yaml")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write tests/golden from what is rendered now")


@pytest.fixture
def golden(request):
    """`golden(name, text)` compares with tests/golden/NAME, or writes it under --update-golden."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{name} is missing: run pytest --update-golden and read what it writes"
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of a Debian 13, whose newer engine is run beside the machine's."""

    def make() -> str:
        return str(debian_13(tmp_path_factory.mktemp("debian13") / "root"))

    with shared(tmp_path_factory, "debian13", make, shutil.rmtree) as root:
        yield Path(root)


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The machine's engine. Without one a test is skipped, except where REPROKIT_REQUIRE_ENGINE is set."""
    try:
        return Engine.connect()
    except EngineError as error:
        if os.environ.get("REPROKIT_REQUIRE_ENGINE"):
            raise
        pytest.skip(f"no engine: {error.message}")


@pytest.fixture(scope="session")
def debian_12(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[bases.Base]:
    """The user's own base of Debian 12, made if it is not there yet; it stays."""

    def resolved() -> bases.Base:
        return bases.resolve_base(engine, "debian:12", lambda line: None)

    with shared(tmp_path_factory, "debian-12", lambda: resolved().name, lambda name: None):
        yield resolved()


@dataclass(frozen=True)
class LockedBase:
    """Debian 12 as a lock, the store with its packages, and the base that was made of them with no way out."""

    lock: Base
    base: bases.Base
    store: Store


@pytest.fixture(scope="session")
def bookworm(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBase]:
    def make() -> str:
        store = Store(tmp_path_factory.mktemp("bookworm") / "store")
        # A name of its own: the user's engine may have this base already.
        release = Release("debian", unique("bookworm"), "bookworm")
        lock = Base(reference="debian:12", bootstrap=resolve(release, store, lambda line: None))
        mirrors = Mirrors(store)
        fetch_all(of_base(lock), store, mirrors, settings=mirrors.settings)
        assert lock.bootstrap is not None
        with pytest.MonkeyPatch.context() as patch:
            for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
                patch.setenv(name, "http://127.0.0.1:9")
            image = name_of(release, lock.bootstrap)
            bootstrap(engine, image, release, lock.bootstrap, store, lambda line: None)
        return json.dumps([lock.model_dump_json(), image, str(store.root)])

    def remove(made: str) -> None:
        engine.remove_image(json.loads(made)[1], force=True)

    with shared(tmp_path_factory, "bookworm", make, remove) as made:
        lock, name, store = json.loads(made)
        image = engine.image(name)
        assert image is not None
        base = bases.described("debian:12", name, image, "bootstrapped")
        yield LockedBase(Base.model_validate_json(lock), base, Store(Path(store)))
