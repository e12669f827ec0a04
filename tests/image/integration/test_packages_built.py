"""A compiled Python package, and a recipe without compiled parts, built for real from small repositories."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reprokit.bench.parse import parse
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image.base.resolve import BaseImage
from reprokit.recipe.find import recipe_file
from reprokit.recipe.load import load_file
from tests.support.forge import Forge
from tests.support.names import unique

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.long]

SETUP = """\
import os, subprocess
from setuptools import Extension, setup
assert os.environ["FORCE_BUILD"] == "TRUE" and int(os.environ["MAX_JOBS"]) >= 1, os.environ
assert not os.path.isdir(".git") and os.path.exists("csrc/cutlass/include/cutlass/cutlass.h")
subprocess.run(["git", "submodule", "update", "--init"])
open("flash_attn/version.py", "w").write("rows = 4\\n")
setup(name="flash_attn", version="2.5.8", packages=["flash_attn"], install_requires=["torch"],
      libraries=[("none", {"sources": ["csrc/none.c"]})],
      ext_modules=[Extension("flash_attn_cuda", ["csrc/api.c"], include_dirs=["csrc/cutlass/include"])])
"""
API = """\
#include <Python.h>
#include "cutlass/cutlass.h"
static PyObject* rows(PyObject* self, PyObject* none) { return PyLong_FromLong(ROWS); }
static PyMethodDef methods[] = {{"rows", rows, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "flash_attn_cuda", 0, -1, methods};
PyMODINIT_FUNC PyInit_flash_attn_cuda(void) { return PyModule_Create(&module); }
"""

# As the search of the artifact: a scheme's code, its translation, a cost asked of another program, a table at the end.
SEARCH = """\
import itertools, os, sys
import numpy


def translate_value(value):
    bits = f"{value:016b}"
    parts, at = [], 1
    for _, run in itertools.groupby(bits[1:]):
        end = at + len(list(run))
        parts += [(at, end - 1)] if end - at > 1 else []
        at = end
    return f"{bits[0]} {len(parts)} " + " ".join(f"{start} {end}" for start, end in parts)


def main():
    costs = {}
    for code in (41115, 41114, 41113):
        output = os.popen(f"python generate_genidx.py 16 12 {sys.argv[1]} 12 64 {sys.argv[2]} 1 {code}").read()
        costs[code] = float(output.split("time costs:")[1].split("ms")[0].strip())
    with open(f"./search_result/{sys.argv[2]}_ours_seq{sys.argv[1]}_Time.csv", "w") as file:
        file.writelines(f"{n}\\r\\n" for n in range(129))
    best = min(costs, key=costs.get)
    print("Global Min Time:", costs[best], "\\tGlobal best Config:", best)


if __name__ == "__main__":
    main()
"""
OVERHEAD = """\
import sys
print("Mask_id:", sys.argv[2], "\\tSeqlen:", sys.argv[1])
print("Single Our probability search time costs:  \\t{:.1f} ms".format(12.34))
"""


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path / "forge")


Build = Callable[[dict[str, Any]], subprocess.CompletedProcess[str]]


@pytest.fixture
def build(engine: Engine, debian_12: BaseImage, forge: Forge, tmp_path: Path) -> Iterator[Build]:
    """`build(recipe)`: what building the recipe's variant `v` said; its name is in `args[-1]`."""
    names = []
    (tmp_path / "recipes").mkdir()

    def run(recipe: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        name = unique("package")
        names.append(name)
        whole = {"paper": {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"}, **recipe, "name": name}
        (tmp_path / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
        key = f"url.{forge.root}/.insteadOf"
        environment = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": "https://github.com/"}
        return subprocess.run(
            [sys.executable, "-m", "reprokit", "build", name],
            cwd=tmp_path,
            env={**os.environ, **environment, "REPROKIT_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )

    yield run
    for name in names:
        for suffix in ("", "--failed"):
            with contextlib.suppress(ReprokitError):
                engine.remove_image(f"reprokit/{name}:v{suffix}", force=True)


def test_a_package_is_compiled_apart_and_installed_without_its_tools(forge: Forge, build: Build, inside):
    flash = forge.publish(
        "Dao-AILab/flash-attention",
        {"setup.py": SETUP, "csrc/api.c": API, "csrc/none.c": "", "flash_attn/__init__.py": "rows = 3\n"},
    )
    files = {"include/cutlass/cutlass.h": "#define ROWS 128\n", "CMakeLists.txt": "project(CUTLASS VERSION 2.9.0)\n"}
    cutlass = forge.publish("NVIDIA/cutlass", files)
    package = {
        "source": "flash-attention",
        "package": "flash-attn",
        "env": ["FORCE_BUILD=TRUE"],
        "in_place": True,
        "packages": ["git"],
        "memory_per_job": "2",
    }
    variant = {
        "base": "debian:12",
        "pins": {"python": "3.11", "gcc": "12", "cutlass": "2.9.0", "flash_attn": "2.5.8"},
        "sources": [
            {"name": name, "git": f"https://github.com/{git}", "commit": commit, "path": path, **more}
            for name, git, commit, path, more in (
                ("flash-attention", "Dao-AILab/flash-attention", flash, "/opt/flash", {}),
                ("cutlass", "NVIDIA/cutlass", cutlass, "/opt/flash/csrc/cutlass", {"subset": [*files]}),
            )
        ],
        "wheels": ["setuptools==69.5.1", "wheel==0.43.0", "ninja==1.11.1.1"],
        "blocks": [
            "python",
            "wheels",
            "git",
            "cutlass",
            {"extension_package": package},
            {"imports": {"modules": ["flash_attn", "flash_attn_cuda"]}},
        ],
    }
    done = build({"variants": {"v": variant}})
    assert done.returncode == 0, done.stderr
    image = f"reprokit/{done.args[-1]}:v"
    look = (
        "cd /; python3 -c 'import flash_attn_cuda; print(flash_attn_cuda.rows())';"
        "command -v gcc c++ git || echo no build tools; ls -d /wheel /opt/flash/build 2>/dev/null || echo no leftovers;"
        "cd /opt/flash; python3 -c 'import flash_attn_cuda as m; print(m.__file__.rpartition(\"/\")[0], m.rows())';"
        "python3 -c 'import flash_attn.version as m; print(m.__file__, m.rows)'; find . -type l | sort"
    )
    shown = inside(image, look).splitlines()
    assert shown[:5] == [
        "128",
        "no build tools",
        "no leftovers",
        "/opt/flash 128",
        "/opt/flash/flash_attn/version.py 4",
    ]
    # Only what the build added: the source's own files stay.
    assert [line.partition(".cpython")[0] for line in shown[5:7]] == ["./flash_attn/version.py", "./flash_attn_cuda"]

    # Another version than the pin's stops at its block. All layers before are those of the first build.
    wrong = {**variant, "pins": {**variant["pins"], "flash_attn": "2.6.3"}}
    done = build({"variants": {"v": wrong}})
    assert done.returncode == 1 and "block extension_package: expected flash-attn 2.6.3, found 2.5.8" in done.stderr


def test_atoffer_without_a_gpu(forge: Forge, build: Build, inside):
    files = {
        "script/eva_C_search_script/search3_ours.py": SEARCH,
        "script/eva_D_cost_analysis_script/D2_search_cost.py": OVERHEAD,
        "src/syncfree_attention.cu": "// a kernel\n",
    }
    commit = forge.publish("anonymousforAD-pap534/AE-SC24-AToffer", files)
    variants = yaml.safe_load(recipe_file("atoffer").read_text(encoding="utf-8"))["variants"]
    # With the sources of the variant cuda: one repository at two places, one inside the other.
    variant = {**variants["cpu"], "sources": [{**s, "commit": commit} for s in variants["cuda"]["sources"]]}
    # torch, pandas and matplotlib are 1 GB, and what is run here needs none of them.
    variant["pins"].pop("torch")
    variant["wheels"] = [wheel for wheel in variant["wheels"] if wheel.startswith("numpy")]
    variant["blocks"] = [b for b in variant["blocks"] if b != "torch" and "imports" not in b]
    done = build({"variants": {"v": variant}})
    assert done.returncode == 0, done.stderr
    image = f"reprokit/{done.args[-1]}:v"

    kernels = "/opt/atoffer/src/syncfree_attention.cu /opt/atoffer/artifact/src/syncfree_attention.cu"
    assert inside(image, f"cat {kernels}; ls /opt/atoffer") == "// a kernel\n// a kernel\nartifact\nsrc\n"

    recipe = load_file(recipe_file("atoffer"))
    encoder, search = recipe.smoke[0], recipe.smoke[2]
    for smoke in (encoder, search):
        said = inside(image, f"bash -c {shlex.quote(smoke.command)} 2>&1")
        assert smoke.expect and re.search(smoke.expect, said), said
    overhead = recipe.benchmarks["search-cost"]
    said = inside(image, f"bash -c {shlex.quote(overhead.command)}")
    assert [f.samples for f in parse(overhead.parse, said).measurements] == [(12.3,)]
    assert inside(image, "cd /tmp && su nobody -s /bin/sh -c 'touch /opt/atoffer/artifact/script/x' && echo yes") == (
        "yes\n"
    )
