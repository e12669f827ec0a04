"""conda's environment.yml beside a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.recipe.environment import conda_specs
from tests.support.rendering import target

TEXT = """\
name: paper
channels: [conda-forge, defaults]
dependencies:
  - python=3.9
  - Numpy 1.21.*
  - scipy >=1.7, <2
  - mkl=2021.4.0=h06a4308_640
  - pip
  - tqdm
prefix: /home/somebody/miniconda3/envs/paper
"""


def of_file(folder: Path, text: str, **more: object):
    (folder / "environment.yml").write_text(text)
    channels = {"conda_channels": ["conda-forge", "main", "r"]}
    return target(folder, conda=[{"file": "environment.yml"}], blocks=["conda"], **{**channels, **more})


def test_the_file_is_what_conda_solves(tmp_path: Path):
    chosen = of_file(tmp_path, TEXT)
    assert conda_specs(chosen) == ["python=3.9", "numpy=1.21.*", "scipy>=1.7,<2", "mkl=2021.4.0=h06a4308_640", "tqdm"]
    text = render(chosen).dockerfile
    assert "expect python 3.9 " in text and "expect mkl 2021.4.0 " in text and "expect scipy installed " in text

    def hashes(text: str) -> dict[str, str]:
        return sections(of_file(tmp_path, text, pins={"python": "3.9"}), render(chosen), "x86_64")

    first = hashes(TEXT)
    assert hashes(TEXT.replace("somebody", "other")) == first
    assert {n for n, v in hashes(TEXT.replace("tqdm", "tqdm=4")).items() if v != first[n]} == {"conda"}


REFUSED = {
    "a channel": (TEXT.replace("defaults", "evil"), "adds no channel of its own: evil", 2),
    "a channel at an address": (TEXT.replace("defaults", "https://evil.test/c"), "adds no channel", 2),
    "a channel of one": (TEXT.replace("tqdm", "evil::tqdm"), "not a specification", 9),
    "an option": (TEXT.replace("tqdm", "--file=/etc/passwd"), "not a specification", 9),
    "a file": (TEXT.replace("tqdm", "/etc/passwd"), "not a specification", 9),
    "an address": (TEXT.replace("tqdm", "https://evil.test/x.conda"), "not a specification", 9),
    "variables": (TEXT + "variables: {LD_PRELOAD: /x}\n", "`variables` of an environment.yml is not supported", 11),
    "no list": ("name: x\n", "no list `dependencies`", 0),
    "an alias": ("a: &a [1]\ndependencies: *a\n", "alias", 2),
}


@pytest.mark.parametrize(("text", "why", "line"), REFUSED.values(), ids=REFUSED)
def test_what_a_stranger_adds_is_refused(tmp_path: Path, text: str, why: str, line: int):
    with pytest.raises(UsageError) as caught:
        conda_specs(of_file(tmp_path, text))
    assert why in caught.value.message
    assert caught.value.where == str(tmp_path / "environment.yml") + (f":{line}" if line else "")


def test_pips_part_is_never_left_out_in_silence(tmp_path: Path):
    text = TEXT.replace("  - pip\n", "  - pip\n  - pip:\n    - six\n")
    with pytest.raises(UsageError, match="no block installs its `pip:`") as caught:
        conda_specs(of_file(tmp_path, text))
    assert "wheels: [{file: environment.yml}]" in caught.value.hint
    assert "tqdm" in conda_specs(of_file(tmp_path, text, wheels=[{"file": "environment.yml"}]))
