"""The only module that runs mmdebstrap(1), which knows the archives of Debian and Ubuntu.

It resolves the packages of a base without downloading them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from reprokit.display import notify, reporting
from reprokit.errors import EngineError, ReprokitError, SourceError
from reprokit.image.base.release import Release
from reprokit.redact import redact
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.apt.resolve import as_of, packages_of
from reprokit.supply.lock.model import Bootstrap
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store

# The first word of each line of a hook's output.
_MARK = "reprokit: "
# Lists the packages that mmdebstrap's variant `minbase` installs in the empty system, and apt, which Ubuntu does not
# require.
_HOOK = r"""
apt-get update -qq -o APT::Update::Error-Mode=any
seeds='?narrow(?or(?archive(^{suite}$),?codename(^{suite}$)),?or(?essential,?priority(required)))'
uris=$(apt-get install -qq --yes --print-uris -o Acquire::ForceHash=SHA256 "$seeds" apt)
echo "$uris"
apt-cache madison $(echo "$uris" | sed "s/^'[^']*' \([^_]*\)_.*/\1/")
grep -H ^Date: "$1"/var/lib/apt/lists/*Release
"""


def installed(release: Release) -> str:
    """The path of mmdebstrap. Raises EngineError if this host has none."""
    if tool := shutil.which("mmdebstrap"):
        return tool
    raise EngineError(
        f"{release.name} cannot be bootstrapped: mmdebstrap is not installed",
        hint="sudo apt-get install mmdebstrap, or use a registry that has the base image",
    )


def script_output(release: Release, script: str, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The output of a shell script in an empty system `$1` with the release's apt sources, used by APT_CONFIG.

    No package is downloaded or unpacked. Raises EngineError if the host cannot run mmdebstrap, SourceError if the
    archive does not answer.
    """
    tool = installed(release)
    # mmdebstrap writes the sources and runs the hook before it unpacks anything, so an ordinary user needs neither a
    # chroot nor subordinate IDs. mmdebstrap hides the hook's standard output, so the output goes to stderr.
    hook = f"""set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
output=$(set -e; {script})
printf '%s\\n' "$output" | sed 's/^/{_MARK}/' >&2"""
    mode = "root" if os.geteuid() == 0 else "chrootless"
    command = [
        tool,
        f"--mode={mode}",
        "--variant=extract",
        "--format=null",
        "--skip=update",
        f"--components={release.components}",
    ]
    lines: deque[str] = deque(maxlen=60)
    output: list[str] = []
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
                    output.append(line.removeprefix(_MARK))
                    continue
                lines.append(redact(line.rstrip()))
                if line.startswith("I: ") and line.rstrip().endswith("...") and "skipping" not in line:
                    notify(f"{release.codename}: {line[3:].rstrip()}")
        except BaseException:
            # The whole process group ends at once; mmdebstrap then unmounts and removes its files.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()  # Popen itself waits a quarter of a second only
            raise
    if process.returncode:
        raise explain(list(lines), release)
    return "".join(output)


def sources_of(release: Release) -> str:
    """The apt sources of an image of this release, which mmdebstrap prints without a network."""
    with reporting(lambda line: None):
        text = script_output(release, 'cat "$1/etc/apt/sources.list"', [], {})
    # mmdebstrap names the host's keyring if the host's own apt does not trust the release.
    return re.sub(r"^(deb) \[[^]\n]*\]", r"\1", text, flags=re.MULTILINE)


def explain(lines: list[str], release: Release) -> ReprokitError:
    """mmdebstrap's output as one error."""
    text = "\n".join(lines)
    first = next((ln for ln in lines if ln.startswith(("E: ", "W: GPG error", "Err:"))), lines[-1] if lines else "")
    fault = f"{release.name} could not be bootstrapped: {first}"
    if "NO_PUBKEY" in text or "keyring" in first:
        return EngineError(fault, hint=f"install the package {release.distribution}-archive-keyring or ubuntu-keyring")
    if "No space left" in text:
        return EngineError(f"{release.name} could not be bootstrapped: no space left", hint="free space below $TMPDIR")
    if re.search(
        r"Could not (resolve|connect)|Temporary failure|Connection (refused|timed out)|Unable to connect|  50[234]  ",
        text,
    ):
        hint = (
            "the distribution's archive cannot be reached; `reprokit config` shows the mirrors and proxies in force; "
            "set http_proxy if this host needs a proxy"
        )
        return SourceError(fault, hint=hint)
    if re.search("Permission denied|Operation not permitted", first):
        return EngineError(fault, hint="set TMPDIR to a folder that you can write, such as /tmp")
    if "does not have a Release file" in text or "404" in text:
        return SourceError(fault, hint="the release may have left its archive; use a registry that has the base image")
    return SourceError(fault)


def resolve(release: Release, store: Store) -> Bootstrap:
    """Today's packages of a bootstrap of this release.

    Raises EngineError if the host cannot run mmdebstrap, SourceError if the archive does not answer.
    """
    arguments = ['--aptopt=Acquire::Languages "none"']
    with Gateway(Mirrors(store), archives=_Everything()) as gateway:
        try:
            text = script_output(release, _HOOK.format(suite=release.codename), arguments, gateway.build_arguments())
        except SourceError as error:
            raise gateway.unreached(f"the packages of {release.name} cannot be resolved") or error from None
    packages = packages_of(text, store)
    if not packages:
        raise SourceError(f"{release.name} could not be resolved: its archive lists no package with a sha256")
    return Bootstrap(
        distribution=release.distribution,
        suite=release.codename,
        architecture=next(p.architecture for p in packages if p.architecture != "all"),
        as_of=as_of(packages, text),
        packages=packages,
    )


class _Everything:
    """Every host: mmdebstrap only requests the distribution's archive."""

    def __contains__(self, host: object) -> bool:
        return True
