"""What a Dockerfile installs with apt: written as shell, and remembered for the lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import pass_context

from reprokit.image.quoting import Quoted, sh


@dataclass(frozen=True)
class AptInstall:
    """One call of apt-get in a block.

    `packages` are its arguments (`name` or `name=version`), `before` those that were installed earlier on the way from
    the base to it, and `components` those that the distribution's main archive is asked for besides `main`.
    """

    block: str
    packages: tuple[str, ...]
    before: tuple[str, ...] = ()
    components: tuple[str, ...] = ()


def enable(components: Sequence[str]) -> list[str]:
    """Shell lines that ask the distribution's main archive for these components too, in sources of either format."""
    more = " ".join(components)
    line = rf"s/^(deb .* $suite main)$/\1 {more}/"
    stanza = rf"/^Suites: $suite( |$)/,/^Components:/ s/^(Components: main)$/\1 {more}/"
    return [
        'suite="$(. /etc/os-release; echo "$VERSION_CODENAME")"',
        "for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do \\\n"
        f'        [ ! -f "$file" ] || sed -i -E "{line}; {stanza}" "$file"; \\\n'
        "    done",
    ]


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
