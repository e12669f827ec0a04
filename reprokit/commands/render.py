"""`reprokit render`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.terminal import document, dump, echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target


def render(
    name: options.RecipeName,
    output: Annotated[
        Path | None,
        options.file(
            "Write DIR/Dockerfile, and the patches that it copies, instead of printing it; with --as, FILE.",
            "-o",
            "--output",
            metavar="DIR|FILE",
        ),
    ] = None,
    tool: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="devcontainer|apptainer|slurm",
            help="Write a devcontainer.json, an Apptainer definition and its SIF, or an sbatch script, of the image.",
            autocompletion=completion.choices("devcontainer", "apptainer", "slurm"),
        ),
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Write the Dockerfile of a recipe, or the file with which another tool runs its image."""
    from reprokit.host.disk import unwritable
    from reprokit.image.render import render as rendered
    from reprokit.recipe.find import target

    chosen = target(name)
    if tool:
        _write_for(tool, chosen, output, as_json)
        return
    image = rendered(chosen)
    if output is None:
        if as_json:
            text, spans = image.dockerfile, [list(span) for span in image.spans]
            dump({"recipe": chosen.label, "dockerfile": text, "blocks": spans})
        else:
            document(image.dockerfile)
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
        image.write(output)
    except OSError as error:
        raise unwritable(error, "the Dockerfile", output) from None
    if as_json:
        dump({"recipe": chosen.label, "file": str(output / "Dockerfile")})
        return
    command = shlex.join(["docker", "build", "-t", chosen.label, str(output)])
    echo(f"wrote {output / 'Dockerfile'}; build it with: {command}", err=True)


def _write_for(tool: str, target: Target, out: Path | None, as_json: bool) -> None:
    """Write the file with which another tool runs the image."""
    import os

    from reprokit.bundle.tools import TOOLS
    from reprokit.bundle.tools.tool import ToolJob, write
    from reprokit.display import notify
    from reprokit.errors import UsageError
    from reprokit.host import workspace
    from reprokit.recipe.spelling import nearest

    if tool not in TOOLS:
        raise UsageError(f"unknown tool {tool!r}{nearest(tool, TOOLS)}", hint=f"--as takes {', '.join(TOOLS)}")
    job = ToolJob(target, workspace.prepare(target), f"{os.getuid()}:{os.getgid()}")
    path, line = write(TOOLS[tool], job, out)
    if as_json:
        dump({"file": str(path), "recipe": target.label, "workspace": str(job.workspace)})
    else:
        echo(f"{path} written for {target.label}, with the workspace {job.workspace}")
        notify(line)
