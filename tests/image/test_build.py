"""Builds by a real engine."""

from __future__ import annotations

import json
import threading
from urllib.parse import urlsplit

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.image import run
from reprokit.image.events import BuildStep, Cached, Note, OutputLine
from reprokit.supply.gateway import Gateway
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

MADE = "# block tool\nENV TOOL=1\nRUN echo made >/made; echo some output\n"


def test_an_image_says_what_it_is(builds, engine, inside, builder: str):
    result = builds(MADE, builder=builder)
    assert result.built and result.name == f"reprokit/{builds.target.label}"
    config = engine.image(result.name)["Config"]
    labels = {k.removeprefix("reprokit."): v for k, v in config["Labels"].items()}
    assert labels["recipe"] == builds.target.recipe.name and labels["variant"] == "v"
    assert labels["inputs"] == result.inputs and len(result.inputs) == 64
    assert json.loads(labels["pins"]) == {"python": "3.11"}
    base = builds.target.variant.base
    assert json.loads(labels["base"]) == {
        "reference": base, "digest": "", "how": "engine", "id": engine.image(base)["Id"],
    }  # fmt: skip
    assert labels["min-driver"] == "450.80.02" and labels["compute-capabilities"] == "8.0"
    assert "TOOL=1" in config["Env"]
    assert inside(result.name, "cat /made") == "made\n"
    steps = builds.seen(BuildStep)
    assert ("tool", "RUN echo made >/made; echo some output") in [(s.block, s.text) for s in steps]
    assert OutputLine("some output") in builds.events


def test_the_same_inputs_are_built_once(builds, builder: str):
    first = builds(MADE, builder=builder)
    again = builds(MADE, builder="classic")
    assert not again.built and again.image_id == first.image_id and again.log is None
    assert not builds.seen(BuildStep)
    assert builds(MADE, builder=builder, no_cache=True).built
    assert OutputLine("some output") in builds.events
    assert builds(MADE + "ENV MORE=1\n", builder=builder).inputs != first.inputs


def test_a_recording_build_names_no_image(builds, engine):
    result = builds(MADE, record=True, no_cache=True)
    assert result.built and (result.name, result.image_id) == ("", "")
    assert engine.image(f"reprokit/{builds.target.label}") is None


def test_another_gateway_is_the_same_layer(builds):
    # The gateway's port and password are other ones in each build.
    builds(MADE)
    builds(MADE + "ENV MORE=1\n")
    step = next(
        i for i, e in enumerate(builds.events) if isinstance(e, BuildStep) and e.text.startswith("RUN echo made")
    )
    assert builds.events[step + 1] == Cached()


def test_the_gateway_is_there_in_a_build_and_nowhere_after(builds, engine, inside, builder: str, monkeypatch):
    urls: list[str] = []
    monkeypatch.setattr(run.BuilderRun, "__init__", _noting(run.BuilderRun.__init__, urls))
    result = builds(
        'RUN test -n "$http_proxy" -a "$http_proxy" = "$HTTPS_PROXY"; echo proxy $http_proxy\n', builder=builder
    )
    secret = urlsplit(urls[0]).password
    assert secret
    kept = json.dumps([engine.image(result.name), engine.history(result.name)])
    kept += inside(result.name, "env; cat /etc/* 2>/dev/null")
    kept += result.log.read_text() + result.record.read_text() + repr(builds.events)
    assert secret not in kept
    assert "proxy http://reprokit:***@127.0.0.1:" in result.log.read_text()
    assert not [e for e in engine.image(result.name)["Config"]["Env"] if "proxy" in e.lower()]
    assert "127.0.0.1" not in json.dumps([engine.image(result.name), engine.history(result.name)])


def _noting(init, urls: list[str]):
    def noting(self, engine, target, options, inputs, gateway: Gateway, *more) -> None:
        urls.append(gateway.url)
        init(self, engine, target, options, inputs, gateway, *more)

    return noting


def test_log_and_record(builds, home):
    result = builds(MADE)
    assert result.log.parent == home / "state" / "logs"
    log = result.log.read_text().splitlines()
    assert log[0].startswith(f"# {builds.target.label}, inputs {result.inputs}") and log[-1] == "# built"
    assert "some output" in log
    record = json.loads(result.record.read_text())
    assert record["result"] == "built" and record["image"] == result.image_id
    assert record["inputs"] == result.inputs and record["base"]["how"] == "engine"
    assert record["hosts_asked"] == {} and record["builder"] == "classic"


def test_a_failed_step_names_its_block_and_first_cause(builds, home, builder: str):
    broken = "# block later\nRUN echo 'x.cc:3:1: error: no such thing'; echo 'make: *** [all] Error 2'; exit 3\n"
    with pytest.raises(WorkFailed) as error:
        builds(MADE + broken, builder=builder)
    text = error.value.message
    assert f"{builds.target.label}: block later failed: RUN echo" in text
    assert text.splitlines()[1:] == ["  x.cc:3:1: error: no such thing"]
    (log,) = (home / "state" / "logs").iterdir()
    assert str(log) in error.value.hint
    assert "make: *** [all] Error 2" in log.read_text()
    (record,) = (home / "state" / "builds").iterdir()
    assert json.loads(record.read_text())["block"] == "later"


def test_the_last_good_state_is_kept(builds, engine, inside):
    with pytest.raises(WorkFailed, match="block later failed") as error:
        builds(MADE + "# block later\nRUN echo half >/half; exit 1\n", keep_failed=True)
    name = f"reprokit/{builds.target.label}--failed"
    assert f"`reprokit shell {builds.target.label} --failed`" in error.value.hint
    labels = engine.image(name)["Config"]["Labels"]
    assert labels["reprokit.failed"] == "later" and "reprokit.inputs" not in labels
    assert inside(name, "cat /made; ls /half 2>&1").startswith("made\n")
    assert engine.image(f"reprokit/{builds.target.label}") is None


def test_options_that_exclude_each_other(builds):
    with pytest.raises(UsageError, match="--keep-failed needs the classic builder"):
        builds(MADE, builder="buildkit", keep_failed=True)
    with pytest.raises(UsageError, match="unknown builder 'kaniko'"):
        builds(MADE, builder="kaniko")


def test_no_container_is_left_by_a_failure(builds, engine):
    with pytest.raises(WorkFailed):
        builds("RUN exit 1\n")
    mark = f"TEST={builds.target.recipe.name}"
    found = [engine.container(c["Id"]) for c in engine.containers([])]
    assert not [c["Id"] for c in found if c and mark in (c["Config"]["Env"] or ())]


class _Meeting(list):
    """The events of two builds. The one that is first goes on once the other one waits."""

    def append(self, event) -> None:
        super().append(event)
        if isinstance(event, BuildStep):
            wait_for(lambda: any(isinstance(seen, Note) and "waiting for it" in seen.text for seen in self))


def test_two_builds_of_one_recipe(builds, engine):
    results, notes = [], []

    def one() -> None:
        results.append(builds(MADE, engine=Engine.connect()))

    builds.events = _Meeting()
    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    notes = [e.text for e in builds.seen(Note)]
    assert sorted(r.built for r in results) == [False, True]
    assert results[0].image_id == results[1].image_id
    assert f"another build of {builds.target.label} is running; waiting for it" in notes


def test_engines_out_of_the_gateways_reach(builds, engine, monkeypatch):
    monkeypatch.setattr(Engine, "url", property(lambda self: "tcp://10.0.0.1:2375"))
    with pytest.raises(EngineError, match="on another machine"):
        builds(MADE)
    monkeypatch.undo()
