"""Bases in locks: by digest whatever the engine has, or made of exactly the locked packages."""

from __future__ import annotations

import io
import tarfile
from datetime import datetime, timezone

import pytest

from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.image.base import bootstrap as bootstrap_module
from reprokit.image.base import mmdebstrap as packages_module
from reprokit.image.base import resolve as base_module
from reprokit.image.base.bootstrap import bootstrap as make_base
from reprokit.image.base.release import Release
from reprokit.image.base.resolve import carried_name, check_base, lock_base, locked_base, moved_base, successor_base
from reprokit.image.lock.supplies import Supplier
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.lock.model import AptPackage, Base, Bootstrap, VariantLock
from reprokit.supply.store import Store
from tests.support.builds import root_file_system
from tests.support.names import unique
from tests.support.registry import NoRegistry, Registry

engine_test = pytest.mark.engine
# Failures of registries are kept in the user's store.
pytestmark = pytest.mark.usefixtures("home")
BOOKWORM = Release("debian", "12", "bookworm")


def package(name: str, version: str = "1") -> AptPackage:
    sha256 = (name + version).encode().hex().ljust(64, "0")
    return AptPackage(
        name=name, version=version, architecture="amd64", archive="debian", path=f"pool/{name}", sha256=sha256, size=1
    )


def bootstrap(*packages: AptPackage) -> Bootstrap:
    return Bootstrap(distribution="debian", suite="bookworm", architecture="amd64", packages=packages)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch):
    """What a resolution of the release finds from here on."""

    def now(*packages: AptPackage) -> None:
        monkeypatch.setattr(packages_module, "resolve", lambda release, store, notify: bootstrap(*packages))

    return now


@engine_test
def test_a_registrys_digest_is_locked_and_pulled_again(engine, store):
    repository = unique("build")
    with Registry(engine, repository, root_file_system()) as registry:
        reference = f"{registry.host}/{repository}:1"
        engine.import_image(io.BytesIO(root_file_system()), f"{registry.host}/{repository}", "1", ["ENV MINE=1"])
        try:
            lock = lock_base(engine, reference, store, pytest.fail)
            assert lock == Base(reference=reference, digest=registry.digest)
            with pytest.raises(SourceError, match="does not have the base image") as error:
                locked_base(engine, lock, store, pytest.fail, offline=True)
            assert "reprokit fetch" in error.value.hint
            found = locked_base(engine, lock, store, lambda line: None)
            assert (found.how, found.digest) == ("registry", registry.digest)
            asked = len(registry.asked)
            again = locked_base(engine, lock, store, pytest.fail, offline=True)
            assert (again.image_id, len(registry.asked)) == (found.image_id, asked)
            assert moved_base(engine, lock, store, pytest.fail) == []
            old = lock.model_copy(update={"digest": f"sha256:{'0' * 64}"})
            assert moved_base(engine, old, store, pytest.fail) == [
                Moved("base", reference, str(old.digest), registry.digest, "changed")
            ]
            gone = lock.model_copy(update={"reference": f"{registry.host}/{repository}:2"})
            assert moved_base(engine, gone, store, pytest.fail)[0].what == "vanished"
        finally:
            for name in (reference, carried_name(registry.digest)):
                engine.remove_image(name, force=True)


def test_a_recipes_own_digest_is_the_lock(store):
    reference = f"debian:12@sha256:{'1' * 64}"
    assert lock_base(NoRegistry(), reference, store, pytest.fail).digest == f"sha256:{'1' * 64}"


def test_what_the_engine_has_does_not_decide(store, upstream):
    engine = NoRegistry(debian__12={"Id": "sha256:1", "RepoDigests": [f"debian@sha256:{'2' * 64}"]})
    upstream(package("liba"))
    said: list[str] = []
    assert lock_base(engine, "debian:12", store, said.append).bootstrap == bootstrap(package("liba"))
    assert said == ["no registry has debian:12 (no such host); resolving the packages of debian 12 (bookworm)"]


def test_what_nobody_serves_and_nobody_can_make(store):
    with pytest.raises(SourceError, match="no registry has the base image nvidia/cuda:1"):
        lock_base(NoRegistry(), "nvidia/cuda:1", store, pytest.fail)
    lock = Base(reference="nvidia/cuda:1", digest=f"sha256:{'0' * 64}")
    with pytest.raises(SourceError, match="no registry has the base image nvidia/cuda:1@sha256:000"):
        locked_base(NoRegistry(), lock, store, lambda line: None)
    with pytest.raises(SourceError, match="no registry has"):  # no answer is no proof that it vanished
        moved_base(NoRegistry(), lock, store, pytest.fail)


def test_a_debian_by_digest_is_never_the_bootstrapped_one(store):
    engine = NoRegistry()
    engine.images["reprokit/own/base:debian-12"] = {"Id": "sha256:1"}
    with pytest.raises(SourceError, match="no registry has"):
        locked_base(engine, Base(reference="debian:12", digest=f"sha256:{'0' * 64}"), store, lambda line: None)


def test_two_locks_have_two_images(store, monkeypatch):
    engine = NoRegistry()

    def make(_engine, name, release, locked, _store, notify):
        image = {"Id": f"sha256:{len(engine.images)}", "Architecture": "amd64"}
        engine.images[name] = engine.images[image["Id"]] = image
        return image["Id"]

    monkeypatch.setattr(bootstrap_module, "bootstrap", make)
    one = Base(reference="debian:bookworm-slim", bootstrap=bootstrap(package("liba")))
    two = Base(reference="debian:12", bootstrap=bootstrap(package("liba", "2")))
    first, second = (locked_base(engine, lock, store, lambda line: None) for lock in (one, two))
    assert first.name != second.name and first.image_id != second.image_id
    assert first.name.startswith("reprokit/own/base:debian-12-") and first.how == "bootstrapped"
    assert locked_base(engine, one, store, pytest.fail) == first


def test_a_host_without_mmdebstrap_is_reported_before_anything_is_fetched(store, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    base = Base(reference="debian:12", bootstrap=bootstrap(package("liba")))
    lock = VariantLock(reprokit="0", inputs={}, python="3.11", glibc="2.36", machine="x86_64", base=base)
    with pytest.raises(EngineError, match="mmdebstrap is not installed"):
        Supplier(store, None).inputs(NoRegistry(), "x:cpu", None, lock, drift=False)  # no mirrors: nothing is fetched
    engine = NoRegistry()
    engine.images[bootstrap_module.name_of(BOOKWORM, base.bootstrap)] = {"Id": "sha256:1"}
    check_base(engine, base)


def test_a_lock_of_another_release(store):
    with pytest.raises(UsageError, match="lock"):
        locked_base(NoRegistry(), Base(reference="debian:11", bootstrap=bootstrap(package("liba"))), store, pytest.fail)


def test_packages_that_moved_and_what_takes_their_place(store, upstream):
    lock = Base(reference="debian:12", bootstrap=bootstrap(package("liba"), package("libb"), package("libc")))
    upstream(package("liba"), package("libb", "2"), package("libd"))
    assert moved_base(NoRegistry(), lock, store, pytest.fail) == [
        Moved("base", "libb", "1", "2", "newer"),
        Moved("base", "libc", "1", "", "vanished"),
    ]
    taken, drifts = successor_base(lock, store, pytest.fail)
    assert taken.bootstrap == bootstrap(package("liba"), package("libb", "2"), package("libd"))
    assert drifts == ("libb 1 -> 2", "libc 1 -> gone", "libd new -> 1")


@engine_test
def test_bullseye_is_locked_twice_alike(store):
    release = Release("debian", "11", "bullseye")
    first = packages_module.resolve(release, store, lambda line: None)
    assert first == packages_module.resolve(release, store, lambda line: None)
    assert (first.suite, first.architecture) == ("bullseye", "amd64")
    names = [p.name for p in first.packages]
    assert names == sorted(names) and {"apt", "bash", "dpkg", "libc6", "tzdata"} <= set(names)
    assert {p.archive for p in first.packages} <= {"debian", "debian-security"}
    assert datetime.strptime(first.as_of, "%Y%m%dT%H%M%SZ") > datetime(2021, 8, 14)


@engine_test
def test_the_locked_base_is_what_an_unlocked_bootstrap_makes(engine, bookworm, inside):
    image = engine.image(bookworm.base.name)
    labels = image["Config"]["Labels"]
    locked = {(p.name, p.version) for p in bookworm.lock.bootstrap.packages}
    shown = inside(bookworm.base.name, r"dpkg-query -W -f '${Package} ${Version}\n'")
    assert {tuple(line.split()) for line in shown.splitlines()} == locked
    sources = inside(bookworm.base.name, "cat /etc/apt/sources.list; ls /etc/apt/sources.list.d")
    suites = [line.split()[2] for line in sources.splitlines()]
    assert suites == ["bookworm", "bookworm-updates", "bookworm-security"]
    assert "trusted" not in sources and "reprokit" not in sources
    assert all(host in sources for host in labels["reprokit.bootstrap.archives"].split(","))
    assert inside(bookworm.base.name, "ls /var/lib/apt/lists /var/cache/apt/archives /tmp").split("\n\n") == [
        "/tmp:",
        "/var/cache/apt/archives:\npartial",
        "/var/lib/apt/lists:\npartial\n",
    ]


@engine_test
def test_the_locked_base_is_as_old_as_its_packages(engine, bookworm):
    """So that making it again gives the same bytes: nothing in it is of today."""
    date = engine.image(bookworm.base.name)["Config"]["Labels"]["reprokit.bootstrap.date"]
    newest = datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=timezone.utc).timestamp() + 86400
    container = engine.create_container(unique("build"), {"Image": bookworm.base.name})
    try:
        with tarfile.open(fileobj=io.BytesIO(engine.get_archive(container, "/etc")), mode="r:") as tar:
            # The engine itself puts these into every container.
            members = [m for m in tar if m.name not in ("etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/mtab")]
    finally:
        engine.remove(container, force=True)
    assert len(members) > 100
    assert [m.name for m in members if m.mtime > newest and m.name != "etc"] == []


def test_a_package_that_is_not_in_the_store(store, engine):
    with pytest.raises(SourceError, match="liba 1 is not in the store"):
        make_base(engine, "reprokit/own/base:none", BOOKWORM, bootstrap(package("liba")), store, lambda line: None)


def test_a_base_by_digest_is_left_where_it_is(store):
    lock = Base(reference="nvidia/cuda:1", digest=f"sha256:{'0' * 64}")
    assert successor_base(lock, store, pytest.fail) == (lock, ())


def test_registries_are_asked_in_order(monkeypatch):
    class Second(NoRegistry):
        def registry_digest(self, reference: str) -> str:
            if reference.startswith("two.test/"):
                return f"sha256:{'3' * 64}"
            raise SourceError("no such host", reference)

    monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", "one.test,two.test")
    tried: list[str] = []
    assert base_module.published_digest(Second(), "debian:12", tried) == f"sha256:{'3' * 64}"
    assert tried == ["debian:12: no such host", "one.test/library/debian:12: no such host"]
