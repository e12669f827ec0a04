"""The same inputs give the same layers, on any engine, with or without a network. No layer holds the build's date."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.oci.docker_archive import ArchiveReader
from reprokit.untrusted.tar import Stream, members
from tests.support.desk import Desk
from tests.support.other_engine import OtherEngine
from tests.support.privileges import OWN_ENGINE, as_root

pytestmark = [
    pytest.mark.engine,
    pytest.mark.network,
    pytest.mark.long,
    pytest.mark.xdist_group("identical-layers"),  # begins among the first: it is one of the longest
]

RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    pins: {{distro: "debian:12", python: "3.11", gcc: "12", cmake: "3.25"}}
    apt: [tree, fontconfig]
    # setuptools replaces the one that environments of Python 3.11 have.
    wheels: ["six==1.16.0", "setuptools==68.2.2", "wheel==0.41.3"]
    sdists: [{{package: "GPUtil==1.4.0", requires: ["six"]}}]
    sources:
      - {{name: project, git: "https://forge.test/project", commit: {project}, path: /opt/project}}
      - {{name: package, git: "https://forge.test/package", commit: {package}, path: /opt/package, keep: false}}
    files:
      - {{name: notes.txt, urls: ["http://127.0.0.1:{port}/notes.txt"], path: /opt/notes/notes.txt}}
    blocks:
      - apt
      - python
      - wheels
      - git: {{python_paths: [/opt/project], writable: [project]}}
      - files
      - cmake: {{source: project, products: [build/tool, build/libone.a]}}
      - extension_package: {{source: package, package: fast}}
      - imports: {{modules: [fast, six]}}
      - run: {{source: package, in_image: true, commands: ["test -e setup.py"], products: [setup.py]}}
"""
# apt compiles the modules of python3.9-minimal, of which five hold a set.
OLD = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:11
    pins: {{distro: "debian:11", python: "3.9"}}
    apt: [python3.9-minimal]
    blocks: [apt]
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(p C CXX)
add_library(one STATIC one.c)
add_executable(tool tool.cpp)
target_link_libraries(tool one)
"""
SETUP = """\
from setuptools import Extension, setup
setup(name="fast", version="1.0", packages=["fast"], ext_modules=[Extension("fast._c", ["c.c"])])
"""
EXTENSION = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", 0, -1, 0};
PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
"""


class _Desk(Desk):
    def recipe_text(self, port: int) -> str:
        project = {
            "CMakeLists.txt": CMAKE,
            "one.c": "#include <assert.h>\nint one(int x) { assert(x); return __LINE__; }\n",
            "tool.cpp": '#include <cstdio>\nint main() { std::puts(__DATE__ " " __TIME__ " " __FILE__); }\n',
        }
        package = {
            "setup.py": SETUP,
            "c.c": EXTENSION,
            "fast/__init__.py": "from fast import _c\nA = {'a', 'b', 'c'}\n",
        }
        commits = {"project": self.forge.publish("project", project), "package": self.forge.publish("package", package)}
        return RECIPE.format(name=self.recipe, port=port, **commits)


class _OldDesk(Desk):
    def recipe_text(self, port: int) -> str:
        return OLD.format(name=self.recipe)


@pytest.fixture
def desk(engine: Engine, debian_12, served, tmp_path: Path) -> Iterator[_Desk]:
    made = _Desk(tmp_path / "desk", served[1])
    yield made
    _remove(engine, made.image)


@pytest.fixture
def old_desk(engine: Engine, tmp_path: Path) -> Iterator[_OldDesk]:
    made = _OldDesk(tmp_path / "desk", 0)
    yield made
    _remove(engine, made.image)


def _remove(engine: Engine, image: str) -> None:
    with contextlib.suppress(ReprokitError):
        engine.remove_image(image, force=True)


@as_root(OWN_ENGINE)
def test_two_engines_with_nothing_in_common_but_the_lock(desk: _Desk, engine: Engine, short_path: Path):
    day = time.time() // 86400 * 86400
    desk.run("lock", desk.recipe)
    desk.run("fetch", desk.recipe)
    desk.run("store", "export", desk.recipe, "-o", "carried.tar.zst")
    node = {"REPROKIT_HOME": str(short_path / "home"), "TMPDIR": str(short_path), "http_proxy": "", "https_proxy": ""}
    other = OtherEngine(short_path, short_path / "data")
    try:
        route = other.inside(["cat", "/proc/net/route"]).stdout.splitlines()
        assert len(route) == 1, "the engine's network has a way out"
        assert " 2 new repositories" in desk.run("store", "import", "carried.tar.zst", inside=other, **node)
        # With one processor and another host name.
        few = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec taskset -c 0 "$@"', "sh")
        desk.run("build", "--offline", desk.recipe, inside=other, before=few, **node)
        late = list(_entries_after(other.connect(), desk.image, day))
        labels = other.connect().image(desk.image)["Config"]["Labels"]
        command = "/opt/project/build/tool; stat -c %a /opt/project; env"
        seen = desk.run("run", desk.recipe, "--", "sh", "-c", command, inside=other, **node)
        desk.run("export", desk.recipe, "-o", "image.rkit", inside=other, **node)
        assert "all good" in desk.run("store", "verify", inside=other, **node)
    finally:
        other.stop()
    assert late == []
    assert len(labels["reprokit.lock"]) == 64 and "reprokit.drift" not in labels
    assert "Jan  1 2000 00:00:00 /opt/project/tool.cpp" in seen and "\n777\n" in seen
    assert "SOURCE_DATE_EPOCH" not in seen
    # Built again, on this engine.
    found, _ = json.JSONDecoder().raw_decode(desk.run("verify", "--json", "--against", "image.rkit", desk.recipe))
    assert found["verdict"] == "same" and len(found["layers"]) > 8 and found["settings"] == []
    assert engine.image(desk.image) is None, "the rebuild has a name of its own, which is removed"


def test_modules_that_apt_compiled_with_an_old_python(old_desk: _OldDesk, engine: Engine):
    builds = []
    for _ in range(2):
        old_desk.run("build", "--no-cache", old_desk.recipe)
        builds.append(engine.image(old_desk.image)["RootFS"]["Layers"])
    assert builds[0] == builds[1]


def _entries_after(engine: Engine, image: str, day: float) -> Iterator[str]:
    """The paths of all entries of all layers that are as new as `day`."""
    with contextlib.closing(engine.save(image)) as blocks:
        for layer in ArchiveReader(blocks).layers():
            yield from (entry.name for entry in members(Stream(layer.blocks)) if entry.mtime >= day)
