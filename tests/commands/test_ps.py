"""`reprokit ps` on a list of containers that a stand-in for the engine gives."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from reprokit.container import names
from reprokit.container.settings import ContainerSettings, Port, to_label
from reprokit.engine import ContainerInfo
from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount

SETTINGS = ContainerSettings(
    mounts=(BindMount("/home/ana/checkout/workspaces/fused-attention", "/workspace"),),
    ports=(Port("127.0.0.1", 8888, 8888),),
    recipe_file="/home/ana/checkout/recipes/fused-attention.yaml",
)


def listed(name: str, owner: int, recipe: str = "fused-attention") -> ContainerInfo:
    labels = {names.NAME: name, names.RECIPE: recipe, names.VARIANT: "cuda-debian", names.OWNER: str(owner)}
    labels |= {names.IMAGE: "sha256:1", names.SETTINGS: to_label(SETTINGS)}
    return ContainerInfo("1", name, state="running", created=time.time() - 7200, labels=labels)


OWN = "reprokit-fused-attention-cuda-debian-0123abcd"


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    found = [listed(OWN, 7), listed(f"{OWN}-bench", 7), listed("other", 7, "taco"), listed("theirs", 8)]
    engine = SimpleNamespace(
        containers=lambda labels: found if labels == [names.NAME] else [],
        image_id=lambda name: "sha256:2",
        host=SimpleNamespace(caller=lambda: SimpleNamespace(uid=7), workspace_path=lambda target: "/w"),
    )
    monkeypatch.setattr("reprokit.commands._options.engine_on", lambda on: nullcontext(engine))


def test_each_container_of_mine_has_one_line(call):
    title, *lines = call("ps").stdout.splitlines()
    assert title.split() == ["name", "state", "checkout", "created"]
    assert [line.split()[:4] for line in lines] == [
        [name, "running,", "old", "image"] for name in ("other", OWN, f"{OWN}-bench")
    ]


def test_all_has_those_of_others(call):
    rows = json.loads(call("ps", "--all", "--json").stdout)
    assert [row["name"] for row in rows if not row["own"]] == ["theirs"]
    assert "running, old image, another user's" in call("ps", "--all").stdout
    assert "theirs" not in call("ps", "--json").stdout


def test_details_of_one(call, error):
    for text in ("fused-attention", "fused-attention:cuda-debian", f"{OWN}-bench"):
        shown = call("ps", text).stdout
        assert "other" not in shown and f"{OWN}-bench" in shown
        assert "127.0.0.1:8888->8888" in shown and f"{SETTINGS.mounts[0].source}:/workspace" in shown
        assert [row["name"] for row in json.loads(call("ps", text, "--json").stdout)][-1] == f"{OWN}-bench"
    assert "did you mean other" in error(UsageError, "ps", "othr").message
