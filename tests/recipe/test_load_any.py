"""Whatever a file holds, reading it ends in a recipe or in a UsageError that names the file."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.errors import UsageError
from reprokit.recipe.find import recipe_files
from reprokit.recipe.load import load_text

TEXT = recipe_files()["fused-attention"].read_text()
LINES = TEXT.splitlines(keepends=True)


def read(text: str) -> None:
    try:
        load_text(text, "paper.yaml", "fused-attention")
    except UsageError as error:
        assert error.where.startswith("paper.yaml") and error.message


@given(st.text() | st.text(alphabet=st.sampled_from("ab: -[]{}&*!|>'\"#%@`,?\n\t0.~<=")))
def test_any_text(text):
    read(text)


@settings(max_examples=40)
@given(st.integers(0, len(TEXT)), st.integers(0, 30), st.text(max_size=8))
def test_a_recipe_with_a_piece_replaced(start, length, piece):
    read(TEXT[:start] + piece + TEXT[start + length :])


@settings(max_examples=30)
@given(st.integers(0, len(LINES) - 1), st.integers(0, len(LINES) - 1), st.integers(0, 8))
def test_a_recipe_with_lines_moved(first, second, indent):
    lines = [*LINES]
    lines[first], lines[second] = " " * indent + lines[second], lines[first]
    read("".join(lines))
