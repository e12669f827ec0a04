"""The input files of a benchmark: created or copied from locked data if missing, and identified by checksum."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from reprokit.bench.hardware import Execute
from reprokit.container.execute import Completed
from reprokit.container.mounts import WORKSPACE
from reprokit.errors import Absent, UsageError, WorkFailed
from reprokit.host import workspace
from reprokit.host.disk import is_full
from reprokit.image.lock.read import fresh_data, recipe_lock
from reprokit.recipe.find import Target
from reprokit.recipe.model import Input
from reprokit.supply.lock.model import PlainFile, RecordFile
from reprokit.untrusted.files import Folder

# Fetches a locked file into the store; returns its path there.
Fetch = Callable[[PlainFile | RecordFile], Path]

# The mark beside an incomplete file survives a kill, so that the file is made again. So is a file of another
# command, or of the same command with other content of an input listed above it; a user's file has no `.made`.
# Inputs that only another benchmark lists change nothing.
_MAKE = """
( [ -e {path} ] && [ ! -e {mark} ] || exit 1
  [ -e {made} ] || exit 0
  read -r line < {made} && [ "$line" = {key} ] || exit 1
  while read -r line; do case "$line" in {same}) ;; {other}) exit 1 ;; esac; done < {made}
) && exit 0
mkdir -p -- "$(dirname -- {path})" && : > {mark} || exit 1
rm -rf -- {path}
( {make}
) || exit 1
[ -e {path} ] || {{ echo "the command succeeded but did not create {name}" >&2; exit 1; }}
printf '%s\\n' {lines} > {made} && rm -f -- {mark}
"""
# A folder's checksum covers the checksums of all its files.
_SUM = """
set -o pipefail
if [ -d {path} ]; then
  cd {path} && find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum
else
  sha256sum < {path}
fi
"""
_CHECKSUM = re.compile(r"([0-9a-f]{64})(?: |$)")
_LONGEST_REASON = 400


def prepare(
    execute: Execute,
    inputs: Sequence[Input],
    workdir: str,
    place: Callable[[Input], None],
    sums: Mapping[str, str],
) -> dict[str, str]:
    """Create missing inputs; returns the SHA-256 of each by its path. Raises WorkFailed naming the input.

    `place` copies the recipe's data to the path of an input. `sums` are the locked SHA-256 of the recipe's data.
    """
    digests: dict[str, str] = {}
    for file in inputs:
        path = shlex.quote("./" + file.path)
        if file.data:
            place(file)
        else:
            _make(execute, file, path, workdir, digests)
        total = execute(["bash", "-c", _SUM.format(path=path)], workdir=workdir, logged=False)
        match = _CHECKSUM.match(total.stdout)
        if total.exit_code or match is None:
            raise WorkFailed(
                f"no checksum of the input {file.path} (exit code {total.exit_code}): {_reason(total)}",
                hint="the image needs a working `sha256sum`, and the file must be readable",
            )
        if file.data and sums.get(file.data, match[1]) != match[1]:
            raise WorkFailed(
                f"the data {file.data} in the workspace is not the locked file: its SHA-256 is {match[1]}",
                file.path,
                "remove it from the workspace: the next `reprokit bench` puts the locked file there",
            )
        digests[file.path] = match[1]
    return digests


def _make(execute: Execute, file: Input, path: str, workdir: str, before: Mapping[str, str]) -> None:
    """Create a file. `before` are the inputs listed before it, which its command may read."""
    mark, made = (shlex.quote(f"./{file.path}.{state}") for state in ("making", "made"))
    key = hashlib.sha256(file.make.encode()).hexdigest()
    lines = [key, *(shlex.quote(f"{checksum} {name}") for name, checksum in before.items())]
    other = [f"*{shlex.quote(f' {name}')}" for name in before] or ["''"]
    script = _MAKE.format(
        path=path, mark=mark, made=made, key=key, make=file.make, name=file.path,
        lines=" ".join(lines), same="|".join(lines), other="|".join(other),
    )  # fmt: skip
    done = execute(["bash", "-c", script], workdir=workdir)
    if done.exit_code:
        raise WorkFailed(
            f"the input {file.path} could not be created (exit code {done.exit_code}): {_reason(done)}",
            hint="its command is `inputs.make` of the benchmark",
        )


def _reason(done: Completed) -> str:
    return (done.stderr.strip() or done.stdout.strip() or "nothing").rpartition("\n")[2][:_LONGEST_REASON]


def locked_sums(target: Target) -> dict[str, str]:
    """The SHA-256 of the files of the recipe's data that are locked, by their names."""
    return {file.name: file.sha256 for file in recipe_lock(target).data if file.sha256}


def place(target: Target, file: Input, fetch: Fetch) -> None:
    """Copy the data that `file` names to its path in the workspace, unless it exists there.

    A copy, because programs may write into it. Raises Absent if the data is not locked, WorkFailed if its lock is
    stale, UsageError if the path is outside the workspace, or a program left a link or a file in the way.
    """
    inside = _in_workspace(target, file.path)
    root = workspace.locate(target.workspace, target.path)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with Folder(root) as folder:
            _put(folder, inside, target, file, fetch)
    except OSError as error:
        if is_full(error):
            raise
        raise UsageError(
            f"the data cannot be put into the workspace: {error.strerror}",
            str(root / inside),
            "remove the file or link in the way, or make yourself the folder's owner",
        ) from None


def _put(folder: Folder, path: str, target: Target, file: Input, fetch: Fetch) -> None:
    data = fresh_data(target)
    if folder.has(path):
        return
    locked = next((f for f in data if f.name == file.data), None)
    if locked is None:
        raise Absent(
            f"the data {file.data} is not locked, so its content cannot be verified",
            str(target.path),
            f"`reprokit lock {target.label} --data` downloads it once and locks it",
        )
    with fetch(locked).open("rb") as source, folder.replacing(path) as copy:
        shutil.copyfileobj(source, copy, 1 << 20)


def _in_workspace(target: Target, path: str) -> str:
    """The path relative to the workspace."""
    inside = PurePosixPath(target.variant.workdir, path)
    if not inside.is_relative_to(WORKSPACE):
        raise UsageError(
            f"data cannot be put at {inside}, outside the workspace",
            str(target.path),
            f"give {target.label} a `workdir` below {WORKSPACE}",
        )
    return str(inside.relative_to(WORKSPACE))
