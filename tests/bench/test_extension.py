"""What is sent into a container: the package's sources, not what was built of them, owned by its user."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from reprokit.bench import extension
from reprokit.container.execute import Completed
from reprokit.errors import EngineError, UsageError, WorkFailed

FILES = {"fused_attention/__init__.py": b"1", "fused_attention/csrc/op.cpp": b"2"}


class Container:
    """A container that answers the question of `send` and takes archives."""

    def __init__(self, torch: str = "torch") -> None:
        self.torch = torch
        self.there = False
        self.archives: list[bytes] = []

    def execute(self, argv, **_) -> Completed:
        lines = ["1000", "1001", *(["present"] if self.there else []), self.torch]
        return Completed(0, "\n".join(lines) + "\n")

    def put_archive(self, container: str, folder: str, tar: bytes) -> None:
        assert (container, folder) == ("c", "/")
        self.archives.append(tar)
        self.there = True

    def send(self) -> str:
        return extension.send(self, "c", self.execute, FILES)  # type: ignore[arg-type]


def test_sources_are_sent_once_owned_by_the_user_and_at_last_marked_complete():
    container = Container()
    folder = container.send()
    assert folder == container.send() == f"/opt/reprokit/extensions/{extension.digest(FILES)[:16]}"
    (archive,) = container.archives
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = tar.getmembers()
    assert {(m.uid, m.gid) for m in members} == {(1000, 1001)}
    names = [m.name for m in members]
    assert "opt" not in names and names[-1] == f"{folder.strip('/')}/.complete"
    for name in names:
        parent = str(Path(name).parent)
        assert parent == "opt" or parent in names[: names.index(name)]


def test_an_image_without_torch_or_a_shell_is_named_before_anything_is_sent():
    container = Container(torch="ModuleNotFoundError: No module named 'torch'")
    with pytest.raises(WorkFailed, match=r"needs torch.*No module named 'torch'") as error:
        container.send()
    assert "blocks torch and extension" in error.value.hint and container.archives == []
    container.execute = lambda argv, **_: Completed(127, "", "no sh")  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="did not answer"):
        container.send()


def test_the_hash_covers_names_and_contents():
    variants = [
        FILES, {**FILES, "x": b""}, {**FILES, "fused_attention/__init__.py": b"2"},
        {"fused_attention/__init__.py": b"12", "fused_attention/csrc/op.cpp": b""},
    ]  # fmt: skip
    assert len({extension.digest(files) for files in variants}) == 4
    assert extension.digest(dict(reversed(FILES.items()))) == extension.digest(FILES)


def test_the_sources_are_the_package_without_what_was_built_and_without_links(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    assert "fused_attention/bench/__main__.py" in extension.sources()  # the bundled ones
    package = tmp_path / "workspaces" / "fused_attention" / "fused_attention"
    for name in ("__init__.py", "csrc/op.cpp", "__pycache__/a.cpython-311.pyc", "build/op.o"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(name)
    (package.parent / "README.md").touch()
    sources = {f"fused_attention/{name}": name.encode() for name in ("__init__.py", "csrc/op.cpp")}
    assert extension.sources() == sources
    for planted in ("/etc", "/etc/passwd"):
        (package / "planted").symlink_to(planted)
        with pytest.raises(UsageError, match="this is a link"):
            extension.sources()
        (package / "planted").unlink()
