"""Put the commit that a package is built from into it, for `reprokit --version`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Write `reprokit/COMMIT` into wheel and sdist. A wheel from an sdist has the file of the sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not Path(self.root, ".git").exists():
            return
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        commit = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False).stdout
        if commit:
            self._scratch = TemporaryDirectory()
            file = Path(self._scratch.name, "COMMIT")
            file.write_text(commit)
            build_data["force_include"][str(file)] = "reprokit/COMMIT"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if scratch := getattr(self, "_scratch", None):
            scratch.cleanup()
