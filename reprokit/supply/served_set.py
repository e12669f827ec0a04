"""What the gateway of one build serves from the store: nothing else is the build's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from reprokit.supply.kinds.git.store import Commit
from reprokit.supply.kinds.wheels.platform import WheelSet
from reprokit.supply.lock.model import AptPackage, CondaPackage, PlainFile
from reprokit.supply.store import key_of

WHEELS_HOST = "wheels.reprokit.invalid"
GIT_HOST = "git.reprokit.invalid"
APT_HOST = "apt.reprokit.invalid"
FILES_HOST = "files.reprokit.invalid"
CONDA_HOST = "conda.reprokit.invalid"


@dataclass(frozen=True)
class ServedSet:
    """Files and commits, all of them in the store.

    `apt` None means that the build asks the distribution's own archive, and no `files` or `conda` that it asks for
    these at their own addresses, through the gateway.
    """

    wheels: WheelSet = field(default_factory=lambda: WheelSet(()))
    commits: tuple[Commit, ...] = ()
    apt: tuple[AptPackage, ...] | None = None
    files: tuple[PlainFile, ...] = ()
    conda: tuple[CondaPackage, ...] = ()

    def arguments(self) -> dict[str, str]:
        """Build arguments by which Dockerfiles are told of it.

        An address names its set by content, so that another set is another layer; the gateway's port is not in it.
        """
        found = {
            "REPROKIT_GIT": f"http://{GIT_HOST}/",
            "REPROKIT_WHEELS": f"http://{WHEELS_HOST}/{self.wheels.key}/simple/",
        }
        if self.conda:
            found["REPROKIT_CONDA"] = f"http://{CONDA_HOST}/{content_key(self.conda)}/"
        if self.files:
            found["REPROKIT_FILES"] = f"http://{FILES_HOST}/{content_key(self.files)}/"
        if self.apt is not None:
            found["REPROKIT_APT"] = f"http://{APT_HOST}/{content_key(self.apt)}/"
        return found


def content_key(files: Iterable[AptPackage | CondaPackage | PlainFile]) -> str:
    """Names a set of files by its content, whatever the order."""
    return key_of(sorted([file.name, file.sha256] for file in files))[:16]
