"""Resolving the packages of a bootstrapped base, without downloading them."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.errors import SourceError
from reprokit.image.base.mmdebstrap import asked
from reprokit.image.base.release import Release
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.apt.output import as_of, packages_of, remember_archives
from reprokit.supply.lock.model import Bootstrap
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store

# Asks apt, in the empty system, for what mmdebstrap's variant `minbase` installs, and for apt itself, which Ubuntu does
# not require.
_HOOK = r"""
apt-get update -qq -o APT::Update::Error-Mode=any
seeds='?narrow(?or(?archive(^{suite}$),?codename(^{suite}$)),?or(?essential,?priority(required)))'
found=$(apt-get install -qq --yes --print-uris -o Acquire::ForceHash=SHA256 "$seeds" apt)
echo "$found"
apt-cache madison $(echo "$found" | sed "s/^'[^']*' \([^_]*\)_.*/\1/")
grep -H ^Date: "$1"/var/lib/apt/lists/*Release
"""


def resolve(release: Release, store: Store, say: Callable[[str], None]) -> Bootstrap:
    """The packages of a bootstrap of this release today.

    Raises EngineError if the host cannot run mmdebstrap, SourceError if the archive does not answer.
    """
    arguments = ['--aptopt=Acquire::Languages "none"']
    with Gateway(store, ServedSet(), archives=_Everything()) as gateway:
        text = asked(release, _HOOK.format(suite=release.codename), arguments, gateway.build_arguments(), say)
    packages = packages_of(text)
    if not packages:
        raise SourceError(f"{release.name} could not be resolved: its archive lists no package with a sha256")
    remember_archives(text, store)
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
