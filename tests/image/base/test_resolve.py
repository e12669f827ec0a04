"""Where a base image comes from: the engine, a registry, a mirror, or the distribution's packages; and its lock."""

from __future__ import annotations

import contextlib
import io
import secrets
import tarfile
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from reprokit.engine import Engine, ImageInfo
from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError
from reprokit.image import trust
from reprokit.image.base import bootstrap as bootstrap_module
from reprokit.image.base import mmdebstrap as packages_module
from reprokit.image.base import resolve as base_module
from reprokit.image.base.bootstrap import bootstrap as make_base
from reprokit.image.base.release import Release
from reprokit.image.base.resolve import (
    carried_name,
    check_base,
    lock_base,
    locked_base,
    moved_base,
    on_engine,
    resolve_base,
    successor_base,
)
from reprokit.image.lock.supplies import Supplier
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.model import AptPackage, Base, Bootstrap, VariantLock
from reprokit.supply.locked_input import LockedInput
from tests.support.builds import root_file_system
from tests.support.names import unique
from tests.support.registry import NoRegistry, Registry

BOOKWORM = Release("debian", "12", "bookworm")
DIGEST = f"sha256:{'1' * 64}"


@pytest.fixture(autouse=True)
def _home(home) -> None:
    """Failures of registries are kept in the user's store."""


@pytest.fixture(scope="module")
def registry(engine: Engine) -> Iterator[tuple[Registry, str]]:
    """A registry, and the repository of its image. `library/` is Docker Hub's folder of names without one."""
    repository = f"cache/library/{unique('build')}"
    with Registry(engine, repository, root_file_system()) as running:
        yield running, repository


@pytest.fixture
def reference(engine: Engine, registry: tuple[Registry, str]) -> Iterator[str]:
    """The name of the registry's image, which the engine has neither before nor after the test."""
    served, repository = registry
    yield f"{served.host}/{repository}:1"
    for image in engine.api.images():
        names = [*(image.get("RepoTags") or []), *(image.get("RepoDigests") or [])]
        if any(repository.rpartition("/")[2] in name for name in names):
            for name in [*names, carried_name(served.digest)]:
                with contextlib.suppress(ReprokitError):  # a digest's name goes with its tag
                    engine.remove_image(name, force=True)


def test_the_engines_own_comes_first(engine, base):
    resolved = resolve_base(engine, base)
    assert (resolved.how, resolved.name, resolved.reference) == ("engine", base, base)
    assert resolved.image_id == engine.image(base).id and resolved.architecture == "amd64"
    assert resolved.described.startswith(f"{base}: on the engine (sha256:")


def test_a_registry_serves_it_by_digest(engine, registry, reference):
    served, _ = registry
    first = resolve_base(engine, reference)
    assert (first.how, first.digest, first.name) == ("registry", served.digest, reference)
    assert any(path.endswith(f"/manifests/{served.digest}") for path in served.asked)
    requests = len(served.asked)
    again = resolve_base(engine, reference)
    assert (again.how, again.image_id, len(served.asked)) == ("engine", first.image_id, requests)
    by_digest = resolve_base(engine, f"{reference}@{served.digest}")
    assert (by_digest.how, by_digest.digest, by_digest.image_id) == ("engine", served.digest, first.image_id)


def test_a_name_that_another_image_has_is_not_moved(engine, registry, reference, base):
    pinned = f"{reference}@{registry[0].digest}"
    engine.tag(base, *reference.rsplit(":", 1))
    before = engine.image(reference).id
    resolved = resolve_base(engine, pinned)
    assert resolved.how == "registry" and resolved.image_id != before == engine.image(reference).id
    again = resolve_base(engine, pinned)
    assert (again.how, again.image_id) == ("engine", resolved.image_id)
    engine.remove_image(reference)


@pytest.mark.parametrize("locked", [False, True])
def test_a_stated_digest_gives_its_image_to_no_tag(engine, registry, reference, store, locked):
    """Whoever wrote the recipe or the lock chose the digest, which need not be that of the tag."""
    digest, plain = registry[0].digest, reference.replace(":1", ":other")
    pinned = f"{plain}@{digest}"
    if locked:
        resolved = locked_base(engine, Base(reference=plain, digest=digest), store)
    else:
        resolved = resolve_base(engine, pinned)
    assert (resolved.how, resolved.name) == ("registry", carried_name(digest))
    assert engine.image(plain) is None
    again = resolve_base(engine, pinned)
    assert (again.how, again.image_id) == ("engine", resolved.image_id)


def test_a_carried_name_counts_only_for_an_image_that_the_user_trusts(engine, base):
    """Anyone can give an image that name; the digest in it would then be recorded as the build's base."""
    digest = f"sha256:{secrets.token_hex(32)}"
    engine.tag(base, *carried_name(digest).rsplit(":", 1))
    try:
        assert on_engine(engine, f"{base}@{digest}") is None
        trust.record(engine, engine.image(base).id, "trusted", "test")
        resolved = on_engine(engine, f"{base}@{digest}")
        assert resolved and (resolved.name, resolved.digest) == (carried_name(digest), digest)
    finally:
        engine.remove_image(carried_name(digest))


def test_mirrors_stand_in_for_docker_hub_in_their_order(engine, registry, reference, monkeypatch):
    served, repository = registry
    name = f"{repository.rpartition('/')[2]}:1"
    monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", f"{served.host}/none, {served.host}/cache/")
    monkeypatch.setattr("reprokit.engine.images._REGISTRY_TIMEOUT_S", 3)
    resolved = resolve_base(engine, name)
    assert any("/none/library/" in path for path in served.asked)
    assert (resolved.how, resolved.digest) == (f"mirror {served.host}/cache", served.digest)
    assert resolved.name == name and engine.image(name).id == resolved.image_id
    again = resolve_base(engine, f"{name}@{served.digest}")
    assert (again.how, again.name, again.image_id) == ("engine", name, resolved.image_id)


def test_what_nobody_serves_is_named_with_all_that_was_tried(engine, registry, monkeypatch):
    host = registry[0].host
    monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", host)
    with pytest.raises(SourceError) as error:
        resolve_base(engine, f"{host}/team/gone:1")
    assert error.value.exit_code == 4
    assert f"no registry has the base image {host}/team/gone:1" in error.value.message
    assert "manifest unknown" in error.value.message


def test_a_registrys_digest_is_locked_and_pulled_again(engine, registry, reference, store):
    served, _ = registry
    engine.import_image(io.BytesIO(root_file_system()), reference.rpartition(":")[0], "1", ["ENV MINE=1"])
    lock = lock_base(engine, reference, store)
    assert lock == Base(reference=reference, digest=served.digest)
    with pytest.raises(SourceError, match="does not have the base image") as error:
        locked_base(engine, lock, store, offline=True)
    assert "reprokit fetch" in error.value.hint
    pulled = locked_base(engine, lock, store)
    assert (pulled.how, pulled.digest) == ("registry", served.digest)
    requests = len(served.asked)
    again = locked_base(engine, lock, store, offline=True)
    assert (again.image_id, len(served.asked)) == (pulled.image_id, requests)
    assert moved_base(engine, lock, store) == []
    old = lock.model_copy(update={"digest": DIGEST})
    assert moved_base(engine, old, store) == [UpstreamChange("base", reference, DIGEST, served.digest, "changed")]
    gone = lock.model_copy(update={"reference": reference.replace(":1", ":2")})
    assert moved_base(engine, gone, store)[0].what == "vanished"


def test_an_import_needs_little_memory(engine):
    class Counted(io.RawIOBase):
        largest = 0

        def __init__(self, data: bytes) -> None:
            self.data = io.BytesIO(data)

        def read(self, size: int = -1) -> bytes:
            Counted.largest = max(Counted.largest, size)
            assert size > 0
            return self.data.read(size)

    name = unique("build")
    engine.import_image(Counted(root_file_system()), name, "1", [])
    engine.remove_image(f"{name}:1", force=True)
    assert Counted.largest <= 1 << 20


# Without a registry.


def package(name: str, version: str = "1") -> AptPackage:
    sha256 = (name + version).encode().hex().ljust(64, "0")
    return AptPackage(
        name=name, version=version, architecture="amd64", archive="debian", path=f"pool/{name}", sha256=sha256, size=1
    )


def bootstrap(*packages: AptPackage) -> Bootstrap:
    return Bootstrap(distribution="debian", suite="bookworm", architecture="amd64", packages=packages)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch):
    """What a resolution of the release gives from now on."""

    def now(*packages: AptPackage) -> None:
        monkeypatch.setattr(packages_module, "resolve", lambda release, store: bootstrap(*packages))

    return now


def test_a_gone_tag_of_nvidia_brings_the_nearest_listed_one():
    with pytest.raises(SourceError) as error:
        resolve_base(NoRegistry(), "nvidia/cuda:11.3.0-devel-ubuntu18.04")
    assert "is not listed; did you mean nvidia/cuda:11." in error.value.hint


def test_a_bootstrapped_base_is_used_again_and_still_called_so():
    engine = NoRegistry()
    engine.images["reprokit/own/base:debian-12"] = ImageInfo("sha256:1", architecture="amd64")
    resolved = resolve_base(engine, "debian:bookworm-slim")
    assert (resolved.how, resolved.name, resolved.digest) == ("bootstrapped", "reprokit/own/base:debian-12", "")
    assert "not the vendor's image" in resolved.described


def test_bootstrapping_reports_why_and_goes_the_way_of_a_lock(monkeypatch, upstream, reported: list[str]):
    engine = NoRegistry()
    fetched: list[LockedInput] = []

    def made(_engine: object, name: str, release: Release, packages: Bootstrap, store: object) -> str:
        assert packages == bootstrap(package("dpkg")) and [i.sha256 for i in fetched] == [package("dpkg").sha256]
        engine.images[name] = engine.images["sha256:2"] = ImageInfo("sha256:2")
        return "sha256:2"

    upstream(package("dpkg"))
    monkeypatch.setattr(base_module, "fetch_all", lambda inputs, *more, **options: fetched.extend(inputs))
    monkeypatch.setattr(bootstrap_module, "bootstrap", made)
    resolved = resolve_base(engine, "debian:12")
    assert (resolved.how, resolved.name, resolved.image_id) == (
        "bootstrapped", "reprokit/own/base:debian-12", "sha256:2"
    )  # fmt: skip
    assert reported == [
        "no registry has debian:12 (no such host); bootstrapping debian 12 (bookworm) from packages",
        "bootstrapping debian 12 (bookworm) from 1 packages",
    ]


def test_what_the_engine_has_does_not_decide_a_lock(store, upstream, reported: list[str]):
    engine = NoRegistry(debian__12=ImageInfo("sha256:1", digests=(f"debian@{DIGEST}",)))
    upstream(package("liba"))
    assert lock_base(engine, "debian:12", store).bootstrap == bootstrap(package("liba"))
    assert reported == ["no registry has debian:12 (no such host); resolving the packages of debian 12 (bookworm)"]
    assert lock_base(engine, f"debian:12@{DIGEST}", store).digest == DIGEST  # the recipe's own


def test_what_nobody_serves_and_nobody_can_make(store):
    with pytest.raises(SourceError, match="no registry has the base image nvidia/cuda:1"):
        lock_base(NoRegistry(), "nvidia/cuda:1", store)
    lock = Base(reference="nvidia/cuda:1", digest=DIGEST)
    with pytest.raises(SourceError, match="no registry has the base image nvidia/cuda:1@sha256:111"):
        locked_base(NoRegistry(), lock, store)
    with pytest.raises(SourceError, match="no registry has"):  # no answer is no proof that it vanished
        moved_base(NoRegistry(), lock, store)
    assert successor_base(lock, store) == (lock, ())
    # A Debian by digest is never the bootstrapped one.
    engine = NoRegistry()
    engine.images["reprokit/own/base:debian-12"] = ImageInfo("sha256:1")
    with pytest.raises(SourceError, match="no registry has"):
        locked_base(engine, Base(reference="debian:12", digest=DIGEST), store)
    with pytest.raises(UsageError, match="lock"):  # of another release
        locked_base(NoRegistry(), Base(reference="debian:11", bootstrap=bootstrap(package("liba"))), store)
    with pytest.raises(SourceError, match="liba 1 is not in the store"):
        make_base(engine, "reprokit/own/base:none", BOOKWORM, bootstrap(package("liba")), store)


def test_two_locks_have_two_images(store, monkeypatch):
    engine = NoRegistry()

    def make(_engine, name, release, locked, _store):
        image = ImageInfo(f"sha256:{len(engine.images)}", architecture="amd64")
        engine.images[name] = engine.images[image.id] = image
        return image.id

    monkeypatch.setattr(bootstrap_module, "bootstrap", make)
    one = Base(reference="debian:bookworm-slim", bootstrap=bootstrap(package("liba")))
    two = Base(reference="debian:12", bootstrap=bootstrap(package("liba", "2")))
    first, second = (locked_base(engine, lock, store) for lock in (one, two))
    assert first.name != second.name and first.image_id != second.image_id
    assert first.name.startswith("reprokit/own/base:debian-12-") and first.how == "bootstrapped"
    assert locked_base(engine, one, store) == first


def test_a_host_without_mmdebstrap_is_reported_before_anything_is_fetched(store, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    base = Base(reference="debian:12", bootstrap=bootstrap(package("liba")))
    lock = VariantLock(reprokit="0", inputs={}, python="3.11", glibc="2.36", machine="x86_64", base=base)
    nowhere: Any = None  # nothing is fetched
    with pytest.raises(EngineError, match="mmdebstrap is not installed"):
        Supplier(nowhere).inputs(NoRegistry(), "x:cpu", nowhere, lock, drift=False)
    engine = NoRegistry()
    engine.images[bootstrap_module.name_of(BOOKWORM, base.bootstrap)] = ImageInfo("sha256:1")
    check_base(engine, base)


def test_packages_that_moved_and_what_takes_their_place(store, upstream):
    lock = Base(reference="debian:12", bootstrap=bootstrap(package("liba"), package("libb"), package("libc")))
    upstream(package("liba"), package("libb", "2"), package("libd"))
    assert moved_base(NoRegistry(), lock, store) == [
        UpstreamChange("base", "libb", "1", "2", "newer"),
        UpstreamChange("base", "libc", "1", "", "vanished"),
    ]
    successor, drifts = successor_base(lock, store)
    assert successor.bootstrap == bootstrap(package("liba"), package("libb", "2"), package("libd"))
    assert drifts == ("libb 1 -> 2", "libc 1 -> gone", "libd new -> 1")


def test_a_bootstrap_is_resolved_twice_alike_and_makes_an_image_of_exactly_its_packages(
    engine, bookworm, inside, store
):
    lock, name = bookworm.lock.bootstrap, bookworm.base.name
    again = packages_module.resolve(BOOKWORM, store)
    assert again.model_copy(update={"as_of": lock.as_of}) == lock
    assert (lock.suite, lock.architecture) == ("bookworm", "amd64")
    names = [p.name for p in lock.packages]
    assert names == sorted(names) and {"apt", "bash", "dpkg", "libc6", "tzdata"} <= set(names)
    assert {p.archive for p in lock.packages} <= {"debian", "debian-security"}
    assert datetime.strptime(lock.as_of, "%Y%m%dT%H%M%SZ") > datetime(2023, 6, 10)

    labels = engine.image(name).labels
    shown = inside(name, r"dpkg-query -W -f '${Package} ${Version}\n'")
    assert {tuple(line.split()) for line in shown.splitlines()} == {(p.name, p.version) for p in lock.packages}
    sources = inside(name, "cat /etc/apt/sources.list; ls /etc/apt/sources.list.d")
    suites = [line.split()[2] for line in sources.splitlines()]
    assert suites == ["bookworm", "bookworm-updates", "bookworm-security"]
    assert "trusted" not in sources and "reprokit" not in sources
    assert all(host in sources for host in labels["reprokit.bootstrap.archives"].split(","))
    folders = inside(name, "ls /var/lib/apt/lists /var/cache/apt/archives /tmp").split("\n\n")
    assert folders == ["/tmp:", "/var/cache/apt/archives:\npartial", "/var/lib/apt/lists:\npartial\n"]

    # It is as old as its packages, so that making it again gives the same bytes.
    date = datetime.strptime(labels["reprokit.bootstrap.date"], "%Y-%m-%d").replace(tzinfo=timezone.utc)
    container = engine.create_container(unique("build"), {"Image": name})
    try:
        with engine.archive(container, "/etc") as blocks, tarfile.open(fileobj=io.BytesIO(b"".join(blocks))) as tar:
            # The engine itself puts these into every container.
            members = [m for m in tar if m.name not in ("etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/mtab")]
    finally:
        engine.remove(container, force=True)
    assert len(members) > 100
    assert [m.name for m in members if m.mtime > date.timestamp() + 86400 and m.name != "etc"] == []
