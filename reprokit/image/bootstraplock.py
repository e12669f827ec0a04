"""The packages that a bootstrapped base is made of, resolved without downloading any."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.errors import SourceError
from reprokit.image.bootstrap import Everything, scratch
from reprokit.image.mmdebstrap import mmdebstrap
from reprokit.image.release import Release
from reprokit.supply.gateway import Gateway
from reprokit.supply.lock.aptoutput import as_of, packages_of, remember_archives
from reprokit.supply.lock.model import Bootstrap
from reprokit.supply.offer import Offer
from reprokit.supply.store import Store

# What mmdebstrap's variant `minbase` installs, and apt: asked of apt in the empty system where it would install them.
_HOOK = r"""
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
seeds='?narrow(?or(?archive(^{suite}$),?codename(^{suite}$)),?or(?essential,?priority(required)))'
apt-get install -qq --yes --print-uris -o Acquire::ForceHash=SHA256 "$seeds" apt >"$1/tmp/found"
apt-cache madison $(sed "s/^'[^']*' \([^_]*\)_.*/\1/" "$1/tmp/found") >>"$1/tmp/found"
grep -H ^Date: "$1"/var/lib/apt/lists/*Release >>"$1/tmp/found"
"""


def resolve(release: Release, store: Store, say: Callable[[str], None]) -> Bootstrap:
    """The packages that a bootstrap of this release is made of today.

    Raises EngineError where the host is not able, SourceError where the archive is not.
    """
    with scratch() as folder:
        found = folder / "found"
        found.touch()
        found.chmod(0o666)
        # The variant without packages: mmdebstrap writes the sources, updates, runs the hooks and is done.
        arguments = ["--variant=extract", "--format=null", f"--components={release.components}"]
        arguments.append('--aptopt=Acquire::Languages "none"')
        arguments.append("--extract-hook=set -e" + _HOOK.format(suite=release.codename))
        arguments.append(f"--extract-hook=download /tmp/found {found}")
        with Gateway(store, Offer(), archives=Everything()) as gateway:
            mmdebstrap(release, [*arguments, release.codename, "-"], gateway.build_arguments(), say)
        text = found.read_text(errors="replace")
    packages = packages_of(text)
    if not packages:
        raise SourceError(f"{release.name} could not be resolved: its archive names no package with a sha256")
    remember_archives(text, store)
    return Bootstrap(
        distribution=release.distribution,
        suite=release.codename,
        architecture=next(p.architecture for p in packages if p.architecture != "all"),
        as_of=as_of(packages, text),
        packages=packages,
    )
