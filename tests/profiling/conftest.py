"""A recipe whose image is a few empty folders: the tests mount the host's programs into its container."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from tests.support.names import unique

_FOLDERS = ("usr", "sbin", "etc", "tmp", "proc", "sys", "dev", "root", "opt", "venv")
# The engine mounts its init program below /sbin, which must not be in the host's /usr.
_LINKS = {name: f"usr/{name}" for name in ("bin", "lib", "lib64")}


@pytest.fixture(scope="session")
def image(engine: Engine) -> Iterator[str]:
    """The name of the recipe."""
    recipe, stream = unique("profile"), io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in (*_FOLDERS, *_LINKS):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.SYMTYPE if name in _LINKS else tarfile.DIRTYPE
            entry.linkname, entry.mode = _LINKS.get(name, ""), 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
    changes = ["ENV PATH=/opt/bin:/usr/bin:/bin", f"LABEL reprokit.recipe={recipe} reprokit.variant=cpu"]
    engine.import_image(io.BytesIO(stream.getvalue()), f"reprokit/{recipe}", "cpu", changes)
    yield recipe
    engine.remove_image(f"reprokit/{recipe}:cpu", force=True)


@pytest.fixture
def desk(image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user stands here, and has the recipe."""
    with tempfile.TemporaryDirectory(prefix="reprokit-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("REPROKIT_HOME", f"{folder}/home")
        monkeypatch.delenv("REPROKIT_RECIPES", raising=False)
        monkeypatch.chdir(folder)
        Path("recipes").mkdir()
        text = f"name: {image}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\n"
        text += 'variants:\n  cpu:\n    base: "debian:12"\n'
        Path("recipes", f"{image}.yaml").write_text(text)
        yield Path(folder)
        monkeypatch.undo()


@pytest.fixture
def nothing_left(engine: Engine, image: str) -> Iterator[None]:
    """The containers of the recipe are gone at the end."""
    yield
    left = engine.containers([f"reprokit.recipe={image}"])
    for container in left:
        with contextlib.suppress(ReprokitError):
            engine.remove(container.id, force=True)
    assert left == []
