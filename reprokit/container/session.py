"""Run a user's command in a container, for `run`, `shell` and `exec`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from reprokit.container import names
from reprokit.container.attach import Command
from reprokit.container.launch import Start, launch, removed_at_end
from reprokit.container.lifecycle import check_options, ensure_running
from reprokit.container.prepare import read_etc
from reprokit.container.settings import ContainerSettings, RunOptions, merge
from reprokit.container.terminal import at_terminal, interact
from reprokit.container.user import is_root, resolved
from reprokit.display import notify
from reprokit.engine import ContainerInfo, Engine
from reprokit.errors import UsageError
from reprokit.image import trust
from reprokit.image.labels import failed_name
from reprokit.recipe.find import Target

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
# A password may contain any characters.
_USERINFO = re.compile(r"(?<=://).*@|^(?!\w+://).*@", re.DOTALL)


def in_recipe(engine: Engine, target: Target, command: Command, options: RunOptions) -> int:
    """Run a command in a recipe's container, made or started if need be; returns its exit code."""
    root = command.user is not None and is_root(command.user)
    container = ensure_running(engine, target, replace(options, root=root))
    return in_container(engine, container, command, target)


def in_failed_build(engine: Engine, target: Target, command: Command, options: RunOptions) -> int:
    """Run a command as root, as the build did, on the state that `build --keep-failed` kept; returns its exit code.

    The container is removed when the command ends. It has no workspace, so that root cannot leave files there.
    """
    check_options(engine, options)
    image = engine.image(failed_name(target.label))
    if image is None:
        raise UsageError(
            f"no failed build of {target.label} is kept", hint=f"reprokit build --keep-failed {target.label}"
        )
    of_recipe = names.prefix(target.recipe.name, target.variant_name)
    name = options.name or f"{of_recipe}-failed-{secrets.token_hex(3)}"
    start = Start.of(target, name, image.id, str(image.config.get("WorkingDir") or "/"))
    settings = merge(ContainerSettings(shm=target.variant.shm, root=True), replace(options, name=None))
    launch(engine, start, settings, False)
    with removed_at_end(engine, name):
        return in_container(engine, name, replace(command, user="0:0", log_as=None))


def in_container(engine: Engine, container: str, command: Command, target: Target | None = None) -> int:
    """Run a command in a running container; returns its exit code.

    The command also gets the caller's proxies. It gets a terminal only if the caller has one.
    """
    info = engine.container(container)
    if info is None:
        raise UsageError("no such container", container)
    labels = info.labels
    settings = names.settings_of(labels)
    if notice := trust.notice(labels.get(names.IMAGE, ""), names.label_of(labels), engine.host.name):
        notify(notice)
    if node := engine.host.name:
        for port in settings.ports:
            notify(f"port {port.host} is published on {node}; forward it with ssh -L {port.host}:127.0.0.1:{port.host}")
    tty = command.tty and at_terminal()
    proxies = caller_variables(engine.host.environment(), settings.network, tty)
    if proxies.unreachable and not set(proxies.unreachable) & set(command.env):
        unreachable = ", ".join(proxies.unreachable)
        notify(f"{unreachable}: not passed on, the proxy is on the host's loopback; --network host reaches it")
    if bare := [name for name in proxies.bare if name not in command.env]:
        notify(f"{', '.join(bare)}: passed without the proxy's password; -e {bare[0]} passes the complete value")
    user = numeric_user(engine, info, command.user) if command.user else None
    command = replace(command, env=proxies.variables | dict(command.env), user=user, tty=tty)
    return interact(engine, container, command, target)


@dataclass
class CallerVariables:
    """`variables` for a command, and the names of proxies that are `unreachable` or passed `bare` of a password.

    They are set for single commands, so that no container's configuration keeps the address of a proxy.
    """

    variables: dict[str, str] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)


def caller_variables(caller: Mapping[str, str], network: str, terminal: bool) -> CallerVariables:
    """The caller's proxies without user and password, as the command may be a stranger's; TERM at a terminal.

    From a container's own network a proxy on the host's loopback cannot be reached.
    """
    passed = CallerVariables()
    for name, value in caller.items():
        if name.lower() == "no_proxy":
            passed.variables[name] = value
        elif name.lower() in _PROXIES and value:
            if network != "host" and _on_loopback(value):
                passed.unreachable.append(name)
                continue
            passed.variables[name] = _USERINFO.sub("", value)
            if passed.variables[name] != value:
                passed.bare.append(name)
    if terminal:
        passed.variables["TERM"] = caller.get("TERM") or "xterm"
    return passed


def _on_loopback(proxy: str) -> bool:
    try:
        host = urlsplit(proxy if "://" in proxy else f"http://{proxy}").hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.")


def numeric_user(engine: Engine, container: ContainerInfo, user: str) -> str:
    """`--user` as `uid:gid`. Raises UsageError for root in a container that was not made for root."""
    if is_root(user) and not container.user.startswith("0:"):
        raise UsageError(
            f"{container.name} was not made for root, who has no rights in it",
            hint="`reprokit run --user root ...` recreates it, with its files",
        )
    etc = read_etc(engine, container.name)
    return resolved(user, etc.passwd, etc.group)
