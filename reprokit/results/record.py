"""One benchmark result with its metric, hardware and inputs. All benchmarks write this record.

A record contains no host name and no path of the host, so that results can be published.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import statistics
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

import pydantic
from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter

SCHEMA = 2
_STRICT = ConfigDict(strict=True)
# Sums and squares of larger samples would overflow.
_Sample = Annotated[FiniteFloat, Field(ge=-1e150, le=1e150)]
_Count = Annotated[int, Field(ge=0, le=1 << 60)]
# JSON has lists; tuples keep records immutable.
_Numbers = Annotated[tuple[_Sample, ...], Field(strict=False)]
_Integer = Annotated[int, Field(ge=-(1 << 60), le=1 << 60)]
_Integers = Annotated[tuple[_Integer | None, ...], Field(strict=False)]
_Counts = Annotated[tuple[_Count, ...], Field(strict=False)]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]


@pydantic.dataclasses.dataclass(frozen=True, config=_STRICT)
class MachineFacts:
    """Constant facts of a machine; 0 or empty if unknown. Sizes are bytes."""

    sockets: _Count = 0
    cores: _Count = 0
    numa_nodes: _Count = 0
    memory: _Count = 0
    caches: Mapping[str, _Count] = field(default_factory=dict)


@pydantic.dataclasses.dataclass(frozen=True, config=_STRICT)
class MachineState:
    """The changing state of a machine, before or after a benchmark; None or empty if unknown.

    `load` is the number of processors that others kept busy, `throttles` counts the CPU's thermal slow-downs since it
    started. Clocks are MHz, temperatures degrees Celsius. The `gpu_` lists have one entry for each GPU, None and ""
    if it is unknown.
    """

    load: FiniteFloat | None = None
    cpu_clock: _Integer | None = None
    cpu_temperature: FiniteFloat | None = None
    throttles: _Integer | None = None
    gpu_clock: _Integers = ()
    gpu_temperature: _Integers = ()
    gpu_slowdown: _Texts = ()


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=_STRICT)
class Checkout:
    """`commit` is the commit of the workspace, `dirty` whether its tracked files differ from it.

    `changes` is git's tree of these files then. `warnings` are reasons to doubt the samples.
    """

    commit: str = ""
    dirty: bool | None = None
    changes: str = ""
    warnings: _Texts = ()


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=_STRICT)
class BenchOrigin(Checkout):
    """The origin of samples: image, workspace and machine.

    `input_hash` covers all inputs of the image, `lock_hash` the lock that it was built by. `image_digest` is the
    engine's ID of the image, `image_canonical` its canonical digest, the same on every engine, if it was computed.
    `image_state` is `built here`, `trusted` or `unverified`, `image_stale` whether it was built from other inputs than
    those of recipe and lock at that time, `image_verified` the verdict of `reprokit verify` on it. `node` is a node's
    alias, "" for this machine. `env_file` are marks of the values of `--env-file`.
    """

    input_hash: str
    image_digest: str
    image_canonical: str = ""
    image_state: str = ""
    image_stale: bool | None = None
    image_verified: str = ""
    lock_hash: str = ""
    node: str = ""
    env_file: Mapping[str, str] = field(default_factory=dict)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=_STRICT)
class Record(BenchOrigin):
    """`samples` are in `unit`, in the order of measurement; `time` is the start, UTC, ISO 8601.

    `variables` are those of `params` that the command was given; others were read from its output. `repeats` is the
    number of samples of each run of the command, 0 of one that did not print the case, `warm_up` the number of runs
    before them that were not measured, `seconds` the time of all these runs, `job` the job of a sweep. `environment` is
    what the program reports of itself (versions, build key), `files` the SHA-256 of its input files, `threads` the
    processors that the container may use, `clocks` known clock rates in MHz. `limited_by` is `compute`, `bandwidth` or
    `overhead` if the benchmark counts its work. `checked` is the number of results that a run compared with a
    reference, all of which were right. Empty means unknown.
    """

    metric: str
    unit: str
    samples: Annotated[_Numbers, Field(min_length=1)]
    params: Mapping[str, Any]
    recipe: str
    variant: str
    benchmark: str
    command: str
    cpu: str
    threads: _Integer
    gpu: str
    driver: str
    reprokit: str
    time: str
    clocks: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    repeats: _Counts = ()
    warm_up: _Count = 0
    machine: MachineFacts = field(default_factory=MachineFacts)
    before: MachineState = field(default_factory=MachineState)
    after: MachineState = field(default_factory=MachineState)
    limited_by: str = ""
    seconds: Annotated[FiniteFloat, Field(ge=0, le=1e9)] | None = None
    job: str = ""
    checked: _Count = 0
    schema: int = SCHEMA

    @property
    def spread(self) -> float | None:
        """Standard deviation over mean; None for a single sample or a mean of 0."""
        mean = statistics.fmean(self.samples)
        return statistics.stdev(self.samples) / abs(mean) if len(self.samples) > 1 and mean else None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons to distrust the samples, those about the image first."""
        unverified = ["the image is unverified"] if self.image_state == "unverified" else []
        stale = ["the image was built from other inputs than the recipe's"] if self.image_stale else []
        differs = ["the image differs from what its lock gives"] if self.image_verified == "differs" else []
        return (*stale, *unverified, *differs, *self.warnings)

    def to_json(self) -> str:
        """One line."""
        return json.dumps({**dataclasses.asdict(self), "spread": self.spread}, allow_nan=False)


ADAPTER = TypeAdapter(Record)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a record, which docs/record.schema.json publishes."""
    schema = ADAPTER.json_schema()
    schema["description"] = "\n\n".join(inspect.getdoc(part) or "" for part in (Record, BenchOrigin, Checkout))
    schema["properties"]["spread"] = {
        "description": "standard deviation over mean, computed from the samples",
        "anyOf": [{"type": "number"}, {"type": "null"}],
    }
    schema["properties"]["schema"]["const"] = SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "reprokit record", **schema}
