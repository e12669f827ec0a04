"""Push to and pull from a real registry, and the events of engines that do so."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprokit.engine import Engine, TransferEvent
from reprokit.nodes.registry import TransferProgress
from tests.support.engines import NewDocker
from tests.support.images import noise, tar_of
from tests.support.made import Made, tar
from tests.support.nvidia_smi import write_smi
from tests.support.ports import free_port
from tests.support.registry import (
    MANIFEST,
    PASSWORD,
    USER,
    Call,
    Registry,
    ask,
    command,
    credentials,
    forget,
    make,
)


@pytest.fixture(scope="module")
def registry(engine: Engine) -> Iterator[Registry]:
    with Registry(engine) as registry:
        yield registry


@pytest.fixture
def publish(engine: Engine, registry: Registry, name: str, call: Call) -> Callable[..., tuple[str, str]]:
    """`publish(**labels)` pushes a new image of the recipe and removes it here; its ID, and its reference by digest."""

    def push(**labels: str) -> tuple[str, str]:
        made = make(engine, name, **labels)
        done = call("push", f"{registry.host}/{name}:cpu")
        assert done.returncode == 0, done.stderr
        forget(engine, made)
        return made, done.stdout.strip()

    return push


def blobs(registry: Registry, name: str) -> tuple[str, str]:
    """The paths of the image's configuration and of its only layer."""
    manifest = json.loads(ask(registry, f"{name}/manifests/cpu", MANIFEST))
    config, layer = (f"/v2/{name}/blobs/{m['digest']}" for m in (manifest["config"], *manifest["layers"]))
    return config, layer


def program(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, prints: str) -> None:
    """A program on the PATH that prints a line."""
    (place / name).write_text(f"#!/bin/sh\necho '{prints}'\n")
    (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")


def test_push_and_pull(engine: Engine, registry: Registry, name: str, call: Call):
    made = make(engine, name)
    there = f"{registry.host}/lab/{name}"
    pushed = call("push", f"{there}:cpu")
    assert pushed.returncode == 0, pushed.stderr
    assert re.fullmatch(rf"{re.escape(there)}@sha256:[0-9a-f]{{64}}\n", pushed.stdout)
    assert "1 layer sent, 0 already present" in pushed.stderr
    assert engine.image(f"{there}:cpu") is None  # the tag with the registry's name is removed
    again = call("push", f"{there}:cpu")
    assert again.stdout == pushed.stdout and "0 layers sent, 1 already present" in again.stderr

    forget(engine, f"reprokit/{name}:cpu")
    pulled = call("pull", f"{there}:cpu")
    assert pulled.returncode == 0, pulled.stderr
    assert "1 layer pulled" in pulled.stdout and pulled.stdout.startswith(f"reprokit/{name}:cpu is present")
    assert engine.image(f"reprokit/{name}:cpu").id == made

    requests = len(registry.asked)
    warm = call("pull", pushed.stdout.strip())
    assert warm.returncode == 0 and ", already present)" in warm.stdout
    assert len(registry.asked) == requests  # a present image is looked up by digest without the registry


@pytest.mark.parametrize(("by", "count"), [("digest", 4), ("name", 3)])
def test_one_of_several_pulls_transfers_the_image(engine, registry, name, call, publish, by: str, count: int):
    _, digest = publish()
    before = len(registry.asked)
    reference = digest if by == "digest" else f"{registry.host}/{name}:cpu"
    with ThreadPoolExecutor(count) as readers:
        ended = list(readers.map(lambda _: call("pull", reference), range(count)))
    assert [done.returncode for done in ended] == [0] * count, ended
    assert sum("1 layer pulled" in done.stdout for done in ended) == 1
    fetched = Counter(path for path in registry.asked[before:] if "/blobs/sha256:" in path)
    config, layer = blobs(registry, name)
    assert fetched[layer] == 1
    # It is read by the pull, and once more by each process that looks up a tag.
    assert fetched[config] == (1 if by == "digest" else 1 + count)
    assert engine.image(f"reprokit/{name}:cpu")


def test_an_image_of_other_inputs_is_pulled_only_by_digest(engine, registry, name, call, recipe, locked):
    recipe(name=name)
    inputs = locked(name)
    there = f"{registry.host}/{name}"
    make(engine, name, inputs="of-yesterday")
    pushed = call("push", there)
    assert "older than its lock" in pushed.stderr and pushed.returncode == 0
    forget(engine, f"reprokit/{name}:cpu")
    refused = call("pull", there)
    assert refused.returncode == 1
    assert "built from other inputs than the lock" in refused.stderr and "by its digest" in refused.stderr
    assert not engine.images([f"reprokit.recipe={name}"])
    assert call("pull", pushed.stdout.strip()).returncode == 0
    forget(engine, f"reprokit/{name}:cpu")

    make(engine, name, inputs=inputs)
    assert call("push", there).returncode == 0
    forget(engine, f"reprokit/{name}:cpu")
    assert call("pull", there).returncode == 0


@pytest.mark.parametrize(
    ("labels", "words"),
    [({"variant": "gpu"}, "another image, {name}:gpu, under this name"), ({"recipe": ""}, "not an image of reprokit")],
)
def test_another_image_under_the_name_is_refused(engine, registry, name, call, publish, labels: dict, words: str):
    publish(owner=name, **labels)
    refused = call("pull", f"{registry.host}/{name}:cpu")
    assert refused.returncode == 1 and words.format(name=name) in refused.stderr
    assert not engine.images([f"reprokit.owner={name}"])


def test_the_credentials_are_dockers(engine, name: str, place: Path, call: Call, monkeypatch: pytest.MonkeyPatch):
    make(engine, name)
    with Registry(engine, closed=True) as closed:
        there = f"{closed.host}/{name}:cpu"
        for verb, password in (("push", None), ("pull", None), ("push", "wrong"), ("pull", "wrong")):
            credentials(place, closed.host, password)
            refused = call(verb, there)
            assert refused.returncode == 4, refused
            assert len(refused.stderr.splitlines()) == 2 and f"docker login {closed.host}" in refused.stderr
        credentials(place, closed.host, PASSWORD)
        assert call("push", there).returncode == 0
        forget(engine, f"reprokit/{name}:cpu")
        answer = json.dumps({"ServerURL": closed.host, "Username": USER, "Secret": PASSWORD})
        program(place, monkeypatch, "docker-credential-test", answer)
        (place / "docker" / "config.json").write_text(json.dumps({"credHelpers": {closed.host: "test"}}))
        assert call("pull", there).returncode == 0
        assert not any(PASSWORD in file.read_text(errors="replace") for file in (place / "home").rglob("*.*"))


def test_an_unreachable_registry_and_missing_images(engine: Engine, registry: Registry, name: str, call: Call):
    missing = call("pull", f"{registry.host}/{name}:cpu")
    assert missing.returncode == 4 and "reprokit push" in missing.stderr.splitlines()[-1]
    unbuilt = call("push", f"{registry.host}/{name}:cpu")
    assert unbuilt.returncode == 2 and f"reprokit build {name}:cpu" in unbuilt.stderr
    make(engine, name)
    for verb in ("push", "pull"):
        done = call(verb, f"127.0.0.1:{free_port()}/{name}:cpu")
        assert done.returncode == 4, done
        error, hint = done.stderr.splitlines()[-2:]
        assert "refused" in error and hint.startswith("hint: check that the engine can reach 127.0.0.1:")


def test_a_driver_that_is_too_old_is_reported(registry, name: str, place: Path, call: Call, publish, monkeypatch):
    publish(pins=json.dumps({"cuda": "12.4"}).replace('"', '\\"'))
    gpu = {"index": "0", "name": "NVIDIA GeForce RTX 3090", "driver_version": "470.57.02", "compute_cap": "8.6"}
    write_smi(place / "nvidia-smi", gpu)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    done = call("pull", f"{registry.host}/{name}:cpu")
    assert done.returncode == 0
    assert f"reprokit/{name}:cpu: error: cuda=12.4 with driver=470.57.02" in done.stderr, done.stderr


def test_an_index_of_several_architectures(engine: Engine, registry: Registry, name: str, call: Call, publish):
    entries = []
    for machine in ("riscv64", engine.version().architecture):
        made, reference = publish()
        digest = reference.partition("@")[2]
        size = len(ask(registry, f"{name}/manifests/{digest}", MANIFEST))
        platform = {"architecture": machine, "os": "linux"}
        entries.append({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
    kind = "application/vnd.docker.distribution.manifest.list.v2+json"
    index = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": entries}).encode()
    ask(registry, f"{name}/manifests/cpu", kind, index)
    digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
    for reference in (f"{registry.host}/{name}:cpu", f"{registry.host}/{name}@{digest}"):
        done = call("pull", reference)
        assert done.returncode == 0 and digest in done.stdout, done
    assert engine.image(f"reprokit/{name}:cpu").id == made


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize("present", [3, 1], ids=["all layers", "the first"])
def test_an_image_whose_blobs_a_containerd_store_lacks_is_refused(debian, short_path, tmp_path, present: int):
    """The store has layers of the image, unpacked from blobs of another compression."""
    image = "reprokit/paper:cpu"
    layers = [tar_of({f"bin/{seed}": noise(100_000, seed)}) for seed in range(3)]
    published = Made.of({image: layers}, labels={"reprokit.recipe": "paper", "reprokit.variant": "cpu"})
    other = Made.of({"other:1": layers[:present]}, pack=lambda layer: layer)
    served = NewDocker(debian, short_path, containerd=True)
    environment = {**os.environ, "DOCKER_HOST": served.address, "REPROKIT_HOME": str(tmp_path)}

    def call(*args: str) -> subprocess.CompletedProcess[str]:
        """The verb in the engine's network."""
        words = [*served.enter, *command(*args)]
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    try:
        engine = served.connect()
        with Registry(engine, enter=served.enter) as registry:
            there = f"{registry.host}/{image}"
            engine.load(iter([tar(published.files)]))
            pushed = call("push", there)
            assert pushed.returncode == 0, pushed.stderr
            forget(engine, image)
            engine.load(iter([tar(other.files)]))

            # The fault, without reprokit.
            list(engine.pull(there))
            assert not engine.has_blobs(engine.image(there).id)
            exported = call("export", there, "-o", str(tmp_path / "x"))
            assert exported.returncode == 3 and "lacks the blob sha256:" in exported.stderr, exported.stderr
            engine.remove_image(there)

            refused = call("pull", there)
            assert refused.returncode == 1 and "did not pull its own" in refused.stderr, refused.stderr
            assert "remove the images that share its layers" in refused.stderr
            forget(engine, "other:1")
            pulled = call("pull", there)
            assert pulled.returncode == 0 and "3 layers pulled" in pulled.stdout, pulled.stderr
            exported = call("export", image, "-o", str(tmp_path / "x.rkit"))
            assert exported.returncode == 0, exported.stderr
    finally:
        served.stop()


DIGEST = "sha256:" + "65" * 32
PUSHED = f"cpu: digest: {DIGEST} size: 405"
OLD_PUSH = [
    {"status": "The push refers to repository [127.0.0.1:5999/x/t2]"},
    {"status": "Preparing", "progressDetail": {}, "id": "aaaa"},
    {"status": "Layer already exists", "progressDetail": {}, "id": "bbbb"},
    {"status": "Pushing", "progressDetail": {"current": 512, "total": 1048576}, "id": "aaaa"},
    # The estimate does not count the tar's headers.
    {"status": "Pushing", "progressDetail": {"current": 1050624}, "id": "aaaa"},
    {"status": "Pushed", "progressDetail": {}, "id": "aaaa"},
    {"status": PUSHED},
    {"progressDetail": {}, "aux": {"Tag": "cpu", "Digest": DIGEST, "Size": 405}},
]
NEW_PULL = [
    {"status": "Pulling from x/t2", "id": "cpu"},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "cccc"},
    {"status": "Already exists", "progressDetail": {}, "id": "dddd"},
    {"status": "Downloading", "progressDetail": {"current": 1049051, "total": 1049051}, "id": "cccc"},
    {"status": "Download complete", "progressDetail": {"hidecounts": True}, "id": "cccc"},
    {"status": f"Digest: {DIGEST}"},
]


@pytest.mark.parametrize(
    ("events", "layers", "digest", "progress"),
    [
        (OLD_PUSH, 1, DIGEST, [(512, 1048576), (1050624, 1050624)]),
        (NEW_PULL, 1, "", [(1049051, 1049051)]),
        ([{"status": PUSHED}], 0, DIGEST, []),
    ],
)
def test_events_are_summed(events: list, layers: int, digest: str, progress: list):
    seen: list[tuple[int, int]] = []
    said = "1 layer sent, 1 already present" if layers else "0 layers sent, 0 already present"
    transfer = TransferProgress(lambda done, total: seen.append((done, total)))
    for event in events:
        transfer.update(TransferEvent.of(event))
    assert (transfer.described("sent"), transfer.digest, seen) == (said, digest, progress)
