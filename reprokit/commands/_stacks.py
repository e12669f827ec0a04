"""The stacks that `check` and `solve` look at: of recipes, or of pins on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from reprokit import completion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprokit.compat.facts import Facts
    from reprokit.compat.model import KnownGpu, KnownHost, Purpose, ResolvedVersion, Stack
    from reprokit.recipe.find import Target

PINS = Annotated[str | None, typer.Option("--pins", metavar="NAME=VERSION,...", help="These pins instead of a recipe.")]
GPU = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu",
        metavar="NAME|none",
        help="A GPU by name, such as RTX3090, or by compute capability, such as 8.6; `none` for no GPU.",
        autocompletion=completion.choices(
            "none", "V100", "T4", "A100", "RTX3090", "RTX4090", "L4", "H100", "H200", "B200"
        ),
    ),
]
DRIVER = Annotated[str, typer.Option("--driver", metavar="VERSION", help="The NVIDIA driver, such as 470.57.02.")]
PURPOSE = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="compile|run|ptx|import",
        help="Purpose: compile (default), run prebuilt binaries, run PTX, or import only.",
        autocompletion=completion.choices("compile", "run", "ptx", "import"),
    ),
]


@dataclass(frozen=True)
class AskedFor:
    """What the command line says of the machine and of what the stack is for."""

    gpus: tuple[KnownGpu, ...]
    no_gpu: bool
    driver: str | None
    purpose: Purpose | None

    def stack_of_pins(self, pins: str) -> Stack:
        """Raises UsageError."""
        from reprokit.compat.model import Stack
        from reprokit.compat.pins import parse_pins

        driver = None if self.no_gpu else self.driver
        needs_gpu: Literal["required", "optional"] = "required" if self.gpus else "optional"
        return Stack(parse_pins(pins), self.purpose or "compile", self.gpus, driver, needs_gpu=needs_gpu)

    def stack_of(
        self,
        target: Target,
        host: KnownHost | None = None,
        resolved: Mapping[str, ResolvedVersion] = MappingProxyType({}),
    ) -> Stack:
        """The stack of a recipe's variant. `host` is checked for memory and disk, `resolved` beside the pins."""
        from reprokit.compat.stack import stack_of

        stack = stack_of(target.variant, self.gpus, self.driver, host, self.no_gpu, resolved)
        return replace(stack, purpose=self.purpose) if self.purpose else stack


def machine(facts: Facts, gpu: list[str], driver: str, purpose: str) -> AskedFor:
    """Raises UsageError."""
    from reprokit.compat.gpu import parse_gpu
    from reprokit.compat.model import PURPOSES
    from reprokit.compat.pins import check_driver
    from reprokit.errors import UsageError

    chosen = next((p for p in PURPOSES if p == purpose), None)
    if purpose and chosen is None:
        raise UsageError(f"--for {purpose} is not a purpose", hint=f"write one of {', '.join(PURPOSES)}")
    parsed = [parse_gpu(facts, name) for name in gpu]
    gpus = tuple(dict.fromkeys(g for g in parsed if g is not None))
    if gpus and None in parsed:
        raise UsageError("--gpu none excludes other GPUs")
    return AskedFor(gpus, bool(parsed) and not gpus, check_driver(driver) if driver else None, chosen)
