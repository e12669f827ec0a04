"""Dockerfiles: what each field renders to, and what is refused before anything runs."""

from __future__ import annotations

from copy import deepcopy

import pytest

from reprokit.errors import UsageError
from reprokit.image.dockerfile import parse
from reprokit.image.render import instruction_lines, render
from reprokit.recipe.blocks import templates
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_file
from tests.support.rendering import source, target

PYTHON = {"pins": {"python": "3.11"}}
CUDA = {"pins": {"cuda": "11.8", "gcc": "11"}}
MAKE = {"make": {"source": "a", "products": ["bin/a"]}}
MADE = {"pins": {"gcc": "12"}, "sources": [source("a", "/opt/a")], "blocks": ["git", MAKE]}

REFUSED = [
    ("an unknown block", {"blocks": ["pythn"]}, "unknown block 'pythn'; did you mean python?"),
    ("a block twice", {**PYTHON, "blocks": ["python", "python"]}, "python is written twice"),
    ("base late", {"apt": ["make"], "blocks": ["apt", "base"]}, "base is always the first block"),
    ("a missing pin", {"blocks": ["python"]}, "needs the pin python"),
    ("a missing block", {"pins": {"torch": "2.6.0"}, "blocks": ["torch"]}, "needs block python before it"),
    ("an unknown option", {"blocks": [{"base": {"bash_as_s": True}}]}, "did you mean bash_as_sh?"),
    ("a wrong type", {"blocks": [{"base": {"bash_as_sh": "yes"}}]}, "must be a boolean, not 'yes'"),
    (
        "a wrong choice",
        {"pins": {**CUDA["pins"], "cudnn": "8"}, "blocks": ["cuda", {"cudnn": {"from": "whel"}}]},
        "did you mean wheel?",
    ),
    (
        "a wrong choice in a list",
        {**CUDA, "blocks": [{"cuda": {"components": ["cudart", "cublass"]}}]},
        "cannot be 'cublass'; did you mean cublas?",
    ),
    (
        "a lost source",
        {"pins": {"cutlass": "2.9.0"}, "sources": [source("cutlas", "/c")], "blocks": ["git", "cutlass"]},
        "names 'cutlass', which is not an entry of `sources`; did you mean cutlas?",
    ),
    ("no products", {**MADE, "blocks": ["git", {"make": {"source": "a"}}]}, "block make needs its option products"),
    ("no source", {**MADE, "blocks": ["git", {"make": {"products": ["x"]}}]}, "block make needs its option source"),
    ("a run without products", {"blocks": [{"run": {"commands": ["true"]}}]}, "block run needs its option products"),
    ("forgotten arguments", {"build_args": {"A": "1"}}, "no block uses `build_args`"),
    ("forgotten wheels", {**PYTHON, "wheels": ["a==1"], "blocks": ["python"]}, "no block installs"),
    (
        "sdists without a builder",
        {**PYTHON, "wheels": ["a==1"], "sdists": [{"package": "b==1"}], "blocks": ["python", "wheels"]},
        "`sdists` need setuptools",
    ),
    ("forgotten apt", {"apt": ["make"]}, "no block installs `apt`"),
    ("nothing to install", {"blocks": ["apt"]}, "block apt has nothing to install"),
    ("no wheels", {**PYTHON, "blocks": ["python", "wheels"]}, "block wheels has nothing to install"),
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
    ("cargo", {"blocks": ["cargo"]}, "registries of its own, which a lock cannot name"),
    ("bazel", {"blocks": ["bazel"]}, "registries of its own, which a lock cannot name"),
]


@pytest.mark.parametrize(("variant", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_does_not_fit_is_refused_with_its_line(tmp_path, variant, message):
    with pytest.raises(UsageError) as caught:
        render(target(tmp_path, **variant))
    assert message in caught.value.message
    assert caught.value.where.startswith(f"{tmp_path / 'paper.yaml'}:")
    if "registries" in message:
        (name,) = variant["blocks"]
        line = (tmp_path / "paper.yaml").read_text().splitlines()[int(caught.value.where.rpartition(":")[2]) - 1]
        assert name in line and f"{name} vendor" in caught.value.hint


def test_the_line_of_an_inherited_block_is_the_parents(tmp_path):
    file = tmp_path / "paper.yaml"
    file.write_text(
        "name: paper\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants:\n"
        "  a:\n    base: debian:12\n    blocks:\n      - pythn\n  b:\n    extends: a\n"
    )
    with pytest.raises(UsageError) as caught:
        render(Target(load_file(file), "b", file))
    assert caught.value.where == f"{file}:7"


def test_comments_and_continuations_are_no_instructions():
    text = "# RUN no\nFROM a\nRUN x \\\n# y\n  y \\\n\n  z\n\nENV A='b\u2028c\x0cd'\nRUN z\n"
    assert instruction_lines(text) == [2, 3, 9, 10]
    assert [each.line for each in parse(text).stages[0].instructions] == [3, 9, 10]


def test_stages(tmp_path):
    # A build stage of sources starts at the base, so that another wheel does not repeat it.
    common = {**PYTHON, "sources": [source("a", "/a")], "blocks": ["python", "wheels", "git"]}
    one, two = (render(target(tmp_path, wheels=[f"numpy==1.26.{n}"], **common)).dockerfile for n in (3, 4))
    of_git = [text[text.index("FROM base AS git") : text.index("FROM image AS with-git")] for text in (one, two)]
    assert of_git[0] == of_git[1] and "git fetch" in of_git[0] and one != two
    # A source inside another comes with it.
    sources = [source("a", "/a"), source("b", "/a/b"), source("c", "/ab")]
    text = render(target(tmp_path, sources=sources, blocks=["git"])).dockerfile
    assert "for path in /a /ab; do" in text
    assert [line for line in text.splitlines() if line.startswith("COPY")] == ["COPY --from=git /product/ /"]
    # Each use of a block has a stage of its own.
    text = render(target(tmp_path, **{**MADE, "blocks": ["git", *(deepcopy(MAKE) for _ in range(3))]})).dockerfile
    stages = {part.split()[0]: part for part in text.split("FROM base AS ")[1:]}
    # It installs its compilers on the packages, then has what the uses before it made.
    third = stages["make-3"].partition("\nFROM ")[0]
    copies = [line for line in third.splitlines() if line.startswith("COPY")]
    made = [f"COPY --from={stage} /product/ /" for stage in ("git", "make", "make-2")]
    assert copies == [*made, "COPY --from=git /opt/a /opt/a"] and third.index("apt-get") < third.index("COPY")


def test_packages_are_built_before_sources_and_nothing_moves_past_the_users_own_commands(tmp_path):
    run = {"run": {"commands": ["true"], "products": ["a"], "in_image": True}}
    make = {"make": {"source": "a", "products": ["x"]}}
    variant = {**PYTHON, "pins": {"python": "3.11", "gcc": "12"}, "sources": [source("a", "/a")], "apt": ["jq"]}
    blocks = ["git", make, "python", run, deepcopy(make), "apt", "wheels"]
    used = target(tmp_path, **variant, wheels=["numpy==1.26.4"], blocks=blocks).uses
    assert [use.stage for use in used] == ["base", "python", "git", "make", "run", "apt", "wheels", "make-2"]


def test_what_is_the_papers_own_changes_nothing_before_it(tmp_path):
    common = {"pins": {"python": "3.11", "torch": "2.0.0"}}
    one = render(target(tmp_path, **common, wheels=["numpy==1.0"], blocks=["python", "torch", "wheels"]))
    own = {
        "apt": ["make"],
        "wheels": ["setuptools==65.7.0"],
        "sources": [source("a", "/a")],
        "env": {"TORCH_CUDA_ARCH_LIST": "8.0"},
        "workdir": "/a",
        "blocks": [{"base": {"bash_as_sh": True}}, "python", "torch", "apt", "wheels", "git"],
    }
    two = render(target(tmp_path, **common, **own))
    shared = []
    for rendered in (one, two):
        last = max(last for _, last, block in rendered.spans if block == "torch")
        text = "\n".join(rendered.dockerfile.splitlines()[:last])
        shared.append(text[text.index("FROM ") :].rstrip())
    assert shared[0] == shared[1].partition("\n\nARG REPROKIT_APT=")[0]
    assert two.sets["apt"] == ("base", "python", "apt", "git")
    assert two.sets["wheels"] == ("torch", "wheels")
    assert (two.sets["git"], two.sets["files"]) == (("git",), ())


def test_build_arguments_are_where_the_commands_run_and_in_no_environment(tmp_path):
    run = {"run": {"commands": ["true"], "products": ["/x"], "in_image": True}}
    variant = {**MADE, "blocks": ["git", MAKE, run], "build_args": {"A": 'x "y" $Z'}}
    text = render(target(tmp_path, **variant)).dockerfile
    make, image = text.index("AS make\nARG REPROKIT_APT_MAKE=\n"), text.index("AS with-make\n")
    line = 'ARG A="x \\"y\\" \\$Z"\n'
    assert text.count(line) == 2 and make < text.index(line) < image < text.rindex(line) and "ENV A" not in text


def test_a_patch_is_part_of_the_inputs(tmp_path):
    (tmp_path / "fix.patch").write_text("one")
    fields = {"sources": [source("a", "/opt/a", patches=["fix.patch"])], "blocks": ["git"]}
    first = render(target(tmp_path, **fields))
    (tmp_path / "fix.patch").write_text("two")
    assert render(target(tmp_path, **fields)).dockerfile != first.dockerfile
    (tmp_path / "out").mkdir()
    first.write(tmp_path / "out")
    assert (tmp_path / "out" / "patches" / "fix.patch").read_text() == "one"
    assert "COPY patches/fix.patch /patches/fix.patch\n" in (tmp_path / "out" / "Dockerfile").read_text()


@pytest.mark.slow
def test_own_blocks_are_beside_the_recipe_or_in_the_users_folders(tmp_path, monkeypatch):
    for folder in ("blocks", "more"):
        (tmp_path / folder).mkdir()
    text = "{#\ndoes: x\n#}\n{% block final %}\nRUN set -e; \\\n{{ ['ab']|apt_install }}    WHERE\n{% endblock %}\n"
    (tmp_path / "more" / "a_b.j2").write_text(text.replace("WHERE", "more"))
    monkeypatch.setenv("REPROKIT_BLOCKS", str(tmp_path / "more"))
    of_user = render(target(tmp_path, blocks=["a_b"])).dockerfile
    assert "    more\n" in of_user and "ARG REPROKIT_APT_A_B=" in of_user
    for name in ("a-b", "a_b"):
        (tmp_path / "blocks" / f"{name}.j2").write_text(text.replace("WHERE", "beside"))
    assert "    beside\n" in render(target(tmp_path, blocks=["a_b"])).dockerfile
    # Their build arguments would have the same name.
    with pytest.raises(UsageError, match="the blocks a-b and a_b differ only in punctuation") as error:
        render(target(tmp_path, blocks=["a-b", "a_b"]))
    assert error.value.where.startswith(f"{tmp_path}/paper.yaml:") and "rename" in error.value.hint


def test_wheels_of_blocks_and_of_the_variant_are_one_set(tmp_path):
    pins = {
        "python": "3.8", "cuda": "11.8", "gcc": "11", "cudnn": "8.9.6.50", "torch": "1.12.1+cu113", "dgl": "0.9.1"
    }  # fmt: skip
    blocks = ["python", "cuda", "wheels", {"cudnn": {"from": "wheel"}}, "torch", {"dgl": {"package": "dgl-cu113"}}]
    wheels = ["numpy==1.19.5", "torch==1.12.1+cu113"]
    assert target(tmp_path, pins=pins, wheels=wheels, blocks=blocks).requirements == [
        "torch==1.12.1+cu113", "dgl-cu113==0.9.1", "nvidia-cudnn-cu11==8.9.6.50", "numpy==1.19.5"
    ]  # fmt: skip


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
    blocks = ["python", "wheels", {"torch": option} if option else "torch"]
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
    text = render(target(tmp_path, base=base, **CUDA, blocks=["cuda"])).dockerfile
    assert ("nvidia-cuda-toolkit" in text) is debian
    assert (': > "$list"' in text) is ("nvidia" in base)


# Every pitfall that a block must meet with an assertion of its own.
VERIFIED = [
    "apt-expired-ca", "build-ok-artifact-missing", "conda-wrong-python", "cublas-not-found", "cuda-mismatch",
    "cudnn-header", "devel-vs-runtime", "llvm-config-path", "missing-python-package", "readme-prints-nothing",
    "submodule-missing", "tvm-cuda-off", "tvm-llvm-off",
]  # fmt: skip


@pytest.mark.parametrize("pitfall", VERIFIED)
def test_a_pitfall_is_named_before_what_asserts_it(pitfall):
    texts = [file.read_text() for file in (templates() / "blocks").glob("*.j2")]
    assert any(pitfall in text and "expect " in text[text.index(pitfall) :] for text in texts)
