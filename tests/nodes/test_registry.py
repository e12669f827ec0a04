"""Push to and pull from a real registry, by the command line in processes of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.image.lock.read import required_inputs
from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.recipe.find import target
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base, Lock, VariantLock
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

pytestmark = pytest.mark.engine


def blobs(registry: Registry, name: str) -> tuple[str, str]:
    """The paths of the image's configuration and of its only layer."""
    manifest = json.loads(ask(registry, f"{name}/manifests/cpu", MANIFEST))
    config, layer = (f"/v2/{name}/blobs/{m['digest']}" for m in (manifest["config"], *manifest["layers"]))
    return config, layer


def test_push_and_pull(engine: Engine, name: str, call: Call):
    made = make(engine, name)
    with Registry(engine) as registry:
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
        assert (engine.image(f"reprokit/{name}:cpu") or {})["Id"] == made

        asked = len(registry.asked)
        warm = call("pull", pushed.stdout.strip())
        assert warm.returncode == 0 and ", already present)" in warm.stdout
        assert len(registry.asked) == asked  # a present image is found by digest without the registry


@pytest.mark.parametrize(("by", "count"), [("digest", 8), ("name", 3)])
def test_one_of_several_pulls_transfers_the_image(engine: Engine, name: str, call: Call, by: str, count: int):
    make(engine, name)
    with Registry(engine) as registry:
        digest = call("push", f"{registry.host}/{name}:cpu").stdout.strip()
        forget(engine, f"reprokit/{name}:cpu")
        before = len(registry.asked)
        wanted = digest if by == "digest" else f"{registry.host}/{name}:cpu"
        readers = [
            subprocess.Popen(command("pull", wanted), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(count)
        ]
        ended = [(*reader.communicate(timeout=200), reader.returncode) for reader in readers]
        assert [code for _, _, code in ended] == [0] * count, ended
        assert sum("1 layer pulled" in out for out, _, _ in ended) == 1
        fetched = Counter(path for path in registry.asked[before:] if "/blobs/sha256:" in path)
        config, layer = blobs(registry, name)
        assert fetched[layer] == 1
        # It is read before the pull and by it, and once more by each process that looks up a tag.
        assert fetched[config] == (2 if by == "digest" else 2 + count)
        assert engine.image(f"reprokit/{name}:cpu")


def test_an_image_of_other_inputs_is_pulled_only_by_digest(engine: Engine, name: str, place: Path, call: Call):
    (place / "recipes").mkdir()
    text = f"name: {name}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\nvariants:\n"
    (place / "recipes" / f"{name}.yaml").write_text(text + '  cpu: {base: "debian:12"}\n')
    lock(name)
    make(engine, name, inputs="of-yesterday")
    with Registry(engine) as registry:
        pushed = call("push", f"{registry.host}/{name}")
        assert "older than its lock" in pushed.stderr and pushed.returncode == 0
        forget(engine, f"reprokit/{name}:cpu")
        asked = len(registry.asked)
        refused = call("pull", f"{registry.host}/{name}")
        assert refused.returncode == 1
        assert "built from other inputs than the lock" in refused.stderr and "by its digest" in refused.stderr
        assert blobs(registry, name)[1] not in registry.asked[asked:]  # no layer was transferred
        assert not engine.images([f"reprokit.recipe={name}"])
        assert call("pull", pushed.stdout.strip()).returncode == 0
        assert engine.image(f"reprokit/{name}:cpu")

        forget(engine, f"reprokit/{name}:cpu")
        make(engine, name, inputs=required_inputs(target(name)) or "")
        assert call("push", f"{registry.host}/{name}").returncode == 0
        forget(engine, f"reprokit/{name}:cpu")
        assert call("pull", f"{registry.host}/{name}").returncode == 0


def lock(name: str) -> None:
    """Write a lock with only a base beside the recipe."""
    found = target(name)
    rendered = render(found)
    variant = VariantLock(
        reprokit="0",
        inputs=sections(found, rendered, "x86_64"),
        python="3.11",
        glibc="2.36",
        machine="x86_64",
        base=Base(reference="debian:12", digest="sha256:" + "1" * 64),
    )
    write(lock_path(found.path), Lock(recipe=name, variants={"cpu": variant}))


@pytest.mark.parametrize(
    ("labels", "words"),
    [({"variant": "gpu"}, "another image, {name}:gpu, under this name"), ({"recipe": ""}, "not an image of reprokit")],
)
def test_another_image_under_the_name_is_refused(engine: Engine, name: str, call: Call, labels: dict, words: str):
    make(engine, name, owner=name, **labels)
    with Registry(engine) as registry:
        assert call("push", f"{registry.host}/{name}:cpu").returncode == 0
        forget(engine, f"reprokit/{name}:cpu")
        refused = call("pull", f"{registry.host}/{name}:cpu")
        assert refused.returncode == 1 and words.format(name=name) in refused.stderr
        assert not engine.images([f"reprokit.owner={name}"])


def test_the_credentials_are_dockers(
    engine: Engine, name: str, place: Path, call: Call, monkeypatch: pytest.MonkeyPatch
):
    make(engine, name)
    with Registry(engine, closed=True) as registry:
        there = f"{registry.host}/{name}:cpu"
        for password in (None, "wrong"):
            credentials(place, registry.host, password)
            for verb in ("push", "pull"):
                refused = call(verb, there)
                assert refused.returncode == 4, refused
                assert len(refused.stderr.splitlines()) == 2 and f"docker login {registry.host}" in refused.stderr
        credentials(place, registry.host, PASSWORD)
        assert call("push", there).returncode == 0
        forget(engine, f"reprokit/{name}:cpu")
        helper(place, registry.host, monkeypatch)
        assert call("pull", there).returncode == 0
        assert not any(PASSWORD in file.read_text(errors="replace") for file in (place / "home").rglob("*.*"))


def helper(place: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's configuration with a credential helper instead."""
    answer = json.dumps({"ServerURL": host, "Username": USER, "Secret": PASSWORD})
    program = place / "docker-credential-test"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    (place / "docker" / "config.json").write_text(json.dumps({"credHelpers": {host: "test"}}))


@pytest.mark.parametrize("verb", ["push", "pull"])
def test_an_unreachable_registry(engine: Engine, name: str, verb: str, call: Call):
    make(engine, name)
    with Registry(engine) as registry:
        there = f"{registry.host}/{name}:cpu"
    done = call(verb, there)
    assert done.returncode == 4, done
    error, hint = done.stderr.splitlines()[-2:]
    assert "refused" in error and hint.startswith("hint: check that the engine can reach 127.0.0.1:")


def test_a_missing_image(engine: Engine, name: str, call: Call):
    with Registry(engine) as registry:
        done = call("pull", f"{registry.host}/{name}:cpu")
        assert done.returncode == 4 and "reprokit push" in done.stderr.splitlines()[-1]
        unbuilt = call("push", f"{registry.host}/{name}:cpu")
        assert unbuilt.returncode == 2 and f"reprokit build {name}:cpu" in unbuilt.stderr


def test_a_driver_that_is_too_old_is_reported(engine: Engine, name: str, place: Path, call: Call, monkeypatch):
    make(engine, name, pins=json.dumps({"cuda": "12.4"}).replace('"', '\\"'))
    smi = place / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA GeForce RTX 3090, 470.57.02, 8.6'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    with Registry(engine) as registry:
        assert call("push", f"{registry.host}/{name}:cpu").returncode == 0
        done = call("pull", f"{registry.host}/{name}:cpu")
    assert done.returncode == 0
    assert f"reprokit/{name}:cpu: error: cuda=12.4 with driver=470.57.02" in done.stderr, done.stderr
