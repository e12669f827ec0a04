"""Dockerfiles: what each field renders to, and what is refused before anything runs."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.image.blocks import wheel_requirements
from reprokit.image.render import instruction_lines, instructions, render
from reprokit.recipe.blocks import templates
from tests.support.rendering import source, target


def test_a_build_stage_of_sources_starts_at_the_base_so_that_wheels_do_not_undo_it(tmp_path):
    common = {"pins": {"python": "3.11"}, "sources": [source("a", "/a")], "blocks": ["python", "wheels", "git"]}
    one = render(target(tmp_path, wheels=["numpy==1.26.4"], **common)).dockerfile
    two = render(target(tmp_path, wheels=["numpy==1.26.3"], **common)).dockerfile
    of_git = [text[text.index("FROM base AS git") : text.index("FROM image AS with-git")] for text in (one, two)]
    assert of_git[0] == of_git[1] and "git fetch" in of_git[0] and one != two


def test_a_source_inside_another_comes_with_it(tmp_path):
    sources = [source("a", "/a"), source("b", "/a/b"), source("c", "/ab")]
    text = render(target(tmp_path, sources=sources, blocks=["git"])).dockerfile
    assert "for path in /a /ab; do" in text
    assert [line for line in text.splitlines() if line.startswith("COPY")] == ["COPY --from=git /product/ /"]


# Every pitfall that a block must meet with an assertion of its own.
VERIFIED = [
    "apt-expired-ca",
    "build-ok-artifact-missing",
    "conda-wrong-python",
    "cublas-not-found",
    "cuda-mismatch",
    "cudnn-header",
    "devel-vs-runtime",
    "llvm-config-path",
    "missing-python-package",
    "readme-prints-nothing",
    "submodule-missing",
    "tvm-cuda-off",
    "tvm-llvm-off",
]


@pytest.mark.parametrize("pitfall", VERIFIED)
def test_a_pitfall_is_named_before_what_asserts_it(pitfall):
    texts = [file.read_text() for file in (templates() / "blocks").glob("*.j2")]
    assert any(pitfall in text and "expect " in text[text.index(pitfall) :] for text in texts)


def test_comments_and_continuations_are_no_instructions():
    text = "# RUN no\nFROM a\nRUN x \\\n# y\n  y \\\n\n  z\n\nENV A='b\u2028c\x0cd'\nRUN z\n"
    assert instruction_lines(text) == [2, 3, 9, 10]
    assert instructions(text)[2:] == ["ENV A='b c d'", "RUN z"]


REFUSED = [
    ("an unknown block", {"blocks": ["pythn"]}, "unknown block 'pythn'; did you mean python?"),
    ("a block twice", {"pins": {"python": "3.11"}, "blocks": ["python", "python"]}, "python is written twice"),
    ("base late", {"apt": ["make"], "blocks": ["apt", "base"]}, "base is always the first block"),
    ("a missing pin", {"blocks": ["python"]}, "needs the pin python"),
    ("a missing block", {"pins": {"torch": "2.6.0"}, "blocks": ["torch"]}, "needs block python before it"),
    ("an unknown option", {"blocks": [{"base": {"bash_as_s": True}}]}, "did you mean bash_as_sh?"),
    ("a wrong type", {"blocks": [{"base": {"bash_as_sh": "yes"}}]}, "must be a boolean, not 'yes'"),
    (
        "a wrong choice",
        {"pins": {"cuda": "11.8", "gcc": "11", "cudnn": "8"}, "blocks": ["cuda", {"cudnn": {"from": "whel"}}]},
        "did you mean wheel?",
    ),
    (
        "a wrong choice in a list",
        {"pins": {"cuda": "11.8", "gcc": "11"}, "blocks": [{"cuda": {"components": ["cudart", "cublass"]}}]},
        "cannot be 'cublass'; did you mean cublas?",
    ),
    (
        "a lost source",
        {"pins": {"cutlass": "2.9.0"}, "sources": [source("cutlas", "/c")], "blocks": ["git", "cutlass"]},
        "names 'cutlass', which is not an entry of `sources`; did you mean cutlas?",
    ),
    ("forgotten wheels", {"pins": {"python": "3.11"}, "wheels": ["a==1"], "blocks": ["python"]}, "no block installs"),
    (
        "sdists without a builder",
        {
            "pins": {"python": "3.11"},
            "wheels": ["a==1"],
            "sdists": [{"package": "b==1"}],
            "blocks": ["python", "wheels"],
        },
        "`sdists` need setuptools",
    ),
    ("forgotten apt", {"apt": ["make"]}, "no block installs `apt`"),
    ("nothing to install", {"blocks": ["apt"]}, "block apt has nothing to install"),
    (
        "no wheels",
        {"pins": {"python": "3.11"}, "blocks": ["python", "wheels"]},
        "block wheels has nothing to install",
    ),
    ("a vague python", {"pins": {"python": "3"}, "blocks": ["python"]}, "needs a minor version"),
    (
        "two torches",
        {
            "pins": {"python": "3.11", "torch": "2.6.0"},
            "wheels": ["Torch==2.5.0"],
            "blocks": ["python", "wheels", "torch"],
        },
        "contradicts the pin torch==2.6.0",
    ),
]


@pytest.mark.parametrize(("variant", "says"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_does_not_fit_is_refused_with_its_line(tmp_path, variant, says):
    with pytest.raises(UsageError) as caught:
        render(target(tmp_path, **variant))
    assert says in caught.value.message
    assert caught.value.where.startswith(f"{tmp_path / 'paper.yaml'}:")


def test_the_line_of_an_inherited_block_is_the_parents(tmp_path):
    from reprokit.recipe.find import Target
    from reprokit.recipe.load import load_file

    file = tmp_path / "paper.yaml"
    file.write_text(
        "name: paper\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants:\n"
        "  a:\n    base: debian:12\n    blocks:\n      - pythn\n  b:\n    extends: a\n"
    )
    with pytest.raises(UsageError) as caught:
        render(Target(load_file(file), "b", file))
    assert caught.value.where == f"{file}:7"


def test_wheels_of_blocks_and_of_the_variant_are_one_set(tmp_path):
    chosen = target(
        tmp_path,
        pins={
            "python": "3.8",
            "cuda": "11.8",
            "gcc": "11",
            "cudnn": "8.9.6.50",
            "torch": "1.12.1+cu113",
            "dgl": "0.9.1",
        },
        wheels=["numpy==1.19.5", "torch==1.12.1+cu113"],
        blocks=["python", "cuda", "wheels", {"cudnn": {"from": "wheel"}}, "torch", {"dgl": {"package": "dgl-cu113"}}],
    )
    assert wheel_requirements(chosen) == [
        "torch==1.12.1+cu113",
        "dgl-cu113==0.9.1",
        "nvidia-cudnn-cu11==8.9.6.50",
        "numpy==1.19.5",
    ]


@pytest.mark.parametrize(
    ("pins", "option", "expected"),
    [
        ({"torch": "2.13.0+cpu"}, {}, "none"),
        ({"torch": "1.8.0+cu111"}, {}, "11.1"),
        ({"torch": "1.9.0+cu92"}, {}, "9.2"),
        ({"torch": "1.13.1", "cuda": "11.8"}, {"cuda": "11.7"}, "11.7"),
        ({"torch": "1.13.1", "cuda": "11.8"}, {}, "11"),
    ],
)
def test_torch_must_be_built_with_the_cuda_that_the_pins_mean(tmp_path, pins, option, expected):
    blocks = ["python", "wheels", {"torch": option}] if option else ["python", "wheels", "torch"]
    text = render(target(tmp_path, pins={"python": "3.8", **pins}, blocks=blocks)).dockerfile
    assert f"expect 'CUDA of torch' {expected} " in text


@pytest.mark.parametrize(
    ("base", "debian"),
    [
        ("debian:12", True),
        ("debian:bookworm-slim@sha256:" + "0" * 64, True),
        ("docker.io/library/debian:12", True),
        ("localhost:5000/debian", True),
        ("nvidia/cuda:11.8.0-devel-ubuntu22.04", False),
        ("nvcr.io/nvidia/cuda:11.8.0-devel-ubuntu22.04", False),
        ("ubuntu:22.04", False),
    ],
)
def test_cuda_comes_from_debian_on_debian_alone(tmp_path, base, debian):
    text = render(target(tmp_path, base=base, pins={"cuda": "11.8", "gcc": "11"}, blocks=["cuda"])).dockerfile
    assert ("nvidia-cuda-toolkit" in text) is debian
    assert (': > "$list"' in text) is ("nvidia" in base)
