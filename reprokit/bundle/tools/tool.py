"""The input of every tool's file, and its writing."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reprokit.errors import UsageError
from reprokit.host.disk import unwritable
from reprokit.image.labels import image_name, minimum_driver
from reprokit.recipe.find import Target
from reprokit.untrusted.files import Folder, current

_GIB = 1 << 30
_MOST = 1 << 20  # bytes of a file that is compared


@dataclass(frozen=True)
class ToolJob:
    """A variant, and the host folder of its workspace; `user` is the caller's `uid:gid`."""

    target: Target
    workspace: Path
    user: str

    @property
    def image(self) -> str:
        return image_name(self.target)

    @property
    def plain_name(self) -> str:
        """A name for files and jobs."""
        return f"{self.target.recipe.name}-{self.target.variant_name}"

    @property
    def folders(self) -> Mapping[str, str]:
        """The recipe's mounts: the path in the container, and the folder in the workspace, "" for its root."""
        return {
            mount.target: posixpath.normpath(mount.source).removeprefix(".") for mount in self.target.variant.mounts
        }

    @property
    def driver(self) -> str:
        """The oldest NVIDIA driver, "" if any."""
        variant = self.target.variant
        return variant.requires.driver or minimum_driver(variant.pins.get("cuda"))

    @property
    def memory_gib(self) -> int:
        """Memory of the host in GiB, rounded up; 0 if the recipe requires none."""
        return -(-self.target.variant.requires.memory // _GIB)

    @property
    def disk_gib(self) -> int:
        return -(-self.target.variant.requires.disk // _GIB)

    def check(self, forbidden: str, tool: str) -> None:
        """Raises UsageError if a path has characters with a special meaning in the tool's format."""
        paths = [str(self.workspace), self.target.variant.workdir, *self.folders, *self.folders.values()]
        for path in paths:
            if match := re.search(forbidden, path):
                raise UsageError(
                    f"{tool} cannot use a path with {match[0]!r}", path, "rename the folder, or use `reprokit run`"
                )


class OtherTool(Protocol):
    """A module that makes one tool's file. `text` raises UsageError if the tool cannot express the variant."""

    def usual_path(self, job: ToolJob) -> Path: ...
    def text(self, job: ToolJob) -> str: ...

    def finish(self, path: Path) -> str:
        """Run the tool's next step after the file is written; returns a line for the user."""
        ...


def write(tool: OtherTool, job: ToolJob, out: Path | None) -> tuple[Path, str]:
    """Write the tool's file; returns its path and a line for the user. Raises UsageError if another file exists.

    Links in `out` are followed. The usual path is in the current folder, perhaps a stranger's: no link is followed.
    """
    path, content = out or tool.usual_path(job), tool.text(job).encode()
    try:
        with Folder(out.parent) if out else current("-o FILE") as folder:
            name = out.name if out else str(path)
            try:
                with os.fdopen(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                    file.write(content)
            except FileExistsError:
                if folder.read(name, _MOST) != content:
                    raise UsageError("the file exists and differs", str(path), "remove it") from None
    except OSError as error:
        raise unwritable(error, "the file", path) from None
    return path, tool.finish(path)
