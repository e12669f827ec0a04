"""Services on a real engine: reached by name, ended with their container, and never left behind."""

from __future__ import annotations

import json
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from reprokit.bench.container import own_container
from reprokit.container import names, services
from reprokit.container.leftovers import left_services
from reprokit.container.lifecycle import ensure_running, remove, stop, usual_name
from reprokit.container.settings import RunOptions
from reprokit.errors import UsageError, WorkFailed
from reprokit.image.base.resolve import carried_name
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base
from tests.support.papers import Paper, paper
from tests.support.processes import send_when_asleep
from tests.support.stores import a_lock
from tests.support.waiting import wait_for

# Perl is in every Debian.
SERVER = (
    "[perl, -MIO::Socket::INET, -e, '$s = IO::Socket::INET->new(LocalPort => 7000, Listen => 5) or die;"
    ' while ($c = $s->accept) { print $c "$ENV{SAYS}\\n"; close $c }\']'
)
ASK = ["bash", "-c", "cat < /dev/tcp/db/7000"]


def db(says: str, image: str = "image: 'debian:12'") -> str:
    """A service that says this on its port."""
    return f"    services:\n      db: {{{image}, env: {{SAYS: '{says}'}}, ports: [7000], command: {SERVER}}}\n"


def failing(command: str, more: str = "ports: [7000], timeout: 1") -> str:
    return f"    services:\n      db: {{image: 'debian:12', command: {command}, {more}}}\n"


@pytest.fixture(scope="module")
def a_paper(engine, debian_12) -> Iterator[Paper]:
    with paper(engine, f"FROM {debian_12.name}\nLABEL a=b\n") as made:
        yield made


@pytest.fixture
def mine(a_paper: Paper) -> Iterator[Paper]:
    yield a_paper
    for container in names.known_containers(a_paper.engine):
        if container.recipe == a_paper.name:
            remove(a_paper.engine, container.name)


def reach(address: str, port: int) -> str:
    return f"timeout 2 bash -c '< /dev/tcp/{address}/{port}' 2>/dev/null && echo reached || echo closed"


def nothing_left(made: Paper) -> bool:
    """Whether no service and no network of the recipe is there."""
    of_recipe = made.engine.containers([f"reprokit.recipe={made.name}", services.OF])
    return not of_recipe and not [n for n in made.engine.networks(services.OF) if made.name in n["Name"]]


def test_it_is_reached_by_its_name_and_ends_with_the_container(engine, mine, call):
    mine.recipe(db("one"))
    first = call("run", mine.name, "--", *ASK)
    assert (first.returncode, first.stdout) == (0, "one\n") and "starting services: db" in first.stderr
    again = call("run", mine.name, "--", *ASK)
    assert again.stdout == "one\n" and "starting services" not in again.stderr
    (row,) = [row for row in json.loads(call("ps", "--json").stdout) if row["recipe"] == mine.name]
    assert {name: each["state"] for name, each in row["services"].items()} == {"db": "running"}
    assert "db: running" in call("ps", row["name"]).stdout
    made = engine.container(services.name_of(row["name"], "db"))
    assert not made["HostConfig"]["PortBindings"] and not made["HostConfig"]["PublishAllPorts"]
    # Another environment is another service; what it stored is gone with it.
    mine.recipe(db("two"))
    assert call("run", mine.name, "--", *ASK).stdout == "two\n"
    assert call("stop", mine.name).returncode == 0 and nothing_left(mine)
    assert call("run", mine.name, "--", *ASK).stdout == "two\n"
    mine.recipe()
    assert call("run", mine.name, "--", "true").returncode == 0 and nothing_left(mine)


def test_bench_and_smoke_have_their_own(engine, mine):
    made = mine.recipe(db("hello"))
    for purpose in ("bench", "smoke"):
        name = own_container(engine, made, purpose, "none")
        assert list(services.of_container(engine, name)) == ["db"]
        (stop if purpose == "bench" else remove)(engine, name)
        assert nothing_left(mine)


def test_two_checkouts_do_not_see_each_others(engine, mine, sh, monkeypatch):
    containers = []
    for says in ("left", "right"):
        (mine.place / says / "recipes").mkdir(parents=True)
        monkeypatch.chdir(mine.place / says)
        monkeypatch.setattr(mine, "place", mine.place / says)
        containers.append(ensure_running(engine, mine.recipe(db(says))))
        monkeypatch.setattr(mine, "place", mine.place.parent)
    assert [sh(name, f"{ASK[0]} -c '{ASK[2]}'") for name in containers] == ["left\n", "right\n"]
    left, right = (
        engine.container(services.name_of(name, "db"))["NetworkSettings"]["Networks"][services.network_of(name)]
        for name in containers
    )
    assert sh(containers[0], reach(left["IPAddress"], 7000)) == "reached\n"
    # While Engine 20.10 makes another network it lets packets pass between those that are there, for milliseconds.
    wait_for(lambda: sh(containers[0], reach(right["IPAddress"], 7000)) == "closed\n")


def test_the_networks_lead_nowhere_else(engine, mine, sh):
    """Services leave the container's own network unchanged. A service reaches only the containers beside it."""
    made = mine.recipe(db("x"))
    name = ensure_running(engine, made)
    described = engine.container(name)
    assert described["HostConfig"]["NetworkMode"] == "bridge"
    serve = "IO::Socket::INET->new(LocalPort => 8000, Listen => 5) or die; print qq(up\\n); close STDOUT; sleep 100"
    assert sh(name, f"perl -MIO::Socket::INET -e '$s = {serve}' 2>/dev/null & sleep 1") == "up\n"
    networks = described["NetworkSettings"]["Networks"]
    own, beside = networks["bridge"]["IPAddress"], networks[services.network_of(name)]["IPAddress"]
    assert sh(services.name_of(name, "db"), reach(beside, 8000)) == "reached\n"
    assert sh(services.name_of(name, "db"), reach(own, 8000)) == "closed\n"
    for mode in ("host", "none"):
        with pytest.raises(UsageError, match=f"not reachable with --network {mode}"):
            ensure_running(engine, made, RunOptions(name=f"{name}-{mode}", network=mode))
        assert engine.container(f"{name}-{mode}") is None
    # A container keeps its network if services would be lost.
    with pytest.raises(UsageError, match="not reachable with --network host"):
        ensure_running(engine, made, RunOptions(network="host"))
    assert engine.container(name)["Id"] == described["Id"] and sh(name, f"{ASK[0]} -c '{ASK[2]}'") == "x\n"


def test_a_container_without_the_network_for_services_gets_it_with_its_files(engine, mine, sh):
    name = ensure_running(engine, mine.recipe(), RunOptions(network="none"))
    sh(name, "echo kept > /tmp/file")
    target = mine.recipe(db("x"))  # the recipe gets services later
    with pytest.raises(UsageError, match="not reachable with --network none") as refused:
        ensure_running(engine, target)
    assert "--network bridge" in refused.value.hint
    assert ensure_running(engine, target, RunOptions(network="bridge")) == name
    assert sh(name, "cat /tmp/file") == "kept\n" and sh(name, f"{ASK[0]} -c '{ASK[2]}'") == "x\n"


@pytest.mark.parametrize(
    ("command", "more", "why", "shown"),
    [
        ("[sh, -c, 'echo a; printf \"\\x1b]0;evil\\a\"; exit 3']", "ports: [1]", "ended with exit code 3", "db: a\n"),
        ("[sleep, '100']", "ports: [7000]", "was not ready within 1 s", ""),
        ("[sleep, '100']", "ready: [sleep, '100']", "was not ready within 1 s", ""),
        ("[sleep, '100']", "ready: [no-such-program]", "was not ready within 1 s", ""),
        ("['yes', flood]", "ports: [7000]", "was not ready within 1 s", "db: flood\n"),
        ("[sh, -c, \"tr '\\\\0' x < /dev/zero\"]", "ports: [7000]", "was not ready within 1 s", ""),
    ],
)
def test_one_that_fails_is_named_and_leaves_nothing(engine, mine, call, command: str, more: str, why: str, shown: str):
    mine.recipe(failing(command, more if "exit 3" in command else f"{more}, timeout: 1"))
    done = call("run", mine.name, "--", "true")
    assert done.returncode == 1 and f"the service db {why}" in done.stderr and shown in done.stderr, done.stderr
    assert nothing_left(mine) and not [c for c in names.known_containers(engine) if c.recipe == mine.name]
    assert "\x1b" not in done.stderr and "\a" not in done.stderr and len(done.stderr) < 20_000


def test_one_that_fails_stops_a_container_that_did_not_run(engine, mine):
    name = ensure_running(engine, mine.recipe())
    for running in (True, False):
        with pytest.raises(WorkFailed):
            ensure_running(engine, mine.recipe(failing("['false']")))
        assert engine.container(name)["State"]["Running"] == running and nothing_left(mine)
        stop(engine, name)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupt_and_a_kill(engine, mine, call, command, how: signal.Signals):
    made = mine.recipe(failing("[sleep, '100']", "ports: [7000], timeout: 100"))
    with subprocess.Popen(command("run", mine.name, "--", "true"), stderr=subprocess.DEVNULL) as running:
        wait_for(lambda: services.of_container(engine, usual_name(engine, made)))
        time.sleep(0.5)
        send_when_asleep(running.pid, how)
    if how != signal.SIGKILL:
        assert nothing_left(mine)
        return
    # The next run ends them, whatever the recipe says by then.
    assert not nothing_left(mine)
    mine.recipe(db("again"))
    assert call("run", mine.name, "--", *ASK).stdout == "again\n"
    # So does clean if the container does not run.
    name = usual_name(engine, made)
    engine.stop(name, timeout_s=1)
    assert name in left_services(engine)
    assert re.search(rf"services +{name}", call("clean", "--dry-run").stdout)
    assert call("run", mine.name, "--", *ASK).stdout == "again\n"
    assert name not in left_services(engine)


def test_a_service_of_another_recipe(engine, mine, debian_12, call):
    other = f"{mine.name}-server"
    file = mine.place / "recipes" / f"{other}.yaml"
    made = mine.recipe(db("other", f"recipe: {other}"))
    text = f"name: {other}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\n"
    file.write_text(f"{text}variants: {{cpu: {{base: 'debian:12'}}}}\n")
    with pytest.raises(UsageError) as error:
        ensure_running(engine, made)
    assert error.value.hint == f"reprokit build {other}:cpu" and nothing_left(mine)
    engine.tag(debian_12.name, f"reprokit/{other}", "cpu")
    try:
        done = call("run", mine.name, "--", *ASK)
        assert done.stdout == "other\n" and f"the image of {other}:cpu is unverified" in done.stderr
        (listed,) = services.of_container(engine, usual_name(engine, made)).values()
        assert listed["Mounts"] == []
        remove(engine, usual_name(engine, made))
    finally:
        engine.remove_image(f"reprokit/{other}:cpu")
        file.unlink()


def test_a_lock_decides_which_image_it_is(engine, mine, debian_12, call):
    digest, made = f"sha256:{secrets.token_hex(32)}", mine.recipe(db("locked", "image: 'db:1'"))
    lock, path = a_lock(mine.name, digest=digest), lock_path(made.path)
    of_db = {"inputs": {}, "services": {"db": Base(reference="db:1", digest=digest)}}
    write(path, lock.model_copy(update={"variants": {"cpu": lock.variants["cpu"].model_copy(update=of_db)}}))
    engine.tag(debian_12.name, *carried_name(digest).rsplit(":", 1))
    call("images", "trust", carried_name(digest))
    try:
        assert call("run", mine.name, "--", *ASK).stdout == "locked\n"
        mine.recipe(db("other", "image: 'db:2'"))
        done = call("run", mine.name, "--", *ASK)
        assert done.returncode == 1 and "is stale: services changed" in done.stderr
        assert f"hint: reprokit lock {mine.name}:cpu" in done.stderr
    finally:
        path.unlink()
        call("images", "revoke", carried_name(digest))
        engine.remove_image(carried_name(digest))


def test_its_log(engine, mine, call):
    mine.recipe(failing("[sh, -c, 'echo ready; exec sleep 100']", "ready: ['true']"))
    assert call("run", mine.name, "--", "true").returncode == 0
    assert call("logs", mine.name, "--service", "db").stdout == "ready\n"
    wrong = call("logs", mine.name, "--service", "dc")
    assert wrong.returncode == 2 and "its services: db" in wrong.stderr
