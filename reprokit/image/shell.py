"""Shell commands that blocks write: installing apt packages, each call recorded for the lock, and unpacking files.

A file is unpacked by its name: it does not exist yet when the Dockerfile is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from reprokit.errors import UsageError
from reprokit.image.quoting import Quoted, sh
from reprokit.recipe.blocks import argument
from reprokit.supply.kinds.apt.install import enable


def apt_install(context: Any, packages: Sequence[str], components: Sequence[str] = ()) -> Quoted:
    """The filter `apt_install`: lines of a RUN that install these packages and leave no list and no archive behind.

    Environments register it with jinja's `pass_context`, which is not imported here: `check` renders nothing.
    REPROKIT_APT_BLOCK is the address of an archive of exactly the block's locked packages. Its checksums are the lock's
    own, so that apt needs no signature. Without it apt uses the image's own sources.
    """
    address = argument("apt", context["block"])
    context["installs"].append((tuple(packages), tuple(components)))
    locked = "-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"
    marked, compiled = _compiled_anew(context["python"])
    lines = [
        *(enable(components) if components else ()),
        f'sources=""; [ -z "${{{address}:-}}" ] || {{ '
        f'echo "deb [trusted=yes] ${address} ./" > /tmp/locked.list; sources="{locked}"; }}',
        "apt-get $sources update",
        *marked,
        "DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends "
        + " ".join(sh(package) for package in packages),
        *compiled,
        "apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list",
    ]
    return Quoted("\n".join(f"    {line}; \\" for line in lines))


def _compiled_anew(python: str) -> tuple[Sequence[str], Sequence[str]]:
    """Commands before and after an installation that compile its Python modules once more, with a fixed hash seed.

    Before 3.11 Python writes sets in the order of their hashes, and Debian's scripts compile with `-E`, which ignores
    PYTHONHASHSEED. https://bugs.python.org/issue37596
    """
    series = re.fullmatch(r"python(3)\.([6-9]|10)", python)
    if not series:
        return (), ()
    suffix = f".cpython-{series[1]}{series[2]}.pyc"
    find = f"find /usr/lib/python3* -name '*{suffix}' -newer /tmp/installing"
    sources = f"sed 's,__pycache__/\\(.*\\){suffix}$,\\1.py,'"
    return ("touch /tmp/installing",), (f"[ ! -x /usr/bin/{python} ] || {find} | {sources} | {python} -m py_compile -",)


_STEP = re.compile(r"(?<= ) *export SOURCE_DATE_EPOCH=.*?# step: ", re.DOTALL)


def without_step(text: str) -> str:
    """A command of a RUN as engines show it, without the wrapper of images/step.j2."""
    return _STEP.sub("", text, count=1)


# The assertions of a block, which are its last commands, name it (images/expect.j2).
_BLOCK = re.compile(r"reprokit: block ([a-z0-9_-]+): expected")
_OPTIONS = re.compile(r"set -eu;[\s\\]*(\w+\(\) \{.*?; \};[\s\\]*)*", re.DOTALL)
_ARCHIVE = re.compile(r'sources="";.*?apt-get \$sources install -y --no-install-recommends', re.DOTALL)


def block_of(command: str) -> str:
    """The block that a command of a RUN belongs to; "" if none."""
    match = _BLOCK.search(command)
    return match[1] if match else ""


def without_boilerplate(command: str) -> str:
    """A command of a RUN without the boilerplate of every block: shell options, functions, the choice of an archive."""
    options = _OPTIONS.match(command)
    return _ARCHIVE.sub("apt-get install", command[options.end() :] if options else command)


_TAR = ("tar", "--no-same-owner", "-xf")
# The command, to which the archive is added, the option for the folder, and the package that contains the tool.
_BY_NAME = {
    ".tar": (_TAR, "-C", ""),
    ".tar.gz": (_TAR, "-C", ""),
    ".tgz": (_TAR, "-C", ""),
    ".tar.xz": (_TAR, "-C", "xz-utils"),
    ".txz": (_TAR, "-C", "xz-utils"),
    ".tar.bz2": (_TAR, "-C", "bzip2"),
    ".tbz2": (_TAR, "-C", "bzip2"),
    # GNU tar detects zstd only since 1.31.
    ".tar.zst": (("tar", "--no-same-owner", "--use-compress-program=zstd", "-xf"), "-C", "zstd"),
    ".zip": (("unzip", "-q"), "-d", "unzip"),
}


def unpacking(name: str, archive: str) -> tuple[tuple[str, ...], str]:
    """The command that unpacks `archive`, a file called `name`, and the apt package that provides it ("" if none).

    The caller adds the folder as the last word. Raises UsageError if the name is not that of an archive.
    """
    for ending, (command, option, package) in _BY_NAME.items():
        if name.endswith(ending):
            return (*command, archive, option), package
    raise UsageError(
        f"{name} cannot be unpacked: its name is not an archive's", hint=f"archives are {', '.join(_BY_NAME)}"
    )
