"""The schema of `recipes/*.yaml`, which `reprokit show --schema` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from math import prod
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from reprokit.recipe import fields as f
from reprokit.untrusted.model import FrozenModel

MOST_COMBINATIONS = 1000
_TIMES = {"s": 0, "ms": -3, "us": -6, "µs": -6, "μs": -6, "ns": -9}  # powers of ten of a second


class RecipePart(FrozenModel):
    model_config = ConfigDict(strict=True, populate_by_name=True)


class RequirementsFile(RecipePart):
    """Requirements in a file of the recipe's folder: `requirements.txt`, `pyproject.toml`, or pip's of conda's .yml."""

    file: f.BesidePath = Field(description="path below the recipe's folder")
    extras: list[f.Line] = Field(default=[], description="extras of the project in a pyproject.toml")
    groups: list[f.Line] = Field(default=[], description="dependency groups of a pyproject.toml")

    @property
    def form(self) -> Literal["lines", "project", "environment"]:
        if self.file.endswith((".yml", ".yaml")):
            return "environment"
        return "project" if self.file.endswith(".toml") else "lines"

    @model_validator(mode="after")
    def _check_form(self) -> RequirementsFile:
        if (self.extras or self.groups) and self.form != "project":
            raise ValueError("only a pyproject.toml has `extras` and `groups`")
        return self


class EnvironmentFile(RecipePart):
    """conda's `environment.yml`, in the recipe's folder."""

    file: f.BesidePath = Field(description="path below the recipe's folder")


class Sdist(RecipePart):
    """A release without a wheel. It is built inside the image, with the setuptools that `wheels` pins."""

    package: f.ExactRequirement = Field(description="NAME==VERSION")
    requires: list[f.Line] = Field(default=[], description="its dependencies at run time, such as numpy>=1.16")


class RecipeFile(RecipePart):
    """A plain file by its addresses: a release's archive, a script of an installer."""

    name: f.FileName = Field(description="its name in the lock and in the store")
    urls: list[f.HttpUrl] = Field(min_length=1, description="addresses that give the same bytes, tried in order")
    sha256: f.Sha256 | None = Field(
        default=None, description="if known; otherwise the first `reprokit lock` computes it"
    )
    path: f.ContainerPath = Field(description="absolute path in the image, of the file or (with `unpack`) the folder")
    unpack: bool = Field(default=False, description="true: unpack the archive (tar, zip) below `path`")


def _form(value: Any) -> str:
    return "(file)" if isinstance(value, dict | RecipePart) else "(text)"


WheelEntry = Annotated[
    Annotated[f.WheelRequirement, Tag("(text)")] | Annotated[RequirementsFile, Tag("(file)")],
    Discriminator(_form),
]
CondaEntry = Annotated[
    Annotated[f.CondaSpec, Tag("(text)")] | Annotated[EnvironmentFile, Tag("(file)")], Discriminator(_form)
]


class Paper(RecipePart):
    """The paper that a recipe reproduces."""

    title: f.Line = Field(description="as printed")
    venue: f.Line = Field(description="conference, journal or archive, without the year")
    year: int = Field(ge=1950, le=2100, description="year of the venue")
    urls: dict[str, f.HttpUrl] = Field(default={}, description="addresses by kind, such as paper, code, data")
    licence: f.Line = Field(description="licence of the paper's code; `none` if it states none")


class Source(RecipePart):
    """A git repository at one commit, checked out at `path` in the build."""

    name: f.Name = Field(description="its name in the options of blocks")
    git: f.GitUrl = Field(description="https:// address of the repository, or ssh:// on a host of your configuration")
    commit: f.Commit = Field(description="full 40 digits: branches and tags move")
    ref: f.Line = Field(default="", description="tag or branch of the commit, for readers")
    path: f.ContainerPath = Field(description="absolute path in the image")
    submodules: bool | list[f.SubmodulePath] = Field(
        default=False,
        description="true: check out all submodules, recursively, at their commits; a list: only those at these paths",
    )
    subset: list[f.WorkspacePath] = Field(default=[], description="only these paths of the tree")
    patches: list[f.SubmodulePath] = Field(
        default=[],
        max_length=100,
        description="files beside the recipe that `git apply` changes the source with, in order",
    )
    keep: bool = Field(default=True, description="false: only for blocks that build from it, not in the image")


class Data(RecipePart):
    """A file that benchmarks read. It is fetched for those that name it, and is in no image."""

    name: f.FileName = Field(description="its name in `inputs`")
    urls: list[f.HttpUrl] = Field(default=[], description="addresses that give the same bytes, tried in order")
    source: f.DataSource | None = Field(
        default=None, description="zenodo:RECORD in place of `urls`: the file `name` of that record"
    )
    sha256: f.Sha256 | None = Field(
        default=None, description="if known; otherwise the first `reprokit lock` computes it"
    )
    size: f.Size | None = Field(default=None, description="such as 1.5GB, if known; shown before it is fetched")

    @model_validator(mode="after")
    def _urls_or_source(self) -> Data:
        if bool(self.urls) == bool(self.source):
            raise ValueError("a file of `data` has either `urls` or `source`")
        return self


class Block(RecipePart):
    """One use of `images/blocks/NAME.j2`, written `NAME` or `NAME: {option: value}`."""

    name: f.Name = Field(description="a file of images/blocks")
    options: dict[str, f.BlockOption] = Field(default={}, description="options that the block declares")

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and len(value) == 1 and "name" not in value:
            ((name, options),) = value.items()
            return {"name": name, "options": options or {}}
        return value


class WorkspaceLink(RecipePart):
    """A folder of the workspace at another path of the container, as a link: only the workspace is mounted."""

    source: f.WorkspacePath = Field(description="path inside the workspace")
    target: f.LinkPath = Field(description="absolute path in the container, outside /workspace")
    read_only: Annotated[Literal[False], BeforeValidator(f.not_read_only)] = Field(
        default=False, description="always false: a link is writable"
    )


class Requires(RecipePart):
    """What the host must have. Sizes are bytes once read."""

    gpu: Literal["required", "optional", "none"] = Field(default="none", description="whether a GPU is needed")
    compute_capability: list[f.Capability] = Field(default=[], description="the GPUs that the variant is for")
    driver: f.Version | None = Field(default=None, description="oldest NVIDIA driver")
    memory: f.Size = Field(default=0, description="host memory, such as 8GiB")
    disk: f.Size = Field(default=0, description="free disk for image and build, such as 20GiB")


class Variant(RecipePart):
    """One way to build and run the paper."""

    description: f.Line = Field(default="", description="one line for `reprokit show`")
    extends: f.Name | None = Field(
        default=None, description="another variant: mappings are merged by key (null removes one), lists replaced"
    )
    base: f.ImageRef = Field(description="base image, such as debian:12")
    pins: dict[f.PinName, f.PinValue] = Field(
        default={}, description="exact versions, in quotes; a part of one stands for all its releases"
    )
    purpose: Literal["compile", "run", "ptx", "import"] = Field(
        default="compile", alias="for", description="purpose, as in `reprokit check --for`"
    )
    cxx_standard: Literal["11", "14", "17", "20"] | None = Field(default=None, description="of the paper's code")
    needs_apis: list[f.Line] = Field(
        default=[], description="APIs that its code calls and that some releases lack, as PIN:API, such as numpy:float"
    )
    sources: list[Source] = Field(default=[], description="git repositories, for the block git")
    blocks: list[Block] = Field(default=[], description="what is built, in order")
    apt: list[f.AptPackage] = Field(default=[], description="packages of the distribution, for the block apt")
    wheels: list[WheelEntry] = Field(
        default=[],
        description="for the block wheels: NAME==VERSION, a range, NAME @ git+https://REPOSITORY@COMMIT, or a file",
    )
    wheel_indexes: list[f.HttpUrl] = Field(
        default=[],
        description="package indexes, or pages of links (.html), for versions that the user's own index lacks",
    )
    sdists: list[Sdist] = Field(default=[], description="releases without a wheel, for the block wheels")
    files: list[RecipeFile] = Field(default=[], description="plain files, for the block files")
    conda: list[CondaEntry] = Field(
        default=[], description="for the block conda: NAME=VERSION[=BUILD], a range, or {file: environment.yml}"
    )
    conda_channels: list[f.Name] = Field(default=["conda-forge"], description="channels in order of priority")
    historic: bool = Field(
        default=False,
        description="true: the authors' own stack, kept for reference; used only if named as NAME:VARIANT",
    )
    build_args: dict[f.BuildArg, f.Line] = Field(
        default={},
        description="environment of the commands of blocks that build, not of the image; it is in its history",
    )
    env: dict[f.EnvName, f.Line] = Field(default={}, description="environment of its containers")
    workdir: f.ContainerPath = Field(default="/workspace", description="where its commands run")
    mounts: list[WorkspaceLink] = Field(
        default=[], max_length=100, description="folders of the workspace at other paths"
    )
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(default=[], description="ports to publish")
    shm: f.Size = Field(default=1 << 30, description="size of /dev/shm")
    requires: Requires = Field(default=Requires(), description="what the host must have")

    @model_validator(mode="after")
    def _check_mounts(self) -> Variant:
        targets = [mount.target for mount in self.mounts]
        for number, target in enumerate(targets):
            for other in targets[:number] + targets[number + 1 :]:
                if PurePosixPath(target).is_relative_to(other):
                    raise ValueError(f"the mount {target} is at or inside the mount {other}")
        return self

    @model_validator(mode="after")
    def _check_file_names(self) -> Variant:
        names = [file.name for file in self.files]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two entries of `files` are called {name}")
        return self


class Smoke(RecipePart):
    """A command that must succeed in the container, through `bash -c`."""

    command: str = Field(description="run through bash -c in the work folder")
    gpu: bool = Field(default=False, description="true: skipped without a GPU")
    expect: f.Regex | None = Field(default=None, description="regular expression of RE2 that the output must match")
    variants: list[f.Name] = Field(default=[], description="only for these variants; all if empty")


class Input(RecipePart):
    """A file that a benchmark reads; if missing, it is made by a command or fetched as `data`."""

    path: f.WorkspacePath = Field(description="relative to the work folder")
    make: str = Field(default="", description="run through bash -c in the work folder")
    data: str = Field(default="", description="name of an entry of `data`, which is copied to `path`")

    @model_validator(mode="after")
    def _check_origin(self) -> Input:
        if bool(self.make) == bool(self.data):
            raise ValueError("an input needs either `make` or `data`, not both")
        return self


class Value(RecipePart):
    """A line of output that contains a result: the group `value` of `pattern`."""

    pattern: f.Regex = Field(description="regular expression of RE2 with the group (?P<value>...)")
    metric: f.Name = Field(description="what it measures, such as spmm.time")
    unit: f.Line = Field(description="such as ms")

    @model_validator(mode="after")
    def _check_group(self) -> Value:
        if "(?P<value>" not in self.pattern:
            raise ValueError("pattern has no group (?P<value>...)")
        return self


class Parse(RecipePart):
    """How output is read: `lines` by patterns, `records` as JSON lines of metric, unit, samples."""

    format: Literal["lines", "records"] = Field(default="lines", description="plain lines, or JSON lines")
    context: list[f.Regex] = Field(
        default=[], description="lines whose named groups become parameters of later results"
    )
    values: list[Value] = Field(default=[], description="the lines that contain results")
    metrics: list[f.Name] = Field(default=[], description="with `format: records`: metrics that claims are about")
    expect: int | None = Field(default=None, ge=1, description="number of results of a complete run")

    @model_validator(mode="after")
    def _check_values(self) -> Parse:
        if self.format == "lines" and not self.values:
            raise ValueError("`format: lines` needs `values`")
        return self


class BenchmarkSummary(RecipePart):
    """The table that `bench` shows of a benchmark: one implementation beside the fastest of the others."""

    metric: f.Name = Field(description="a time that records with `impl` have")
    impl: f.Line = Field(description="the implementation that is compared")
    params: dict[str, list[str | int | float | bool]] = Field(
        default={}, description="only cases with one of these values of a parameter; all by default"
    )


class Benchmark(RecipePart):
    """A command whose output contains results."""

    command: str = Field(description="run through bash -c in the work folder")
    gpu: bool = Field(default=False, description="true: skipped without a GPU")
    inputs: list[Input] = Field(default=[], description="files that it reads")
    bundled: list[Literal["fused-attention", "operator-fusion"]] = Field(
        default=[], description="packages that come with reprokit; it runs in a folder that has them"
    )
    parse: Parse = Field(description="how its output is read")
    variants: list[f.Name] = Field(default=[], description="only for these variants; all if empty")
    matrix: dict[f.EnvName, Annotated[list[f.Variable], Field(min_length=1)]] = Field(
        default={}, description="run once for each combination of these values, which are variables of the command"
    )
    repeat: int = Field(default=1, ge=1, le=10_000, description="how often it runs unless --repeat is given")
    timeout: int | None = Field(default=None, ge=1, description="seconds for one run unless --timeout is given")
    summary: BenchmarkSummary | None = Field(
        default=None, description="the table that `bench` shows; by default all tables"
    )

    @model_validator(mode="after")
    def _check_matrix(self) -> Benchmark:
        if self.combination_count > MOST_COMBINATIONS:
            raise ValueError(f"`matrix` has {self.combination_count} combinations, more than {MOST_COMBINATIONS}")
        return self

    @property
    def measures(self) -> list[str]:
        """The metrics that the recipe states."""
        return [*(value.metric for value in self.parse.values), *self.parse.metrics]

    @property
    def parameters(self) -> list[str]:
        """The parameters of its records if `format` is `lines`."""
        patterns = [*self.parse.context, *(value.pattern for value in self.parse.values)]
        return [*self.matrix, *(name for text in patterns for name in re.findall(r"\(\?P<(\w+)>", text))]

    @property
    def combination_count(self) -> int:
        return prod(len(values) for values in self.matrix.values())

    def combinations(self) -> list[dict[str, str | int | float | bool]]:
        """The combinations of the matrix, the last key changing fastest; one empty combination without a matrix."""
        return [dict(zip(self.matrix, values, strict=True)) for values in product(*self.matrix.values())]


class ClaimBaseline(RecipePart):
    """The baseline of a claimed ratio: another metric, case or variant, or a number of the paper."""

    metric: f.Line = Field(default="", description="a benchmark's metric; by default that of the claim")
    params: dict[str, str | int | float | bool] = Field(
        default={}, description="parameters of its records; of several cases the best counts"
    )
    variant: f.Line = Field(default="", description="its variant; by default that of the claim's records")
    value: float | int | None = Field(default=None, description="a number in place of a metric")
    unit: f.Line = Field(default="", description="of `value`, such as ms; only times are converted")

    @model_validator(mode="after")
    def _one_origin(self) -> ClaimBaseline:
        if self.unit and self.value is None:
            raise ValueError("the `unit` of a baseline is that of its `value`")
        if (self.value is not None) == bool(self.metric or self.params or self.variant):
            raise ValueError("a baseline has either `value`, or `metric`, `params` or `variant`")
        return self


class Claim(RecipePart):
    """A result that the paper states."""

    metric: f.Line = Field(description="a benchmark's metric if one measures it, else words")
    value: float | int = Field(description="the number; with a baseline, how many times better")
    unit: f.Line = Field(default="", description="such as ms, or x for a ratio; only times are converted")
    benchmark: f.Line = Field(default="", description="only records of this benchmark; any by default")
    params: dict[str, str | int | float | bool] = Field(default={}, description="parameters of the records it is about")
    baseline: ClaimBaseline | None = Field(default=None, description="what a ratio is relative to")
    better: Literal["lower", "higher"] = Field(default="lower", description="which values of the metric are better")
    over: Literal["case", "best", "mean"] = Field(
        default="case", description="of several cases: there is only one, the best ratio, or the geometric mean"
    )
    tolerance: float = Field(default=0.1, gt=0, lt=1, description="relative difference that still reproduces it")
    hardware: f.Line = Field(description="hardware of the measurement, in words")
    gpu: f.Line = Field(
        default="",
        description="its GPU, as in `check --gpu`, or such as `8x A100`; `any` for some GPU, `none` for a CPU",
    )
    cpu: f.Line = Field(default="", description="words of its CPU's name, such as Xeon E5-2680")
    where: f.Line = Field(description="table, figure or section of the paper")


def unit_factor(unit: str, other: str) -> float | None:
    """The factor from `unit` to the other unit; None if they measure different things."""
    if unit == other:
        return 1.0
    return 10.0 ** (_TIMES[unit] - _TIMES[other]) if unit in _TIMES and other in _TIMES else None


def check_units(claims: Iterable[Claim], benchmark: str, units: Iterable[tuple[str, str]]) -> None:
    """Raises ValueError for a claim in another unit than the benchmark's; `units` are pairs of metric and unit."""
    for metric, unit in units:
        for claim in claims:
            if claim.metric != metric or claim.benchmark not in ("", benchmark):
                continue
            if claim.baseline and claim.baseline.value is None:
                continue
            claimed = claim.baseline.unit if claim.baseline else claim.unit
            if unit_factor(unit, claimed) is None:
                raise ValueError(f"the claim about {metric} is in {claimed!r}, but {benchmark} measures it in {unit!r}")


class Recipe(RecipePart):
    """One paper."""

    name: f.RecipeName = Field(description="the name of its file, without .yaml")
    paper: Paper = Field(description="what is reproduced")
    default: f.Name | None = Field(default=None, description="variant used when none is named; otherwise the first")
    workspace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] | None = Field(
        default=None,
        description="folder in workspaces/: the recipe's name with `_` for `-`; by default the name itself",
    )
    variants: dict[f.Name, Variant] = Field(min_length=1, description="ways to build and run it")
    smoke: list[Smoke] = Field(default=[], description="commands that test an image")
    benchmarks: dict[f.Name, Benchmark] = Field(default={}, description="commands that measure")
    data: list[Data] = Field(default=[], description="files that benchmarks read")
    claims: list[Claim] = Field(default=[], description="results that the paper states")

    @model_validator(mode="after")
    def _check_benchmarks(self) -> Recipe:
        names = [data.name for data in self.data]
        for name, benchmark in self.benchmarks.items():
            check_units(self.claims, name, ((value.metric, value.unit) for value in benchmark.parse.values))
            for file in benchmark.inputs:
                if file.data and file.data not in names:
                    raise ValueError(f"benchmark {name} reads {file.data!r}, which is not an entry of `data`")
        return self

    @model_validator(mode="after")
    def _check_default(self) -> Recipe:
        default = self.variants.get(self.default_variant)
        if default and default.historic:
            raise ValueError(f"the default variant {self.default_variant!r} is historic: set `default` to another one")
        return self

    @property
    def default_variant(self) -> str:
        return self.default or next(iter(self.variants))

    def benchmarks_of(self, variant: str) -> dict[str, Benchmark]:
        """The benchmarks that a variant runs, by name."""
        return {name: b for name, b in self.benchmarks.items() if not b.variants or variant in b.variants}
