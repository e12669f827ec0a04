"""The template filter that installs apt packages; each call is recorded for the lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import pass_context

from reprokit.image.quoting import Quoted, sh
from reprokit.supply.kinds.apt.install import enable


@pass_context
def apt_install(context: Any, packages: Sequence[str], components: Sequence[str] = ()) -> Quoted:
    """The filter `apt_install`: lines of a RUN that install these packages and leave no list and no archive behind.

    REPROKIT_APT is the address of an archive of exactly the locked packages. Its checksums are the lock's own, so that
    apt needs no signature. Without it apt asks what the image's own sources say.
    """
    context["installs"].append((tuple(packages), tuple(components)))
    locked = "-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"
    lines = [
        *(enable(components) if components else ()),
        'sources=""; [ -z "${REPROKIT_APT:-}" ] || { '
        f'echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="{locked}"; }}',
        "apt-get $sources update",
        "DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends "
        + " ".join(sh(package) for package in packages),
        "apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list",
    ]
    return Quoted("\n".join(f"    {line}; \\" for line in lines))
