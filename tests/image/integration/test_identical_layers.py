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

# A block of each kind that builds something.
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    pins: {{distro: "debian:12", python: "3.11", gcc: "12", cmake: "3.25"}}
    apt: [tree, fontconfig]
    build_args: {{ROWS: "41"}}
    # setuptools replaces the one that environments of Python 3.11 have.
    wheels: ["six==1.16.0", "setuptools==68.2.2", "wheel==0.41.3"]
    sdists: [{{package: "GPUtil==1.4.0", requires: ["six"]}}]
    sources:
      - {{name: project, git: "https://forge.test/project", commit: {project}, path: /opt/project}}
      - name: library
        git: https://forge.test/library
        commit: {library}
        ref: v1
        path: /opt/library
        keep: false
      - {{name: package, git: "https://forge.test/package", commit: {package}, path: /opt/package}}
      - name: solver
        git: https://forge.test/solver
        commit: {solver}
        path: /opt/solver
        patches: [patches/rows.patch]
        keep: false
    files:
      - {{name: notes.txt, urls: ["http://127.0.0.2:{port}/notes.txt"], path: /opt/notes/notes.txt}}
    blocks:
      - apt
      - python
      - wheels
      - git: {{python_paths: [/opt/project], writable: [project]}}
      - files
      - cmake: {{source: project, fetches: [library], products: [build/tool, build/libone.a]}}
      - make: {{source: solver, products: [bin/solver]}}
      - autotools: {{source: solver, products: [/usr/local/share/tool]}}
      - extension_package:
          source: package
          package: fast
          in_place: true
          env: [FORCE_BUILD=TRUE]
          packages: [git]
          memory_per_job: "2"
      - imports: {{modules: [fast, six]}}
      - run: {{source: solver, commands: ["echo seven > seven"], products: [seven]}}
      - table: {{copies: [a, b c]}}
      - run: {{in_image: true, commands: ["cat /opt/tables/* > /opt/both"], products: [/opt/both]}}
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
CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(p C CXX)
include(ExternalProject)
set(installed "${CMAKE_BINARY_DIR}/installed")
ExternalProject_Add(library GIT_REPOSITORY https://forge.test/library GIT_TAG v1
  CMAKE_ARGS -DCMAKE_INSTALL_PREFIX=${installed} BUILD_BYPRODUCTS ${installed}/lib/liblibrary.a)
add_library(one STATIC one.c)
add_executable(tool tool.cpp)
add_dependencies(tool library)
target_link_libraries(tool one ${installed}/lib/liblibrary.a)
"""
PROJECT = {
    "CMakeLists.txt": CMAKE,
    "one.c": "#include <assert.h>\nint one(int x) { assert(x); return __LINE__; }\n",
    "tool.cpp": '#include <cstdio>\nextern "C" int library();\n'
    'int main() { std::printf(__DATE__ " " __TIME__ " " __FILE__ " %d\\n", library()); }\n',
}
LIBRARY = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 2.4.4)\nproject(library C)\nadd_library(library STATIC a.c)\n"
    "install(TARGETS library DESTINATION lib)\n",
    "a.c": "int library() { return 1211; }\n",
}
SETUP = """\
import os, subprocess
from setuptools import Extension, setup
assert os.environ["FORCE_BUILD"] == "TRUE" and int(os.environ["MAX_JOBS"]) >= 1, os.environ
assert not os.path.isdir(".git")
subprocess.run(["git", "submodule", "update", "--init"])
open("fast/version.py", "w").write("rows = 4\\n")
setup(name="fast", version="1.0", packages=["fast"], ext_modules=[Extension("fast._c", ["c.c"])])
"""
EXTENSION = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", 0, -1, 0};
PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
"""
PACKAGE = {"setup.py": SETUP, "c.c": EXTENSION, "fast/__init__.py": "from fast import _c\nA = {'a', 'b', 'c'}\n"}
SOLVER = {
    "Makefile": "all: bin/solver\nbin/solver: solver.c\n\tmkdir -p bin\n\t$(CC) -DROWS=$(ROWS) -o $@ $<\n",
    "solver.c": '#include <stdio.h>\nint main() {\n    printf("rows %d\\n", ROWS + 0);\n}\n',
    "configure": '#!/bin/sh\necho "made for $1" > tool\n'
    "printf 'all:\\ninstall:\\n\\tinstall -D tool $(DESTDIR)/usr/local/share/tool\\n' > Makefile\n",
}
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
LOOK = """
/opt/project/build/tool; stat -c %a /opt/project; cat /opt/both /usr/local/share/tool /opt/solver/seven
cd /opt/package; python3 -c 'import fast.version as m; print(m.__file__, m.rows)'; find . -type l | sort
command -v gcc make cmake git || echo no tools; ls -d /patches /opt/library /opt/solver/solver.c || echo no sources; env
"""


class _Desk(Desk):
    def recipe_text(self, port: int) -> str:
        for name, text in (("patches/rows.patch", PATCH), ("blocks/table.j2", BLOCK)):
            (self.root / "recipes" / name).parent.mkdir()
            (self.root / "recipes" / name).write_text(text)
        published = {"project": PROJECT, "library": LIBRARY, "package": PACKAGE, "solver": SOLVER}
        commits = {name: self.forge.publish(name, files) for name, files in published.items()}
        # The tag moves on after the recipe was written: what is built stays what the recipe names.
        (self.forge.root / "library.git" / "a.c").write_text("int library() { return 9999; }\n")
        self.forge.commit("library", "later.txt")
        self.forge.git("library", "tag", "v1")
        return RECIPE.format(name=self.recipe, port=port, **commits)


class _OldDesk(Desk):
    def recipe_text(self, port: int) -> str:
        return OLD.format(name=self.recipe)


@pytest.fixture
def desk(request: pytest.FixtureRequest, engine: Engine, debian_12, served, tmp_path: Path) -> Iterator[Desk]:
    made = request.param(tmp_path / "desk", served[1])
    yield made
    with contextlib.suppress(ReprokitError):
        engine.remove_image(made.image, force=True)


@pytest.mark.network
@pytest.mark.long
@pytest.mark.xdist_group("identical-layers")  # begins among the first: it is one of the longest
@pytest.mark.parametrize("desk", [_Desk], indirect=True)
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
        assert " 4 new repositories" in desk.run("store", "import", "carried.tar.zst", inside=other, **node)
        # With one processor and another host name.
        few = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec taskset -c 0 "$@"', "sh")
        desk.run("build", "--offline", desk.recipe, inside=other, before=few, **node)
        late = list(_entries_after(other.connect(), desk.image, day))
        labels = other.connect().image(desk.image).labels
        output = desk.run("run", desk.recipe, "--", "sh", "-c", LOOK, inside=other, **node)
        desk.run("export", desk.recipe, "-o", "image.rkit", inside=other, **node)
        assert "all good" in desk.run("store", "verify", inside=other, **node)
    finally:
        other.stop()
    assert late == []
    assert len(labels["reprokit.lock"]) == 64 and "reprokit.drift" not in labels
    lines = output[output.index("Jan  1 2000") :].splitlines()
    assert lines[:8] == [
        "Jan  1 2000 00:00:00 /opt/project/tool.cpp 1211",
        "777",
        "rows 42",
        "rows 42",
        "made for --prefix=/usr/local",
        "seven",
        "/opt/package/fast/version.py 4",
        "./fast/_c.cpython-311-x86_64-linux-gnu.so",
    ]
    assert lines[8:10] == ["./fast/version.py", "no tools"] and "no sources" in lines
    assert "SOURCE_DATE_EPOCH" not in output and "ROWS" not in output
    # Built again, on this engine.
    report, _ = json.JSONDecoder().raw_decode(desk.run("verify", "--json", "--against", "image.rkit", desk.recipe))
    assert report["verdict"] == "same" and len(report["layers"]) > 12 and report["settings"] == []
    assert engine.image(desk.image) is None, "the rebuild has a name of its own, which is removed"
    # Another line of one source: what is made of sources runs again, and installs nothing.
    desk.run("build", desk.recipe)
    before = desk.forge.git("project", "rev-parse", "HEAD")
    desk.file.write_text(desk.file.read_text().replace(before, desk.forge.commit("project", "more.txt")))
    desk.run("lock", desk.recipe)
    output = desk.run("build", "--json", desk.recipe)
    assert "block git runs again:" in output
    steps = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]["steps"]
    again = [step for step in steps if not step["cached"] and step["text"].startswith(("RUN", "COPY"))]
    assert {"git", "cmake", "make"} <= {step["block"] for step in again}
    assert not [step for step in again if "apt-get" in step["text"] or step["block"] in ("apt", "python", "wheels")]


@pytest.mark.network
@pytest.mark.long
@pytest.mark.xdist_group("identical-layers")
@pytest.mark.parametrize("desk", [_OldDesk], indirect=True)
def test_modules_that_apt_compiled_with_an_old_python(desk: _OldDesk, engine: Engine):
    builds = []
    for _ in range(2):
        desk.run("build", "--no-cache", desk.recipe)
        builds.append(engine.image(desk.image).layers)
    assert builds[0] == builds[1]
    for file in (desk.root / "home" / "state" / "builds").iterdir():
        record = json.loads(file.read_text())
        assert record["hosts_asked"] and record["bytes_through_gateway"] > 1_000_000 and record["asked_in_vain"] == {}


def _entries_after(engine: Engine, image: str, day: float) -> Iterator[str]:
    """The paths of all entries of all layers that are as new as `day`."""
    with contextlib.closing(engine.save(image)) as blocks:
        for layer in ArchiveReader(blocks).layers():
            yield from (entry.name for entry in members(Stream(layer.blocks)) if entry.mtime >= day)
