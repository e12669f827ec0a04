"""Blocks that many recipes share come first, and are the same bytes in all of them."""

from __future__ import annotations

import re

import pytest

from reprokit.image.blocks import uses
from reprokit.image.render import Rendered, render
from reprokit.recipe import find
from tests.support.rendering import source, target

# The most shared first.
ORDER = ["base", "python", "cuda", "cudnn", "torch"]
LABELS = [t.label for name in find.recipe_names() for t in find.targets(name)]


def until(rendered: Rendered, block: str) -> str:
    """The Dockerfile from its first stage to the end of a block."""
    last = max(last for _, last, name in rendered.spans if name == block)
    text = "\n".join(rendered.dockerfile.splitlines()[:last])
    return text[text.index("FROM ") :].rstrip()


@pytest.mark.parametrize("label", LABELS)
def test_recipes_write_shared_blocks_first(label):
    used = uses(find.target(label))
    shared = [use.spec.name for use in used if use.spec.name in ORDER and use.options.get("from") != "wheel"]
    assert shared == sorted(shared, key=ORDER.index)
    assert [use.spec.name for use in used][: len(shared)] == shared


def test_the_recipes_on_one_cuda_and_torch_are_the_same_bytes_up_to_torch():
    labels = ("bytetransformer:cuda-debian", "faith:cuda-debian", "thgnn:cuda-debian")
    texts = {until(render(find.target(label)), "torch") for label in labels}
    assert len(texts) == 1 and "torch==1.13.1" in texts.pop()


COMMON = {"pins": {"python": "3.11", "torch": "2.0.0"}}


def test_what_is_the_papers_own_changes_nothing_before_it(tmp_path):
    one = render(target(tmp_path, **COMMON, wheels=["numpy==1.0"], blocks=["python", "torch", "wheels"]))
    two = render(
        target(
            tmp_path,
            **COMMON,
            apt=["make"],
            wheels=["setuptools==65.7.0"],
            sources=[source("a", "/a")],
            env={"TORCH_CUDA_ARCH_LIST": "8.0"},
            workdir="/a",
            blocks=[{"base": {"bash_as_sh": True}}, "python", "torch", "apt", "wheels", "git"],
        )
    )
    assert until(one, "torch") == until(two, "torch").partition("\n\nARG REPROKIT_APT=")[0]
    assert two.sets["apt"] == ("base", "python", "apt", "git")
    assert two.sets["wheels"] == ("torch", "wheels")
    assert (two.sets["git"], two.sets["files"]) == (("git",), ())


@pytest.mark.parametrize("label", LABELS)
def test_an_address_is_declared_by_the_block_that_uses_it_and_by_no_other(label):
    rendered = render(find.target(label))
    for number, line in enumerate(rendered.dockerfile.splitlines(), 1):
        if match := re.match(r"ARG (REPROKIT_(APT|WHEELS)\w*)=$", line):
            block = rendered.block_at(number)
            kind = match[2].lower()
            assert block in rendered.sets[kind]
            assert match[1] in (f"REPROKIT_{match[2]}", f"REPROKIT_{match[2]}_{block.upper()}")
    assert set(rendered.sets["apt"]) == {install.block for install in rendered.installs}
