"""Base images that came from a registry, carried to an engine that reaches none."""

from __future__ import annotations

import io
import json
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.image.base.locked import locked_base
from reprokit.image.base.resolve import carried_name
from reprokit.supply.lock.model import Base, Lock
from reprokit.supply.store import Store
from reprokit.supply.transfer.exporting import export
from reprokit.supply.transfer.image import load_images, names_in, refuse_foreign_names
from reprokit.supply.transfer.importing import take_in
from reprokit.supply.transfer.manifest import Image
from tests.support.registry import Registry
from tests.support.stores import a_lock, no_engine, write_recipe

DIGEST = f"sha256:{'1' * 64}"


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def registry(engine: Engine) -> Iterator[Registry]:
    layer = tar_of({"etc/reprokit-store": uuid.uuid4().bytes})
    with Registry(engine, "store-base", layer) as registry:
        yield registry
        for name in (f"{registry.host}/store-base:1", f"{registry.host}/store-base@{registry.digest}"):
            with suppress(EngineError):
                engine.remove_image(name, force=True)
        with suppress(EngineError):
            engine.remove_image(carried_name(registry.digest), force=True)


@pytest.fixture
def lock(registry: Registry, recipes: Path) -> Lock:
    base = Base(reference=f"{registry.host}/store-base:1", digest=registry.digest)
    lock = a_lock("x")
    lock = lock.model_copy(update={"variants": {"cpu": lock.variants["cpu"].model_copy(update={"base": base})}})
    write_recipe(recipes, lock)
    return lock


def forget(engine: Engine, base: Base) -> None:
    plain = base.reference.rpartition(":")[0]
    for name in (base.reference, f"{plain}@{base.digest}"):
        with suppress(EngineError):
            engine.remove_image(name, force=True)
    assert engine.image(base.reference) is None


@pytest.mark.engine
def test_a_base_is_built_from_where_no_registry_is(
    engine: Engine, lock: Lock, store: Store, node: Store, tmp_path: Path
):
    base = lock.variants["cpu"].base
    export(["x"], tmp_path / "x.tar.zst", store, lambda: engine)
    before = engine.image(base.reference)
    assert before and engine.image(carried_name(base.digest or "")) is None
    forget(engine, base)
    with pytest.raises(SourceError, match="does not have the base image"):
        locked_base(engine, base, node, print, offline=True)
    assert take_in(tmp_path / "x.tar.zst", node, lambda: engine).images == 1
    found = locked_base(engine, base, node, print, offline=True)
    after = engine.image(found.name)
    assert after and after["RootFS"] == before["RootFS"] and found.digest == base.digest
    assert take_in(tmp_path / "x.tar.zst", node, lambda: engine).images == 0

    # What was carried here can be carried on.
    export(["x"], tmp_path / "again.tar.zst", node, lambda: engine)
    assert engine.image(found.name)


@pytest.mark.engine
def test_without_an_engine_the_base_stays_out_and_is_said_to(
    engine, lock: Lock, store: Store, node: Store, tmp_path: Path
):
    export(["x"], tmp_path / "x.tar.zst", store, lambda: engine)
    said: list[str] = []
    assert take_in(tmp_path / "x.tar.zst", node, no_engine, say=said.append).images == 0
    assert said == ["1 base images stay out: no engine answers; import again where an engine is"]


@pytest.mark.engine
def test_an_image_of_other_layers_is_refused(engine: Engine, lock: Lock, registry: Registry, tmp_path: Path):
    name = carried_name(registry.digest)
    engine.import_image(io.BytesIO(tar_of({"a": b"1"})), *name.split(":"), [])
    (tmp_path / "image.tar").write_bytes(b"".join(engine.save(name)))
    engine.remove_image(name)
    entry = Image(digest=registry.digest, layers=(DIGEST,), sha256="0" * 64, size=1)
    with pytest.raises(EngineError, match="other layers"):
        load_images({entry: tmp_path / "image.tar"}, lambda: engine, print)
    assert engine.image(name) is None


@pytest.mark.parametrize(
    "files",
    [
        {"manifest.json": [{"RepoTags": [carried_name(DIGEST), "debian:12"]}]},
        {"manifest.json": [{"RepoTags": [carried_name(DIGEST)]}], "repositories": {"debian": {"12": "0"}}},
        {"index.json": {"manifests": [{"annotations": {"io.containerd.image.name": "docker.io/library/debian:12"}}]}},
        {"manifest.json": [{"RepoTags": None}]},
        {"manifest.json": {"a": "b"}},
        {},
    ],
)
def test_an_image_that_would_take_another_name_is_refused(files: dict[str, object], tmp_path: Path):
    path = tmp_path / "image.tar"
    path.write_bytes(tar_of({name: json.dumps(value).encode() for name, value in files.items()}))
    entry = Image(digest=DIGEST, layers=(), sha256="0" * 64, size=1)
    with pytest.raises(UsageError, match=f"^{entry.path}: "):
        refuse_foreign_names({entry: path}, tmp_path / "x.tar.zst")


def test_names_in_both_forms(tmp_path: Path):
    name = carried_name(DIGEST)
    repository, _, tag = name.partition(":")
    files = {
        "manifest.json": [{"RepoTags": [name]}],
        "repositories": {repository: {tag: "0"}},
        "index.json": {"manifests": [{"annotations": {"io.containerd.image.name": f"docker.io/{name}"}}, {}]},
    }
    (tmp_path / "image.tar").write_bytes(tar_of({n: json.dumps(value).encode() for n, value in files.items()}))
    assert names_in(tmp_path / "image.tar") == {name}


def test_what_is_no_tar_is_refused(tmp_path: Path):
    (tmp_path / "image.tar").write_bytes(b"no tar" * 200)
    entry = Image(digest=DIGEST, layers=(), sha256="0" * 64, size=1)
    with pytest.raises(UsageError, match="no image of an engine"):
        refuse_foreign_names({entry: tmp_path / "image.tar"}, tmp_path / "x.tar.zst")
