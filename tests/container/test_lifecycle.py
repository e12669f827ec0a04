"""A container's life on a real engine."""

from __future__ import annotations

import io
import json
import os
import socket
from pathlib import Path

import pytest

from reprokit.bench.container import own_container
from reprokit.container import lifecycle, names
from reprokit.container.leftovers import leftovers
from reprokit.container.leftovers import remove as remove_leftover
from reprokit.container.lifecycle import ensure_running, remove, stop, usual_name
from reprokit.container.settings import ContainerSettings, Port, RunOptions, to_label
from reprokit.engine import ContainerInfo
from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount
from reprokit.host.workspace import locate
from reprokit.image import made
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.smoke.run import fresh_container
from tests.support.builds import root_file_system
from tests.support.images import tar_of
from tests.support.names import unique
from tests.support.ports import free_port


def test_settings_and_mounts_arrive_and_files_outlive_a_stop(engine, recipe, sh):
    more = "    shm: 100MiB\n    workdir: /somewhere\n"
    made = recipe(f"{more}    mounts: [{{source: data/in, target: /in}}, {{source: ., target: /all}}]\n")
    name = ensure_running(engine, made)
    assert sh(name, "pwd; df -k --output=size /dev/shm | tail -1").split() == ["/somewhere", "102400"]
    assert sh(name, "grep NoNewPrivs /proc/self/status").split() == ["NoNewPrivs:", "1"]
    described = engine.api.inspect_container(name)
    assert not described["HostConfig"]["Privileged"]
    assert described["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    assert [mount["Destination"] for mount in described["Mounts"]] == ["/workspace"]
    sh(name, "echo a > /workspace/f; echo b > /in/g; test -e /all/f; echo kept > /made/work; sleep 100 & true")
    workspace = locate(made.workspace, made.path)
    assert ((workspace / "f").read_text(), (workspace / "data/in/g").read_text()) == ("a\n", "b\n")
    stop(engine, name)
    # A main process that ignores SIGTERM is killed ten seconds later, and its exit code is 137.
    assert engine.api.inspect_container(name)["State"]["ExitCode"] == 0
    assert ensure_running(engine, made) == name
    assert sh(name, "cat /made/work") == "kept\n"
    remove(engine, name)
    assert engine.container(name) is None


def test_what_cannot_be_started_makes_nothing(engine, made, base, place):
    other = f"{made.recipe.name}-other"
    unbuilt = Target(made.recipe.model_copy(update={"name": "reprokit-test-container-none"}), "cpu", made.path)
    with pytest.raises(UsageError) as error:
        ensure_running(engine, unbuilt)
    assert error.value.hint == "reprokit build reprokit-test-container-none:cpu"
    with pytest.raises(UsageError, match="missing"):
        ensure_running(engine, made, RunOptions(mounts=(BindMount(str(place / "missing"), "/x"),)))
    assert not (place / "missing").exists()
    assert engine.containers([f"reprokit.recipe={made.recipe.name}"]) == []
    engine.create_container(other, {"Image": base, "Cmd": ["true"], "Labels": {"reprokit.recipe": made.recipe.name}})
    with pytest.raises(UsageError, match="in use"):
        ensure_running(engine, made, RunOptions(name=other))


def test_ports_are_on_loopback_and_only_a_recipes_moves_if_it_is_taken(engine, recipe, reported: list[str]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", number := free_port()))
        taken.listen()
        made, port = recipe(f"    ports: [{number}]\n"), Port("127.0.0.1", number, 80)
        with pytest.raises(UsageError) as error:
            ensure_running(engine, made, RunOptions(ports=(port,)))
        assert "-p" in error.value.hint
        assert engine.containers([f"reprokit.recipe={made.recipe.name}"]) == []
        name = ensure_running(engine, made)
    (bound,) = engine.api.inspect_container(name)["NetworkSettings"]["Ports"][f"{number}/tcp"]
    assert int(bound["HostPort"]) > number
    assert any(bound["HostPort"] in line for line in reported)
    ensure_running(engine, made, RunOptions(ports=(port,)))
    bound = engine.api.inspect_container(name)["NetworkSettings"]["Ports"]["80/tcp"]
    assert bound == [{"HostIp": "127.0.0.1", "HostPort": str(number)}]


def test_a_container_for_results_is_of_the_image_and_settings_of_now(engine, recipe, base, sh, call, rebuild):
    def measured(more: str) -> str:
        return own_container(engine, recipe(more), "bench", None)

    name = measured("    shm: 64MiB\n    mounts: [{source: old, target: /data}]\n")
    sh(name, "touch /made/work")
    assert measured("    shm: 64MiB\n    mounts: [{source: old, target: /data}]\n") == name
    assert sh(name, "ls /made/work; readlink /data") == "/made/work\n/workspace/old\n"
    new = "    shm: 128MiB\n    mounts: [{source: new, target: /data}]\n"
    assert measured(new) == name
    assert sh(name, "readlink /data; df -m /dev/shm | tail -n 1").split()[:3] == ["/workspace/new", "shm", "128"]
    assert "work" not in sh(name, "ls /made").split()
    sh(name, "touch /made/work")
    rebuild(f"FROM {base}\nENV NEW=1\n")
    rows = json.loads(call("ps", "--json").stdout)
    assert [row["stale"] for row in rows if row["name"] == name] == [True]
    assert measured(new) == name
    assert sh(name, "echo $NEW; ls /made") == "1\n"


def test_a_trial_has_no_files_of_another_one_that_was_killed_or_still_runs(engine, made):
    with fresh_container(engine, made) as earlier:
        assert earlier(["touch", "/made/work"]).exit_code == 0
        with fresh_container(engine, made) as later:
            assert later(["ls", "/made/work"]).exit_code
        assert earlier(["ls", "/made/work"]).exit_code == 0
    assert engine.containers([f"reprokit.recipe={made.recipe.name}"]) == []


def test_a_container_for_results_gets_gpus_once_the_host_has_some(engine, recipe, monkeypatch):
    optional = recipe("    requires: {gpu: optional}\n")
    settings = ContainerSettings(workspace="/w", recipe_file="/r", shm=optional.variant.shm)
    described = ContainerInfo("c", labels={names.SETTINGS: to_label(settings)})
    monkeypatch.setattr(engine, "image", lambda name: None)

    def outdated(gpus: str | None, present: bool) -> bool:
        monkeypatch.setattr(engine, "has_gpu", lambda: present)
        return lifecycle._outdated(engine, optional, described, RunOptions(gpus=gpus, replace_stale=True))

    assert (outdated(None, False), outdated(None, True), outdated("none", True)) == (False, True, False)


def test_the_verbs_about_containers(engine, made, call):
    name = made.recipe.name

    def refused(hint: str, *words: str) -> None:
        done = call(*words)
        assert done.returncode == 2 and hint in done.stderr, done

    assert call("run", name, "--", "sh", "-c", "echo out; echo err >&2; exit 3").returncode == 3
    container = usual_name(engine, made)
    (row,) = [r for r in json.loads(call("ps", "--json").stdout) if r["recipe"] == name]
    assert (row["name"], row["state"], row["gpus"], row["stale"]) == (container, "running", "none", False)
    assert container in call("ps").stdout
    assert call("exec", f"{name}:cpu", "--", "pwd").stdout == "/workspace\n"
    log = call("logs", name).stdout
    assert "out\n" in log and "err\n" in log and "[exit 3 after " in log
    assert call("logs", name, "--tail", "2").stdout.splitlines()[0] == "/workspace"
    refused("reprokit stop", "rm", name)
    engine.api.pause(container)
    refused("reprokit stop", "rm", name)
    assert call("stop", name).stdout == f"stopped {container}\n"
    assert call("stop", name).stdout == f"{container} was not running\n"
    refused("reprokit run", "exec", name, "--", "true")
    refused(f"did you mean {name}", "stop", f"{name}x")
    assert call("rm", container).stdout == f"removed {container}\n"
    assert not list((Path(os.environ["REPROKIT_HOME"]) / "state" / "containers").glob("*.log"))
    other = unique("other")
    assert call("run", name, "--name", other, "--", "true").returncode == 0
    call("stop", other)
    refused("uses the recipe's own container", "exec", name, "--", "true")  # the other one is the only one
    call("rm", other)


def test_bad_input_exits_2_with_a_remedy(made, call):
    name = made.recipe.name
    options = ["-v missing:/x", "-p x", "-e X=\udcff", "--gpus some", "--shm-size 8", "-p 80:80 --network host"]
    commands = [["run", name, *each.split(), "--", "true"] for each in (*options, "--network nowhere")]
    commands += [["run", name, "--", "echo", "\udcff"], ["run", name], ["run", f"{name}:gpu", "--", "true"]]
    for words in (*commands, ["shell", name, "--failed"]):
        done = call(*words)
        assert done.returncode == 2, (words, done)
        assert done.stderr.startswith("error: ") and "\nhint: " in done.stderr, done.stderr


def test_a_stale_image_is_named_in_one_line_with_the_remedy(engine, recipe, base, rebuild, call):
    made = recipe()
    rebuild(f"FROM {base}\nLABEL reprokit.dockerfile={render(made).digest}\n")
    current = call("run", made.recipe.name, "--", "true")
    assert (current.returncode, current.stderr.count("stale")) == (0, 0)
    recipe('    env: {NEW: "1"}\n')
    notice = f"the image of {made.label} is stale: recipe or lock have changed since it was built"
    for verb, *command in (("run", "--", "true"), ("exec", "--", "true"), ("shell",)):
        done = call(verb, made.recipe.name, *command)
        assert done.returncode == 0
        stale = [line for line in done.stderr.splitlines() if "stale" in line]
        assert stale == [f"{notice}; `reprokit build {made.label}` renews it"]
    (row,) = [r for r in json.loads(call("ps", "--json").stdout) if r["recipe"] == made.recipe.name]
    assert row["stale"] is True


def test_a_machine_that_is_too_small_is_an_error(recipe, call):
    name = recipe("    requires: {memory: 900TiB}\n").recipe.name
    for command, hint in ((["run", name, "--", "true"], "`reprokit shell` opens"), (["build", name], "with --force")):
        done = call(*command)
        assert done.returncode == 3 and "host.memory=" in done.stderr and hint in done.stderr


def test_a_stopped_container_of_an_earlier_build(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    recipe, name = unique("old"), unique("old")
    old = engine.import_image(io.BytesIO(root_file_system()), recipe, "old", [])
    new = engine.import_image(io.BytesIO(tar_of({"x": b"new"})), f"reprokit/{recipe}", "v", [])
    labels = {names.NAME: name, names.RECIPE: recipe, names.VARIANT: "v", names.IMAGE: old}
    body = {"Image": old, "Cmd": ["/bin/sleep", "60"], "Labels": {**labels, names.OWNER: str(os.getuid())}}
    container = engine.create_container(name, body)
    try:
        # Anyone can copy the labels: the image's ID decides.
        assert not [each for each in leftovers(engine) if each.id == container]
        made.record(engine, old, "image", f"{recipe}:v")
        (leftover,) = leftovers(engine)
        assert leftover.id == container and leftover.why == "stopped, and its image was rebuilt"
        engine.start(container)
        assert leftovers(engine) == [] and not remove_leftover(engine, leftover)
        engine.stop(container, timeout_s=0)
        engine.tag(old, f"reprokit/{recipe}", "v")
        assert leftovers(engine) == [], "the image is the present one"
        assert remove_leftover(engine, leftover) and engine.container(name) is None
    finally:
        if engine.container(name):
            engine.remove(name, force=True)
        for image in (old, new):
            engine.remove_image(image, force=True)
