"""The command line, and the only place where errors are printed and exit codes are set."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import typer
from typer.main import get_command

from reprokit import __version__, interrupts
from reprokit.errors import EngineError, ReprokitError
from reprokit.untrusted.terminal import document, echo, escaped
from reprokit.verbs import CONTINUED, VerbGroup

# Failures of these verbs do not replace the one of `explain --last`.
_NEVER_KEPT = ("completion", "explain", "help")
# Set by a completion script that requests the next words.
_COMPLETES = "_REPROKIT_COMPLETE" in os.environ
app = typer.Typer(
    cls=VerbGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=_COMPLETES,
    context_settings={"max_content_width": 200},
)


def _commit() -> str:
    """The commit of this checkout, or the one that an installed package was built from; empty if unknown.

    It ends in `-dirty` if the checkout has changes of its own.
    """
    import subprocess

    package = Path(__file__).parent
    if (package.parent / ".git").exists():
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        with contextlib.suppress(OSError):
            return subprocess.run(command, cwd=package, capture_output=True, text=True, check=False).stdout.strip()
    built_from = package / "COMMIT"
    return built_from.read_text(encoding="utf-8").strip() if built_from.exists() else ""


def _program() -> str:
    commit = _commit()
    return f"reprokit {__version__}{f' ({commit})' if commit else ''}"


def _version(requested: bool) -> None:
    if requested:
        echo(_program())
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and the commit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    no_pager: bool = typer.Option(False, "--no-pager", help="Print long lists at once, as PAGER=cat does."),
) -> None:
    """Reproduction environments for GPU systems papers: check, build, run, benchmark."""
    if context.invoked_subcommand is None:
        document(context.get_help())
        return
    if no_pager:
        os.environ["PAGER"] = "cat"
    from reprokit.explain import last

    last.VERB.set("" if context.invoked_subcommand in _NEVER_KEPT else context.invoked_subcommand)


def main() -> NoReturn:
    """Run the command line and exit with a code of `errors`, or 130 if interrupted."""
    _open_closed_streams()
    # SIGTERM unwinds like Ctrl-C, so that builds, containers and partial files are cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # For --debug: escape tracebacks, which may quote untrusted text.
    sys.excepthook = lambda *error: document("".join(traceback.format_exception(*error)), err=True)
    interrupted = False
    try:
        interrupts.raised()
        code = _run()
    except (KeyboardInterrupt, typer.Abort):  # also while an error is printed
        code, interrupted = 130, True
    interrupts.fatal()
    if interrupted:
        verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        _report("interrupted: the same command continues" if verb in CONTINUED else "interrupted")
    gc.freeze()  # the process ends: skip a last collection
    _drop_unwritten()
    sys.exit(code)


def _open_closed_streams() -> None:
    """Replace standard streams closed by `>&-` by /dev/null: other files would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _drop_unwritten() -> None:
    """Drop output that a closed pipe or a full disk refused: Python would write it again at exit.

    That fails too, and makes the exit code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run() -> int:
    try:
        command = get_command(app)
        if _COMPLETES:
            command.main(prog_name="reprokit", standalone_mode=False)
        # Without `main`, which hides Ctrl-C.
        with command.make_context("reprokit", sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except typer.Exit as end:
        return end.exit_code
    except ReprokitError as error:
        _keep(error)
        _debug_raise()
        where = f" ({escaped(error.where)})" if error.where else ""
        _report(f"error: {error.message}{where}", f"hint: {error.hint}" if error.hint else "", *error.explanation)
        return error.exit_code
    except typer.TyperException as error:
        at = getattr(error, "ctx", None)
        usage = f"hint: see `{at.command_path} --help`" if at else "hint: see `reprokit --help`"
        parameters = at.command.params if at else []
        if getattr(error, "option_name", "") == "--port" and any("--publish" in each.opts for each in parameters):
            usage = "hint: --publish (-p) names the port of the host"
        elif at and hasattr(error, "possibilities") and any(each.name == "command" for each in parameters):
            usage = f"hint: options of a command in the container follow `--`: `{at.command_path} NAME -- ls -l`"
        message = " ".join(line.strip() for line in error.format_message().splitlines()).replace("Value error, ", "")
        _report(f"error: {message}", usage if message else "")
        return error.exit_code
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        return 0
    except typer.Abort:
        raise
    except Exception as error:
        _debug_raise()
        return _unexpected(error)


def _keep(error: ReprokitError) -> None:
    """Keep the error for `explain --last`, if a verb runs and has not kept a longer log."""
    from reprokit.explain import last

    if last.VERB.get():
        last.keep_error(error)


def _unexpected(error: Exception) -> int:
    """Report an unexpected error; returns the exit code. A full disk or an unreadable folder can occur anywhere."""
    from reprokit import paths
    from reprokit.doctor import bug_log
    from reprokit.host.disk import STORE_HINT, is_full
    from reprokit.redact import redact

    if isinstance(error, OSError) and is_full(error):
        _report(
            f"error: the disk is full{f' ({error.filename})' if error.filename else ''}",
            f"hint: {STORE_HINT.format(amount='space')}",
        )
        return EngineError.exit_code
    if isinstance(error, OSError) and error.filename and paths.is_ours(Path(os.fsdecode(error.filename))):
        _report(
            f"error: reprokit cannot use its own folder: {error.strerror} ({escaped(str(error.filename))})",
            "hint: set REPROKIT_HOME to a folder that you can write",
        )
        return EngineError.exit_code
    hint = "repeat it as `reprokit --debug ...` and report the output"
    with contextlib.suppress(OSError, ReprokitError):
        hint = f"report it with the log {bug_log.write(error, _program())}; read that before you send it"
    _report(f"error: {type(error).__name__}: {redact(str(error))} (a bug in reprokit)", f"hint: {hint}")
    return 1


def _report(*lines: str) -> None:
    with contextlib.suppress(OSError):  # standard error may be on the full disk: the exit code remains
        for line in lines:
            if line:
                echo(line, err=True)


def _debug_raise() -> None:
    if "--debug" in sys.argv[1:2] or os.environ.get("REPROKIT_DEBUG"):
        raise
