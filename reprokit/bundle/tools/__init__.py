"""Files with which other tools run a recipe's image: one tool a module.

Their formats have substitutions and separators of their own, which a recipe's text must not trigger.
"""

from __future__ import annotations

from collections.abc import Mapping

from reprokit.bundle.tools import apptainer, devcontainer, slurm
from reprokit.bundle.tools.tool import OtherTool

TOOLS: Mapping[str, OtherTool] = {"devcontainer": devcontainer, "apptainer": apptainer, "slurm": slurm}
