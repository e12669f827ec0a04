from __future__ import annotations

import pytest

from reprokit.container import gpu
from reprokit.errors import UsageError

CDI = ("nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=GPU-abc", "nvidia.com/gpu=all")


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("all", gpu.ALL),
        ("none", gpu.NONE),
        ("0", gpu.NONE),
        ("2", gpu.GpuRequest(2)),
        ("device=0,1", gpu.GpuRequest(devices=("0", "1"))),
        ("device=GPU-1a-2b", gpu.GpuRequest(devices=("GPU-1a-2b",))),
        ("device=MIG-1a", gpu.GpuRequest(devices=("MIG-1a",))),
        ('"device=0,1"', gpu.GpuRequest(devices=("0", "1"))),
    ],
)
def test_what_users_write(text, request_):
    assert gpu.parse_gpus(text) == request_
    assert gpu.parse_gpus(str(request_)) == request_


@pytest.mark.parametrize("text", ["", "any", "-1", "1.5", "device=", "device=0,", "device=0,0", "0,1", "device=a b"])
def test_what_is_no_choice(text):
    with pytest.raises(UsageError):
        gpu.parse_gpus(text)


def _ids(text: str) -> list[str]:
    first = gpu.ladder(gpu.parse_gpus(text), CDI)[0]
    assert first.name == "CDI"
    (request,) = first.requests
    assert request["Driver"] == "cdi"
    assert request["Count"] == 0
    return request["DeviceIDs"]


def test_cdi_comes_first_and_names_devices():
    assert _ids("all") == ["nvidia.com/gpu=all"]
    assert _ids("1") == ["nvidia.com/gpu=0"]
    assert _ids("2") == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    assert _ids("device=1,GPU-abc") == ["nvidia.com/gpu=1", "nvidia.com/gpu=GPU-abc"]


@pytest.mark.parametrize("text", ["3", "device=4"])
def test_cdi_refuses_what_it_does_not_know(text):
    with pytest.raises(UsageError):
        gpu.ladder(gpu.parse_gpus(text), CDI)


def test_the_runtime_is_asked_by_capability():
    for text, count, ids in (("all", -1, []), ("2", 2, []), ("device=0,1", 0, ["0", "1"])):
        (rung,) = gpu.ladder(gpu.parse_gpus(text), ())
        (request,) = rung.requests
        assert (request["Count"], request["DeviceIDs"]) == (count, ids)
        assert request["Capabilities"] == [["gpu"]]
    assert gpu.ladder(gpu.NONE, CDI) == [gpu.Rung("none", ())]


def test_the_engines_refusals_are_told_from_other_errors():
    words = 'could not select device driver "" with capabilities: [[gpu]]'
    assert gpu.refused(words)
    assert gpu.refused("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9")
    assert not gpu.refused("port is already allocated")
    assert "Container Toolkit" in gpu.no_gpu_error(gpu.ALL, words).hint
    assert "nvidia-smi" in gpu.no_gpu_error(gpu.ALL, "nvidia-container-cli: initialization error").hint
