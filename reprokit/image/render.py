"""The Dockerfile of a variant, for plain `docker build`.

The same variant gives the same bytes. Values of recipes are written only through the filters of `quoting`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.errors import UsageError
from reprokit.image import quoting
from reprokit.image.facts import template_facts
from reprokit.image.own_blocks import checked, render_own
from reprokit.recipe.blocks import argument, templates
from reprokit.recipe.find import Target
from reprokit.recipe.uses import Use
from reprokit.supply.kinds.apt.install import AptInstall
from reprokit.supply.lock.model import KINDS, VariantLock
from reprokit.supply.store import key_of
from reprokit.untrusted.files import Folder

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment


_READS = "REPROKIT_SECRETS=/run/secrets"  # in images/secrets.j2


@dataclass(frozen=True)
class Rendered:
    """A Dockerfile, and the block of each of its lines.

    `spans` are `(first line, last line, block)`, 1-based and without gaps; `installs` are the calls of apt in order.
    `context` are the files that it copies, by their paths in the build context. `secrets` are the names of the secrets
    that its steps read.
    """

    dockerfile: str
    spans: tuple[tuple[int, int, str], ...]
    installs: tuple[AptInstall, ...] = ()
    context: Mapping[str, bytes] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the Dockerfile, 64 hex digits."""
        return hashlib.sha256(self.dockerfile.encode()).hexdigest()

    def locked_hash(self, lock: VariantLock) -> str:
        """The hash of all inputs of the locked variant, known before anything is fetched."""
        return key_of({"dockerfile": self.digest, "lock": lock.hash})

    def declares(self, argument: str) -> bool:
        """Whether an instruction declares this build argument."""
        return re.search(rf"^ARG {argument}\b", self.dockerfile, re.MULTILINE) is not None

    @cached_property
    def sets(self) -> dict[str, tuple[str, ...]]:
        """The blocks that have their own locked set, by kind of input."""
        names = dict.fromkeys(block for *_, block in self.spans)
        return {kind: tuple(n for n in names if self.declares(argument(kind, n))) for kind in KINDS}

    def block_at(self, line: int) -> str:
        """The block of a line."""
        return next((block for first, last, block in self.spans if first <= line <= last), self.spans[-1][2])

    def write(self, folder: Path) -> None:
        """Write the build context, with the Dockerfile, for `docker build`. Raises OSError."""
        with Folder(folder) as opened:
            for name, content in {"Dockerfile": self.dockerfile.encode(), **self.context}.items():
                with opened.replacing(name) as file:
                    file.write(content)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The line of each instruction."""
        return tuple(instruction_lines(self.dockerfile))


def instruction_lines(dockerfile: str) -> list[int]:
    """The 1-based line on which each instruction of a Dockerfile begins."""
    lines = []
    continued = False
    for number, line in enumerate(dockerfile.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not continued:
            lines.append(number)
        continued = line.rstrip().endswith("\\")
    return lines


def render(target: Target) -> Rendered:
    """The Dockerfile of one variant. Raises UsageError if its blocks, options or pins are wrong."""
    try:
        return _Dockerfile(target).render()
    except UsageError as error:
        error.where = error.where or str(target.path)
        raise


class _Dockerfile:
    """A growing Dockerfile: its parts, and the packages that apt installed before the current stage."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.facts = template_facts(target)
        self.parts: list[tuple[str, str]] = []
        self.installs: list[AptInstall] = []
        self.of_base: tuple[str, ...] = ()
        self.of_image: tuple[str, ...] = ()
        self.stages: list[str] = []  # that a COPY can name
        self.secrets: list[tuple[str, str]] = []  # block and name

    def render(self) -> Rendered:
        """Parts follow each other as `uses` orders them: recipes with equal first blocks share these layers."""
        self.parts.append(("base", _head(self.target)))
        self.parts.append(("base", self.part("final", self.target.uses[0], [])))
        self.of_base = self.of_image
        stage = packages = "base"  # the stage that becomes the image, and the last one without products of sources
        made: list[str] = []  # the parts `adds` of the blocks since then
        before = ["base"]
        for use in self.target.uses[1:]:
            text = ""
            if built := self.build_stage(use, stage, packages, made, before):
                text = f"{built}\nFROM {stage} AS with-{use.stage}\n"
                self.stages.append(use.stage)
                stage = f"with-{use.stage}"
            elif stage == "base":
                stage = "image"
                text = "FROM base AS image\n"
            self.parts.append((use.spec.name, text + self.part("final", use, before)))
            if use.spec.made_of == "sources":
                made.append(self.part("adds", use, before))
            else:
                packages, made = stage, []
            before.append(use.spec.name)
        for use in self.target.uses:
            if late := self.part("late", use, before):
                self.parts.append((use.spec.name, late))
        self.parts.append(("env", _tail(self.target)))
        self.check_secrets()
        secrets = tuple(sorted({name for _, name in self.secrets}))
        text, spans = _joined(self.parts)
        context = {f"patches/{path}": content for path, content in self.target.patches.items()}
        return Rendered(text, spans, tuple(self.installs), context, secrets)

    def build_stage(self, use: Use, stage: str, packages: str, made: Sequence[str], before: list[str]) -> str:
        """The stage of a block's part `build`; "" if it has none.

        A stage of sources starts at the base, so that only another base invalidates it. Another one installs its tools
        before it copies sources and their products, so that a changed source does not install the tools again.
        """
        if use.spec.build_from != "image":
            built = self.part("build", use, []) if use.spec.build_from else ""
            return built and f"FROM base AS {use.stage}\n{built}"
        tools = self.part("tools", use, before)
        built = self.part("build", use, before)
        if not tools:
            return built and f"FROM {stage} AS {use.stage}\n{built}"
        return f"FROM {packages} AS {use.stage}\n{tools}{''.join(made)}{built}"

    def part(self, part: str, use: Use, before: list[str]) -> str:
        """The part `tools`, `build`, `adds`, `final` or `late` of a block; "" if it has none.

        `adds` is what `final` adds to the image, without its checks.
        """
        own = {"block": use.spec.name, "stage": use.stage, "options": use.options, "before": before}
        own["secrets"] = use.secrets
        facts = {**self.facts, **own, "bounds": use.bounds}
        installs: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = []
        if use.own:
            if (made := render_own(use.own, facts).get(part)) is None:
                return ""
            text, installs = checked(made.text, str(use.own.path), self.stages), made.installs
        else:
            template = template_environment().get_template(f"blocks/{use.spec.name}.j2")
            if part not in template.blocks:
                return ""
            text = "".join(template.blocks[part](template.new_context({**facts, "installs": installs})))
        if use.secrets:
            text, reads = _with_mounts(text, use.secrets)
            self.secrets += [(use.spec.name, name) for name in use.secrets if reads]
        # Where the commands run: in the stage of the block, or in the image if it has none.
        if text and use.spec.build_args and (part == "build" or (part == "final" and use.stage not in self.stages)):
            text = _arguments(self.target) + text
        earlier = self.of_base if part == "build" and use.spec.build_from == "base" else self.of_image
        for packages, components in installs:
            self.installs.append(AptInstall(use.spec.name, packages, earlier, components))
            earlier += packages
        if part not in ("tools", "build"):
            self.of_image = earlier
        # Declared only if used: an argument enters the layer cache's key of every later step.
        return (f"ARG {argument('apt', use.spec.name)}=\n" if installs else "") + text

    def check_secrets(self) -> None:
        """Raises UsageError for an own block that names a secret and does not read it."""
        for use in self.target.uses:
            if missing := [name for name in use.secrets if (use.spec.name, name) not in self.secrets]:
                hint = 'write {% include "secrets.j2" %} after {% include "expect.j2" %} in its RUN'
                raise UsageError(f"block {use.spec.name} names the secret {missing[0]} but reads none", hint=hint)


def _with_mounts(text: str, secrets: Sequence[str]) -> tuple[str, bool]:
    """A block's text, in which each RUN that includes secrets.j2 mounts them, and whether there is such a RUN."""
    lines, reads = text.split("\n"), False
    starts = instruction_lines(text)
    for start, end in zip(starts, [*starts[1:], len(lines) + 1], strict=False):
        if lines[start - 1].startswith("RUN ") and any(_READS in line for line in lines[start - 1 : end - 1]):
            mounts = "".join(f" --mount=type=secret,id={quoting.word(name)},required=true" for name in secrets)
            lines[start - 1], reads = f"RUN{mounts}{lines[start - 1][3:]}", True
    return "\n".join(lines), reads


def _head(target: Target) -> str:
    name = f"{quoting.word(target.recipe.name)}, variant {quoting.word(target.variant_name)}"
    step = template_environment().get_template("step.j2").render()
    return f"# {name}\nARG BASE={quoting.word(target.variant.base)}\nFROM ${{BASE}} AS base\n{step}"


def _arguments(target: Target) -> str:
    """The variant's `build_args` for the commands that follow in the stage; they are not in the image's environment."""
    return "".join(f"ARG {name}={quoting.env(value)}\n" for name, value in target.variant.build_args.items())


def _tail(target: Target) -> str:
    lines = [f"ENV {quoting.word(name)}={quoting.env(value)}" for name, value in target.variant.env.items()]
    folder = target.variant.workdir
    if folder != "/workspace":  # the block base makes that one; WORKDIR would, with the time of the build
        lines.append(f"RUN mkdir -p {quoting.sh(folder)}")
    lines += [f"WORKDIR {quoting.word(folder)}", 'SHELL ["/bin/sh", "-c"]']
    return "\n".join(lines) + "\n"


def _joined(parts: list[tuple[str, str]]) -> tuple[str, tuple[tuple[int, int, str], ...]]:
    """The text of all parts, and its spans."""
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
    return text, tuple(spans)


@cache
def template_environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import FileSystemLoader

    from reprokit.image.sandbox import quoting_environment

    return quoting_environment(FileSystemLoader(templates()))
