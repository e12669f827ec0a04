"""The Dockerfile of a variant, for plain `docker build`.

The same variant gives the same bytes. Values of recipes are written only through the filters of `quoting`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from reprokit.errors import UsageError
from reprokit.image import quoting
from reprokit.image.apt import apt_install
from reprokit.image.archives import unpacking
from reprokit.image.blocks import Use, uses, wheel_requirements
from reprokit.recipe.blocks import templates
from reprokit.recipe.find import Target, where_in
from reprokit.recipe.model import RecipeFile, Variant
from reprokit.supply.kinds.apt.install import AptInstall, repository

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment


@dataclass(frozen=True)
class Rendered:
    """A Dockerfile, and the block of each of its lines.

    `spans` are `(first line, last line, block)`, 1-based and without gaps; `installs` are the calls of apt in order.
    """

    dockerfile: str
    spans: tuple[tuple[int, int, str], ...]
    installs: tuple[AptInstall, ...] = ()

    def block_at(self, line: int) -> str:
        """The block of a line."""
        return next((block for first, last, block in self.spans if first <= line <= last), self.spans[-1][2])

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The line of each instruction: `steps[n - 1]` is the classic builder's `Step n/12`."""
        return tuple(instruction_lines(self.dockerfile))

    def block_of_step(self, step: int) -> str:
        """The block of the classic builder's `Step STEP/...`."""
        return self.block_at(self.steps[step - 1])


def instruction_lines(dockerfile: str) -> list[int]:
    """The 1-based line on which each instruction of a Dockerfile begins."""
    found = []
    continued = False
    for number, line in enumerate(dockerfile.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not continued:
            found.append(number)
        continued = line.rstrip().endswith("\\")
    return found


def render(target: Target) -> Rendered:
    """The Dockerfile of one variant. Raises UsageError if its blocks, options or pins are wrong."""
    try:
        return _render(target)
    except UsageError as error:
        error.where = error.where or str(target.path)
        raise


def _render(target: Target) -> Rendered:
    return _Dockerfile(target).render()


class _Dockerfile:
    """A growing Dockerfile: its parts, and what apt has installed before the current stage."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.uses = uses(target)
        self.facts = _facts(target)
        self.parts: list[tuple[str, str]] = []
        self.installs: list[AptInstall] = []
        self.of_base: tuple[str, ...] = ()
        self.of_image: tuple[str, ...] = ()

    def render(self) -> Rendered:
        self.add("base", _head(self.target, self.uses))
        self.add("base", self.part("final", self.uses[0], []))
        self.of_base = self.of_image
        here = "base"  # the stage that becomes the image
        for use in (u for u in self.uses if u.spec.build_from == "base"):
            self.add(use.spec.name, _stage("base", use.spec.name) + self.part("build", use, []))
            here = "image"
        if here == "image":
            self.add(self.uses[1].spec.name, _stage("base", "image"))
        before = ["base"]
        for use in self.uses[1:]:
            name = use.spec.name
            text = ""
            if use.spec.build_from == "image":
                text = _stage(here, name) + self.part("build", use, before) + "\n" + _stage(here, f"with-{name}")
                here = f"with-{name}"
            self.add(name, text + self.part("final", use, before))
            before.append(name)
        self.add("env", _tail(self.target))
        return _joined(self.parts, tuple(self.installs))

    def add(self, block: str, text: str) -> None:
        self.parts.append((block, text))

    def part(self, part: str, use: Use, before: list[str]) -> str:
        """The `build` or `final` part of a block."""
        template = template_environment().get_template(f"blocks/{use.spec.name}.j2")
        asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        facts = {**self.facts, "block": use.spec.name, "options": use.options, "before": before, "installs": asked}
        text = "".join(template.blocks[part](template.new_context(facts)))
        earlier = self.of_base if part == "build" and use.spec.build_from == "base" else self.of_image
        for packages, components in asked:
            self.installs.append(AptInstall(use.spec.name, packages, earlier, components))
            earlier += packages
        if part == "final":
            self.of_image = earlier
        return text


def _stage(start: str, name: str) -> str:
    """A new stage, which declares REPROKIT_APT again: an ARG ends with its stage."""
    return f"FROM {start} AS {name}\nARG REPROKIT_APT\n"


def _head(target: Target, used: tuple[Use, ...]) -> str:
    lines = [f"# {quoting.word(target.recipe.name)}, variant {quoting.word(target.variant_name)}"]
    lines.append(f"ARG BASE={quoting.word(target.variant.base)}")
    # In the order of the variant's fields, so that another order of blocks gives the same head.
    fields = [*Variant.model_fields]
    declaring = sorted((u.spec for u in used if u.spec.argument), key=lambda spec: fields.index(spec.installs))
    lines += [f"ARG {argument}" for argument in (*(spec.argument for spec in declaring), "REPROKIT_APT=")]
    return "\n".join(lines) + "\n" + _stage("${BASE}", "base")


def _tail(target: Target) -> str:
    lines = [f"ENV {quoting.word(name)}={quoting.env(value)}" for name, value in target.variant.env.items()]
    return "\n".join([*lines, f"WORKDIR {quoting.word(target.variant.workdir)}"]) + "\n"


def _joined(parts: list[tuple[str, str]], installs: tuple[AptInstall, ...]) -> Rendered:
    text, line = "", 1
    spans: list[tuple[int, int, str]] = []
    for block, part in parts:
        part = part if line == 1 else "\n" + part
        last = line + part.count("\n") - 1
        if spans and spans[-1][2] == block:
            spans[-1] = (spans[-1][0], last, block)
        else:
            spans.append((line, last, block))
        text += part
        line = last + 1
    return Rendered(text, tuple(spans), installs)


def _facts(target: Target) -> dict[str, Any]:
    """What templates know of a variant: plain values, each of which is written through a filter."""
    variant = target.variant
    return {
        "pins": dict(variant.pins),
        "major": {name: value.split(".")[0] for name, value in variant.pins.items()},
        "apt": list(variant.apt),
        "indexes": list(variant.wheel_indexes),
        "wheels": [_pinned(text) for text in wheel_requirements(target)],
        "sdists": [{**_pinned(sdist.package), "requires": sdist.requires} for sdist in variant.sdists],
        "sources": {s.name: s.model_dump() for s in variant.sources},
        "files": [_file(file) for file in variant.files],
        "conda": [_conda(spec) for spec in variant.conda],
        "conda_channels": list(variant.conda_channels),
        "kept_paths": _kept_paths(target),
        "base": repository(variant.base),
        "python": _python(target),
    }


def _file(file: RecipeFile) -> dict[str, Any]:
    """A file for templates, with its path below /files, where its own stage prepares it."""
    staged = f"/files{file.path}"
    how = unpacking(file.name) if file.unpack else None
    unpack = {"unpack": how.words("/tmp/file", staged) if how else (), "package": how.package if how else ""}
    return {**file.model_dump(), **unpack, "staged": staged, "staged_parent": staged.rpartition("/")[0]}


def _pinned(text: str) -> dict[str, str]:
    requirement = Requirement(text)
    version = next(iter(requirement.specifier)).version
    return {"text": str(requirement), "name": requirement.name, "version": version}


def _conda(spec: str) -> dict[str, str]:
    """The parts of `NAME=VERSION[=BUILD]` or `NAME==VERSION`."""
    name, _, rest = spec.partition("=")
    return {"text": spec, "name": name, "version": rest.lstrip("=").partition("=")[0]}


def _kept_paths(target: Target) -> list[str]:
    """Paths of the sources that stay in the image, without those inside another one."""
    kept = [s.path for s in target.variant.sources if s.keep]
    return [path for path in kept if not any(path.startswith(other + "/") for other in kept)]


def _python(target: Target) -> str:
    pin = target.variant.pins.get("python", "")
    if pin and not re.fullmatch(r"\d+\.\d+(\.\d+)?", pin):
        raise UsageError(
            f"the pin python {pin!r} needs a minor version",
            where_in(target, ("pins", "python")),
            'write for example "3.11"',
        )
    return "python" + ".".join(pin.split(".")[:2])


@cache
def template_environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(templates()),
        undefined=StrictUndefined,
        finalize=quoting.finished,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {**quoting.FILTERS, "apt_install": apt_install}
    return environment
