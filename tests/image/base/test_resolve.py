"""Where a base image comes from: the engine, a registry, a mirror, or the distribution's packages."""

from __future__ import annotations

import contextlib
import io
import secrets
from collections.abc import Iterator

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError, SourceError
from reprokit.image import trust
from reprokit.image.base import bootstrap
from reprokit.image.base import mmdebstrap as packages_module
from reprokit.image.base import resolve as base_module
from reprokit.image.base.release import Release
from reprokit.image.base.resolve import carried_name, locked_base, on_engine, resolve_base
from reprokit.supply.lock.model import AptPackage, Base, Bootstrap
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from tests.support.builds import root_file_system
from tests.support.names import unique
from tests.support.registry import NoRegistry, Registry

engine_test = pytest.mark.engine
# Failures of registries here stay here.
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def repository(engine: Engine) -> Iterator[str]:
    """A repository's name, unknown to every registry; its image is removed afterwards."""
    name = unique("build")
    yield name
    for image in engine.api.images():
        for reference in [*(image.get("RepoTags") or []), *(image.get("RepoDigests") or [])]:
            if name in reference:
                with contextlib.suppress(ReprokitError):  # a digest's name goes with its tag
                    engine.remove_image(reference)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


@engine_test
def test_the_engines_own_comes_first(engine, base):
    found = resolve_base(engine, base, lambda line: pytest.fail(line))
    assert (found.how, found.name, found.reference) == ("engine", base, base)
    assert found.image_id == engine.image(base)["Id"] and found.architecture == "amd64"
    assert found.described.startswith(f"{base}: on the engine (sha256:")


@engine_test
def test_a_registry_serves_it_by_digest(engine, repository):
    with Registry(engine, repository, root_file_system()) as registry:
        reference = f"{registry.host}/{repository}:1"
        said: list[str] = []
        found = resolve_base(engine, reference, said.append)
        assert (found.how, found.digest, found.name) == ("registry", registry.digest, reference)
        assert any(path.endswith(f"/manifests/{registry.digest}") for path in registry.asked)
        asked = len(registry.asked)
        again = resolve_base(engine, reference, said.append)
        assert (again.how, again.image_id) == ("engine", found.image_id)
        assert len(registry.asked) == asked
        by_digest = resolve_base(engine, f"{reference}@{registry.digest}", said.append)
        assert (by_digest.how, by_digest.digest, by_digest.image_id) == ("engine", registry.digest, found.image_id)


@engine_test
def test_a_name_that_another_image_has_is_not_moved(engine, repository, base):
    with Registry(engine, repository, root_file_system()) as registry:
        plain = f"{registry.host}/{repository}:1"
        engine.tag(base, *plain.rsplit(":", 1))
        before = engine.image(plain)["Id"]
        found = resolve_base(engine, f"{plain}@{registry.digest}")
        try:
            assert found.how == "registry" and found.image_id != before == engine.image(plain)["Id"]
            again = resolve_base(engine, f"{plain}@{registry.digest}", pytest.fail)
            assert (again.how, again.image_id) == ("engine", found.image_id)
        finally:
            engine.remove_image(carried_name(registry.digest))


@engine_test
def test_a_carried_name_counts_only_for_an_image_that_the_user_trusts(engine, base):
    """Anyone can give an image that name; the digest in it would then be recorded as the build's base."""
    digest = f"sha256:{secrets.token_hex(32)}"
    engine.tag(base, *carried_name(digest).rsplit(":", 1))
    try:
        assert on_engine(engine, f"{base}@{digest}") is None
        trust.record(engine, engine.image(base)["Id"], "trusted", "test")
        found = on_engine(engine, f"{base}@{digest}")
        assert found and (found.name, found.digest) == (carried_name(digest), digest)
    finally:
        engine.remove_image(carried_name(digest))


@engine_test
@pytest.mark.parametrize("locked", [False, True])
def test_a_stated_digest_gives_its_image_to_no_tag(engine, repository, store, locked):
    """Whoever wrote the recipe or the lock chose the digest, which need not be that of the tag."""
    with Registry(engine, repository, root_file_system()) as registry:
        plain = f"{registry.host}/{repository}:other"
        if locked:
            found = locked_base(engine, Base(reference=plain, digest=registry.digest), store, lambda line: None)
        else:
            found = resolve_base(engine, f"{plain}@{registry.digest}")
        try:
            assert (found.how, found.name) == ("registry", carried_name(registry.digest))
            assert engine.image(plain) is None
            again = resolve_base(engine, f"{plain}@{registry.digest}", pytest.fail)
            assert (again.how, again.image_id) == ("engine", found.image_id)
        finally:
            engine.remove_image(carried_name(registry.digest), force=True)


@engine_test
def test_mirrors_stand_in_for_docker_hub_in_their_order(engine, repository, monkeypatch):
    # `library/` is what Docker Hub calls the folder of names without one.
    with Registry(engine) as wrong, Registry(engine, f"cache/library/{repository}", root_file_system()) as right:
        monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", f"{wrong.host}, {right.host}/cache/")
        monkeypatch.setattr("reprokit.engine.images._REGISTRY_TIMEOUT_S", 3)
        found = resolve_base(engine, f"{repository}:1")
        assert wrong.asked
    assert (found.how, found.digest) == (f"mirror {right.host}/cache", right.digest)
    assert found.name == f"{repository}:1" and engine.image(f"{repository}:1")["Id"] == found.image_id
    again = resolve_base(engine, f"{repository}:1@{right.digest}", pytest.fail)
    assert (again.how, again.name, again.image_id) == ("engine", f"{repository}:1", found.image_id)
    with pytest.raises(SourceError, match="no registry has"):  # a tag that moved is not what the digest names
        resolve_base(engine, f"{repository}:1@sha256:{'0' * 64}")


@engine_test
def test_what_nobody_serves_is_named_with_all_that_was_tried(engine, monkeypatch):
    with Registry(engine) as empty:
        monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", empty.host)
        reference = f"{empty.host}/team/gone:1"
        with pytest.raises(SourceError) as error:
            resolve_base(engine, reference)
    assert error.value.exit_code == 4
    assert f"no registry has the base image {reference}" in error.value.message
    assert "manifest unknown" in error.value.message


def test_a_gone_tag_of_nvidia_brings_the_nearest_listed_one():
    with pytest.raises(SourceError) as error:
        resolve_base(NoRegistry(), "nvidia/cuda:11.3.0-devel-ubuntu18.04")
    assert "is not listed; did you mean nvidia/cuda:11." in error.value.hint


def test_a_bootstrapped_base_is_used_again_and_still_called_so():
    engine = NoRegistry()
    engine.images["reprokit/own/base:debian-12"] = {"Id": "sha256:1", "Architecture": "amd64"}
    found = resolve_base(engine, "debian:bookworm-slim")
    assert (found.how, found.name, found.digest) == ("bootstrapped", "reprokit/own/base:debian-12", "")
    assert "not the vendor's image" in found.described


def test_bootstrapping_says_why_and_goes_the_way_of_a_lock(monkeypatch, home):
    engine = NoRegistry()
    package = AptPackage(
        name="dpkg", version="1", architecture="amd64", archive="ubuntu", path="pool/d", sha256="0" * 64, size=1
    )
    locked = Bootstrap(distribution="ubuntu", suite="focal", architecture="amd64", packages=(package,))
    fetched: list[LockedInput] = []

    def made(_engine: object, name: str, release: Release, packages: Bootstrap, store: Store, notify) -> str:
        assert packages is locked and [want.sha256 for want in fetched] == ["0" * 64]
        engine.images[name] = engine.images["sha256:2"] = {"Id": "sha256:2"}
        return "sha256:2"

    monkeypatch.setattr(packages_module, "resolve", lambda release, store, notify: locked)
    monkeypatch.setattr(base_module, "fetch_all", lambda wants, *more, **options: fetched.extend(wants))
    monkeypatch.setattr(bootstrap, "bootstrap", made)
    said: list[str] = []
    found = resolve_base(engine, "ubuntu:20.04", said.append)
    assert (found.how, found.name, found.image_id) == ("bootstrapped", "reprokit/own/base:ubuntu-20.04", "sha256:2")
    assert said == [
        "no registry has ubuntu:20.04 (no such host); bootstrapping ubuntu 20.04 (focal) from packages",
        "bootstrapping ubuntu 20.04 (focal) from 1 packages",
    ]


@engine_test
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
