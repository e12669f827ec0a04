"""The canonical digest of layers that pass by, and its cache; layers and bundles may be hostile."""

from __future__ import annotations

import tarfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from reprokit.bundle.load import checked
from reprokit.errors import UsageError
from reprokit.oci.canonical import PassingLayers, canonical_digest
from reprokit.oci.model import Image, digest_of
from tests.support.images import tar_of
from tests.support.made import Made, config_of

BASE, TOP = tar_of({"a": b"1", "etc/b": b"2"}), tar_of({"c": b"3"})
NAME = "reprokit/canonical:cpu"
CONFIG = {"Env": ["A=1", "B=2"], "Labels": {"reprokit.base": "x", "mine": "1"}}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))


def keep(*layers: bytes) -> tuple[str, ...]:
    """Let layers pass by, in reverse; returns their diff IDs."""
    passing = PassingLayers()
    for layer in reversed(layers):
        pieces = (layer[start : start + 700] for start in range(0, len(layer), 700))
        assert b"".join(passing.passing(pieces)) == layer
        passing.named(digest_of(layer))
    diff_ids = tuple(map(digest_of, layers))
    passing.keep(diff_ids)
    return diff_ids


def load(made: Made, folder: Path) -> None:
    with ExitStack() as stack:
        checked([made.write(folder / "x.rkit")], stack)


def test_layers_that_were_not_read_have_none():
    assert canonical_digest([digest_of(BASE)], CONFIG) == "" == canonical_digest([], {})
    assert canonical_digest(keep(BASE), CONFIG).startswith("sha256:")
    assert canonical_digest([digest_of(BASE), digest_of(TOP)], CONFIG) == ""


def test_it_is_the_same_for_another_engine():
    other = tar_of({"a": b"1", "c": b"3"})  # repeats what did not change
    digests = {canonical_digest(keep(BASE, top), CONFIG) for top in (TOP, other)}
    rebased = {**CONFIG, "Labels": {"reprokit.base": "y", "mine": "1"}, "Image": "sha256:1", "Cmd": None}
    digests.add(canonical_digest(keep(BASE, TOP), {**rebased, "Env": CONFIG["Env"][::-1]}))
    assert len(digests) == 1


@pytest.mark.parametrize(
    "config",
    [
        {**CONFIG, "Env": ["A=1"], "env B": 2},
        {**CONFIG, "Env": ["A=1", "B=2", "B=3"]},
        {**CONFIG, "Env": ["A=1", "B=2, 3"]},
        {**CONFIG, "Labels": {}, "label mine": 1},
        {**CONFIG, "User": "0"},
    ],
)
def test_other_settings_are_another_digest(config: dict):
    diff_ids = keep(BASE, TOP)
    assert canonical_digest(diff_ids, config) != canonical_digest(diff_ids, CONFIG)
    assert canonical_digest(diff_ids, {**CONFIG, "Env": ["A=1, 2"]}) != canonical_digest(
        diff_ids, {**CONFIG, "Env": ["A=1", "A=2"]}
    )


def test_layers_that_cannot_be_understood_pass_and_have_none(monkeypatch: pytest.MonkeyPatch):
    for damaged in (BASE[:700], b"x" * 5000, b""):
        assert canonical_digest(keep(BASE, damaged), CONFIG) == ""
    monkeypatch.setenv("REPROKIT_LIMIT_ENTRIES", "2")
    assert canonical_digest(keep(BASE, TOP), CONFIG) == ""  # three entries in all


def test_a_bundle_that_states_another_digest_is_refused(tmp_path: Path):
    digest = canonical_digest(keep(BASE, TOP), Image("", config_of([BASE, TOP]), ()).settings)
    wrong = Made.of({NAME: [BASE, TOP]}, canonical=f"sha256:{'0' * 64}")
    for _ in ("by the cache", "by its layers"):
        with pytest.raises(UsageError, match=f"its canonical digest is {digest}, but the metadata says sha256:0000"):
            load(wrong, tmp_path)
        for file in (tmp_path / "home").rglob("digests/*"):
            file.unlink()
    load(Made.of({NAME: [BASE, TOP]}, canonical=digest), tmp_path)
    assert canonical_digest([digest_of(BASE), digest_of(TOP)], Image("", config_of([BASE, TOP]), ()).settings) == digest


def test_a_digest_that_a_bundle_cannot_prove_is_not_believed(tmp_path: Path):
    link = tarfile.TarInfo("x")
    link.type, link.linkname = tarfile.LNKTYPE, "nothing"
    ambiguous = tar_of({"a": b"1", ".wh.a": b""})
    dangling = link.tobuf() + bytes(1024)
    claim = f"sha256:{'0' * 64}"
    for layers, absent in (([BASE, TOP], [BASE]), ([ambiguous], []), ([dangling], []), ([BASE, dangling], [])):
        load(Made.of({NAME: layers}, absent, canonical=claim), tmp_path)
        assert canonical_digest(list(map(digest_of, layers)), {}) == ""
