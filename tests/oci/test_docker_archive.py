"""Archives as other engines write them, made by skopeo, whose library podman uses."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.oci.docker_archive import ArchiveReader, LayerPaths
from tests.support.exporting import export
from tests.support.images import tar_of
from tests.support.skopeo import skopeo


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(50_001):
            yield block


def _read(path: Path) -> list[tuple[tuple[str, ...], str, list[str]]]:
    """Names, id and diff ids of each image."""
    saved, digests = ArchiveReader(_blocks(path)), {}
    for layer in saved.layers():
        digest = hashlib.sha256()
        for block in layer.blocks:
            digest.update(block)
        digests[layer.path] = f"sha256:{digest.hexdigest()}"
    return [
        (image.names, f"sha256:{hashlib.sha256(image.config).hexdigest()}", [digests[path] for path in image.layers])
        for image in saved.images()
    ]


@pytest.fixture(scope="module")
def bundle(two: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("saved") / "x.rkit"
    export(*two, "-o", str(out))
    return out


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive", "oci-archive, gzip"])
def test_other_layouts(engine: Engine, two: tuple[str, str], bundle: Path, tmp_path: Path, form: str) -> None:
    out, source = tmp_path / "x", bundle
    if form == "docker-archive":  # it cannot have zstd layers
        source = tmp_path / "plain"
        export(two[1], "-o", str(source), "--format", "docker")
    options = ["--dest-compress", "--dest-compress-format", "gzip"] if "gzip" in form else []
    target = f"{form.partition(',')[0]}:{out}:docker.io/{two[1]}"
    skopeo("copy", "-q", *options, f"oci-archive:{source}:{two[1]}", target)
    described = engine.image(two[1])
    ((names, image_id, layers),) = _read(out)
    assert layers == list(described.layers)
    assert image_id == described.id
    if form == "docker-archive":
        assert names == (f"docker.io/{two[1]}",)


def test_a_bundle_is_read_as_an_archive(engine: Engine, two: tuple[str, str], bundle: Path) -> None:
    expected = [((name,), engine.image(name).id, list(engine.image(name).layers)) for name in two]
    assert _read(bundle) == expected


def test_nested_indexes_and_build_attestations(tmp_path: Path) -> None:
    def blob(content: bytes) -> tuple[str, bytes]:
        return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content

    def described(path: str) -> dict[str, str]:
        return {"digest": f"sha256:{path.rpartition('/')[2]}", "mediaType": "application/vnd.oci.image.layer.v1.tar"}

    layer, config = blob(tar_of({"a": b"1"})), blob(b'{"rootfs": {}}')
    statement = blob(b'{"_type": "x"}')
    manifest = blob(json.dumps({"config": described(config[0]), "layers": [described(layer[0])]}).encode())
    attest = {"digest": described(statement[0])["digest"], "mediaType": "application/vnd.in-toto+json"}
    other = blob(json.dumps({"config": described(config[0]), "layers": [attest]}).encode())
    missing = {"digest": "sha256:" + "0" * 64}
    inner = blob(json.dumps({"manifests": [described(manifest[0]), described(other[0]), missing]}).encode())
    named = {**described(inner[0]), "annotations": {"io.containerd.image.name": "docker.io/x/y:1"}}
    files = dict([layer, config, statement, manifest, other, inner])
    (tmp_path / "x").write_bytes(tar_of({**files, "index.json": json.dumps({"manifests": [named]}).encode()}))
    ((names, _, layers),) = _read(tmp_path / "x")
    assert names == ("docker.io/x/y:1",)
    assert layers == [described(layer[0])["digest"]]


def test_incomplete_archives_are_refused(bundle: Path, tmp_path: Path) -> None:
    whole = bundle.read_bytes()
    for size in (0, 100, 5000, len(whole) // 2):
        (tmp_path / "x").write_bytes(whole[:size])
        with pytest.raises(EngineError, match="incomplete or damaged"):
            _read(tmp_path / "x")
    with tarfile.open(bundle) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    first = json.loads(files["manifest.json"])[0]
    for gone, why in (
        (first["Layers"][0], "lacks the blob"),
        (first["Config"], "lacks the blob"),
        ("manifest.json", "incomplete or damaged: index.json is missing"),
    ):
        left = {name: content for name, content in files.items() if name not in (gone, "index.json")}
        (tmp_path / "x").write_bytes(tar_of(left))
        with pytest.raises(EngineError, match=why):
            _read(tmp_path / "x")


def test_every_layer_of_the_engine_is_predicted(engine: Engine, two: tuple[str, str]) -> None:
    paths = LayerPaths([engine.image(name).layers for name in two])
    archive = ArchiveReader(engine.save(*two))
    for layer in archive.layers():
        before = paths.diff_id(layer.path, archive.texts)
        digest = hashlib.sha256()
        for block in layer.blocks:
            digest.update(block)
        assert before == f"sha256:{digest.hexdigest()}"


def test_unknown_paths_predict_nothing() -> None:
    layer = f"sha256:{'a' * 64}"
    assert LayerPaths([(layer,)]).diff_id("blobs/sha256/" + "b" * 64, {}) is None
    assert LayerPaths([(layer,)]).diff_id("c" * 64 + "/layer.tar", {}) is None
    assert LayerPaths([(layer,)]).diff_id("c" * 64 + "/layer.tar", {"c" * 64 + "/json": b"nonsense"}) is None
    assert LayerPaths([(layer,)]).diff_id("a" * 64 + ".tar", {}) == layer
