"""The files that a benchmark reads: made or put where they are missing, and named by checksum."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from reprokit.bench.hardware import Execute
from reprokit.errors import WorkFailed
from reprokit.recipe.model import Input

# The mark beside the file outlives a kill, so that half a file is made again and never measured.
_MAKE = """
[ -e {path} ] && [ ! -e {mark} ] && exit 0
mkdir -p -- "$(dirname -- {path})" && : > {mark} || exit 1
rm -rf -- {path}
( {make}
) || exit 1
[ -e {path} ] || {{ echo "the command ended well and made no {name}" >&2; exit 1; }}
rm -f -- {mark}
"""
# A folder counts as the checksums of all its files.
_SUM = """
if [ -d {path} ]; then
  cd {path} && find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum
else
  sha256sum < {path}
fi
"""


def prepare(execute: Execute, inputs: Sequence[Input], workdir: str, place: Callable[[Input], None]) -> dict[str, str]:
    """Make what is missing; returns the SHA-256 of each by its path. Raises WorkFailed naming the input.

    `place` puts the recipe's data where an input wants it.
    """
    found = {}
    for file in inputs:
        path = shlex.quote("./" + file.path)
        if file.data:
            place(file)
        else:
            _make(execute, file, path, workdir)
        total = execute(["bash", "-c", _SUM.format(path=path)], workdir=workdir, logged=False)
        found[file.path] = total.stdout.split()[0]
    return found


def _make(execute: Execute, file: Input, path: str, workdir: str) -> None:
    script = _MAKE.format(path=path, mark=shlex.quote(f"./{file.path}.making"), make=file.make, name=file.path)
    done = execute(["bash", "-c", script], workdir=workdir)
    if done.exit_code:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise WorkFailed(
            f"the input {file.path} could not be made (exit code {done.exit_code}): {said}",
            hint="its command is `inputs.make` of the benchmark",
        )
