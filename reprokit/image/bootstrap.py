"""Debian and Ubuntu bases made from the distribution's own packages, for a host that reaches no registry."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from reprokit import paths
from reprokit.engine import LABEL, Engine
from reprokit.errors import EngineError
from reprokit.image.mmdebstrap import mmdebstrap
from reprokit.image.release import Release
from reprokit.supply.gateway import Gateway
from reprokit.supply.lock.model import AptPackage, Bootstrap
from reprokit.supply.offer import Offer, content_key
from reprokit.supply.store import Store

ARCHIVES = f"{LABEL}.bootstrap.archives"
_SOURCES = "/etc/apt/sources.list"
_HOOKS = (
    # The host's resolver and name are copied in, and must not stay.
    'rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
    # No package starts a daemon while an image is built.
    'printf "#!/bin/sh\\nexit 101\\n" >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"',
)


def name_of(release: Release, locked: Bootstrap | None = None) -> str:
    """What the engine calls the bootstrapped base; that of a lock carries the key of its packages."""
    name = f"reprokit/base:{release.distribution}-{release.version}"
    return f"{name}-{content_key(locked.packages)}" if locked else name


def bootstrap(engine: Engine, release: Release, say: Callable[[str], None]) -> str:
    """Make the base with mmdebstrap and give it to the engine; returns its name.

    mmdebstrap itself chooses the distribution's public archive, which is what the image's own apt then asks. It goes
    through a gateway, so that the host's mirrors and proxies are used and none of them stays in the image. Raises
    EngineError where the host is not able, SourceError where the archive is not.
    """
    with scratch() as folder:
        made = _Made(folder)
        with Gateway(Store(), Offer(), archives=Everything()) as gateway:
            arguments = [f"--components={release.components}", *made.arguments(release.codename)]
            mmdebstrap(release, arguments, gateway.build_arguments(), say, made.tar)
        labels = {"suite": release.codename, "date": datetime.now(timezone.utc).strftime("%Y-%m-%d")}
        made.give(engine, name_of(release), {**labels, "archives": ",".join(sorted(gateway.hosts))}, say)
    return name_of(release)


def bootstrap_locked(
    engine: Engine, release: Release, locked: Bootstrap, store: Store, say: Callable[[str], None]
) -> str:
    """Make the base of exactly the locked packages, all of them in the store; returns its name.

    No network is asked. The same packages give the same files, down to their dates. Raises EngineError where the host
    is not able, SourceError where a package is not in the store.
    """
    offer = Offer(apt=locked.packages)
    with scratch() as folder:
        made = _Made(folder)
        public = folder / "sources.list"
        write_sources(release, public, say)
        with Gateway(store, offer, policy=lambda method, name: f"{name} is not in the lock") as gateway:
            # Without a suite mmdebstrap takes the essential and required packages of any archive.
            archive = f"deb [trusted=yes] {offer.arguments()['REPROKIT_APT']} ./"
            hook = f"--customize-hook=upload {public} {_SOURCES}"
            date = _newest(locked.packages, store)
            environment = {**gateway.build_arguments(), "SOURCE_DATE_EPOCH": str(date)}
            mmdebstrap(release, [hook, *made.arguments(""), archive], environment, say, made.tar)
        if difference := made.installed() ^ {(p.name, p.version) for p in locked.packages}:
            raise EngineError(
                f"{release.name} was not made of the locked packages: {sorted(difference)[0]} is in one of them only"
            )
        hosts = {urlsplit(address).hostname or "" for address in re.findall(r"https?://\S+", public.read_text())}
        labels = {"suite": release.codename, "date": datetime.fromtimestamp(date, timezone.utc).strftime("%Y-%m-%d")}
        name = name_of(release, locked)
        made.give(engine, name, {**labels, "archives": ",".join(sorted(hosts))}, say)
    return name


def write_sources(release: Release, path: Path, say: Callable[[str], None]) -> None:
    """Write the apt sources that mmdebstrap gives an image of this release, which it knows without a network."""
    path.touch()
    path.chmod(0o666)
    arguments = ["--variant=extract", "--format=null", "--skip=update", f"--components={release.components}"]
    mmdebstrap(release, [*arguments, f"--extract-hook=download {_SOURCES} {path}", release.codename, "-"], {}, say)


class Everything:
    """All that mmdebstrap asks for is of the distribution's archive."""

    def __contains__(self, host: object) -> bool:
        return True


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that mmdebstrap can write to as an ordinary user, who has mapped ids there."""
    folder = paths.home() / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as name:
        Path(name).chmod(0o777)
        yield Path(name)


@dataclass(frozen=True)
class _Made:
    """A root file system as mmdebstrap writes it below `folder`, and dpkg's status in it."""

    folder: Path

    @property
    def tar(self) -> Path:
        return self.folder / "base.tar"

    def arguments(self, suite: str) -> list[str]:
        """What makes a minimal system of the suite. Ubuntu does not require apt, and an image without it is no base."""
        status = self.folder / "status"
        status.touch()
        status.chmod(0o666)
        command = ["--variant=minbase", "--include=apt", "--format=tar"]
        command += ['--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io"]
        command += [f"--customize-hook={hook}" for hook in _HOOKS]
        return [*command, f"--customize-hook=download /var/lib/dpkg/status {status}", suite, "-"]

    def installed(self) -> set[tuple[str, str]]:
        return installed((self.folder / "status").read_text(errors="replace"))

    def give(self, engine: Engine, name: str, labels: Mapping[str, str], say: Callable[[str], None]) -> None:
        """Give it to the engine, with a shell as in Docker's own images, and what it was made of."""
        repository, _, tag = name.partition(":")
        say(f"importing {self.tar.stat().st_size / 1e6:.0f} MB as {name}")
        path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        told = {**labels, "packages": packages_hash(self.installed())}
        lines = [f'LABEL {LABEL}.bootstrap.{key}="{value}"' for key, value in told.items() if value]
        with self.tar.open("rb") as stream:
            engine.import_image(stream, repository, tag, ['CMD ["bash"]', path, *lines])


def installed(status: str) -> set[tuple[str, str]]:
    """The packages of dpkg's status file as name and version."""
    return {
        (match[1], match[2])
        for entry in status.split("\n\n")
        if (match := re.search(r"^Package: (\S+)$.*?^Version: (\S+)$", entry, re.MULTILINE | re.DOTALL))
    }


def packages_hash(packages: set[tuple[str, str]]) -> str:
    """Names a set of packages by names and versions."""
    return hashlib.sha256("\n".join(sorted(f"{n}={v}" for n, v in packages)).encode()).hexdigest()


def _newest(packages: Sequence[AptPackage], store: Store) -> int:
    """When the newest of these was made, in seconds since 1970: the date of its first member (ar(5))."""
    dates = [0]
    for package in packages:
        with store.path(package.sha256).open("rb") as file:
            dates.append(int(file.read(36)[24:36].strip() or b"0"))
    return max(dates)
