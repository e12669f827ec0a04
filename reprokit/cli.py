"""The command line: the verbs, and the only place where errors are printed and exit codes are set."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from reprokit import __version__
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.untrusted.text import document, echo, escaped

# Verbs with their line of help: the first line of the command's docstring (a test compares them). Help and completion
# read this table, so that a command's module is only imported when it is called.
VERBS = {
    "list": "List the recipes.",
    "show": "Show a recipe: its paper, variants, pins and benchmarks.",
    "new": "Write a commented starting recipe.",
    "schema": "Print the JSON Schema of recipes, for editors.",
    "explain": "Name the cause of a failure from its log, and the remedy.",
    "config": "Show the mirrors and proxies in force, and the source of each.",
    "check": "Check pins against the facts, before anything is downloaded.",
    "render": "Write the Dockerfile of a recipe.",
    "lock": "Resolve all inputs of recipes, and write the locks beside them.",
    "fetch": "Download everything that locks name into the store, and the base images onto the engine.",
    "outdated": "List inputs that upstream has changed, removed or replaced since they were locked.",
    "build": "Build the image of a recipe.",
    "run": "Run a command in a recipe's container.",
    "shell": "Open a terminal in a recipe's container.",
    "exec": "Run a command in a container that is running.",
    "ps": "List reprokit's containers.",
    "logs": "Print what a container's commands wrote.",
    "stop": "Stop containers; their files stay.",
    "rm": "Remove containers and their files.",
    "notebook": "Serve Jupyter from a recipe's container.",
    "nodes": "List the nodes: reachable or not, engine, GPUs, free space, images of recipes.",
    "push": "Put the image of a recipe into a registry.",
    "pull": "Pull the image of a recipe from a registry.",
    "send": "Send images to other machines through ssh: only the layers that each lacks.",
    "smoke": "Check, build and try recipes, for CI.",
    "bench": "Run a recipe's benchmarks and record the figures.",
    "export": "Write images as one file, each layer once, for `reprokit load` elsewhere.",
    "inspect": "Show a bundle: images, layers, pins, requirements, extras.",
    "diff": "Compare two bundles: layers, pins, packages, sizes.",
    "load": "Verify bundles and load their images into the engine.",
    "trust": "List images that were built here or are trusted; trust others.",
    "store": "List, verify, free and copy the inputs of recipes.",
}

# typer contains a copy of click since 0.27, and used click itself before: this is the class in both.
_ClickException: Any = typer.BadParameter.__mro__[2]


class _Interrupted(Exception):
    """Ctrl-C, hidden from typer, which would end without a message."""


@contextlib.contextmanager
def _hidden_from_typer() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise _Interrupted from None


class _LazyGroup(TyperGroup):
    """Loads a verb's module only when the verb is called."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _hidden_from_typer():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _hidden_from_typer():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands or cmd_name not in VERBS:
            return self.commands.get(cmd_name)
        return TyperCommand(name=cmd_name, help=VERBS[cmd_name])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        verb = args[0]
        if verb not in VERBS:
            from reprokit.recipe.spelling import nearest

            raise UsageError(f"unknown verb {verb!r}{nearest(verb, VERBS)}", hint="see `reprokit --help`")
        self.commands[verb] = load_verb(verb)
        return super().resolve_command(ctx, args)


def load_verb(verb: str) -> Any:
    """The command of `reprokit/commands/VERB.py`: its function of the same name, or its group of verbs."""
    found = getattr(importlib.import_module(f"reprokit.commands.{verb}"), verb)
    if isinstance(found, typer.Typer):
        return get_command(found)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(verb)(found)
    return get_command(single)


app = typer.Typer(cls=_LazyGroup, invoke_without_command=True, rich_markup_mode=None)


def _commit() -> str:
    """The commit of this checkout, or the one that an installed package was built from; empty if unknown.

    It ends in `-dirty` where the checkout has changes of its own.
    """
    import subprocess

    package = Path(__file__).parent
    if (package.parent / ".git").exists():
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        with contextlib.suppress(OSError):
            return subprocess.run(command, cwd=package, capture_output=True, text=True, check=False).stdout.strip()
    built_from = package / "COMMIT"
    return built_from.read_text(encoding="utf-8").strip() if built_from.exists() else ""


def _version(requested: bool) -> None:
    if requested:
        commit = _commit()
        echo(f"reprokit {__version__}{f' ({commit})' if commit else ''}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and the commit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
) -> None:
    """Reproduction environments for GPU systems papers: check, build, run, benchmark."""
    if context.invoked_subcommand is None:
        document(context.get_help())


def main() -> NoReturn:
    """Run the command line and exit with a code of `errors`, or 130 where interrupted."""
    # SIGTERM unwinds like Ctrl-C, so that builds, containers and partial files are cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # For --debug: escape tracebacks, which may quote untrusted text.
    sys.excepthook = lambda *error: document("".join(traceback.format_exception(*error)), err=True)
    try:
        code = _run()
    except (_Interrupted, KeyboardInterrupt, typer.Abort):  # also while an error is printed
        _say("interrupted")
        code = 130
    sys.exit(code)


def _run() -> int:
    try:
        code = app(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except ReprokitError as error:
        _debug_raise()
        where = f" ({escaped(error.where)})" if error.where else ""
        _say(f"error: {error.message}{where}", f"hint: {error.hint}" if error.hint else "")
        return error.exit_code
    except _ClickException as error:
        context = getattr(error, "ctx", None)
        usage = f"hint: see `{context.command_path} --help`" if context else "hint: see `reprokit --help`"
        _say(f"error: {error.format_message()}", usage if error.format_message() else "")
        return error.exit_code
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (_Interrupted, typer.Abort):
        raise
    except Exception as error:
        _debug_raise()
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """Report an unexpected error; returns the exit code. A full disk can occur anywhere."""
    from reprokit.host.disk import is_full

    if isinstance(error, OSError) and is_full(error):
        _say(
            f"error: the disk is full{f' ({error.filename})' if error.filename else ''}",
            "hint: free space; `reprokit store gc` removes what no lock names, $REPROKIT_HOME moves the store",
        )
        return EngineError.exit_code
    _say(
        f"error: {type(error).__name__}: {error} (a bug in reprokit)",
        "hint: repeat it as `reprokit --debug ...` and report the output",
    )
    return 1


def _say(*lines: str) -> None:
    for line in lines:
        if line:
            echo(line, err=True)


def _debug_raise() -> None:
    if "--debug" in sys.argv[1:2] or os.environ.get("REPROKIT_DEBUG"):
        raise
