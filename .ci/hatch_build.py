"""Put into a package the commit that it is built from, and the compiled rules of `reprokit explain`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackageHook(BuildHookInterface):
    """Write `reprokit/COMMIT` into wheel and sdist, and compiled rules into the wheel.

    A wheel from an sdist has the commit of the sdist.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._scratch = TemporaryDirectory()
        if Path(self.root, ".git").exists():
            command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
            commit = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False).stdout
            if commit:
                self._add(build_data, "reprokit/COMMIT", commit)
        if self.target_name == "wheel":
            sys.path.insert(0, self.root)
            from reprokit.explain.load import compile_bundled

            rules = {"key": "", **compile_bundled()}
            self._add(build_data, "reprokit/explain/compiled.json", json.dumps(rules, separators=(",", ":")))

    def _add(self, build_data: dict[str, Any], name: str, text: str) -> None:
        file = Path(self._scratch.name, Path(name).name)
        file.write_text(text)
        build_data["force_include"][str(file)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if scratch := getattr(self, "_scratch", None):
            scratch.cleanup()
