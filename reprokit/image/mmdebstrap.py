"""mmdebstrap(1), which makes Debian's and Ubuntu's root file systems: the only module that runs it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from reprokit.errors import EngineError, ReprokitError, SourceError
from reprokit.image.release import Release
from reprokit.supply.redact import redact


def mmdebstrap(
    release: Release,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    say: Callable[[str], None],
    tar: Path | None = None,
) -> None:
    """Run it with these arguments and variables added; `tar` is where a file system goes that it writes out.

    Raises EngineError where the host is not able, SourceError where the archive is not.
    """
    tool = shutil.which("mmdebstrap")
    if tool is None:
        raise EngineError(
            f"{release.name} is to be bootstrapped, and mmdebstrap is not installed",
            hint="sudo apt-get install mmdebstrap, or pull the base image where a registry can be reached",
        )
    lines: deque[str] = deque(maxlen=60)
    with (
        tar.open("wb") if tar else nullcontext(subprocess.DEVNULL) as out,
        subprocess.Popen(
            [tool, *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                lines.append(redact(line.rstrip()))
                if line.startswith("I: ") and line.rstrip().endswith("...") and "skipping" not in line:
                    say(f"{release.codename}: {line[3:].rstrip()}")
        except BaseException:
            # Told alone it would wait for what it has begun; so it ends now, unmounts what it mounted, and tidies up.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()  # Popen itself allows it a quarter of a second
            raise
    if process.returncode:
        raise explain(list(lines), release)


def explain(lines: list[str], release: Release) -> ReprokitError:
    """mmdebstrap's output as one error."""
    text = "\n".join(lines)
    first = next((ln for ln in lines if ln.startswith(("E: ", "W: GPG error", "Err:"))), lines[-1] if lines else "")
    what = f"{release.name} could not be bootstrapped: {first}"
    if "NO_PUBKEY" in text or "keyring" in first:
        return EngineError(what, hint=f"install the package {release.distribution}-archive-keyring or ubuntu-keyring")
    if "No space left" in text:
        return EngineError(f"{release.name} could not be bootstrapped: no space left", hint="free space below $TMPDIR")
    if re.search(
        r"Could not (resolve|connect)|Temporary failure|Connection (refused|timed out)|Unable to connect",
        text,
    ):
        return SourceError(
            what, hint="the distribution's archive cannot be reached; set http_proxy if a proxy is needed"
        )
    if "chosen mode: fakechroot" in text:
        ids = "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER"
        return EngineError(what, hint=f"this user has no subordinate ids for mmdebstrap to map: {ids}")
    if re.search(r"unshare|newuidmap|fakechroot|Operation not permitted|mount", first):
        return EngineError(what, hint="run as root, or install uidmap so that mmdebstrap can map user ids")
    if "does not have a Release file" in text or "404" in text:
        return SourceError(what, hint="has the release left its archive? pull the base where a registry can be reached")
    return SourceError(what)
