"""Whether a container gets the GPUs: asked of a real engine, and judged from recorded answers."""

from __future__ import annotations

import pytest

from reprokit.container.gpu import Rung
from reprokit.doctor.checks import gpu_container
from reprokit.engine import Engine
from tests.support.examined import FakeMachine
from tests.support.waiting import wait_for


def test_an_engine_without_the_toolkit_refuses(machine: FakeMachine, engine: Engine) -> None:
    machine.working_gpu()
    machine.engine = engine  # type: ignore[assignment]
    found = machine.find(gpu_container)
    assert [finding.rule for finding in found] == ["gpu_container.refused"]
    assert "could not select device driver" in found[0].reason and "nvidia-ctk" in found[0].remedy
    wait_for(lambda: not engine.containers([gpu_container.ROLE]))  # other tests ask for theirs, too


def test_containers_really_run(
    machine: FakeMachine, engine: Engine, debian_12: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU request any engine starts them. A base then has no nvidia-smi."""
    monkeypatch.setattr(gpu_container, "ladder", lambda request, support: [Rung("CDI", ())])
    machine.working_gpu()
    machine.engine = engine  # type: ignore[assignment]
    (found,) = machine.find(gpu_container)
    assert found.rule == "gpu_container.empty" and "nvidia-smi" in found.reason
    monkeypatch.setattr(gpu_container, "_base", lambda engine: "")
    (found,) = machine.find(gpu_container)
    assert found.severity == "info" and "accepts the request" in found.reason
    wait_for(lambda: not engine.containers([gpu_container.ROLE]))  # other tests ask for theirs, too


@pytest.mark.parametrize(
    ("listed", "rule"),
    [
        (["GPU 0: NVIDIA A100 (UUID: GPU-1)"], "gpu_container"),
        (["Failed to initialize NVML: Unknown Error"], "gpu_container.empty"),
        ([], "gpu_container.empty"),
    ],
)
def test_what_a_container_lists(
    machine: FakeMachine, engine: Engine, monkeypatch: pytest.MonkeyPatch, listed: list[str], rule: str
) -> None:
    machine.working_gpu()
    machine.engine = engine  # type: ignore[assignment]
    monkeypatch.setattr(gpu_container, "_gpus_in_container", lambda engine, requests: listed)
    (found,) = machine.find(gpu_container)
    assert found.rule == rule
