"""The same bundles loaded into every kind of engine."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.bundle.load import checked
from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.oci import loader
from reprokit.oci.model import digest_of
from reprokit.oci.read import engine_image, read_images
from reprokit.oci.store import Form, ImageStore
from tests.support.engines import NewDocker, Podman
from tests.support.images import noise, tar_of
from tests.support.made import Made
from tests.support.names import WORKER, unique
from tests.support.other_engine import OtherEngine
from tests.support.verbs import run_verb

# Other layers in each run: an engine that is used for long may have those of an earlier one.
A, B, C, D = (tar_of({f"bin/{unique(name)}": noise(300_000, seed)}) for seed, name in enumerate("abcd"))
X, Y = f"reprokit/{unique('load')}:x", f"reprokit/{unique('load')}:y"
FORMS = {"docker": Form.PLAIN, "new docker": Form.ZSTD, "containerd": Form.BLOBS, "podman": Form.PLAIN}


def _marked(kind: str):
    return pytest.param(kind, marks=[pytest.mark.long] if kind != "docker" else [])


@pytest.fixture(scope="session", params=map(_marked, FORMS))
def served(request, engine: Engine):
    """An engine's `kind` and `address`, and `connect()`; the first is this machine's."""
    if request.param == "docker":
        yield SimpleNamespace(kind="docker", address=engine.url, connect=lambda: engine)
        return
    # podman takes 50 characters; pytest's own folders are longer.
    folder = Path(tempfile.mkdtemp(prefix="rk-", dir="/tmp"))
    if request.param == "podman":
        other = Podman(folder)
    else:
        other = NewDocker(request.getfixturevalue("debian"), folder, request.param == "containerd")
    other.kind = request.param
    yield other
    other.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def there(served):
    """The engine; images that a test loads are removed after it."""
    engine = served.connect()
    yield engine
    for name in (X, Y):
        if engine.image(name):
            engine.remove_image(name, force=True)
    for image in engine.images(["reprokit-test=made"]):
        if image.labels["worker"] == WORKER:
            with contextlib.suppress(ReprokitError):
                engine.remove_image(image.id, force=True)


@pytest.fixture
def load(served, tmp_path):
    def run(*files: Path, code: int = 0) -> str:
        environment = {"DOCKER_HOST": served.address, "REPROKIT_HOME": str(tmp_path / "home")}
        done = run_verb("load", *files, env=environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def layers(engine: Engine, name: str) -> int:
    return len(engine.image(name).layers)


def test_a_bundle_and_one_that_excludes_its_layers(served, there, load, tmp_path):
    form = ImageStore.of(there).form
    # The machine's own engine may be a new one.
    assert form is FORMS[served.kind] or (served.kind == "docker" and form is Form.ZSTD)
    base = Made.of({X: [A, B]}, labels={"some": "label"}).write(tmp_path / "base.rkit")
    delta = Made.of({Y: [A, B, C]}, absent=[A, B]).write(tmp_path / "delta.rkit")
    said = load(delta, code=2)
    assert "the bundle excludes 2 of its 3 layers" in said and there.image(Y) is None
    assert f"loaded {X}" in load(base) and f"{X} is present already" in load(base)
    load(delta)
    assert layers(there, X) == 2 and layers(there, Y) == 3
    config = there.image(X).config
    assert config["Env"] == ["PATH=/bin"] and config["Labels"]["some"] == "label"
    # It can be exported again, also from a containerd store, which needs the compressed blobs.
    (image,) = read_images(there, [engine_image(there, Y)], ResumableTar(io.BytesIO()))
    assert [layer.diff_id for layer in image.layers] == [digest_of(layer) for layer in (A, B, C)]


def test_a_bundle_and_its_delta_load_together(there, load, tmp_path):
    base = Made.of({X: [A, B], Y: [A, B, A, D]}).write(tmp_path / "base.rkit")
    delta = Made.of({X: [A, B, D]}, absent=[A, B]).write(tmp_path / "delta.rkit")
    load(base, delta)
    assert layers(there, X) == 3 and layers(there, Y) == 4


def test_an_interrupted_load_is_resumed(there, load, tmp_path, monkeypatch):
    """As if only the first step had ended: its layers are present in an unnamed image."""
    monkeypatch.setattr(loader, "STEP", 200_000)
    path = Made.of({X: [A, B, C]}).write(tmp_path / "x.rkit")
    with ExitStack() as stack:
        (file,) = checked([path], stack)
        image = file.bundle.images[0]
        begun = loader.Loader(file, image, ImageStore.of(there), lambda done, total: None)
        begun._start(begun._blocks(0, 1, None)).result()
    assert there.image(X) is None and len(there.images([f"{loader.LOADING}={image.id}"])) == 1
    load(path)
    assert layers(there, X) == 3 and not there.images([f"{loader.LOADING}={image.id}"])


@pytest.mark.engine
@pytest.mark.long
def test_a_full_disk_is_reported_before_loading(reprokit, tmp_path, short_path, monkeypatch):
    """Nothing is loaded into an engine whose disk is too small."""
    data = short_path / "data"
    data.mkdir()
    with ExitStack() as stack:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(data)], check=True)
        stack.callback(subprocess.run, ["umount", "-l", str(data)], check=True)
        other = OtherEngine(short_path, data)
        stack.callback(other.stop)
        monkeypatch.setenv("DOCKER_HOST", other.address)
        path = Made.of({X: [tar_of({"zeros": bytes(40 << 20)})]}).write(tmp_path / "x.rkit")
        said = reprokit("load", path, code=3)
        assert "not enough disk space" in said and str(data) in said and "hint: " in said
        assert not other.connect().images([])
