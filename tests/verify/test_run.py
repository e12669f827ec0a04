"""Images of an engine and of a bundle compared with another that stands for the rebuild."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError
from reprokit.image import trust
from reprokit.verify import layers
from reprokit.verify.layers import ImageInEngine
from reprokit.verify.run import Verification, compare_images, diffoscope, known_differences
from tests.support.images import Images
from tests.support.rendering import source
from tests.support.rendering import target as variant_of

FILES = {"a": b"1", "b": b"2"}


@pytest.fixture
def compared(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))

    def run(one: str, other: str) -> Verification:
        pair = (ImageInEngine.of(engine, name) for name in (one, other))
        return compare_images(*pair)

    return run


@pytest.fixture(scope="module")
def honest(images: Images, base: str) -> str:
    return images.on(base, "honest", [FILES, {"c": b"3"}])


@pytest.fixture(scope="module")
def changed(images: Images, base: str) -> str:
    return images.on(base, "changed", [{**FILES, "b": b"x"}, {"c": b"3"}])


def test_an_image_is_the_same_as_itself_without_reading_it(compared, honest, monkeypatch):
    monkeypatch.setattr(layers, "read_images", None)
    verification = compared(honest, honest)
    assert verification.verdict == "same" and len(verification.layers) == 3
    assert verification.layers[1].instruction.startswith("COPY ")


def test_another_byte_layer_or_setting_is_found(compared, honest, changed, images, base):
    verification = compared(honest, changed)
    assert verification.verdict == "differs"
    assert [(layer.number, c.path, c.kind, c.detail) for layer in verification.layers for c in layer.changes] == [
        (2, "b", "content", "byte 0: 32 -> 78")
    ]
    verification = compared(honest, images.on(base, "shorter", [FILES]))
    assert verification.verdict == "differs" and len(verification.only_in_one) == 1
    # The healthcheck of an image is a command that engines run.
    verification = compared(honest, images.on(base, "checked", [FILES, {"c": b"3"}], "HEALTHCHECK CMD steal"))
    assert verification.verdict == "differs"
    ((name, before, after),) = verification.settings
    assert (name, before, "steal" in after) == ("Healthcheck", "", True)


def test_layers_beyond_the_limit_or_the_disk_are_not_written(compared, honest, changed, monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_COMPARED", "100")
    with pytest.raises(UsageError, match="more than 100 bytes of layers"):
        compared(honest, changed)
    monkeypatch.delenv("REPROKIT_LIMIT_COMPARED")
    monkeypatch.setattr(layers, "free_bytes", lambda folder: 100)
    with pytest.raises(EngineError, match="not enough disk space"):
        compared(honest, changed)


def test_a_verdict_does_not_make_an_image_trusted(engine, honest, compared):
    image = ImageInEngine.of(engine, honest)
    assert trust.verified(image.id) == ""
    trust.record_verified(engine, image.id, "same")
    assert (trust.verified(image.id), trust.state(image.id)) == ("same", "unverified")
    trust.record(engine, image.id, "trusted", "trust add")
    assert (trust.verified(image.id), trust.state(image.id)) == ("same", "trusted")
    trust.record(engine, image.id, "built here", "build")
    trust.record_verified(engine, image.id, "differs")
    assert (trust.verified(image.id), trust.state(image.id)) == ("differs", "built here")


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ('cat "$5" "$6"', "\none\ntwo"),
        ("yes", ""),
        ("exit 3", ""),
        ("seq 1000", "\n" + "\n".join(map(str, range(1, 41)))),
    ],
)
def test_diffoscope_is_asked_in_bounded_time_and_space(tmp_path, monkeypatch, script, shown):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "diffoscope"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    look = diffoscope(tmp_path)
    assert look and look(iter([b"one\n"]), iter([b"two\n"])) == shown
    assert look(iter([bytes(1 << 20)] * 17), iter([b"two\n"])) == ""


def test_without_diffoscope(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert diffoscope(tmp_path) is None


def test_only_what_nvcc_compiled_is_known_to_differ(tmp_path):
    build = {"cmake": {"source": "a", "products": ["x.so"]}}
    variant = {"sources": [source("a", "/opt/a")], "blocks": ["git", build]}
    pins = {"gcc": "12", "cmake": "3.25"}
    assert known_differences(variant_of(tmp_path, pins=pins, **variant)) == {}
    known = known_differences(variant_of(tmp_path, pins={**pins, "cuda": "11.8"}, **variant))

    def excused(path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in known)

    assert excused("opt/a/lib/libx.so") and excused("opt/a/lib/libx.so.1.2") and excused("opt/a/libx.a")
    assert not excused("usr/share/a.sound") and not excused("opt/a/x.also") and not excused("opt/a/bin/tool")
    assert all("nvcc" in why for why in known.values())
