"""The verbs in groups, and the command group that imports a verb's module only when the verb is called."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from reprokit.errors import UsageError

# Verbs with their line of help: the first line of the command's docstring (a test compares them).
GROUPS = {
    "Recipes": {
        "list": "List the recipes, or the blocks that they can use.",
        "show": "Show a recipe: its paper, variants, pins and benchmarks; or a block, or a bundle.",
        "new": "Write a recipe: a commented start, or what a repository states.",
        "check": "Check pins against the facts, before anything is downloaded.",
        "solve": "Find the pins that pass `check` and differ least from those of a recipe.",
    },
    "Supply": {
        "lock": "Resolve all inputs of recipes, and write the locks beside them.",
        "fetch": "Download everything that locks name into the store, and the base images onto the engine.",
        "store": "List, verify, free and copy the inputs of recipes.",
        "config": "Show the mirrors and proxies in force, and the source of each.",
    },
    "Build": {
        "build": "Build the image of a recipe.",
        "render": "Write the Dockerfile of a recipe, or the file with which another tool runs its image.",
        "verify": "Build a recipe again from its lock, and compare the result with the image that is there.",
        "smoke": "Check, build and try recipes, for CI.",
        "images": "List the images of recipes: size, age, built here or trusted, and the containers that use them.",
        "clean": "Remove what reprokit made and nothing needs: images, layers of builds, containers, workspace copies.",
    },
    "Containers": {
        "run": "Run a command in a recipe's container.",
        "shell": "Open a terminal in a recipe's container.",
        "exec": "Run a command in a container that is running.",
        "notebook": "Serve Jupyter from a recipe's container.",
        "ps": "List your containers.",
        "logs": "Print what a container's commands wrote.",
        "stop": "Stop containers; their files stay.",
        "rm": "Remove containers and their files.",
    },
    "Results": {
        "bench": "Run a recipe's benchmarks and record the numbers.",
        "sweep": "Run the benchmarks of a file, for all its parameters, here, on nodes or on a cluster.",
        "reproduce": "Check, lock, fetch, build, smoke, bench, claims and report in one command.",
        "profile": "Run a command under a profiler, and show its most expensive kernels or functions.",
        "results": "List, show, compare, judge, export and prune the results of benchmarks.",
        "report": "Write a page about results: environment, claims, plots, machines, commands, artifact evaluation.",
    },
    "Bundles and nodes": {
        "export": "Write images as one file, each layer once, for `reprokit load` elsewhere.",
        "diff": "Compare two bundles, two images or two locks.",
        "load": "Verify bundles and load their images into the engine.",
        "nodes": "List the nodes: reachable or not, engine, GPUs, free space, images of recipes.",
        "send": "Send images to other machines through ssh: only the layers that each lacks.",
        "push": "Put the image of a recipe into a registry.",
        "pull": "Pull the image of a recipe from a registry.",
    },
    "Help": {
        "help": "Show a page of the documentation; without a topic, list them.",
        "doctor": "Look at this machine or a node: engine, GPUs, memory, disk, network; name faults and remedies.",
        "explain": "Name the cause of a failure from its log, and the remedy.",
        "completion": "Print a script that completes verbs, options, recipes, variants, containers and nodes.",
    },
}
# Verbs of other programs, and the reprokit verbs for them.
OTHER_NAMES = {
    "init": "new", "search": "list", "status": "ps", "version": "--version", "inspect": "show FILE.rkit",
    "blocks": "list --blocks", "schema": "show --schema", "outdated": "lock --outdated", "claims": "results claims",
    "tune": "bench operator-fusion", "roofline": "results roofline", "size": "images size", "trust": "images trust",
}  # fmt: skip
VERBS = {verb: line for group in GROUPS.values() for verb, line in group.items()}

# Verbs that continue after an interruption.
CONTINUED = ("lock", "fetch", "build", "reproduce", "export", "load", "send", "push", "pull")


class VerbGroup(TyperGroup):
    """The root command. Its help and the completion of verbs read the table, without importing a verb."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        return TyperCommand(name=cmd_name, help=VERBS[cmd_name]) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        verb = args[0]
        if verb in VERBS:
            return verb, load_verb(verb), args[1:]
        if ctx.resilient_parsing:  # completion
            return None, None, []
        from reprokit.recipe.spelling import nearest

        if verb in OTHER_NAMES:
            raise UsageError(f"unknown verb {verb!r}", hint=f"`reprokit {OTHER_NAMES[verb]}` does that")
        raise UsageError(f"unknown verb {verb!r}{nearest(verb, VERBS)}", hint="see `reprokit --help`")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), line) for verb, line in verbs.items()])


def load_verb(verb: str) -> Any:
    """The command of `reprokit/commands/VERB.py`: its function of the same name, or its group of verbs."""
    from reprokit.commands._examples import EXAMPLES

    app = getattr(importlib.import_module(f"reprokit.commands.{verb}"), verb)
    if not isinstance(app, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(verb)(app)
        app = single
    command = get_command(app)
    for name, part in {"": command, **getattr(command, "commands", {})}.items():
        if examples := EXAMPLES.get(f"{verb} {name}".rstrip()):
            # `\b` keeps the line breaks.
            part.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
    return command
