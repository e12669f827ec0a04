"""How a file of a recipe is unpacked, which its name decides: the Dockerfile is rendered before there is a file."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.errors import UsageError


@dataclass(frozen=True)
class Unpacking:
    """`command` takes the archive's path, `option` and a folder; `package` has the tool, "" where every base has it."""

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
    # GNU tar finds out by itself how an archive is compressed, but zstd only since 1.31.
    ".tar.zst": Unpacking(("tar", "--no-same-owner", "--use-compress-program=zstd", "-xf"), package="zstd"),
    ".zip": Unpacking(("unzip", "-q"), "-d", "unzip"),
}


def unpacking(name: str) -> Unpacking:
    """The way to unpack a file of this name. Raises UsageError where it names no archive."""
    found = next((how for end, how in _BY_NAME.items() if name.endswith(end)), None)
    if found is None:
        raise UsageError(f"{name} cannot be unpacked: it is not named as an archive", hint=f"{', '.join(_BY_NAME)}")
    return found
