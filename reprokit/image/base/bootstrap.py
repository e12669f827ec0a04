"""Debian and Ubuntu bases made from the distribution's own packages, for hosts without a registry.

The host only reads the packages; their scripts run in a container without a network.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from tempfile import TemporaryFile
from urllib.parse import urlsplit

from reprokit import paths
from reprokit.display import notify
from reprokit.engine import LABEL, OWN_IMAGES, Engine, ImageInfo
from reprokit.errors import EngineError, ReprokitError, UsageError, WorkFailed
from reprokit.filelocks import file_lock
from reprokit.image import made
from reprokit.image.base.mmdebstrap import sources_of
from reprokit.image.base.release import Release
from reprokit.image.base.rootfs import RootFileSystem
from reprokit.image.base.stage import SCRIPT, Stage
from reprokit.interrupts import deferred
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import Bootstrap
from reprokit.supply.store import Store

ARCHIVES = f"{LABEL}.bootstrap.archives"
_REPOSITORY = f"{OWN_IMAGES}/base"
_STAGES = f"{OWN_IMAGES}/stage"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT_OUTPUT = 8 << 10


def name_of(release: Release, locked: Bootstrap | None = None) -> str:
    """The engine's name of the bootstrapped base; with `locked` it contains a hash of the packages."""
    name = f"{_REPOSITORY}:{release.distribution}-{release.version}"
    return f"{name}-{content_key(locked.packages)}" if locked else name


def bootstrapped(engine: Engine, release: Release, locked: Bootstrap, store: Store) -> ImageInfo:
    """The base image of these packages, made if the engine lacks it. Raises as `bootstrap`."""
    name = name_of(release, locked)
    file = paths.home() / "locks" / f"{name.replace('/', '-').replace(':', '-')}.lock"
    # Two builds may need it at the same time.
    with file_lock(file, f"another build is making {name}; waiting for it"):
        image = engine.image(name)
        if image is None:
            notify(f"bootstrapping {release.name} from {len(locked.packages)} packages")
            image = engine.image(bootstrap(engine, name, release, locked, store))
    assert image is not None
    return image


def bootstrap(engine: Engine, name: str, release: Release, locked: Bootstrap, store: Store) -> str:
    """Make the base called `name` from exactly the locked packages; returns its image ID.

    The same packages give the same layer. Raises SourceError if a package is not in the store, UsageError if it cannot
    be part of a base, WorkFailed if it cannot be configured, EngineError if the host cannot bootstrap.
    """
    stage = Stage.of(locked.packages, store)
    sources = sources_of(release)
    with TemporaryFile(dir=paths.private(paths.home() / "tmp")) as spool:
        with _configured(engine, release, stage, sources) as container:
            try:
                files = RootFileSystem(engine.export(container), spool, release.name)
            except (tarfile.TarError, EOFError) as error:
                raise EngineError(f"the engine's export is damaged: {error}", release.name) from None
        packages = files.installed()
        if difference := packages ^ {(p.name, p.version) for p in locked.packages}:
            first = sorted(difference)[0]
            raise UsageError(f"{release.name} differs from the locked packages: {first} is in only one of them")
        described = {
            "suite": release.codename,
            "date": datetime.fromtimestamp(stage.newest, timezone.utc).strftime("%Y-%m-%d"),
            "archives": ",".join(sorted({urlsplit(url).hostname or "" for url in re.findall(r"http\S+", sources)})),
            "packages": packages_hash(packages),
        }
        # A shell as in Docker's own images, and labels that name the packages' origin.
        changes = ['CMD ["bash"]', f"ENV {_PATH}"]
        changes += [f'LABEL {LABEL}.bootstrap.{key}="{value}"' for key, value in described.items() if value]
        notify(f"importing {spool.tell() / 1e6:.0f} MB as {name}")
        repository, _, tag = name.rpartition(":")
        image = engine.import_image(files.tar(stage.newest), repository, tag, changes)
    made.record(engine, image, "base", name)
    return image


@contextmanager
def _configured(engine: Engine, release: Release, stage: Stage, sources: str) -> Iterator[str]:
    """A container in which all packages have been configured; it and its image are removed afterwards."""
    tag = secrets.token_hex(8)
    name = f"reprokit-stage-{tag}"
    try:
        notify(f"{release.codename}: unpacking {len(stage.unpacked)} of {len(stage.packages)} packages")
        with deferred():  # the engine would finish the import anyway
            image = engine.import_image(stage.tar(sources), _STAGES, tag, [])
            made.record(engine, image, "stage", release.name)
        engine.create_container(name, _container(image, stage.newest))
        notify(f"{release.codename}: configuring {len(stage.packages)} packages in a container")
        engine.start(name)
        output = b""
        for chunk in engine.logs(name, follow=True):
            output = (output + chunk)[-_KEPT_OUTPUT:]
        if code := engine.wait(name):
            raise _failed(release, code, output.decode("utf-8", "replace").strip())
        yield name
    finally:
        for remove, what in ((engine.remove, name), (engine.remove_image, f"{_STAGES}:{tag}")):
            with suppress(ReprokitError):  # it may not exist
                remove(what, force=True)


def _container(image: str, newest: int) -> dict[str, object]:
    """The container for the API: no network and nothing of the host, as packages may be a stranger's."""
    return {
        "Image": image,
        "User": "0:0",
        "Entrypoint": [],
        "Cmd": ["/bin/sh", f"/{SCRIPT}"],
        "Env": [
            _PATH,
            "LC_ALL=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive",
            "DEBCONF_NONINTERACTIVE_SEEN=true",
            f"SOURCE_DATE_EPOCH={newest}",
        ],
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "IpcMode": "private",
            "SecurityOpt": ["no-new-privileges"],
            # Otherwise the engine keeps all output.
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}},
        },
    }


def _failed(release: Release, code: int, output: str) -> WorkFailed:
    lines = output.splitlines() or ["no output"]
    first = next((line for line in lines if line.startswith("dpkg: error")), lines[-1])
    last = "\n      ".join(lines[-10:])
    return WorkFailed(
        f"the packages of {release.name} could not be configured (exit code {code}): {first}",
        hint=f"the last lines were:\n      {last}",
    )


def packages_hash(packages: set[tuple[str, str]]) -> str:
    """A hash of packages by names and versions."""
    return hashlib.sha256("\n".join(sorted(f"{n}={v}" for n, v in packages)).encode()).hexdigest()
