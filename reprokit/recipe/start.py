"""The recipe that a user starts from: valid as it is, every part explained where it stands."""

from __future__ import annotations

import re

from reprokit.errors import UsageError
from reprokit.recipe.blocks import block_names

_TEXT = """\
# One recipe, one paper. `reprokit schema` prints what every field means, for editors;
# `reprokit check NAME` tells whether the pins fit together, `reprokit render NAME` shows the Dockerfile.
name: NAME
paper:
  title: Title of the paper
  venue: Venue
  year: 2024
  urls:
    code: https://github.com/OWNER/REPOSITORY
  licence: none  # of the paper's code; `none` where it states none

variants:
  cpu:
    description: What this variant is for
    # A tag is looked up by its digest when the image is built. Debian and Ubuntu need no registry.
    base: debian:12
    # Exact versions, always in quotes: YAML reads 3.10 as 3.1. A part of one is enough where any will do ("12").
    pins:
      distro: "debian:12"
      python: "3.11"
      gcc: "12"
      # torch: "2.6.0"
    # The paper's repositories, each at a full commit; never at a branch, which moves.
    # sources:
    #   - name: artifact
    #     git: https://github.com/OWNER/REPOSITORY
    #     commit: 0123456789abcdef0123456789abcdef01234567
    #     path: /opt/artifact
    #     submodules: true
    apt: [g++-12, make]
    # wheels: ["numpy==1.26.4"]   # exact versions; the index is that of your own pip
    # What is on the index as source only, built inside the image; `wheels` must pin setuptools then.
    # sdists: [{package: "GPUtil==1.4.0", requires: []}]
    # Plain files, for the block files. `reprokit lock` learns a checksum that you do not know.
    # files: [{name: tool.tar.gz, urls: ["https://HOST/tool.tar.gz"], path: /opt/tool, unpack: true}]
    # What is built, in order. Others: BLOCKS.
    # Options stand behind a block: `- python: {system_site_packages: true}`.
    blocks:
      - apt
      - python
    # What the host must have; gpu is required, optional or none.
    requires: {gpu: none, memory: 2GiB, disk: 2GiB}

  # A variant may extend another: mappings are merged key by key, lists are replaced.
  # cuda:
  #   extends: cpu
  #   base: nvidia/cuda:11.8.0-devel-ubuntu22.04
  #   pins: {distro: "ubuntu:22.04", cuda: "11.8", python: "3.10", gcc: "11"}
  #   apt: [make]
  #   blocks: [apt, python, cuda]
  #   requires: {gpu: required, compute_capability: ["8.0", "8.6"], disk: 20GiB}

# Commands that show that the image works: run by `reprokit smoke`, through bash -c, in the work folder.
smoke:
  - command: python3 --version
    expect: ^Python 3\\.11

# Files that benchmarks read: fetched for those that name one in `inputs`, and part of no image.
# data: [{name: graph.zip, urls: ["https://HOST/graph.zip"]}]

# Commands whose output carries figures: run by `reprokit bench`.
benchmarks:
  example:
    command: python3 -m timeit -n 1000 -r 3 'sum(range(1000))'
    # gpu: true                   # left out where there is no GPU
    # inputs: [{path: data/graph.zip, data: graph.zip}, {path: data/graph.npz, make: "python3 convert.py"}]
    parse:
      # A line that matches gives one figure, the group `value`. Named groups of `context` lines describe it.
      values:
        - {pattern: 'best of 3: (?P<value>[0-9.]+) usec', metric: sum.time, unit: us}
      expect: 1

# What the paper states, to stand beside what you measure.
# claims:
#   - {metric: speed-up over the baseline, value: 2.5, unit: x, hardware: NVIDIA A100, where: table 3}
"""


def starting_recipe(name: str) -> str:
    """The text of a new recipe called `name`. Raises UsageError where that is no name."""
    if not re.fullmatch(r"[a-z0-9]+([._-][a-z0-9]+)*", name) or len(name) > 60:
        raise UsageError(
            f"{name!r} is not a name for a recipe", hint="use lower-case letters, digits, and single . _ - between them"
        )
    blocks = ", ".join(b for b in block_names() if b not in ("apt", "base", "python"))
    return _TEXT.replace("NAME\npaper", f"{name}\npaper").replace("BLOCKS", blocks)
