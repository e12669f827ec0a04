"""What a recipe says: the schema that `recipes/*.yaml` fulfils and that `reprokit schema` prints."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from reprokit.recipe import fields as f


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Paper(Model):
    """The paper that a recipe makes run again."""

    title: f.Line = Field(description="as printed")
    venue: f.Line = Field(description="conference, journal or archive, without the year")
    year: int = Field(ge=1950, le=2100, description="year of the venue")
    urls: dict[str, f.HttpUrl] = Field(default={}, description="what it is (paper, code, data): address")
    licence: f.Line = Field(description="licence of the paper's code; `none` where it states none")


class Source(Model):
    """A git repository at one commit, checked out at `path` in the build."""

    name: f.Name = Field(description="what blocks call it")
    git: f.GitUrl = Field(description="https:// address of the repository")
    commit: f.Commit = Field(description="full 40 digits: branches and tags move")
    ref: f.Line = Field(default="", description="the tag or branch that the commit was, for readers")
    path: f.ContainerPath = Field(description="absolute path in the image")
    submodules: bool = Field(default=False, description="submodules too, recursively, at their commits")
    subset: list[f.WorkspacePath] = Field(default=[], description="only these paths of the tree are kept")
    keep: bool = Field(default=True, description="false: only blocks that build from it see it")


class File(Model):
    """A plain file by its addresses: a release's archive, a script of an installer."""

    name: f.FileName = Field(description="the name that it is kept under")
    urls: list[f.HttpUrl] = Field(min_length=1, description="addresses that give the same bytes, tried in order")
    sha256: f.Sha256 | None = Field(default=None, description="if known; else the first `reprokit lock` learns it")
    path: f.ContainerPath = Field(description="absolute path in the image: of the file, or of the folder with `unpack`")
    unpack: bool = Field(default=False, description="true: an archive (tar, zip), whose content goes below `path`")


class Data(Model):
    """A file that benchmarks read: fetched for those that name it, and part of no image."""

    name: f.FileName = Field(description="what `inputs` call it")
    urls: list[f.HttpUrl] = Field(min_length=1, description="addresses that give the same bytes, tried in order")
    sha256: f.Sha256 | None = Field(default=None, description="if known; else the first `reprokit lock` learns it")
    size: f.Size | None = Field(default=None, description="such as 1.5GB, if known: said before it is fetched")


class Sdist(Model):
    """A release that is on the index as source only.

    It is built inside the image, never on the host, with the setuptools (and whatever else) that `wheels` pins.
    """

    package: f.WheelRequirement = Field(description="NAME==VERSION")
    requires: list[f.Line] = Field(default=[], description="what it needs at run time, such as numpy>=1.16")


class Block(Model):
    """One use of `images/blocks/NAME.j2`, written `NAME` or `NAME: {option: value}`."""

    name: f.Name = Field(description="a file of images/blocks")
    options: dict[str, f.BlockOption] = Field(default={}, description="those that the block declares")

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and len(value) == 1 and "name" not in value:
            ((name, options),) = value.items()
            return {"name": name, "options": options or {}}
        return value


class Mount(Model):
    """A folder of the workspace at another path in the container, as a link: only the workspace itself is mounted."""

    source: f.WorkspacePath = Field(description="path inside the workspace")
    target: f.LinkPath = Field(description="absolute path in the container, outside /workspace")
    read_only: Annotated[Literal[False], BeforeValidator(f.not_read_only)] = Field(
        default=False, description="never true, as a link can be written through"
    )


class Requires(Model):
    """What the host must have. Sizes are bytes once read."""

    gpu: Literal["required", "optional", "none"] = Field(default="none", description="whether a GPU is needed")
    compute_capability: list[f.Capability] = Field(default=[], description="those that the variant is for")
    driver: f.Version | None = Field(default=None, description="lowest NVIDIA driver")
    memory: f.Size = Field(default=0, description="host memory, such as 8GiB")
    disk: f.Size = Field(default=0, description="free disk for image and build, such as 20GiB")


class Variant(Model):
    """One way to build and run the paper: a base, exact pins, blocks, and how its containers start."""

    description: f.Line = Field(default="", description="one line for `reprokit show`")
    extends: f.Name | None = Field(
        default=None, description="another variant: mappings are merged by key (null removes one), lists replaced"
    )
    base: f.ImageRef = Field(description="the image that it starts from, such as debian:12")
    pins: dict[f.PinName, f.PinValue] = Field(default={}, description="exact versions, in quotes; partial ones match")
    purpose: Literal["compile", "run", "ptx", "import"] = Field(
        default="compile", alias="for", description="what the stack is for, as in `reprokit check --for`"
    )
    cxx_standard: Literal["11", "14", "17", "20"] | None = Field(default=None, description="of the paper's code")
    needs_apis: list[f.Line] = Field(default=[], description="APIs that releases removed and its code calls")
    sources: list[Source] = Field(default=[], description="git repositories, for the block git")
    blocks: list[Block] = Field(default=[], description="what is built, in order")
    apt: list[f.AptPackage] = Field(default=[], description="packages of the distribution, for the block apt")
    wheels: list[f.WheelRequirement] = Field(default=[], description="NAME==VERSION, for the block wheels")
    wheel_indexes: list[f.HttpUrl] = Field(
        default=[],
        description="package indexes, or pages of links (.html), asked where the user's own have no such version",
    )
    sdists: list[Sdist] = Field(default=[], description="releases without a wheel, for the block wheels")
    files: list[File] = Field(default=[], description="plain files, for the block files")
    conda: list[f.CondaSpec] = Field(default=[], description="NAME=VERSION[=BUILD], for the block conda")
    conda_channels: list[f.Name] = Field(default=["conda-forge"], description="channels, the first one first")
    historic: bool = Field(
        default=False, description="true: the authors' own stack, kept to show why it cannot work; never built unasked"
    )
    env: dict[f.EnvName, f.Line] = Field(default={}, description="environment of its containers")
    workdir: f.ContainerPath = Field(default="/workspace", description="where its commands run")
    mounts: list[Mount] = Field(default=[], description="folders of the workspace at other paths")
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(default=[], description="ports to publish")
    shm: f.Size = Field(default=1 << 30, description="size of /dev/shm")
    requires: Requires = Field(default=Requires(), description="what the host must have")

    @model_validator(mode="after")
    def _mounts_are_apart(self) -> Variant:
        targets = [mount.target for mount in self.mounts]
        for number, target in enumerate(targets):
            for other in targets[:number] + targets[number + 1 :]:
                if PurePosixPath(target).is_relative_to(other):
                    raise ValueError(f"the mount {target} is at or below the mount {other}")
        return self

    @model_validator(mode="after")
    def _files_have_names_of_their_own(self) -> Variant:
        names = [file.name for file in self.files]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two entries of `files` are called {name}")
        return self


class Smoke(Model):
    """A command that must succeed in the container, through `bash -c`."""

    command: str = Field(description="run through bash -c in the work folder")
    gpu: bool = Field(default=False, description="true: left out where there is no GPU")
    expect: f.Regex | None = Field(
        default=None, description="what the output must match, as a regular expression of RE2"
    )
    variants: list[f.Name] = Field(default=[], description="only these variants; all if empty")


class Input(Model):
    """A file that a benchmark reads, and where it comes from when it is missing: a command, or the recipe's `data`."""

    path: f.WorkspacePath = Field(description="relative to the work folder")
    make: str = Field(default="", description="run through bash -c in the work folder")
    data: str = Field(default="", description="a name of the recipe's `data`, which is put at `path`")

    @model_validator(mode="after")
    def _one_origin(self) -> Input:
        if bool(self.make) == bool(self.data):
            raise ValueError("an input has either `make` or `data`")
        return self


class Value(Model):
    """A line of output that holds a figure: the group `value` of `pattern`."""

    pattern: f.Regex = Field(description="regular expression of RE2 with the group (?P<value>...)")
    metric: f.Name = Field(description="what it measures, such as spmm.time")
    unit: f.Line = Field(description="such as ms")

    @model_validator(mode="after")
    def _has_value_group(self) -> Value:
        if "(?P<value>" not in self.pattern:
            raise ValueError("pattern has no group (?P<value>...)")
        return self


class Parse(Model):
    """How output becomes metrics: `lines` by patterns, `records` as JSON lines of metric, unit, samples."""

    format: Literal["lines", "records"] = Field(default="lines", description="plain lines, or JSON lines")
    context: list[f.Regex] = Field(default=[], description="named groups become parameters of later values")
    values: list[Value] = Field(default=[], description="the lines that hold figures")
    expect: int | None = Field(default=None, ge=1, description="how many figures a complete run prints")

    @model_validator(mode="after")
    def _lines_have_values(self) -> Parse:
        if self.format == "lines" and not self.values:
            raise ValueError("format lines needs values")
        return self


class Benchmark(Model):
    """A command whose output carries figures."""

    command: str = Field(description="run through bash -c in the work folder")
    gpu: bool = Field(default=False, description="true: left out where there is no GPU")
    inputs: list[Input] = Field(default=[], description="files that it reads")
    parse: Parse = Field(description="how its output becomes figures")
    variants: list[f.Name] = Field(default=[], description="only these variants; all if empty")


class Claim(Model):
    """A figure that the paper states."""

    metric: f.Line = Field(description="a benchmark's metric where one measures it, else words")
    value: float | int = Field(description="the figure")
    unit: f.Line = Field(default="", description="such as ms, or x for a ratio")
    hardware: f.Line = Field(description="what it was measured on")
    where: f.Line = Field(description="table, figure or section of the paper")


class Recipe(Model):
    """One paper."""

    name: f.Name = Field(description="the name of its file, without .yaml")
    paper: Paper = Field(description="what is reproduced")
    default: f.Name | None = Field(default=None, description="the variant meant when none is named; else the first")
    workspace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] | None = Field(
        default=None, description="folder below workspaces/: the recipe's name with `_` for `-`; else its name as it is"
    )
    variants: dict[f.Name, Variant] = Field(min_length=1, description="ways to build and run it")
    smoke: list[Smoke] = Field(default=[], description="commands that show that an image works")
    benchmarks: dict[f.Name, Benchmark] = Field(default={}, description="commands that measure")
    data: list[Data] = Field(default=[], description="files that benchmarks read")
    claims: list[Claim] = Field(default=[], description="figures that the paper states")

    @model_validator(mode="after")
    def _data_is_listed(self) -> Recipe:
        names = [data.name for data in self.data]
        for name, benchmark in self.benchmarks.items():
            for file in benchmark.inputs:
                if file.data and file.data not in names:
                    raise ValueError(f"benchmark {name} reads {file.data!r}, which is no entry of `data`")
        return self

    @model_validator(mode="after")
    def _default_can_work(self) -> Recipe:
        default = self.variants.get(self.default_variant)
        if default and default.historic:
            raise ValueError(f"the default variant {self.default_variant!r} is historic: name another as `default`")
        return self

    @property
    def default_variant(self) -> str:
        return self.default or next(iter(self.variants))
