"""Push to and pull from a real registry, by the command line in processes of its own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image.freshness import required_inputs
from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.nodes.image_reference import parse
from reprokit.nodes.registry_client import peek
from reprokit.oci.loader import LOADING
from reprokit.recipe.find import target
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base, Lock, VariantLock
from tests.support.names import unique
from tests.support.registry import PASSWORD, USER, Registry
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """A recipe's name; every image that carries it is removed."""
    name = unique("registry")
    yield name
    for image in engine.images([f"reprokit.recipe={name}"]):
        for reference in [*(image.get("RepoTags") or []), *(image.get("RepoDigests") or []), image["Id"]]:
            with contextlib.suppress(ReprokitError):
                engine.remove_image(reference, force=True)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def data(size: int) -> bytes:
    """A tar with a file of nothing in particular."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo(secrets.token_hex(4))
        entry.size = size
        tar.addfile(entry, io.BytesIO(secrets.token_bytes(size)))
    return layer.getvalue()


def make(engine: Engine, name: str, **labels: str) -> str:
    """The image `reprokit/NAME:cpu` with a layer of its own; its id."""
    labels = {"recipe": name, "variant": "cpu", **labels}
    changes = ["ENV PATH=/bin", *(f'LABEL reprokit.{key}="{value}"' for key, value in labels.items())]
    return engine.import_image(io.BytesIO(data(1 << 20)), f"reprokit/{name}", "cpu", changes)


def forget(engine: Engine, reference: str) -> None:
    """Remove an image and its layers from the engine."""
    found = engine.image(reference)
    assert found
    for named in [*found["RepoTags"], *found["RepoDigests"]]:
        with contextlib.suppress(ReprokitError):
            engine.remove_image(named, force=True)
    assert engine.image(found["Id"]) is None


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "reprokit", *args]


@pytest.fixture
def call(place: Path) -> Call:
    return lambda *args: subprocess.run(command(*args), capture_output=True, text=True, check=False, timeout=120)


def blobs(registry: Registry, name: str) -> tuple[str, str]:
    """The paths of the image's configuration and of its only layer."""
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = json.loads(_ask(registry, f"{name}/manifests/cpu", kind))
    config, layer = (f"/v2/{name}/blobs/{m['digest']}" for m in (manifest["config"], *manifest["layers"]))
    return config, layer


def test_there_and_back(engine: Engine, name: str, call: Call):
    made = make(engine, name)
    with Registry(engine) as registry:
        there = f"{registry.host}/lab/{name}"
        pushed = call("push", f"{there}:cpu")
        assert pushed.returncode == 0, pushed.stderr
        assert re.fullmatch(rf"{re.escape(there)}@sha256:[0-9a-f]{{64}}\n", pushed.stdout)
        assert "1 layer sent, 0 already present" in pushed.stderr
        assert engine.image(f"{there}:cpu") is None  # the registry's name does not stay on the engine
        again = call("push", f"{there}:cpu")
        assert again.stdout == pushed.stdout and "0 layers sent, 1 already present" in again.stderr

        forget(engine, f"reprokit/{name}:cpu")
        pulled = call("pull", f"{there}:cpu")
        assert pulled.returncode == 0, pulled.stderr
        assert "1 layer pulled" in pulled.stdout and pulled.stdout.startswith(f"reprokit/{name}:cpu is present")
        assert (engine.image(f"reprokit/{name}:cpu") or {})["Id"] == made

        asked = len(registry.asked)
        warm = call("pull", pushed.stdout.strip())
        assert warm.returncode == 0 and "it was before" in warm.stdout
        assert len(registry.asked) == asked  # by digest a warm reader asks nobody


@pytest.mark.parametrize(("by", "count"), [("digest", 8), ("name", 3)])
def test_of_many_readers_one_fetches(engine: Engine, name: str, call: Call, by: str, count: int):
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
        ended = [(*reader.communicate(timeout=120), reader.returncode) for reader in readers]
        assert [code for _, _, code in ended] == [0] * count, ended
        assert sum("1 layer pulled" in out for out, _, _ in ended) == 1
        fetched = Counter(path for path in registry.asked[before:] if "/blobs/sha256:" in path)
        config, layer = blobs(registry, name)
        assert fetched[layer] == 1
        # It is read before the pull and by it; whoever asks for a name has the engine ask for its digest, with it, too.
        assert fetched[config] == (2 if by == "digest" else 2 + count)
        assert engine.image(f"reprokit/{name}:cpu")


def test_a_killed_pull_goes_on_from_the_layers_that_are_whole(engine: Engine, name: str, call: Call):
    count = 8
    dockerfile = "FROM scratch\n" + "".join(f"ADD {n}.tar /\n" for n in range(count))
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        layers = {f"{n}.tar": data(4 << 20) for n in range(count)}
        for file, content in {"Dockerfile": dockerfile.encode(), **layers}.items():
            entry = tarfile.TarInfo(file)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    context.seek(0)
    labels = {"reprokit.recipe": name, "reprokit.variant": "cpu"}
    for event in engine.build(context, tag=f"reprokit/{name}:cpu", labels=labels, rm=True):
        assert "error" not in event, event
    made = (engine.image(f"reprokit/{name}:cpu") or {})["Id"]
    anchors = [f"{LOADING}={made}"]
    with Registry(engine) as registry:
        digest = call("push", f"{registry.host}/{name}:cpu").stdout.strip()
        forget(engine, f"reprokit/{name}:cpu")
        with subprocess.Popen(command("pull", digest), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pulling:
            wait_for(lambda: engine.images(anchors) or pulling.poll() is not None, 60)
            pulling.kill()
        assert engine.image(digest) is None and engine.images(anchors)  # some of it is there, and has no name
        time.sleep(1)  # the engine drops what nothing holds
        done = call("pull", digest)
        assert done.returncode == 0, done.stderr
        there = re.search(r"(\d) layers? pulled, (\d) already present", done.stdout)
        assert there and int(there[2]) >= 1 and int(there[1]) + int(there[2]) == count, done.stdout
        assert (engine.image(f"reprokit/{name}:cpu") or {})["Id"] == made
        assert engine.images(anchors) == []


def test_an_image_among_those_of_other_machines(engine: Engine, name: str, call: Call):
    with Registry(engine) as registry:
        entries = []
        for machine in ("riscv64", engine.version()["Arch"]):
            made = make(engine, name)
            digest = call("push", f"{registry.host}/{name}:cpu").stdout.strip().partition("@")[2]
            forget(engine, f"reprokit/{name}:cpu")
            kind = "application/vnd.docker.distribution.manifest.v2+json"
            size = len(_ask(registry, f"{name}/manifests/{digest}", kind))
            platform = {"architecture": machine, "os": "linux"}
            entries.append({"mediaType": kind, "digest": digest, "size": size, "platform": platform})
        kind = "application/vnd.docker.distribution.manifest.list.v2+json"
        index = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": entries}).encode()
        _ask(registry, f"{name}/manifests/cpu", kind, index)
        digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
        seen = peek(engine, parse(f"{registry.host}/{name}"), digest)
        assert seen and f"sha256:{hashlib.sha256(seen.config).hexdigest()}" == made
        for wanted in (f"{registry.host}/{name}:cpu", f"{registry.host}/{name}@{digest}"):
            done = call("pull", wanted)
            assert done.returncode == 0 and digest in done.stdout, done
        assert (engine.image(f"reprokit/{name}:cpu") or {})["Id"] == made


def _ask(registry: Registry, path: str, kind: str, put: bytes | None = None) -> bytes:
    headers = {"Content-Type" if put else "Accept": kind}
    method = "PUT" if put else "GET"
    asked = urllib.request.Request(f"http://{registry.host}/v2/{path}", put, headers, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
        return answer.read()


class Tokens(BaseHTTPRequestHandler):
    """In front of a registry: nothing without a token, which takes the credentials of USER."""

    registry = ""

    def do_GET(self) -> None:
        login = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        given = self.headers.get("Authorization")
        if self.path.startswith("/token?service=here&scope=repository%3A"):
            self._answer(200 if given == login else 401, b'{"token": "good"}')
        elif given != "Bearer good":
            challenge = f'Bearer realm="http://{self.headers["Host"]}/token",service="here",scope="repository:x:pull"'
            self._answer(401, b"{}", challenge)
        else:
            accepted = {"Accept": self.headers["Accept"]}
            asked = urllib.request.Request(f"http://{self.registry}{self.path}", headers=accepted)
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
                self._answer(200, answer.read())

    def _answer(self, status: int, body: bytes, challenge: str = "") -> None:
        self.send_response(status)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


def test_a_registry_that_gives_tokens_tells_of_an_image(engine: Engine, name: str, place: Path, call: Call):
    made = make(engine, name)
    with Registry(engine) as registry:
        digest = call("push", f"{registry.host}/{name}:cpu").stdout.strip().partition("@")[2]
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Tokens,), {"registry": registry.host}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        try:
            found = []
            for password in (None, "wrong", PASSWORD):
                credentials(place, host, password)
                found.append(peek(Engine.connect(), parse(f"{host}/{name}:cpu"), digest))
        finally:
            server.shutdown()
    assert found[:2] == [None, None]
    seen = found[2]
    assert seen and seen.labels["reprokit.recipe"] == name and len(seen.blobs) == 1
    assert f"sha256:{hashlib.sha256(seen.config).hexdigest()}" == made


def test_an_image_of_other_inputs_is_taken_by_its_digest_alone(engine: Engine, name: str, place: Path, call: Call):
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
        assert blobs(registry, name)[1] not in registry.asked[asked:]  # that was seen before any layer was moved
        assert not engine.images([f"reprokit.recipe={name}"])
        assert call("pull", pushed.stdout.strip()).returncode == 0
        assert engine.image(f"reprokit/{name}:cpu")

        forget(engine, f"reprokit/{name}:cpu")
        make(engine, name, inputs=required_inputs(target(name)) or "")
        assert call("push", f"{registry.host}/{name}").returncode == 0
        forget(engine, f"reprokit/{name}:cpu")
        assert call("pull", f"{registry.host}/{name}").returncode == 0


def lock(name: str) -> None:
    """Beside the recipe, a lock of nothing but its base."""
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


def credentials(place: Path, host: str, password: str | None) -> None:
    """Docker's own configuration with this password, or none."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (place / "docker").mkdir(exist_ok=True)
    (place / "docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}} if password else {}}))


def helper(place: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a program that keeps the credentials."""
    answer = json.dumps({"ServerURL": host, "Username": USER, "Secret": PASSWORD})
    program = place / "docker-credential-test"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    (place / "docker" / "config.json").write_text(json.dumps({"credHelpers": {host: "test"}}))


@pytest.mark.parametrize("verb", ["push", "pull"])
def test_no_registry_there(engine: Engine, name: str, verb: str, call: Call):
    make(engine, name)
    with Registry(engine) as registry:
        there = f"{registry.host}/{name}:cpu"
    done = call(verb, there)
    assert done.returncode == 4, done
    error, hint = done.stderr.splitlines()[-2:]
    assert "refused" in error and hint.startswith("hint: check that the engine can reach 127.0.0.1:")


def test_nothing_of_that_name(engine: Engine, name: str, call: Call):
    with Registry(engine) as registry:
        done = call("pull", f"{registry.host}/{name}:cpu")
        assert done.returncode == 4 and "reprokit push" in done.stderr.splitlines()[-1]
        unbuilt = call("push", f"{registry.host}/{name}:cpu")
        assert unbuilt.returncode == 2 and f"reprokit build {name}:cpu" in unbuilt.stderr


def test_a_driver_that_is_too_old_is_told(engine: Engine, name: str, place: Path, call: Call, monkeypatch):
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
