"""The blocks run, make and autotools, patches and build arguments: what is refused, and what changes the inputs."""

from __future__ import annotations

from copy import deepcopy

import pytest

from reprokit.errors import UsageError
from reprokit.image.context import write_context
from reprokit.image.render import render
from tests.support.rendering import source, target

MAKE = {"make": {"source": "a", "products": ["bin/a"]}}
VARIANT = {"pins": {"gcc": "12"}, "sources": [source("a", "/opt/a")], "blocks": ["git", MAKE]}


@pytest.mark.parametrize("name", ["cargo", "bazel"])
def test_what_needs_a_registry_of_its_own_is_refused_with_the_reason(tmp_path, name):
    with pytest.raises(UsageError, match="registries of its own, which a lock cannot name") as caught:
        render(target(tmp_path, blocks=[name]))
    lines = (tmp_path / "paper.yaml").read_text().splitlines()
    file, line = caught.value.where.rsplit(":", 1)
    assert f"{name} vendor" in caught.value.hint and name in lines[int(line) - 1] and file.endswith("paper.yaml")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"blocks": ["git", {"make": {"source": "a"}}]}, "block make needs its option products"),
        ({"blocks": ["git", {"make": {"products": ["x"]}}]}, "block make needs its option source"),
        ({"blocks": ["git", {"run": {"commands": ["true"]}}]}, "block run needs its option products"),
        ({"blocks": ["git", {"run": {"commands": ["a\nb"], "products": ["/x"]}}]}, "control character"),
        ({"blocks": ["git"], "build_args": {"A": "1"}}, "no block uses `build_args`"),
        ({"blocks": ["git", "hwlok"]}, "unknown block 'hwlok'"),
        ({"blocks": ["git", "git"]}, "block git is written twice"),
    ],
)
def test_what_is_refused_before_anything_runs(tmp_path, changed, message):
    with pytest.raises(UsageError, match=message):
        render(target(tmp_path, **{**VARIANT, **changed}))
    assert render(target(tmp_path, **VARIANT))


def test_each_use_of_a_block_has_a_stage_of_its_own(tmp_path):
    text = render(target(tmp_path, **{**VARIANT, "blocks": ["git", *(deepcopy(MAKE) for _ in range(3))]})).dockerfile
    assert [line for line in text.splitlines() if line.startswith("COPY --from=make")] == [
        f"COPY --from={stage} /product/ /" for stage in ("make", "make-2", "make-3")
    ]
    assert "FROM with-make-2 AS make-3\n" in text


@pytest.mark.slow
def test_blocks_whose_build_arguments_would_be_the_same_are_refused(tmp_path):
    (tmp_path / "blocks").mkdir()
    for name in ("a-b", "a_b", "a-c"):
        part = f"{{{{ ['{name[0]}{name[2]}']|apt_install }}}}"
        text = f"{{#\ndoes: x\n#}}\n{{% block final %}}\nRUN set -e; \\\n{part}    true\n{{% endblock %}}\n"
        (tmp_path / "blocks" / f"{name}.j2").write_text(text)
    assert "ARG REPROKIT_APT_A_B=" in render(target(tmp_path, blocks=["a_b", "a-c"])).dockerfile
    with pytest.raises(UsageError, match="the blocks a-b and a_b differ only in punctuation") as error:
        render(target(tmp_path, blocks=["a-b", "a-c", "a_b"]))
    assert error.value.where.startswith(f"{tmp_path}/paper.yaml:") and "rename" in error.value.hint


def test_build_arguments_are_where_the_commands_run_and_in_no_environment(tmp_path):
    run = {"run": {"commands": ["true"], "products": ["/x"], "in_image": True}}
    text = render(
        target(tmp_path, **{**VARIANT, "blocks": ["git", MAKE, run]}, build_args={"A": 'x "y" $Z'})
    ).dockerfile
    make, image = text.index("AS make\nARG REPROKIT_APT_MAKE=\n"), text.index("AS with-make\n")
    line = 'ARG A="x \\"y\\" \\$Z"\n'
    assert text.count(line) == 2 and make < text.index(line) < image < text.rindex(line) and "ENV A" not in text


@pytest.mark.slow
def test_a_patch_and_an_own_block_are_part_of_the_inputs(tmp_path):
    (tmp_path / "fix.patch").write_text("one")
    (tmp_path / "blocks").mkdir()
    own = tmp_path / "blocks" / "mine.j2"
    own.write_text("{#\ndoes: x\n#}\n{% block final %}\nRUN one\n{% endblock %}\n")
    chosen = target(tmp_path, sources=[source("a", "/opt/a", patches=["fix.patch"])], blocks=["git", "mine"])
    first = render(chosen)
    assert render(chosen) == first
    own.write_text(own.read_text().replace("RUN one", "RUN two"))
    second = render(chosen)
    (tmp_path / "fix.patch").write_text("two")
    assert len({first.dockerfile, second.dockerfile, render(chosen).dockerfile}) == 3
    (tmp_path / "out").mkdir()
    write_context(tmp_path / "out", first.dockerfile, first.context)
    assert (tmp_path / "out" / "patches" / "fix.patch").read_text() == "one"
    assert "COPY patches/fix.patch /patches/fix.patch\n" in (tmp_path / "out" / "Dockerfile").read_text()


@pytest.mark.slow
def test_own_blocks_are_found_beside_the_recipe_then_in_the_users_folders(tmp_path, monkeypatch):
    text = "{#\ndoes: x\n#}\n{% block final %}\nRUN WHERE\n{% endblock %}\n"
    for folder in ("blocks", "more"):
        (tmp_path / folder).mkdir()
    (tmp_path / "more" / "mine.j2").write_text(text.replace("WHERE", "more"))
    monkeypatch.setenv("REPROKIT_BLOCKS", str(tmp_path / "more"))
    chosen = target(tmp_path, blocks=["mine"])
    assert "\nRUN more\n" in render(chosen).dockerfile
    (tmp_path / "blocks" / "mine.j2").write_text(text.replace("WHERE", "beside"))
    assert "\nRUN beside\n" in render(chosen).dockerfile
