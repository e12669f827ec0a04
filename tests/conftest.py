"""What every test shares."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprokit.display import reporting
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.image.base import resolve as bases
from reprokit.image.base.mmdebstrap import resolve
from reprokit.image.base.release import Release
from reprokit.image.base.resolve import locked_base
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.lock.model import Base
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support import slurm
from tests.support.disk import Disk
from tests.support.engines import debian_13
from tests.support.images import Images
from tests.support.paths import ROOT
from tests.support.repositories import Repositories
from tests.support.shared import shared
from tests.support.stores import fetch
from tests.support.upstream import Upstream

pytest_plugins = ["tests.support.cost", "tests.support.home", "tests.support.since", "tests.support.suite"]

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
def debian_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Debian's packages of Slurm, unpacked."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    with shared(
        tmp_path_factory, "slurm", lambda: str(slurm.unpacked(tmp_path_factory.mktemp("slurm"))), shutil.rmtree
    ) as root:
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
    """The engine's base of Debian 12, made if it is not there yet; it stays."""

    def resolved() -> bases.Base:
        return bases.resolve_base(engine, "debian:12")

    with shared(tmp_path_factory, "debian-12", lambda: resolved().name, lambda name: None):
        yield resolved()


@dataclass(frozen=True)
class LockedBase:
    """Debian 12 as a lock, the store with its packages, and the base that is made of them."""

    lock: Base
    base: bases.Base
    store: Store


@pytest.fixture(scope="session")
def bookworm(engine: Engine, debian_12: bases.Base, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBase]:
    def make() -> str:
        store = Store(tmp_path_factory.mktemp("bookworm") / "store")
        lock = Base(reference="debian:12", bootstrap=resolve(Release("debian", "12", "bookworm"), store))
        mirrors = Mirrors(store)
        fetch_all(lock.locked_inputs(), mirrors)
        return json.dumps([lock.model_dump_json(), str(store.root)])

    with shared(tmp_path_factory, "bookworm", make, lambda made: None) as made:
        lock, store = json.loads(made)
        read = Base.model_validate_json(lock)
        # `debian_12` by another name, as long as the archives have not changed since that was made.
        yield LockedBase(read, locked_base(engine, read, Store(Path(store))), Store(Path(store)))


@pytest.fixture
def reported() -> Iterator[list[str]]:
    """The lines that are reported to the user during the test."""
    lines: list[str] = []
    with reporting(lines.append):
        yield lines


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def short_path() -> Iterator[Path]:
    # A socket's path has room for 107 characters; pytest's own folders are longer.
    with tempfile.TemporaryDirectory(prefix="reprokit-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    made = Disk(tmp_path / "disk")
    yield made
    made.unmount()


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repositories:
    root = tmp_path / "forge"
    root.mkdir()
    settings = {
        f"url.{root}/.insteadOf": "https://forge.test/",
        "user.name": "t",
        "user.email": "t@example.org",
    }
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, (key, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    return Repositories(root)


@pytest.fixture(scope="session")
def without_recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What comes with reprokit, but no recipe. Of the session, because the renderer keeps the folder of templates."""
    root = tmp_path_factory.mktemp("without-recipes")
    (root / "images").symlink_to(ROOT / "images")
    return root


@pytest.fixture
def recipes(tmp_path: Path, without_recipes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of recipes, in which the user stands; `$REPROKIT_HOME` is the test's own."""
    for name in list(os.environ):
        if name.startswith("REPROKIT_") and name != "REPROKIT_CONFIG":
            monkeypatch.delenv(name)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    monkeypatch.setattr("reprokit.paths.data_root", lambda: without_recipes)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    return tmp_path / "recipes"


@pytest.fixture
def commit(repositories: Repositories, store: Store) -> Commit:
    """A commit of team/tool, in the store."""
    head = repositories.make("team/tool", {"a": "1" * 5000, "b": "2"})
    return fetch(store, "team/tool", head)


@pytest.fixture(scope="session")
def images(engine: Engine) -> Iterator[Images]:
    """Makes images on this machine's engine."""
    made = Images(engine)
    yield made
    made.close()


@pytest.fixture(scope="session")
def base(images: Images) -> str:
    """An image that others are made on."""
    return images.common_base()


@pytest.fixture(scope="session")
def two(images: Images, base: str) -> tuple[str, str]:
    """Two images of a common base, each with layers of its own."""
    return images.two_on(base)


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def upstream(no_proxies: None) -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.server.shutdown()
    server.server.server_close()
