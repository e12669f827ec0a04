"""`reprokit export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.bundle.container import FilterReport
    from reprokit.bundle.model import Metadata


def export(
    out: options.Output,
    names: Annotated[list[str] | None, options.recipes("Recipes, or other images.")] = None,
    container: str = typer.Option(
        "",
        "--container",
        metavar="NAME",
        help="A container in its present state.",
        autocompletion=completion.containers,
    ),
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Exclude these files of the container, as well as package caches."),
    ] = None,
    since: Annotated[
        list[Path] | None,
        options.file("Exclude the layers of a bundle that the target has loaded.", "--since", metavar="OLD.rkit"),
    ] = None,
    inventory: Annotated[
        list[Path] | None, options.file("Exclude the layers of a node's saved inventory.", "--inventory")
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--for", metavar="NODE", help="Exclude the layers that this node has now.", autocompletion=completion.nodes
        ),
    ] = None,
    workspace: bool = options.flag("--with-workspace", "Add the recipes' workspaces."),
    store: bool = options.flag("--with-store", "Add everything that their locks name, to build offline."),
    sign: Annotated[Path | None, options.file("Sign with this ssh key.", "--sign", metavar="KEY")] = None,
    form: str = typer.Option(
        "rkit",
        "--format",
        metavar="rkit|docker|oci-dir|squashfs",
        help="A bundle; for other tools: docker (old engines), oci-dir, squashfs (enroot, Pyxis).",
        autocompletion=completion.choices("rkit", "docker", "oci-dir", "squashfs"),
    ),
    as_json: options.Json = False,
) -> None:
    """Write images as one file, each layer once, for `reprokit load` elsewhere.

    skopeo, podman and Engine 25 read it, too. Repeat an interrupted export to resume it.
    """
    from reprokit.bundle.export import ExportRequest, run
    from reprokit.engine import Engine
    from reprokit.nodes.survey import layers_on

    request = ExportRequest(
        names=tuple(names or ()),
        container=container,
        exclude=tuple(exclude or ()),
        since=tuple(since or ()),
        inventories=tuple(inventory or ()),
        nodes=tuple(node or ()),
        workspace=workspace,
        store=store,
        key=sign,
        form=form,
    )
    request.check(out)
    written, files = run(Engine.connect(), request, out, layers_on)
    count = sum(file.stat().st_size for file in (out, *out.rglob("*")) if file.is_file())
    if as_json:
        dump(_json(out, count, written, files))
    else:
        _print(out, count, written, files)


def _json(out: Path, count: int, written: Metadata, files: FilterReport) -> dict[str, Any]:
    return {
        "file": str(out),
        "bytes": count,
        "images": [image.model_dump(exclude={"recipe_text", "lock_text"}) for image in written.images],
        "absent": list(written.absent),
        "largest": [{"path": path, "bytes": size} for path, size in files.largest],
        "left_out": {"files": len(files.excluded), "bytes": files.excluded.total()},
    }


def _print(out: Path, count: int, written: Metadata, files: FilterReport) -> None:
    from reprokit.formatting import counted, size

    if files.largest:
        notify("the container's largest paths:")
        notify(*(f"{size(count):>9}  {path}" for path, count in files.largest))
    if files.excluded:
        total = files.excluded.total()
        notify(f"excluded: {counted(len(files.excluded), 'file')} of package caches and --exclude, {size(total)}")
    echo(
        f"{out}: {', '.join(image.name for image in written.images)}: {size(count)} ({size(written.unpacked)} unpacked)"
    )
    if written.absent:
        echo(f"excluded: {counted(len(written.absent), 'layer')}, which the target must have")
