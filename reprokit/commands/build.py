"""`reprokit build`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target


def build(
    name: options.RecipeName,
    force: bool = options.flag("--force", "Build despite errors of `check`; a label of the image lists them."),
    no_cache: bool = options.flag("--no-cache", "Run every step again."),
    keep_failed: bool = options.flag("--keep-failed", "Keep what the failed step left, for `reprokit shell --failed`."),
    offline: options.Offline = False,
    drift: bool = options.flag(
        "--drift", "Replace locked apt packages that no mirror has any more by newer ones; a label lists them."
    ),
    record: bool = options.flag(
        "--record", "Let a build download more than its lock names, and list that; its image is not kept."
    ),
    gpus: str = typer.Option(
        "none",
        "--gpus",
        metavar="all|none|N|device=0,1",
        help="GPUs for the blocks that compile; what they make may depend on them.",
        autocompletion=completion.choices("all", "none", "1", "device=0"),
    ),
    memory: options.Memory = None,
    cpus: float = typer.Option(0.0, "--cpus", min=0.0, metavar="N", help="Processors of a step; 0 for all."),
    cache_from: str = typer.Option(
        "", "--cache-from", metavar="REGISTRY/NAME", help="Trust this repository, and take steps from it."
    ),
    cache_to: str = typer.Option(
        "", "--cache-to", metavar="REGISTRY/NAME", help="Push the steps to this repository, for other machines."
    ),
    secret: options.Secrets = [],
    as_json: options.Json = False,
) -> None:
    """Build the image of a recipe."""
    import os

    from reprokit.container.gpu import ladder, no_gpu_error, parse_gpus, refused
    from reprokit.engine import Engine
    from reprokit.errors import EngineError
    from reprokit.image.build import build as build_image
    from reprokit.image.build import engine_errors_of
    from reprokit.image.build_secrets import parse_secrets
    from reprokit.image.lock.fit import errors_of
    from reprokit.image.run import BuildOptions
    from reprokit.recipe.find import target as find_target

    target, secrets = find_target(name), parse_secrets(secret, os.environ)
    forced = errors_of(target, force)
    engine = Engine.connect()
    request = parse_gpus(gpus)
    devices = ladder(request, engine.cdi_devices(engine.info()))[0].requests
    forced += engine_errors_of(engine, target, force)
    chosen = BuildOptions(
        no_cache=no_cache or record,  # a cached step downloads nothing to record
        keep_failed=keep_failed,
        offline=offline,
        drift=drift,
        record=record,
        forced=forced,
        secrets=secrets,
        gpus=devices,
        memory=memory or 0,
        cpus=cpus,
        cache_from=_repository(cache_from),
        cache_to=_repository(cache_to),
    )
    try:
        result = build_image(engine, target, chosen)
    except EngineError as error:
        raise (no_gpu_error(request, error.message) if refused(error.message) else error) from None
    if as_json:
        dump(
            {
                "name": result.name,
                "image": result.image_id,
                "built": result.built,
                "inputs": result.inputs,
                "state": result.state,
                "seconds": round(result.seconds, 1),
                "log": str(result.log) if result.log else None,
                "undeclared": list(result.undeclared),
                "steps": [asdict(step) for step in result.steps],
            }
        )
        return
    if record:
        _print_undeclared(target, result.undeclared)
        more = "its image holds more than the lock names and is not kept"
        echo(f"{target.label} built in {result.seconds:.0f} s; {more}")
    elif result.built:
        cached = sum(step.cached for step in result.steps)
        of = f", {cached} of {len(result.steps)} steps cached" if cached else ""
        echo(f"{result.name} built in {result.seconds:.0f} s ({result.image_id[:19]}){of}")
    else:
        echo(f"{result.name} is up to date ({result.image_id[:19]})")


def _repository(text: str) -> str:
    """Raises UsageError unless it names a repository of a registry."""
    from reprokit.errors import UsageError
    from reprokit.nodes.registry import parse_reference

    if not text:
        return ""
    if (reference := parse_reference(text)).named != reference.repository or reference.digest:
        raise UsageError(f"{text} has a tag: each step has one of its own", hint=reference.repository)
    return reference.repository


def _print_undeclared(target: Target, downloads: Sequence[str]) -> None:
    if not downloads:
        echo(f"{target.label} downloads nothing that its lock does not name")
        return
    echo(f"{target.label} downloads these, which its recipe does not declare:")
    for line in downloads:
        echo(f"  {line}")
