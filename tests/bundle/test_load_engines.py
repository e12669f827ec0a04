"""The same bundles loaded into every kind of engine."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.engine import Engine
from reprokit.oci.model import digest_of
from reprokit.oci.read import engine_image, read_images
from reprokit.oci.store import Form, ImageStore
from tests.support.engines import NewDocker, Podman
from tests.support.images import noise, tar_of
from tests.support.made import Made
from tests.support.other_engine import OtherEngine
from tests.support.verbs import run_verb

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.xdist_group("load-engines")]

A, B, C, D = (tar_of({f"bin/{name}": noise(300_000, seed)}) for seed, name in enumerate("abcd"))
X, Y = "reprokit/load-test:x", "reprokit/load-test:y"


@pytest.fixture(scope="session", params=["docker", "new docker", "containerd", "podman"])
def served(request) -> Iterator[OtherEngine | NewDocker | Podman]:
    # podman takes 50 characters; pytest's own folders are longer.
    folder = Path(tempfile.mkdtemp(prefix="rk-", dir="/tmp"))
    if request.param == "docker":
        engine = OtherEngine(folder, folder / "data")
    elif request.param == "podman":
        engine = Podman(folder)
    else:
        engine = NewDocker(request.getfixturevalue("debian"), folder, request.param == "containerd")
    engine.kind = request.param
    yield engine
    engine.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def there(served) -> Iterator[Engine]:
    """The engine; images that a test loads are removed after it."""
    engine = served.connect()
    yield engine
    for name in (X, Y):
        if engine.image(name):
            engine.remove_image(name, force=True)
    for label in ("reprokit-test=made", "reprokit.loading"):
        for image in engine.images([label]):
            engine.remove_image(image["Id"], force=True)


@pytest.fixture
def load(served, tmp_path):
    def run(*files: Path, code: int = 0) -> str:
        environment = {"DOCKER_HOST": served.address, "REPROKIT_HOME": str(tmp_path / "home")}
        done = run_verb("load", *files, env=environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def layers(engine: Engine, name: str) -> int:
    return len(engine.image(name)["RootFS"]["Layers"])


def test_each_engine_gets_its_form(served, there):
    expected = {"docker": Form.PLAIN, "new docker": Form.ZSTD, "containerd": Form.BLOBS, "podman": Form.PLAIN}
    form = ImageStore.of(there).form
    # The machine's own engine may be a new one.
    assert form is expected[served.kind] or (served.kind == "docker" and form is Form.ZSTD)


def test_images_keep_names_and_configuration(there, load, tmp_path):
    bundle = Made.of({X: [A, B, C], Y: [A, B, A, D]}, labels={"some": "label"}).write(tmp_path / "x.rkit")
    assert f"loaded {X}" in load(bundle)
    assert layers(there, X) == 3 and layers(there, Y) == 4
    config = there.image(X)["Config"]
    assert config["Env"] == ["PATH=/bin"] and config["Labels"]["some"] == "label"
    assert f"{X} is present already" in load(bundle)


def test_excluded_layers_are_the_engines(there, load, tmp_path):
    base = Made.of({X: [A, B]}).write(tmp_path / "base.rkit")
    delta = Made.of({Y: [A, B, C]}, absent=[A, B]).write(tmp_path / "delta.rkit")
    said = load(delta, code=2)
    assert "the bundle excludes 2 of its 3 layers" in said and there.image(Y) is None
    load(base)
    load(delta)
    assert layers(there, Y) == 3
    # It can be exported again, also from a containerd store, which needs the compressed blobs.
    (image,) = read_images(there, [engine_image(there, Y)], ResumableTar(io.BytesIO()))
    assert [layer.diff_id for layer in image.layers] == [digest_of(layer) for layer in (A, B, C)]
    there.remove_image(X, force=True)
    there.remove_image(Y, force=True)


def test_a_bundle_and_its_delta_load_together(there, load, tmp_path):
    base = Made.of({X: [A, B]}).write(tmp_path / "base.rkit")
    delta = Made.of({X: [A, B, D]}, absent=[A, B]).write(tmp_path / "delta.rkit")
    load(base, delta)
    assert layers(there, X) == 3


def test_an_interrupted_load_is_resumed(there, load, tmp_path, monkeypatch):
    """As if only the first step had ended: its layers are present in an unnamed image."""
    from contextlib import ExitStack, nullcontext

    from reprokit.bundle.load import checked
    from reprokit.oci import loader

    monkeypatch.setattr(loader, "STEP", 200_000)
    path = Made.of({X: [A, B, C]}).write(tmp_path / "x.rkit")
    with ExitStack() as stack:
        (file,) = checked([path], stack, lambda path: nullcontext(lambda done, total: None))
        begun = loader.Loader(file, file.bundle.images[0], ImageStore.of(there), lambda done, total: None)
        begun._start(begun._blocks(0, 1, None)).result()
    assert there.image(X) is None and len(there.images(["reprokit.loading"])) == 1
    load(path)
    assert layers(there, X) == 3 and not there.images(["reprokit.loading"])
