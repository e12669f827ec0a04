"""Blocks that many recipes share come first, and are the same bytes in all of them."""

from __future__ import annotations

from reprokit.image.render import Rendered, render
from reprokit.recipe import find
from tests.support.rendering import source, target


def until(rendered: Rendered, block: str) -> str:
    """The Dockerfile from its first stage to the end of a block."""
    last = max(last for _, last, name in rendered.spans if name == block)
    text = "\n".join(rendered.dockerfile.splitlines()[:last])
    return text[text.index("FROM ") :].rstrip()


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
