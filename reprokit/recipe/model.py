"""What a recipe says: the schema that `recipes/*.yaml` fulfils and that `reprokit schema` prints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reprokit.recipe import fields as f

BlockOption = bool | int | str | list[str]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Paper(Model):
    """The paper that a recipe makes run again."""

    title: f.Line
    venue: f.Line
    year: int = Field(ge=1950, le=2100)
    urls: dict[str, f.HttpUrl] = Field(default={}, description="what it is (paper, code, data): address")
    licence: f.Line = Field(description="licence of the paper's code; `none` where it states none")


class Source(Model):
    """A git repository at one commit, checked out at `path` in the build."""

    name: f.Name
    git: f.GitUrl
    commit: f.Commit
    ref: f.Line = Field(default="", description="the tag or branch that the commit was, for readers")
    path: f.ContainerPath
    submodules: bool = Field(default=False, description="check out submodules too, recursively, at their commits")
    subset: list[f.WorkspacePath] = Field(default=[], description="only these paths of the tree are kept")
    keep: bool = Field(default=True, description="false: only blocks that build from it see it, not the image")


class Block(Model):
    """One use of `images/blocks/NAME.j2`, written `NAME` or `NAME: {option: value}`."""

    name: f.Name
    options: dict[str, BlockOption] = {}

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
    """A folder of the workspace at a path in the container."""

    source: f.WorkspacePath
    target: f.ContainerPath
    read_only: bool = False


class Requires(Model):
    """What the host must have. Sizes are bytes once read."""

    gpu: Literal["required", "optional", "none"] = "none"
    compute_capability: list[f.Capability] = Field(default=[], description="those that the variant is meant for")
    driver: f.Version | None = Field(default=None, description="lowest NVIDIA driver")
    memory: f.Size = Field(default=0, description="host memory, such as 8GiB")
    disk: f.Size = Field(default=0, description="free disk for image and build, such as 20GiB")


class Variant(Model):
    """One way to build and run the paper: a base, exact pins, blocks, and how its containers start."""

    description: f.Line = ""
    extends: f.Name | None = Field(
        default=None, description="another variant: mappings are merged key by key (null removes one), lists replaced"
    )
    base: f.ImageRef
    pins: dict[str, f.PinValue] = {}
    purpose: Literal["compile", "run", "ptx", "import"] = Field(
        default="compile", alias="for", description="what the stack is for, as in `reprokit check --for`"
    )
    cxx_standard: Literal["11", "14", "17", "20"] | None = None
    needs_apis: list[f.Line] = Field(default=[], description="removed APIs that the paper's code calls")
    sources: list[Source] = []
    blocks: list[Block] = []
    apt: list[f.AptPackage] = []
    wheels: list[f.WheelRequirement] = []
    wheel_indexes: list[f.HttpUrl] = Field(
        default=[], description="package indexes that are asked where the user's own have no such version"
    )
    env: dict[f.EnvName, f.Line] = {}
    workdir: f.ContainerPath = "/workspace"
    mounts: list[Mount] = []
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(default=[], description="container ports to publish")
    shm: f.Size = Field(default=1 << 30, description="size of /dev/shm")
    requires: Requires = Requires()

    @model_validator(mode="after")
    def _known_pins(self) -> Variant:
        from reprokit.recipe.spelling import nearest

        for name in self.pins:
            if name not in f.PIN_NAMES:
                raise ValueError(f"pins.{name} is not a pin{nearest(name, f.PIN_NAMES)}")
        names = [s.name for s in self.sources]
        if len(set(names)) != len(names):
            raise ValueError("two sources have one name")
        return self


class Smoke(Model):
    """A command that must succeed in the container, through `bash -c`."""

    command: str
    gpu: bool = Field(default=False, description="true: left out where there is no GPU")
    expect: f.Regex | None = Field(default=None, description="regular expression that the output must contain")
    variants: list[f.Name] = Field(default=[], description="only these variants; all if empty")


class Input(Model):
    """A file that a benchmark reads, relative to the work folder, and the command that makes it there if missing."""

    path: f.WorkspacePath
    make: str


class Value(Model):
    """A line of output that holds a figure: the group `value` of `pattern`."""

    pattern: f.Regex
    metric: f.Name
    unit: f.Line

    @model_validator(mode="after")
    def _has_value_group(self) -> Value:
        if "(?P<value>" not in self.pattern:
            raise ValueError("pattern has no group (?P<value>...)")
        return self


class Parse(Model):
    """How output becomes metrics: `lines` by patterns, `records` as JSON lines with metric, unit and samples."""

    format: Literal["lines", "records"] = "lines"
    context: list[f.Regex] = Field(default=[], description="named groups become parameters of the values after them")
    values: list[Value] = []
    expect: int | None = Field(default=None, ge=1, description="how many figures a complete run prints")

    @model_validator(mode="after")
    def _lines_have_values(self) -> Parse:
        if self.format == "lines" and not self.values:
            raise ValueError("format lines needs values")
        return self


class Benchmark(Model):
    """A command whose output carries figures."""

    command: str
    gpu: bool = False
    inputs: list[Input] = []
    parse: Parse
    variants: list[f.Name] = []


class Claim(Model):
    """A figure that the paper states."""

    metric: f.Line
    value: float | int
    unit: f.Line = ""
    hardware: f.Line
    where: f.Line = Field(description="table, figure or section of the paper")


class Recipe(Model):
    """One paper."""

    name: f.Name
    paper: Paper
    default: f.Name | None = Field(default=None, description="the variant meant when none is named; else the first")
    workspace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] | None = Field(
        default=None, description="folder below workspaces/; else the recipe's name"
    )
    variants: dict[f.Name, Variant] = Field(min_length=1)
    smoke: list[Smoke] = []
    benchmarks: dict[f.Name, Benchmark] = {}
    claims: list[Claim] = []

    @model_validator(mode="after")
    def _names_exist(self) -> Recipe:
        from reprokit.recipe.spelling import nearest

        named = [self.default] if self.default else []
        for part in (*self.smoke, *self.benchmarks.values()):
            named += part.variants
        for name in named:
            if name not in self.variants:
                raise ValueError(f"{name!r} is not a variant of this recipe{nearest(name, self.variants)}")
        return self

    @property
    def default_variant(self) -> str:
        return self.default or next(iter(self.variants))
