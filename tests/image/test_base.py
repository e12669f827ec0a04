"""Where a base image comes from: the engine, a registry, a mirror, or the distribution's packages."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Iterator

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, SourceError
from reprokit.image import base as base_module
from reprokit.image import bootstrap
from reprokit.image.base import resolve_base

from .conftest import root_file_system
from .registry import Registry

engine_test = pytest.mark.engine


@pytest.fixture
def repository(engine: Engine) -> Iterator[str]:
    """A repository's name, unknown to every registry; its image is removed afterwards."""
    name = f"reprokit-test-build-{uuid.uuid4().hex[:8]}"
    yield name
    for image in engine.api.images():
        for reference in [*(image.get("RepoTags") or []), *(image.get("RepoDigests") or [])]:
            if name in reference:
                with contextlib.suppress(ReprokitError):  # a digest's name goes with its tag
                    engine.remove_image(reference)


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
def test_mirrors_stand_in_for_docker_hub_in_their_order(engine, repository, monkeypatch):
    # `library/` is what Docker Hub calls the folder of names without one.
    with Registry(engine) as wrong, Registry(engine, f"cache/library/{repository}", root_file_system()) as right:
        monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", f"{wrong.host}, {right.host}/cache/")
        monkeypatch.setattr(base_module, "_REGISTRY_TIMEOUT_S", 3)
        found = resolve_base(engine, f"{repository}:1")
        assert wrong.asked
    assert (found.how, found.digest) == (f"mirror {right.host}/cache", right.digest)
    assert found.name == f"{repository}:1" and engine.image(f"{repository}:1")["Id"] == found.image_id
    again = resolve_base(engine, f"{repository}:1@{right.digest}", pytest.fail)
    assert (again.how, again.name, again.image_id) == ("engine", f"{repository}:1", found.image_id)
    with pytest.raises(SourceError, match="nobody serves"):  # a tag that moved is not what the digest names
        resolve_base(engine, f"{repository}:1@sha256:{'0' * 64}")


@engine_test
def test_what_nobody_serves_is_named_with_all_that_was_tried(engine, monkeypatch):
    with Registry(engine) as empty:
        monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", empty.host)
        reference = f"{empty.host}/team/gone:1"
        with pytest.raises(SourceError) as error:
            resolve_base(engine, reference)
    assert error.value.exit_code == 4
    assert f"nobody serves the base image {reference}" in error.value.message
    assert "manifest unknown" in error.value.message


class NoRegistry:
    """An engine that knows some images and reaches no registry."""

    def __init__(self, **images: dict) -> None:
        self.images = {name.replace("__", ":"): image for name, image in images.items()}

    def image(self, reference: str) -> dict | None:
        return self.images.get(reference)

    def registry_digest(self, reference: str, timeout_s: float) -> str:
        raise SourceError("no such host", reference)


def test_a_gone_tag_of_nvidia_brings_the_nearest_listed_one():
    with pytest.raises(SourceError) as error:
        resolve_base(NoRegistry(), "nvidia/cuda:11.3.0-devel-ubuntu18.04")
    assert "is not listed; did you mean nvidia/cuda:11." in error.value.hint


def test_a_bootstrapped_base_is_used_again_and_still_called_so():
    engine = NoRegistry()
    engine.images["reprokit/base:debian-12"] = {"Id": "sha256:1", "Architecture": "amd64"}
    found = resolve_base(engine, "debian:bookworm-slim")
    assert (found.how, found.name, found.digest) == ("bootstrapped", "reprokit/base:debian-12", "")
    assert "not the vendor's image" in found.described


def test_bootstrapping_says_why(monkeypatch, home):
    engine = NoRegistry()

    def made(_engine: object, release: bootstrap.Release, say) -> str:
        engine.images["reprokit/base:ubuntu-20.04"] = {"Id": "sha256:2"}
        return bootstrap.name_of(release)

    monkeypatch.setattr(bootstrap, "bootstrap", made)
    said: list[str] = []
    assert resolve_base(engine, "ubuntu:20.04", said.append).how == "bootstrapped"
    assert said == ["no registry serves ubuntu:20.04 (no such host); bootstrapping ubuntu 20.04 (focal)"]


def test_only_docker_hubs_names_are_looked_for_at_mirrors(monkeypatch):
    monkeypatch.setenv("REPROKIT_REGISTRY_MIRRORS", "one.test:5000/hub/,two.test")
    mirrored = base_module._mirrored
    assert mirrored("debian:12") == [
        ("mirror one.test:5000/hub", "one.test:5000/hub/library/debian:12"),
        ("mirror two.test", "two.test/library/debian:12"),
    ]
    assert mirrored("docker.io/nvidia/cuda:1")[1][1] == "two.test/nvidia/cuda:1"
    assert mirrored("nvcr.io/nvidia/cuda:1") == mirrored("localhost/x:1") == []


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("debian:12", "debian 12 (bookworm)"),
        ("debian:bullseye-slim", "debian 11 (bullseye)"),
        ("docker.io/library/debian:trixie", "debian 13 (trixie)"),
        ("ubuntu:20.04", "ubuntu 20.04 (focal)"),
        ("ubuntu:jammy@sha256:" + "0" * 64, "ubuntu 22.04 (jammy)"),
    ],
)
def test_releases_of_references(reference: str, name: str):
    release = bootstrap.release_of(reference)
    assert release and release.name == name


@pytest.mark.parametrize(
    "reference", ["debian:latest", "nvidia/cuda:11.8.0-devel-ubuntu22.04", "alpine:3", "me/debian:12"]
)
def test_what_cannot_be_bootstrapped(reference: str):
    assert bootstrap.release_of(reference) is None


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        (
            ["W: GPG error: http://x focal InRelease: ... NO_PUBKEY 3B4F", "E: mmdebstrap failed"],
            EngineError,
            "keyring",
        ),
        (["E: unable to pick chroot mode: newuidmap"], EngineError, "run as root"),
        (
            ["Err:1 http://x bookworm InRelease", "  Could not resolve 'x'", "E: apt-get update failed"],
            SourceError,
            "cannot be reached",
        ),
        (
            ["E: The repository 'http://x stretch Release' does not have a Release file."],
            SourceError,
            "left its archive",
        ),
        (["tar: write error: No space left on device"], EngineError, "free space"),
    ],
)
def test_why_a_bootstrap_failed(lines: list[str], kind: type, words: str):
    error = bootstrap.explain(lines, bootstrap.Release("ubuntu", "20.04", "focal"))
    assert isinstance(error, kind)
    assert words in error.hint
    assert "ubuntu 20.04 (focal) could not be bootstrapped" in error.message


def test_without_mmdebstrap(monkeypatch, home):
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    with pytest.raises(EngineError, match="mmdebstrap is not installed") as error:
        bootstrap.bootstrap(NoRegistry(), bootstrap.Release("debian", "12", "bookworm"), print)
    assert "apt-get install mmdebstrap" in error.value.hint


def test_packages_are_hashed_whatever_their_order():
    release = bootstrap.Release("debian", "12", "bookworm")
    entries = ["Package: a\nStatus: ok\nVersion: 1.0\n", "Package: b\nDescription: x\n y\nVersion: 2:3\n"]

    def label(status: str) -> str:
        return next(line for line in bootstrap._changes(release, status, []) if "bootstrap.packages" in line)

    assert label("\n".join(entries)) == label("\n".join(entries[::-1]))
    assert label("\n".join(entries)) != label("\n".join(entries).replace("1.0", "1.1"))


@engine_test
def test_the_fallback_tool_is_asked_with_the_hosts_proxy_only(engine, home, monkeypatch, tmp_path):
    """mmdebstrap is replaced by a script that says what it was given and prints a small file system."""
    tar = tmp_path / "root.tar"
    tar.write_bytes(root_file_system())
    script = tmp_path / "mmdebstrap"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/arguments\necho "I: working..." >&2\ncat {tar}\n')
    script.chmod(0o755)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: str(script))
    release = bootstrap.Release("debian", f"test-{uuid.uuid4().hex[:8]}", "bookworm")
    said: list[str] = []
    name = bootstrap.bootstrap(engine, release, said.append)
    try:
        image = engine.image(name)
        assert image["Config"]["Labels"]["reprokit.bootstrap.suite"] == "bookworm"
        assert image["Config"]["Cmd"] == ["bash"]
        assert said[0] == "bookworm: working..."
        arguments = (tmp_path / "arguments").read_text().splitlines()
        assert arguments[-2:] == ["bookworm", "-"] and "--variant=minbase" in arguments
        assert not [a for a in arguments if "://" in a or "Proxy" in a]
    finally:
        engine.remove_image(name, force=True)
    assert not list((home / "tmp").iterdir())


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

    name = f"reprokit-test-build-{uuid.uuid4().hex[:8]}"
    engine.import_image(Counted(root_file_system()), name, "1", [])
    engine.remove_image(f"{name}:1", force=True)
    assert Counted.largest <= 1 << 20
