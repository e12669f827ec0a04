"""A recipe built as a user builds it: a real base, real packages, wheels and git through the gateway, both builders."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.errors import ReprokitError
from tests.support.builds import can_buildkit
from tests.support.forge import Forge
from tests.support.names import unique

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.long]

RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    pins: {{distro: "debian:12", python: "3.11"}}
    blocks: [python, wheels, git]
    wheels: ["six==1.16.0", "setuptools==68.2.2", "wheel==0.41.3"]
    # On the index as source only.
    sdists: [{{package: "GPUtil==1.4.0", requires: ["six"]}}]
    sources:
      - {{name: top, git: "https://forge.test/team/top", commit: {commit}, path: /opt/top, submodules: true}}
"""


def test_a_recipe_from_its_file_to_its_image(engine, debian_12, inside, tmp_path: Path):
    forge = Forge(tmp_path / "forge")
    forge.commit("lib/leaf", "leaf.txt")
    old = forge.commit("team/top", "top.txt", submodule="lib/leaf")
    for name in ("lib/leaf", "team/top"):  # from here on neither commit is the head of a branch
        forge.commit(name, "new.txt")
    recipe = unique("build")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{recipe}.yaml").write_text(RECIPE.format(name=recipe, commit=old))
    environment = {**os.environ, **forge.settings, "REPROKIT_HOME": str(tmp_path / "home")}

    def build(*options: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "reprokit", "build", recipe, *options]
        done = subprocess.run(command, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    builders = ["classic", "buildkit"] if can_buildkit() else ["classic"]
    image = f"reprokit/{recipe}:v"
    look = (
        "cat /opt/top/top.txt /opt/top/3rd/leaf.txt; ls /opt/top;"
        "python3 -c 'import six, GPUtil; print(six.__version__, GPUtil.__version__)';"
        "find / -xdev -name '*.whl' -not -path '*/ensurepip/*' -not -path '/usr/share/python-wheels/*'; env | sort;"
        "ls -A /root /tmp /var/lib/apt/lists"
    )
    try:
        seen, inputs = [], set()
        for builder in builders:
            if seen:  # else the second finds it built
                engine.remove_image(image, force=True)
            # Without its cache once, so that all is fetched; the cache of the other builder may save time.
            done = build("--builder", builder, *(["--no-cache"] if builder == "classic" else []))
            assert "base debian:12: " in done.stderr and f"{image} built in" in done.stdout
            seen.append(inside(image, look))
            labels = engine.image(image)["Config"]["Labels"]
            inputs.add(labels["reprokit.inputs"])
            text = json.dumps([engine.image(image), engine.history(image)])
            assert "127.0.0.1" not in text and "_proxy" not in text.lower()
        assert _without_host(seen[0]) == _without_host(seen[-1])
        assert seen[0].startswith("top.txtleaf.txt") and "1.16.0 1.4.0" in seen[0]
        assert "new.txt" not in seen[0] and ".whl" not in seen[0] and "proxy" not in seen[0].lower()
        assert len(inputs) == 1
        # Unchanged: no pip, no git, no network.
        (tmp_path / "bin").mkdir()
        done = build(PATH=str(tmp_path / "bin"), PIP_NO_INDEX="1")
        assert f"{image} is up to date" in done.stdout and done.stderr == ""
    finally:
        with contextlib.suppress(ReprokitError):
            engine.remove_image(image, force=True)
    records = [json.loads(p.read_text()) for p in sorted((tmp_path / "home" / "state" / "builds").iterdir())]
    assert [r["builder"] for r in records] == builders
    assert records[0]["hosts_asked"] and records[0]["bytes_through_gateway"] > 1_000_000
    for record in records:
        assert record["asked_in_vain"] == {}
        assert [w["file"] for w in record["wheels"]] == [
            "GPUtil-1.4.0.tar.gz", "setuptools-68.2.2-py3-none-any.whl", "six-1.16.0-py2.py3-none-any.whl",
            "wheel-0.41.3-py3-none-any.whl",
        ]  # fmt: skip
        assert {c["url"] for c in record["commits"]} == {"https://forge.test/team/top", "https://forge.test/lib/leaf"}


def _without_host(seen: str) -> list[str]:
    return [line for line in seen.splitlines() if not line.startswith("HOSTNAME=")]
