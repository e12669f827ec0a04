"""`reprokit clean`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.tables import table
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine


@dataclass(frozen=True)
class _Leftover:
    """Something to remove; `remove` returns False if it is in use by now."""

    kind: str
    name: str
    id: str
    why: str
    size: int
    remove: Callable[[], bool]

    @property
    def shown(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "id": self.id, "why": self.why, "bytes": self.size}


def clean(
    yes: bool = options.flag("--yes", "Remove without a question.", "-y"),
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Remove what reprokit made and nothing needs: images, layers of builds, containers, workspace copies.

    Only what this installation made, by image ID. Running containers, the cache of present images and everything that
    has a name of yours stay.
    """
    from reprokit import consent
    from reprokit.engine import Engine
    from reprokit.formatting import size
    from reprokit.supply.store import Store

    engine = Engine.connect()
    leftovers = _leftovers(engine)
    total = sum(item.size for item in leftovers)
    removed: list[_Leftover] = []
    if leftovers and not as_json:
        table(("kind", "name", "size", "why"), [(e.kind, e.name, size(e.size), e.why) for e in leftovers])
    if leftovers and not dry_run:
        consent.require(f"{len(leftovers)} leftovers are removed for good, {size(total)}", "--yes", yes)
        with Store().alone():
            # Meanwhile a build may have finished, or a container started.
            shown = {(item.kind, item.id) for item in leftovers}
            removed = [item for item in _leftovers(engine) if (item.kind, item.id) in shown and item.remove()]
    if as_json:
        dump({"removed": [item.shown for item in removed], "leftovers": [item.shown for item in leftovers]})
        return
    kept = len(leftovers) - len(removed)
    if not leftovers:
        echo("nothing to remove")
    elif dry_run:
        echo(f"would be removed: {len(leftovers)}, {size(total)}")
    else:
        echo(f"removed: {len(removed)}, {size(sum(item.size for item in removed))}")
        if kept:
            notify(f"kept, in use or changed meanwhile: {kept}")


def _done(remove: Callable[[], None]) -> bool:
    remove()
    return True


def _leftovers(engine: Engine) -> list[_Leftover]:
    """The leftovers in order of removal: containers before their images and workspaces."""
    from functools import partial
    from pathlib import Path

    from reprokit.container import leftovers as containers
    from reprokit.host import workspace
    from reprokit.image import leftovers as images

    old = containers.leftovers(engine)
    mounted = {Path(mount.source) for container in engine.containers([]) for mount in container.mounts}
    copies = workspace.unused_copies(mounted)
    return [
        *(
            _Leftover("container", c.container.name, c.id, c.why, c.size, partial(containers.remove, engine, c))
            for c in old
        ),
        *(
            _Leftover("image", i.shown, i.id, i.why, i.size, partial(images.remove, engine, i))
            for i in images.leftovers(engine, {c.id for c in old})
        ),
        *(
            _Leftover(kind, name, name, "left by an interrupted build", 0, partial(_done, remove))
            for (kind, name), remove in images.left_by_builds(engine).items()
        ),
        *(
            _Leftover("workspace", str(c.path), str(c.path), c.why, c.size, partial(workspace.remove_copy, c))
            for c in copies
        ),
    ]
