"""Debian and Ubuntu bases made from the distribution's own packages, for a host that reaches no registry."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

from reprokit import paths
from reprokit.engine import LABEL, Engine
from reprokit.errors import EngineError, ReprokitError, SourceError
from reprokit.supply.gateway import Gateway
from reprokit.supply.offer import Offer
from reprokit.supply.redact import redact
from reprokit.supply.store import Store

# As Docker's own images of both have them: Ubuntu's with all four, Debian's with main.
_COMPONENTS = {"debian": "main", "ubuntu": "main,restricted,universe,multiverse"}
ARCHIVES = f"{LABEL}.bootstrap.archives"
_HOOKS = (
    # The host's resolver and name are copied in, and must not stay.
    'rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
    # No package starts a daemon while an image is built.
    'printf "#!/bin/sh\\nexit 101\\n" >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"',
)


@dataclass(frozen=True)
class Release:
    """A distribution's release, such as debian 12 (bookworm)."""

    distribution: str
    version: str
    codename: str

    @property
    def name(self) -> str:
        return f"{self.distribution} {self.version} ({self.codename})"


def release_of(reference: str) -> Release | None:
    """The release that a reference such as `debian:12`, `debian:bookworm-slim` or `ubuntu:20.04` means, or None."""
    from reprokit.compat.base import parse_base
    from reprokit.compat.facts import bundled

    base = parse_base(bundled(), reference)
    name = base.implied.get("distro", "") if base.kind == "distro" else ""
    codename = bundled()["distros"]["distros"].get(name, {}).get("codename")
    if not codename:
        return None
    distribution, _, version = name.partition(":")
    return Release(distribution, version, codename)


def name_of(release: Release) -> str:
    """What the engine calls the bootstrapped base."""
    return f"reprokit/base:{release.distribution}-{release.version}"


def bootstrap(engine: Engine, release: Release, say: Callable[[str], None]) -> str:
    """Make the base with mmdebstrap and give it to the engine; returns its name.

    mmdebstrap itself chooses the distribution's public archive, which is what the image's own apt then asks. It goes
    through a gateway, so that the host's mirrors and proxies are used and none of them stays in the image. Raises
    EngineError where the host is not able, SourceError where the archive is not.
    """
    tool = shutil.which("mmdebstrap")
    if tool is None:
        raise EngineError(
            f"{release.name} is to be bootstrapped, and mmdebstrap is not installed",
            hint="sudo apt-get install mmdebstrap, or pull the base image where a registry can be reached",
        )
    folder = paths.home() / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        tar, status = Path(scratch) / "base.tar", Path(scratch) / "status"
        status.touch()
        Path(scratch).chmod(0o777)  # mmdebstrap as an ordinary user writes with mapped ids
        status.chmod(0o666)
        with tar.open("wb") as out, Gateway(Store(), Offer(), archives=_Everything()) as gateway:
            _run(_command(tool, release, status), {**os.environ, **gateway.build_arguments()}, out, release, say)
        repository, _, tag = name_of(release).partition(":")
        say(f"importing {tar.stat().st_size / 1e6:.0f} MB as {repository}:{tag}")
        with tar.open("rb") as stream:
            text = status.read_text(errors="replace")
            engine.import_image(stream, repository, tag, _changes(release, text, sorted(gateway.hosts)))
    return name_of(release)


def _command(tool: str, release: Release, status: Path) -> list[str]:
    command = [tool, "--variant=minbase", "--format=tar", f"--components={_COMPONENTS[release.distribution]}"]
    command += ['--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io"]
    command += [f"--customize-hook={hook}" for hook in _HOOKS]
    command.append(f"--customize-hook=download /var/lib/dpkg/status {status}")
    return [*command, release.codename, "-"]


class _Everything:
    """All that mmdebstrap asks for is of the distribution's archive."""

    def __contains__(self, host: object) -> bool:
        return True


def _run(
    command: list[str], environment: dict[str, str], out: object, release: Release, say: Callable[[str], None]
) -> None:
    lines: deque[str] = deque(maxlen=60)
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",  # type: ignore[call-overload]
    ) as process:
        try:
            for line in process.stderr:
                lines.append(redact(line.rstrip()))
                if line.startswith("I: ") and line.rstrip().endswith("..."):
                    say(f"{release.codename}: {line[3:].rstrip()}")
        except BaseException:
            process.terminate()  # it removes its chroot and unmounts what it mounted
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
    if re.search(r"unshare|newuidmap|fakechroot|Operation not permitted|mount", first):
        return EngineError(what, hint="run as root, or install uidmap so that mmdebstrap can map user ids")
    if "does not have a Release file" in text or "404" in text:
        return SourceError(what, hint="has the release left its archive? pull the base where a registry can be reached")
    return SourceError(what)


def _changes(release: Release, status: str, archives: list[str]) -> list[str]:
    """The image's configuration: a shell as in Docker's own images, and what it was made of."""
    packages = sorted(
        f"{match[1]}={match[2]}"
        for entry in status.split("\n\n")
        if (match := re.search(r"^Package: (\S+)$.*?^Version: (\S+)$", entry, re.MULTILINE | re.DOTALL))
    )
    labels = {
        "bootstrap.suite": release.codename,
        "bootstrap.date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "bootstrap.packages": hashlib.sha256("\n".join(packages).encode()).hexdigest(),
    }
    if archives:
        labels[ARCHIVES.removeprefix(f"{LABEL}.")] = ",".join(archives)
    path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return ['CMD ["bash"]', path, *(f'LABEL {LABEL}.{key}="{value}"' for key, value in labels.items())]
