"""mmdebstrap(1), which makes Debian's and Ubuntu's root file systems: the only module that runs it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from reprokit.errors import EngineError, ReprokitError, SourceError
from reprokit.image.base.release import Release
from reprokit.redact import redact

# Begins each line of a hook's output.
_MARK = "reprokit: "


def asked(
    release: Release,
    script: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> str:
    """What `script` prints where `$1` is an empty system with the release's apt sources, and APT_CONFIG that system's.

    No package is downloaded or unpacked. Raises EngineError where the host is not able, SourceError where the archive
    is not.
    """
    tool = shutil.which("mmdebstrap")
    if tool is None:
        raise EngineError(
            f"{release.name} is to be bootstrapped, and mmdebstrap is not installed",
            hint="sudo apt-get install mmdebstrap, or pull the base image where a registry can be reached",
        )
    # mmdebstrap writes the sources, runs the hook before it mounts anything, and is done. The hook may run as another
    # user, who can write to no file of ours, and its output is kept back; so that goes to stderr.
    hook = f"""set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
found=$(set -e; {script})
printf '%s\\n' "$found" | sed 's/^/{_MARK}/' >&2"""
    command = [tool, "--variant=extract", "--format=null", "--skip=update", f"--components={release.components}"]
    lines: deque[str] = deque(maxlen=60)
    found: list[str] = []
    with subprocess.Popen(
        [*command, *arguments, f"--setup-hook={hook}", release.codename, "-"],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith(_MARK):
                    found.append(line.removeprefix(_MARK))
                    continue
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
    return "".join(found)


def sources_of(release: Release) -> str:
    """The apt sources that an image of this release has, which mmdebstrap knows without a network."""
    text = asked(release, 'cat "$1/etc/apt/sources.list"', [], {}, lambda line: None)
    # Where the host's own apt does not trust the release, mmdebstrap names the host's keyring.
    return re.sub(r"^(deb) \[[^]\n]*\]", r"\1", text, flags=re.MULTILINE)


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
