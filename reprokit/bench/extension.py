"""Copy bundled packages, such as the fused attention extension, into a container, in a folder named by their hash.

The sources are copied, not mounted, so that the container's mounts stay as they are and no two containers share a build
tree. Sources and build output are in the container's own file system.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from reprokit import paths
from reprokit.bench.hardware import Execute
from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.host.workspace import is_build_output, keep_up, locate
from reprokit.tarfiles import add
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import SOURCES

RECIPE = "fused-attention"
_HOME = "opt/reprokit/extensions"
_DONE = ".complete"


def sources(name: str = RECIPE) -> dict[str, bytes]:
    """The package of a bundled recipe, by path below its workspace.

    The user's copy takes precedence over the bundled one.
    """
    package = name.replace("-", "_")  # also the name of the workspace
    recipe = paths.data_root() / "recipes" / f"{name}.yaml"
    keep_up(package, recipe)
    folder = locate(package, recipe)
    if not (folder / package).is_dir():
        bundled = paths.bundled_workspace(package)
        if bundled is None:
            raise UsageError(f"the package {package} is not installed", str(paths.data_root()), "install it again")
        folder = bundled
    with Folder(folder) as opened:
        sizes = {path: size for path, size in opened.files(package) if _is_source(path)}
        SOURCES.check(sum(sizes.values()), "bytes in the package", str(folder / package))
        return {path: opened.read(path, size) for path, size in sorted(sizes.items())}


def _is_source(path: str) -> bool:
    return not any(map(is_build_output, path.split("/")))


def digest(files: dict[str, bytes]) -> str:
    """SHA-256 over names and contents."""
    total = hashlib.sha256()
    for name, content in sorted(files.items()):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def send(engine: Engine, container: str, execute: Execute, files: dict[str, bytes]) -> str:
    """Copy `files` into the container unless present; returns their folder, which its user can write.

    Raises WorkFailed if the image has no torch, EngineError if the container refuses the files.
    """
    folder = f"/{_HOME}/{digest(files)[:16]}"
    script = f"id -u; id -g; test -e {folder}/{_DONE} && echo present; python3 -c 'import torch' 2>&1 && echo torch"
    answer = execute(["sh", "-c", script], logged=False).stdout.splitlines()
    if len(answer) < 2 or not all(text.isdecimal() and len(text) < 11 for text in answer[:2]):
        raise EngineError("the container's shell did not answer", container)
    if answer[-1] != "torch":
        raise WorkFailed(
            f"the extension needs torch, which this image cannot import: {answer[-1]}",
            container,
            "give the variant a torch pin and the blocks torch and extension",
        )
    if "present" not in answer[2:]:
        engine.put_archive(container, "/", archive(files, folder, int(answer[0]), int(answer[1])))
    return folder


def archive(files: dict[str, bytes], folder: str, uid: int, gid: int) -> bytes:
    """A tar of `files` below `folder`, owned by `uid:gid`; its last file marks it as complete."""
    folder = folder.strip("/")
    # /opt exists in every image, and keeps its owner and mode.
    folders = {parent for name in files for parent in Path(folder, name).parents} - {Path(), Path("opt")}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for parent in sorted(map(str, folders)):
            entry = tarfile.TarInfo(parent)
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, uid, gid
            tar.addfile(entry)
        for name, content in [*sorted(files.items()), (_DONE, b"")]:
            add(tar, f"{folder}/{name}", content, uid=uid, gid=gid)
    return stream.getvalue()
