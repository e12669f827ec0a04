"""`reprokit export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit import completion
from reprokit.commands._shown import progress, say
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.bundle.export import ExportRequest, ExportResult


def export(
    out: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The bundle, such as x.rkit.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME[:VARIANT]...", help="Recipes, or other images.", autocompletion=completion.targets
        ),
    ] = None,
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
        typer.Option(metavar="OLD.rkit", help="Exclude the layers of a bundle that the target has loaded."),
    ] = None,
    inventory: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Exclude the layers of a node's saved inventory."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--for", metavar="NODE", help="Exclude the layers that this node has now.", autocompletion=completion.nodes
        ),
    ] = None,
    workspace: bool = typer.Option(False, "--with-workspace", help="Add the recipes' workspaces."),
    store: bool = typer.Option(False, "--with-store", help="Add everything that their locks name, to build offline."),
    sign: Annotated[Path | None, typer.Option(metavar="KEY", help="Sign with this ssh key.")] = None,
    form: str = typer.Option(
        "rkit", "--format", help="rkit; for other tools: docker (old engines), oci-dir, squashfs (enroot, Pyxis)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write images as one file, each layer once, for `reprokit load` elsewhere.

    skopeo, podman and Engine 25 read it, too. Repeat an interrupted export to resume it.
    """
    from reprokit.bundle.export import ExportRequest, run
    from reprokit.engine import Engine
    from reprokit.nodes.inventory import layers_on

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
    with progress(f"writing {out.name}") as report:
        result = run(Engine.connect(), request, out, layers_on, say, report)
    if as_json:
        dump(_json(out, result))
    else:
        _print(out, request, result)


def _json(out: Path, result: ExportResult) -> dict[str, Any]:
    return {
        "file": str(out),
        "bytes": result.size,
        "images": [image.model_dump(exclude={"recipe_text", "lock_text"}) for image in result.images],
        "absent": list(result.absent),
        "largest": [{"path": path, "bytes": size} for path, size in result.largest],
        "left_out": {"files": result.files_excluded, "bytes": result.bytes_excluded},
    }


def _print(out: Path, request: ExportRequest, result: ExportResult) -> None:
    from reprokit.formatting import size

    if result.largest:
        say("the container's largest paths:")
        say(*(f"{size(count):>9}  {path}" for path, count in result.largest))
    if result.files_excluded:
        say(f"excluded: {result.files_excluded} files of package caches and --exclude, {size(result.bytes_excluded)}")
    unpacked = sum(image.size for image in result.images)
    echo(f"{out}: {', '.join(image.name for image in result.images)}: {size(result.size)} ({size(unpacked)} unpacked)")
    if result.absent:
        echo(f"{len(result.absent)} layers are excluded: the target must have them")
