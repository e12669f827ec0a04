"""Containers and networks of others whose names or labels look like reprokit's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reprokit.container import leftovers, lifecycle, names, services
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.errors import UsageError
from tests.support.names import unique
from tests.support.papers import Paper, paper
from tests.support.verbs import run_verb

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def user(engine, debian_12) -> Iterator[Paper]:
    with paper(engine, f"FROM {debian_12.name}") as made:
        yield made


def foreign(user: Paper, name: str, labels: dict[str, str]) -> str:
    """A container that reprokit did not make; it is removed with the paper."""
    body = {"Image": user.image, "Cmd": ["true"], "Labels": {**labels, "reprokit.recipe": user.name}}
    return user.engine.create_container(name, body)


def test_a_container_called_previous_is_not_removed(engine: Engine, user: Paper):
    made, name = user.recipe(), unique("web")
    first, second = foreign(user, name, {}), foreign(user, f"{name}.previous", {})
    with pytest.raises(UsageError, match="is in use"):
        ensure_running(engine, made, RunOptions(name=name))
    assert (engine.container(name) or {})["Id"] == first
    assert (engine.container(f"{name}.previous") or {})["Id"] == second
    engine.remove(first)
    ensure_running(engine, made, RunOptions(name=name))  # nor does it get the name that is free now
    assert (engine.container(f"{name}.previous") or {})["Id"] == second
    lifecycle.remove(engine, name)
    engine.remove(second)  # The control: the caller's own, of an interrupted recreation, gets its name back.
    own = ensure_running(engine, made, RunOptions(name=name))
    described = engine.container(own) or {}
    engine.rename(own, f"{own}.previous")
    ensure_running(engine, made, RunOptions(name=name))
    assert (engine.container(name) or {})["Id"] == described["Id"]
    lifecycle.remove(engine, name)


def test_services_and_networks_of_others_stay(engine: Engine, user: Paper):
    name = unique("db")
    service = foreign(user, services.name_of(name, "x"), {services.OF: name, names.OWNER: "4999"})
    networks = [unique("net"), services.network_of(name)]
    engine.create_network(networks[0], {services.OF: name, names.OWNER: str(engine.host.caller().uid)})
    engine.create_network(networks[1], {services.OF: name, names.OWNER: "4999"})
    try:
        services.remove(engine, name)
        assert engine.container(service)
        assert {each["Name"] for each in engine.networks(f"{services.OF}={name}")} == {*networks}
        assert name not in leftovers.left_services(engine)
        engine.remove_network(networks[1])
        engine.create_network(networks[1], {services.OF: name, names.OWNER: str(engine.host.caller().uid)})
        services.remove(engine, name)  # the control
        assert [each["Name"] for each in engine.networks(f"{services.OF}={name}")] == [networks[0]]
    finally:
        for found in engine.networks(f"{services.OF}={name}"):
            engine.remove_network(found["Id"])


def test_labels_of_any_text_stop_no_verb(engine: Engine, user: Paper):
    strange = unique("strange")
    settings = '{"mounts": [], "ports": [], "workspace": 5, "recipe_file": 7}'
    for number, owner in enumerate(("abc", "-1", "", str(engine.host.caller().uid))):
        name = f"{strange}-{number}"
        foreign(user, name, {names.NAME: name, names.OWNER: owner, names.SETTINGS: settings})
    shown = run_verb("ps", cwd=user.place)
    assert shown.returncode == 0 and f"{strange}-3" in shown.stdout and f"{strange}-0" not in shown.stdout
    refused = run_verb("stop", f"{strange}-0", cwd=user.place)
    assert refused.returncode == 2 and refused.stderr.startswith(f"error: no container '{strange}-0'")
