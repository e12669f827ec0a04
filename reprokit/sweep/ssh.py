"""Jobs on nodes: `reprokit bench --on NODE` runs here for each."""

from __future__ import annotations

from collections.abc import Sequence

from reprokit.config.nodes import Node
from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.nodes import config, survey
from reprokit.recipe.spelling import nearest
from reprokit.sweep.bench_process import BenchProcesses
from reprokit.sweep.places import PlaceRunner
from reprokit.sweep.runner import JobPlace

_LIMIT_S = 30.0
# Each GPU that a node names has a process here; no machine has so many.
_MOST_GPUS = 64


def nodes_of(names: Sequence[str], where: str) -> list[Node]:
    """The nodes by name. Raises UsageError for one that no configuration of the user names.

    The file may come from a stranger, who must not choose the addresses that the user's keys log in to.
    """
    known = config.known_names()
    for name in names:
        if name not in known:
            raise UsageError(
                f"{name!r} is not a node of your configuration{nearest(name, known)}",
                where,
                "add it under `nodes:` of the configuration, or to ~/.ssh/config",
            )
    return [config.find(name) for name in dict.fromkeys(names)]


def runner(nodes: Sequence[Node]) -> PlaceRunner:
    """A runner on the nodes that answer; the others are named, and a second name of one machine."""
    places = []
    machines: dict[str, str] = {}
    for answer in survey.survey(nodes, _LIMIT_S):
        if answer.seen is None or answer.inventory is None:
            notify(f"{answer.node.name} is left out: {answer.error}")
            continue
        first = machines.setdefault(answer.seen.machine or answer.node.name, answer.node.name)
        if first != answer.node.name:
            notify(f"{answer.node.name} is left out: it is the same machine as {first}")
            continue
        gpus = tuple(str(number) for number in range(min(len(answer.seen.gpus), _MOST_GPUS)))
        places.append(JobPlace(answer.node.name, answer.node.name, gpus))
    processes = BenchProcesses()
    return PlaceRunner(
        lambda: places, lambda job, place, device: processes.run(job, on=place.key, device=device), processes.stop
    )
