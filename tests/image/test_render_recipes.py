"""What holds for the Dockerfile of each variant of each bundled recipe. Three of them are golden texts, too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

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


def test_spans_cover_every_line_and_name_every_block(variants: list[Variant]):
    for target, rendered in variants:
        lines = [number for first, last, _ in rendered.spans for number in range(first, last + 1)]
        assert lines == list(range(1, len(rendered.dockerfile.splitlines()) + 1)), target.label
        assert {block for *_, block in rendered.spans} >= {use.spec.name for use in target.uses}, target.label
        assert render(find.target(target.label)) == rendered, target.label


def test_docker_build_takes_it(variants: list[Variant]):
    """Only instructions of the first Dockerfile syntax, and copies only from stages above."""
    for target, rendered in variants:
        stages = set[str]()
        lines = rendered.dockerfile.splitlines()
        for number in rendered.steps:
            words = lines[number - 1].split()
            assert words[0] in {"ARG", "FROM", "RUN", "ENV", "COPY", "WORKDIR", "SHELL"}, target.label
            if words[0] == "FROM" and "AS" in words:
                stages.add(words[-1])
            assert words[0] != "COPY" or words[1].removeprefix("--from=") in stages, target.label
        assert "<<" not in rendered.dockerfile and "--mount" not in rendered.dockerfile, target.label


def test_every_pin_is_asserted(variants: list[Variant]):
    """Except for historic stacks, for whose pins no block may exist."""
    for target, rendered in variants:
        asserted = [line for line in rendered.dockerfile.splitlines() if "expect " in line]
        pins = [value.partition("+")[0] for value in target.variant.pins.values()]
        assert target.variant.historic or all(any(pin in line for line in asserted) for pin in pins), target.label


def test_package_lists_go_in_the_layer_that_made_them(variants: list[Variant]):
    for target, rendered in variants:
        for step in rendered.dockerfile.split("\nRUN ")[1:]:
            updates = step.count("apt-get $sources update")
            assert updates == step.count("rm -f /var/lib/apt/lists/*_*"), target.label
        variables = [line for line in rendered.dockerfile.splitlines() if line.startswith("ENV")]
        assert "DEBIAN_FRONTEND" not in "".join(variables), target.label


def test_shared_blocks_come_first_and_are_the_same_bytes(variants: list[Variant]):
    for target, _ in variants:
        names = [use.spec.name for use in target.uses]
        shared = [
            use.spec.name for use in target.uses if use.spec.name in SHARED and use.options.get("from") != "wheel"
        ]
        assert shared == sorted(shared, key=SHARED.index) == names[: len(shared)], target.label
    texts = set()
    for label in ("bytetransformer:cuda-debian", "faith:cuda-debian", "thgnn:cuda-debian"):
        rendered = render(find.target(label))
        last = max(last for _, last, block in rendered.spans if block == "torch")
        text = "\n".join(rendered.dockerfile.splitlines()[:last])
        texts.add(text[text.index("FROM ") :].rstrip())
    assert len(texts) == 1 and "torch==1.13.1" in texts.pop()


def test_an_address_is_declared_by_the_block_that_uses_it_and_by_no_other(variants: list[Variant]):
    for target, rendered in variants:
        for number, line in enumerate(rendered.dockerfile.splitlines(), 1):
            if match := re.match(r"ARG (REPROKIT_(APT|WHEELS)\w*)=$", line):
                block = rendered.block_at(number)
                assert block in rendered.sets[match[2].lower()], target.label
                assert match[1] in (f"REPROKIT_{match[2]}", f"REPROKIT_{match[2]}_{block.upper()}"), target.label
        assert set(rendered.sets["apt"]) == {install.block for install in rendered.installs}, target.label
