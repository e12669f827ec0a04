"""How to unpack a file of a recipe, by its name: the file is not there when the Dockerfile is rendered."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.errors import UsageError


@dataclass(frozen=True)
class Unpacking:
    """`command` takes the archive, `option` and a folder. `package` contains the tool, "" if every base has it."""

    command: tuple[str, ...]
    option: str = "-C"
    package: str = ""

    def words(self, archive: str, folder: str) -> tuple[str, ...]:
        """The shell command that unpacks `archive` below `folder`."""
        return (*self.command, archive, self.option, folder)


_TAR = ("tar", "--no-same-owner", "-xf")
_BY_NAME = {
    ".tar": Unpacking(_TAR),
    ".tar.gz": Unpacking(_TAR),
    ".tgz": Unpacking(_TAR),
    ".tar.xz": Unpacking(_TAR, package="xz-utils"),
    ".txz": Unpacking(_TAR, package="xz-utils"),
    ".tar.bz2": Unpacking(_TAR, package="bzip2"),
    ".tbz2": Unpacking(_TAR, package="bzip2"),
    # GNU tar detects zstd only since 1.31.
    ".tar.zst": Unpacking(("tar", "--no-same-owner", "--use-compress-program=zstd", "-xf"), package="zstd"),
    ".zip": Unpacking(("unzip", "-q"), "-d", "unzip"),
}


def unpacking(name: str) -> Unpacking:
    """How to unpack a file of this name. Raises UsageError if it is not the name of an archive."""
    found = next((how for end, how in _BY_NAME.items() if name.endswith(end)), None)
    if found is None:
        raise UsageError(
            f"{name} cannot be unpacked: its name is not an archive's", hint=f"archives are {', '.join(_BY_NAME)}"
        )
    return found
