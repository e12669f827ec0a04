"""`bench --on`, `shell --on` and `--env-file` on a node, with real engines, ssh and a terminal."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.builds import TOOLS, root_file_system
from tests.support.cluster import Cluster
from tests.support.names import unique
from tests.support.terminals import typed
from tests.support.verbs import run_verb

pytestmark = pytest.mark.engine
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2024, licence: none}}
variants:
  cpu: {{base: "debian:12"}}
benchmarks:
  spmm:
    command: 'echo "took 5 ms for $TOKEN" | grep took'
    parse: {{values: [{{pattern: 'took (?P<value>\\S+) ms for token', metric: spmm, unit: ms}}]}}
"""


@pytest.fixture
def name(nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe here whose image is only on node1, and the file `env` with a variable."""
    name = unique("measured")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{name}.yaml").write_text(RECIPE.format(name=name))
    (tmp_path / "env").write_text("TOKEN=token\n")
    monkeypatch.chdir(tmp_path)
    put(nodes, name)
    return name


def put(nodes: Cluster, name: str, more: str = "") -> None:
    """The image on node1; `more` are labels."""
    changes = ["ENV PATH=/bin", f"LABEL reprokit.recipe={name} reprokit.variant=cpu {more}"]
    tools = (*TOOLS, "bash", "grep", "tail", "id", "kill", "pwd", "touch")
    nodes["node1"].engine().import_image(io.BytesIO(root_file_system(tools)), f"reprokit/{name}", "cpu", changes)


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "reprokit", *args]


Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(nodes: Cluster, name: str) -> Call:
    """A verb with `--on node1`."""

    def run(verb: str, *args: str) -> subprocess.CompletedProcess[str]:
        return run_verb(verb, name, "--on", nodes["node1"].login, *args)

    return run


def test_records_of_a_node_are_kept_here_and_name_it(nodes: Cluster, name: str, call: Call, tmp_path: Path):
    done = call("bench", "--env-file", "env", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    assert (record["samples"], record["node"], record["image_stale"]) == ([5.0], nodes["node1"].login, False)
    assert record["image_digest"] == nodes["node1"].engine().image(f"reprokit/{name}:cpu")["Id"]
    kept = (tmp_path / "results" / f"{name}.jsonl").read_text()
    assert [json.loads(line)["node"] for line in kept.splitlines()] == [record["node"]]
    (container,) = nodes["node1"].engine().containers([f"reprokit.recipe={name}"])
    assert container["State"] == "exited"

    # The same image with the label of another Dockerfile.
    put(nodes, name, "reprokit.dockerfile=other")
    refused = call("bench", "--env-file", "env")
    assert refused.returncode == 1 and f"the image of {name}:cpu is stale" in refused.stderr, refused.stderr
    forced = call("bench", "--env-file", "env", "--stale", "--json")
    assert forced.returncode == 0, forced.stderr
    assert json.loads(forced.stdout)["records"][0]["image_stale"] is True


def test_variables_of_a_file_here_reach_the_command_and_stay_nowhere(nodes: Cluster, name: str, call: Call):
    done = call("run", "--env-file", "env", "--network", "none", "--", "sh", "-c", "echo $TOKEN")
    assert (done.returncode, done.stdout) == (0, "token\n"), done.stderr
    again = call("exec", "--", "sh", "-c", 'echo "${TOKEN:-none}"')
    assert (again.returncode, again.stdout) == (0, "none\n"), again.stderr
    (container,) = nodes["node1"].engine().containers([f"reprokit.recipe={name}"])
    assert "TOKEN" not in json.dumps(nodes["node1"].engine().container(container["Id"]))


def test_a_shell_opens_there(nodes: Cluster, name: str):
    words = command("shell", name, "--on", nodes["node1"].login, "--env-file", "env", "--network", "none")
    code, seen = typed(words, b"test -t 0 && echo a-$((6 * 7))-$TOKEN; exit 5\n")
    assert code == 5 and b"a-42-token" in seen, seen
