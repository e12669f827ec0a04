"""What holds for the Dockerfile of each variant of each bundled recipe. Three of them are golden texts, too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from reprokit.image.blocks import uses
from reprokit.image.render import Rendered, render
from reprokit.recipe import find
from reprokit.recipe.find import Target

# The smallest, one with CUDA of the distribution, and the one with the most blocks, on NVIDIA's image.
GOLDEN = ["fused-attention:cpu", "fused-attention:cuda-debian12", "faith:cuda"]
# Blocks that many recipes share come first, in this order.
SHARED = ["base", "python", "cuda", "cudnn", "torch"]

Variant = tuple[Target, Rendered]


@pytest.fixture(scope="module")
def variants() -> list[Variant]:
    targets = [target for name in find.recipe_names() for target in find.targets(name)]
    return [(target, render(target)) for target in targets]


@pytest.mark.parametrize("label", GOLDEN)
def test_golden_recipes(golden: Callable[[str, str], None], label: str):
    golden(f"recipes/{label.replace(':', '-')}.Dockerfile", render(find.target(label)).dockerfile)


def failing(variants: list[Variant], holds: Callable[[Target, Rendered], bool]) -> list[str]:
    return [target.label for target, rendered in variants if not holds(target, rendered)]


def test_the_same_recipe_gives_the_same_bytes(variants: list[Variant]):
    assert failing(variants, lambda target, rendered: render(find.target(target.label)) == rendered) == []


def test_spans_cover_every_line_and_name_every_block(variants: list[Variant]):
    def holds(target: Target, rendered: Rendered) -> bool:
        lines = [number for first, last, _ in rendered.spans for number in range(first, last + 1)]
        blocks = {block for *_, block in rendered.spans}
        return lines == list(range(1, len(rendered.dockerfile.splitlines()) + 1)) and blocks >= {
            use.spec.name for use in uses(target)
        }

    assert failing(variants, holds) == []


def test_docker_build_takes_it(variants: list[Variant]):
    """Only instructions of the first Dockerfile syntax, and copies only from stages above."""

    def holds(target: Target, rendered: Rendered) -> bool:
        stages = set[str]()
        lines = rendered.dockerfile.splitlines()
        for step, number in enumerate(rendered.steps, 1):
            words = lines[number - 1].split()
            if words[0] not in {"ARG", "FROM", "RUN", "ENV", "COPY", "WORKDIR", "SHELL"}:
                return False
            if rendered.block_of_step(step) != rendered.block_at(number):
                return False
            if words[0] == "FROM" and "AS" in words:
                stages.add(words[-1])
            if words[0] == "COPY" and words[1].removeprefix("--from=") not in stages:
                return False
        return "<<" not in rendered.dockerfile and "--mount" not in rendered.dockerfile

    assert failing(variants, holds) == []


def test_every_pin_is_asserted(variants: list[Variant]):
    """Except where the stack is historic: no block may exist for a pin of those."""

    def holds(target: Target, rendered: Rendered) -> bool:
        asserted = [line for line in rendered.dockerfile.splitlines() if "expect " in line]
        pins = [value.partition("+")[0] for value in target.variant.pins.values()]
        return target.variant.historic or all(any(pin in line for line in asserted) for pin in pins)

    assert failing(variants, holds) == []


def test_package_lists_go_in_the_layer_that_made_them(variants: list[Variant]):
    def holds(target: Target, rendered: Rendered) -> bool:
        steps = rendered.dockerfile.split("\nRUN ")[1:]
        variables = [line for line in rendered.dockerfile.splitlines() if line.startswith("ENV")]
        return "DEBIAN_FRONTEND" not in "".join(variables) and all(
            step.count("apt-get $sources update") == step.count("rm -f /var/lib/apt/lists/*_*") for step in steps
        )

    assert failing(variants, holds) == []


def test_shared_blocks_come_first(variants: list[Variant]):
    def holds(target: Target, rendered: Rendered) -> bool:
        used = uses(target)
        shared = [use.spec.name for use in used if use.spec.name in SHARED and use.options.get("from") != "wheel"]
        return shared == sorted(shared, key=SHARED.index) == [use.spec.name for use in used][: len(shared)]

    assert failing(variants, holds) == []


def test_an_address_is_declared_by_the_block_that_uses_it_and_by_no_other(variants: list[Variant]):
    def holds(target: Target, rendered: Rendered) -> bool:
        for number, line in enumerate(rendered.dockerfile.splitlines(), 1):
            if match := re.match(r"ARG (REPROKIT_(APT|WHEELS)\w*)=$", line):
                block = rendered.block_at(number)
                names = (f"REPROKIT_{match[2]}", f"REPROKIT_{match[2]}_{block.upper()}")
                if block not in rendered.sets[match[2].lower()] or match[1] not in names:
                    return False
        return set(rendered.sets["apt"]) == {install.block for install in rendered.installs}

    assert failing(variants, holds) == []
