"""A user's command in a container: what `run`, `shell` and `exec` have in common."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reprokit.container import names, parse
from reprokit.container.environment import from_caller
from reprokit.container.lifecycle import ensure_running
from reprokit.container.prepare import read_etc
from reprokit.container.settings import RunOptions
from reprokit.container.terminal import at_terminal, interact
from reprokit.container.user import is_root, resolved
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image import trust
from reprokit.recipe.find import target
from reprokit.untrusted.text import echo


def tell(line: str) -> None:
    """A notice beside the command's own output."""
    echo(line, err=True)


def in_recipe(
    recipe: str,
    argv: Sequence[str],
    chosen: RunOptions,
    env: list[str],
    user: str | None,
    logged: bool = True,
    on: str | None = None,
    tty: bool = False,
) -> int:
    """Run `argv` in the container of `NAME[:VARIANT]`, made or started as need be; its exit code. `on` is a node.

    `tty` asks for a terminal of the command's own, whose output reaches ours as it is.
    """
    wanted = target(recipe)
    given = parse.environment(env, os.environ)
    who = parse.user(user) if user else None
    with engine_on(on) as engine:
        container = ensure_running(engine, wanted, replace(chosen, root=who is not None and is_root(who)), tell)
        return in_container(engine, container, argv, given, who, logged, tty)


@contextlib.contextmanager
def engine_on(node: str | None) -> Iterator[Engine]:
    """The engine here, or that of a node for as long as it is needed. Raises EngineError, SourceError."""
    if node is None:
        yield Engine.connect()
        return
    from reprokit.nodes.forward import engine_of

    with engine_of(node) as engine:
        yield engine


def in_container(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    env: dict[str, str],
    user: str | None,
    logged: bool = True,
    tty: bool = False,
) -> int:
    """Run `argv` in a running container; its exit code."""
    described = engine.container(container) or {}
    labels = (described.get("Config") or {}).get("Labels") or {}
    settings = names.settings_of(labels)
    label = f"{labels.get(names.RECIPE)}:{labels.get(names.VARIANT)}"
    if notice := trust.notice(labels.get(names.IMAGE, ""), label, engine.host.name):
        tell(notice)
    if node := engine.host.name:
        for port in settings.ports:
            tell(f"port {port.host} is {node}'s own; ssh -L {port.host}:127.0.0.1:{port.host} leads it here")
    tty = tty and at_terminal()
    passed = from_caller(engine.host.environment(), settings.network, tty)
    if passed.unreachable and not set(passed.unreachable) & set(env):
        tell(f"{', '.join(passed.unreachable)}: a proxy on the host's loopback is left out; --network host reaches it")
    if bare := [name for name in passed.bare if name not in env]:
        tell(f"{', '.join(bare)}: passed without the proxy's password; -e {bare[0]} passes it whole")
    user = _numbers(engine, container, described, user) if user else None
    return interact(engine, container, argv, env=passed.variables | env, user=user, logged=logged, tty=tty)


def _numbers(engine: Engine, container: str, described: Mapping[str, Any], user: str) -> str:
    """`--user` as `uid:gid`. Raises UsageError for root in a container that is not root's."""
    if is_root(user) and not described["Config"]["User"].startswith("0:"):
        raise UsageError(
            f"{container} was not made for root, who has no rights in it",
            hint="`reprokit run --user root ...` makes it anew, with its files",
        )
    etc = read_etc(engine, container)
    return resolved(user, etc.passwd, etc.group)
