"""Variants that are added to a recipe's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.recipe import find
from reprokit.recipe.variants import add_variant

HEAD = "name: x\npaper: {title: T, venue: V, year: 2020, licence: MIT}\n"
BLOCK = """variants:
    a:  # four blanks
        base: debian:12
        pins: {python: "3.11", numpy: "1.24"}
        blocks: [python]

    # the last comment of the variants
"""


def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> find.Target:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/x.yaml").write_text(HEAD + text)
    return find.target("x:a")


@pytest.mark.parametrize("tail", ["", "\ndefault: a\n", "# of default\ndefault: a\n"])
def test_the_file_keeps_every_line(tmp_path, monkeypatch, tail: str) -> None:
    made = target(tmp_path, monkeypatch, BLOCK + tail)
    before = made.path.read_text().splitlines()
    add_variant(made, "b", "found", {"numpy": "1.20", "base": "debian:13"})
    after = made.path.read_text().splitlines()
    assert [line for line in after if line and line in before] == [line for line in before if line]
    variant = find.target("x:b").variant
    assert (variant.base, variant.pins) == ("debian:13", {"python": "3.11", "numpy": "1.20"})  # quoted


def test_a_layout_that_cannot_be_added_to_and_a_link_are_left_alone(tmp_path, monkeypatch) -> None:
    flow = "variants: {a: {base: 'debian:12', pins: {python: '3.11'}, blocks: [python]}}\n"
    made = target(tmp_path, monkeypatch, flow)
    with pytest.raises(UsageError):
        add_variant(made, "b", "found", {"python": "3.12"})
    assert made.path.read_text() == HEAD + flow
    outside = tmp_path / "outside.yaml"
    made.path.rename(outside)
    outside.write_text(HEAD + BLOCK)
    made.path.symlink_to(outside)
    with pytest.raises(UsageError, match="a link is in the way"):
        add_variant(made, "b", "found", {"numpy": "1.26.4"})
    assert outside.read_text() == HEAD + BLOCK
