"""A stranger's service gets nothing of the host, and passes for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from reprokit.container import names, services
from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running, remove, usual_name
from reprokit.container.settings import ContainerSettings, to_label
from reprokit.engine import Engine
from tests.support.papers import Paper, paper
from tests.support.users import GID, UID

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def a_paper(engine, debian_12) -> Iterator[Paper]:
    """The recipe's image is also that of the service, with labels that claim other containers and root."""
    labels = {
        names.NAME: "NAME",
        names.OWNER: str(UID),
        names.USER: "0:0",
        names.SETTINGS: to_label(ContainerSettings(workspace="/etc", recipe_file="/x")),
        services.OF: "other",
    }
    lines = [f"LABEL {name}='{value}'" for name, value in labels.items()]
    dockerfile = ["FROM " + debian_12.name, "USER root", "VOLUME /data", "EXPOSE 7000", *lines]
    with paper(engine, "\n".join(dockerfile)) as made:
        yield made


@pytest.fixture
def user(a_paper: Paper) -> Iterator[Paper]:
    yield a_paper
    a_paper.clear()


@pytest.fixture
def service(user: Paper) -> str:
    return (
        f"    services:\n      db: {{image: '{user.image}', env: {{TOKEN: '$SECRET ${{SECRET}}'}},"
        " command: [sleep, '100'], ready: [sh, -c, 'id -u > /data/id || id -u > /tmp/id']}\n"
    )


def test_secrets_for_a_command_do_not_reach_its_services(engine, user, service, tmp_path):
    file = tmp_path / "tokens.env"
    file.write_text("TOKEN=hunter2\n")
    made = user.recipe(service)
    command = [sys.executable, "-m", "reprokit", "run", user.name, "--env-file", str(file), "--", "sh", "-c"]
    done = subprocess.run([*command, "echo $TOKEN"], capture_output=True, text=True)
    name = usual_name(engine, made)
    try:
        assert done.stdout == "hunter2\n", done.stderr
        assert "hunter2" not in json.dumps(engine.container(services.name_of(name, "db")))
    finally:
        remove(engine, name)


def test_it_runs_as_the_caller_without_mounts_and_with_no_new_rights(engine, user, service, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    made = user.recipe(service)
    name = user.as_user(lambda own: ensure_running(own, made))
    try:
        one = services.name_of(name, "db")
        described = engine.container(one)
        host = described["HostConfig"]
        assert described["Config"]["User"] == f"{UID}:{GID}" and not host["Privileged"] and not host["CapAdd"]
        assert host["SecurityOpt"] == ["no-new-privileges"] and not host["Binds"] and not host["PortBindings"]
        assert not host["GroupAdd"] and host["LogConfig"]["Config"]["max-size"]
        # Only the volume of the image, which is removed with it.
        (volume,) = described["Mounts"]
        assert volume["Type"] == "volume" and volume["Destination"] == "/data"
        # The image's label says root; its ready check ran as the caller.
        assert execute(engine, one, ["cat", "/tmp/id"]).stdout == f"{UID}\n"
        # No variable of the caller is in it.
        assert "hunter2" not in json.dumps(described) and "TOKEN=$SECRET ${SECRET}" in described["Config"]["Env"]
        # It is no container of the user's, whatever its image's labels say.
        assert [c.name for c in names.known_containers(engine) if c.recipe == user.name] == [name]
        assert one not in services.known(engine).get("other", {})
    finally:
        user.as_user(lambda own: remove(own, name))
    assert volume["Name"] not in [each["Name"] for each in engine.api.volumes()["Volumes"] or []]


def test_labels_of_an_image_make_no_service_of_another_container(engine: Engine, user, service):
    """A container that is called otherwise is no service, so stopping the other does not remove it."""
    labels = {services.OF: "other", names.OWNER: str(engine.host.caller().uid)}
    victim = user.by_hand(Cmd=["true"], Labels=labels)
    services.remove(engine, "other")
    assert engine.container(victim)
    # The control: with a service's name it is one.
    engine.rename(victim, services.name_of("other", "db"))
    services.remove(engine, "other")
    assert engine.container(services.name_of("other", "db")) is None
