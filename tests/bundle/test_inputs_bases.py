"""Base images from a registry, in a bundle for an engine that reaches none."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

import pytest

from reprokit.bundle.load import check_names, checked, load_bases
from reprokit.bundle.read import opened
from reprokit.bundle.write import ExportJob, write
from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.image import trust
from reprokit.image.base.resolve import carried_name, locked_base, on_engine
from reprokit.oci.read import engine_image
from reprokit.supply.lock.model import Base, Lock
from tests.support.images import tar_of
from tests.support.made import Made
from tests.support.registry import Registry
from tests.support.stores import a_lock, export_inputs, no_engine, write_recipe

DIGEST = f"sha256:{'1' * 64}"


@pytest.fixture(scope="module")
def base(engine: Engine) -> Iterator[Base]:
    """A base in a registry; the engine's copies of it go in the end."""
    with Registry(engine, "store-base", tar_of({"etc/reprokit-store": uuid.uuid4().bytes})) as registry:
        base = Base(reference=f"{registry.host}/store-base:1", digest=registry.digest)
        yield base
        forget(engine, base)


@pytest.fixture
def lock(base: Base, recipes: Path) -> Lock:
    lock = a_lock("x")
    lock = lock.model_copy(update={"variants": {"cpu": lock.variants["cpu"].model_copy(update={"base": base})}})
    write_recipe(recipes, lock)
    return lock


def forget(engine: Engine, base: Base) -> None:
    reference = f"{base.reference.rpartition(':')[0]}@{base.digest}"
    for name in (carried_name(base.digest or ""), reference):
        with suppress(EngineError):
            engine.remove_image(name, force=True)
    assert on_engine(engine, reference) is None


def imported(path: Path, connect: Callable[[], Engine], notify: Callable[[str], None] = print) -> int:
    """The number of base images that `reprokit store import` loads."""
    with ExitStack() as stack:
        (file,) = checked([path], stack, lambda path: nullcontext(lambda done, total: None))
        return load_bases(file, connect, notify, lambda name: nullcontext(lambda done, total: None))


def with_base(path: Path, digest: str, content: bytes) -> Path:
    """A bundle that claims its image to be the base of this digest."""
    made = Made.of({carried_name(digest): [tar_of({"a": content})]})
    made.metadata["inputs"] = {"targets": [], "recipes": [], "files": [], "packs": [], "bases": [digest]}
    return made.write(path)


def test_a_base_is_used_without_a_registry(engine: Engine, base: Base, lock: Lock, store, node, tmp_path, images):
    other, path = images.base("beside", {"a": b"1"}), tmp_path / "x.rkit"
    write(ExportJob(engine, [engine_image(engine, other)], path, inputs=("x",), store=store))
    before = engine.image(carried_name(base.digest or ""))
    assert before and engine.image(base.reference) is None
    engine.remove_image(other)
    forget(engine, base)
    with pytest.raises(SourceError, match="does not have the base image"):
        locked_base(engine, base, node, print, offline=True)
    said: list[str] = []
    assert imported(path, no_engine, said.append) == 0  # type: ignore[arg-type]
    assert said == ["1 base images are not loaded: no engine answers; repeat the import where an engine runs"]
    assert imported(path, lambda: engine) == 1
    assert engine.image(other) is None, "only bases are loaded"
    local = locked_base(engine, base, node, print, offline=True)
    after = engine.image(local.name)
    assert after and after["RootFS"] == before["RootFS"] and local.digest == base.digest
    assert imported(path, lambda: engine) == 0

    # An imported base is trusted, and can be exported again.
    export_inputs(["x"], tmp_path / "again.rkit", node, engine)
    assert engine.image(local.name)


def test_the_image_of_a_service_goes_along(engine: Engine, base: Base, lock: Lock, recipes: Path, store, tmp_path):
    served = a_lock("x").variants["cpu"].model_copy(update={"services": {"db": base}})
    write_recipe(recipes, lock.model_copy(update={"variants": {"cpu": served}}))
    assert export_inputs(["x"], tmp_path / "x.rkit", store, engine).bases == (base.digest,)
    forget(engine, base)
    assert imported(tmp_path / "x.rkit", lambda: engine) == 1
    assert on_engine(engine, f"{base.reference}@{base.digest}")


def test_a_strangers_image_of_the_name_is_not_exported(engine: Engine, base: Base, lock: Lock, store, tmp_path, images):
    name = carried_name(base.digest or "")
    expected = locked_base(engine, base, store, print).image_id
    engine.tag(expected, "reprokit-test-base", "1")
    engine.tag(images.base("evil", {"evil": b"1"}), *name.split(":"))
    try:
        export_inputs(["x"], tmp_path / "x.rkit", store, engine)
        with opened(tmp_path / "x.rkit") as bundle:
            assert [image.id for image in bundle.images if image.name == name] == [expected]
    finally:
        engine.remove_image("reprokit-test-base:1")


def test_a_base_that_builds_use_is_kept(engine: Engine, tmp_path: Path):
    digest = f"sha256:{secrets.token_hex(32)}"
    name, said = carried_name(digest), list[str]()
    mine = with_base(tmp_path / "mine.rkit", digest, secrets.token_bytes(8))
    others = with_base(tmp_path / "others.rkit", digest, secrets.token_bytes(8))
    try:
        assert imported(mine, lambda: engine) == 1
        before = on_engine(engine, f"debian:12@{digest}")
        assert before and imported(others, lambda: engine, said.append) == 0
        assert on_engine(engine, f"debian:12@{digest}") == before
        assert len(said) == 1 and f"{name} is another image here and is kept" in said[0]
        # A base that no build would use is replaced.
        trust.revoke(engine, [before.image_id])
        assert on_engine(engine, f"debian:12@{digest}") is None
        assert imported(others, lambda: engine, said.append) == 1
        after = on_engine(engine, f"debian:12@{digest}")
        assert after and after.image_id != before.image_id
        assert said[1:] == [f"{name} moved; it pointed to {before.image_id}"]
    finally:
        engine.remove_image(name)


def test_bases_need_the_users_trust(tmp_path: Path):
    with opened(with_base(tmp_path / "x.rkit", DIGEST, b"1")) as bundle:
        with pytest.raises(UsageError, match="has 1 base image of its inputs, which builds start from") as error:
            check_names(bundle, False)
        check_names(bundle, True)
    assert "--trust" in error.value.hint


def test_only_bases_of_the_inputs_may_have_reserved_names(tmp_path: Path):
    path = Made.of({carried_name(DIGEST): [tar_of({"a": b"1"})]}).write(tmp_path / "x.rkit")
    with opened(path) as bundle, pytest.raises(UsageError, match="a reserved name"):
        check_names(bundle, True)
