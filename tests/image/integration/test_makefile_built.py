"""A Makefile, a configure script, a patch and an own block: from the recipe to a smoke-tested image."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from tests.support.forge import Forge
from tests.support.names import unique

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.long]

MAKEFILE = "all: bin/solver\nbin/solver: solver.c\n\tmkdir -p bin\n\t$(CC) -DROWS=$(ROWS) -o $@ $<\n"
SOLVER = '#include <stdio.h>\nint main() {\n    printf("rows %d\\n", ROWS + 0);\n}\n'
CONFIGURE = """\
#!/bin/sh
echo "made for $1" > tool
printf 'all:\\ninstall:\\n\\tinstall -D tool $(DESTDIR)/usr/local/share/tool\\n' > Makefile
"""
PATCH = """\
--- a/solver.c
+++ b/solver.c
@@ -1,4 +1,4 @@
 #include <stdio.h>
 int main() {
-    printf("rows %d\\n", ROWS + 0);
+    printf("rows %d\\n", ROWS + 1);
 }
"""
BLOCK = """\
{#
does: a table that the solver prints.
build_from: image
options:
  copies: {type: list, default: [], does: names of the copies}
#}
{% block build %}
RUN {% include "expect.j2" %}
    mkdir -p /product/opt/tables; cd /product/opt/tables; \\
    {% for name in options.copies %}/opt/solver/bin/solver > {{ name|sh }}; {% endfor %} \\
    expect table 'rows 42' "$(cat {{ options.copies[0]|sh }})"
{% endblock %}
{% block final %}
COPY --from=table /product/ /
{% endblock %}
"""


@pytest.fixture
def desk(engine: Engine, debian_12, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The recipe's name, and the folder that has `recipes/`."""
    name = unique("makefile")
    files = {"Makefile": MAKEFILE, "solver.c": SOLVER, "configure": CONFIGURE}
    commit = Forge(tmp_path / "forge").publish("paper/solver", files)
    recipe = {
        "name": name,
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"},
        "variants": {
            "v": {
                "base": "debian:12",
                "pins": {"gcc": "12"},
                "build_args": {"ROWS": "41"},
                "sources": [
                    {
                        "name": "solver",
                        "git": "https://forge.test/paper/solver",
                        "commit": commit,
                        "path": "/opt/solver",
                        "patches": ["patches/rows.patch"],
                        "keep": False,
                    }
                ],
                "blocks": [
                    "git",
                    {"make": {"source": "solver", "products": ["bin/solver"]}},
                    {"autotools": {"source": "solver", "products": ["/usr/local/share/tool"]}},
                    {"run": {"source": "solver", "commands": ["echo seven > seven"], "products": ["seven"]}},
                    {"table": {"copies": ["a", "b c"]}},
                    {
                        "run": {
                            "commands": ["cat /opt/tables/* | tee /opt/both", 'test -z "${GCC:-}"'],
                            "products": ["/opt/both"],
                            "in_image": True,
                        }
                    },
                ],
            }
        },
        "smoke": [
            {"command": "/opt/solver/bin/solver; wc -l < /opt/both", "expect": "rows 42\n2\n"},
            {
                "command": "cat /usr/local/share/tool /opt/solver/seven",
                "expect": "made for --prefix=/usr/local\nseven\n",
            },
        ],
    }
    for file, text in (
        (f"{name}.yaml", yaml.safe_dump(recipe)),
        ("patches/rows.patch", PATCH),
        ("blocks/table.j2", BLOCK),
    ):
        path = tmp_path / "recipes" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yield name, tmp_path
    for suffix in ("", "--failed"):
        with contextlib.suppress(ReprokitError):
            engine.remove_image(f"reprokit/{name}:v{suffix}", force=True)


def test_from_the_recipe_to_a_smoke_tested_image(engine: Engine, desk: tuple[str, Path], inside):
    name, folder = desk

    def reprokit(*arguments: str, here: Path = folder) -> str:
        forge = Forge(folder / "forge").settings if here == folder else {}
        done = subprocess.run(
            [sys.executable, "-m", "reprokit", *arguments],
            cwd=here,
            env={**os.environ, **forge, "REPROKIT_HOME": str(here / "home")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    reprokit("smoke", name)
    image = f"reprokit/{name}:v"
    look = (
        "command -v gcc make || echo no tools; ls -d /patches /opt/solver/solver.c 2>/dev/null || echo no sources; env"
    )
    first = engine.image(image)["Id"]
    seen = inside(image, look)
    assert seen.startswith("no tools\nno sources\n") and "ROWS" not in seen

    # By its path, locked: the same patch, block and arguments, and every download from the lock.
    path = f"./recipes/{name}.yaml:v"
    reprokit("lock", path)
    reprokit("smoke", path)
    labels = engine.image(image)["Config"]["Labels"]
    assert engine.image(image)["Id"] != first and len(labels["reprokit.lock"]) == 64

    # A bundle has the patch and the block: the user of another machine renders and builds the same, offline.
    reprokit("export", name, "--with-store", "-o", "x.rkit")
    there = folder / "there"
    there.mkdir()
    # Without --trust a base image of the bundle is refused.
    assert f"is in {there}/home/recipes/{name} now" in reprokit("load", "../x.rkit", "--trust", here=there)
    reprokit("trust", "revoke", image, here=there)
    assert reprokit("render", name, here=there) == reprokit("render", name)
    layers = engine.image(image)["RootFS"]["Layers"]
    assert "is unverified" in reprokit("build", "--offline", name, here=there)
    assert engine.image(image)["RootFS"]["Layers"] == layers
    assert "is up to date" in reprokit("build", "--offline", name, here=there)

    # If another build gave a common step another image meanwhile, `there` made one of its own, of equal layers.
    reprokit("build", path)
    assert engine.image(image)["RootFS"]["Layers"] == layers
    # Another patch is another input, and the lock stays as it is.
    assert "is up to date" in reprokit("build", path)
    patch = folder / "recipes" / "patches" / "rows.patch"
    patch.write_text(PATCH.replace("ROWS + 1", "ROWS - 1"))
    done = subprocess.run(
        [sys.executable, "-m", "reprokit", "build", name],
        cwd=folder,
        env={**os.environ, "REPROKIT_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "block table: expected table rows 42, found rows 40" in done.stderr
