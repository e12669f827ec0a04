"""Bundled recipes built on a bootstrapped base, with small repositories of the same shape in place of the real ones.

What is under test is the recipe: its blocks and options, the products that it names, what it clones while it is built.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.recipe.find import recipe_file
from tests.support.forge import Forge
from tests.support.names import unique

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.long]

TACO = """\
cmake_minimum_required(VERSION 3.4.0 FATAL_ERROR)
project(taco LANGUAGES C CXX)
option(OPENMP "" OFF)
if(NOT EXISTS "${PROJECT_SOURCE_DIR}/python_bindings/pybind11/CMakeLists.txt")
  message(FATAL_ERROR "The submodules were not downloaded!")
endif()
if(GIT_SUBMODULE OR EXISTS "${PROJECT_SOURCE_DIR}/.git")
  message(FATAL_ERROR "git would run")
endif()
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
file(WRITE "${CMAKE_BINARY_DIR}/lib.cpp" "const char* taco() { return \\"OPENMP=${OPENMP} ${CMAKE_BUILD_TYPE}\\"; }")
file(WRITE "${CMAKE_BINARY_DIR}/tool.cpp" "#include <cstdio>\\nconst char* taco(); int main() { std::puts(taco()); }")
add_library(taco SHARED "${CMAKE_BINARY_DIR}/lib.cpp")
add_executable(tool "${CMAKE_BINARY_DIR}/tool.cpp")
target_link_libraries(tool taco)
set_target_properties(tool PROPERTIES OUTPUT_NAME taco)
"""

# As zlib and cnpy: a library that is cloned, built and installed by another project's build.
CLONED = """\
cmake_minimum_required(VERSION 2.4.4)
project({name} C)
add_library({name} STATIC {name}.c)
install(TARGETS {name} DESTINATION lib)
"""

TURBO = """\
cmake_minimum_required(VERSION 3.14)
project(turbo_transformers LANGUAGES CXX C)
if(WITH_GPU OR NOT BLAS_PROVIDER STREQUAL "mkl" OR NOT MKLROOT STREQUAL "/usr/local")
  message(FATAL_ERROR "configured otherwise")
endif()
include(ExternalProject)
foreach(name zlib cnpy)
  set(installed "${CMAKE_BINARY_DIR}/3rd/${name}")
  ExternalProject_Add(extern_${name} GIT_REPOSITORY ${${name}_git} GIT_TAG ${${name}_tag}
    CMAKE_ARGS -DCMAKE_INSTALL_PREFIX=${installed} -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    BUILD_BYPRODUCTS ${installed}/lib/lib${name}.a)
  list(APPEND libraries ${installed}/lib/lib${name}.a)
endforeach()
add_subdirectory(turbo_transformers)
"""
TURBO_PARTS = """\
file(WRITE "${CMAKE_BINARY_DIR}/test.c"
  "#include <stdio.h>\\nint zlib(void); int cnpy(void); int main() { printf(\\"%d %d\\\\n\\", zlib(), cnpy()); }")
foreach(test core/tt_core_test layers/kernels/tt_kernels_test)
  get_filename_component(folder ${test} DIRECTORY)
  get_filename_component(name ${test} NAME)
  add_executable(${name} "${CMAKE_BINARY_DIR}/test.c")
  target_link_libraries(${name} ${libraries})
  add_dependencies(${name} extern_zlib extern_cnpy)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${folder}")
endforeach()
set(package "${CMAKE_CURRENT_BINARY_DIR}/python/pypackage")
add_custom_target(wheel ALL COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_CURRENT_SOURCE_DIR}/python ${package}
  COMMAND ${CMAKE_COMMAND} -E chdir ${package} env CC=${CMAKE_C_COMPILER} ${PYTHON_EXECUTABLE} setup.py bdist_wheel)
"""
SETUP = """\
from setuptools import Extension, setup
setup(name="turbo-transformers", version="0.6.0", packages=["turbo_transformers"], install_requires=["torch"],
      ext_modules=[Extension("_turbo_stub", ["stub.c"])])
"""
STUB = """\
#include <Python.h>
static struct PyModuleDef stub = {PyModuleDef_HEAD_INIT, "_turbo_stub", 0, -1, 0};
PyMODINIT_FUNC PyInit__turbo_stub(void) { return PyModule_Create(&stub); }
"""


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path / "forge")


@pytest.fixture
def built(engine: Engine, forge: Forge, tmp_path: Path) -> Iterator[Callable[[str, dict, Callable], str]]:
    """`built(recipe, commits, change)`: the image of a recipe's variant cpu, its sources at the forge's commits."""
    images = []

    def build(recipe: str, commits: dict[str, str], change: Callable[[dict], None] = lambda variant: None) -> str:
        data: dict[str, Any] = yaml.safe_load(recipe_file(recipe).read_text(encoding="utf-8"))
        name = unique("recipe")
        variant = data["variants"]["cpu"]
        for source in variant["sources"]:
            source["commit"] = commits[source["name"]]
        change(variant)
        stand_in = {"name": name, "paper": data["paper"], "variants": {"cpu": variant}}
        (tmp_path / "recipes").mkdir()
        (tmp_path / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump(stand_in), encoding="utf-8")
        images.append(f"reprokit/{name}:cpu")
        redirected = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{forge.root}/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/",
        }
        done = subprocess.run(
            [sys.executable, "-m", "reprokit", "build", name],
            cwd=tmp_path,
            env={**os.environ, **redirected, "REPROKIT_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return images[-1]

    yield build
    for image in images:
        with contextlib.suppress(ReprokitError):
            engine.remove_image(image, force=True)


def test_taco(forge: Forge, built, inside):
    forge.publish("pybind/pybind11", {"CMakeLists.txt": "project(pybind11)\n"})
    forge.publish("bats-core/bats-core", {"bin/bats": "#!/bin/sh\n"})
    submodules = {"python_bindings/pybind11": "pybind/pybind11", "test/bats": "bats-core/bats-core"}
    taco = forge.publish("tensor-compiler/taco", {"CMakeLists.txt": TACO, "test/data/d33.mtx": "33\n"}, submodules)
    image = built("taco", {"taco": taco})
    look = (
        "/opt/taco/build/bin/taco; ls /opt/taco/build /opt/taco/test; find / -xdev -name .git;"
        "echo 'int f() { return 1; }' > /tmp/f.c;"
        "cc -fopenmp -shared -fPIC /tmp/f.c -o /tmp/f.so -lm && ls /tmp/f.so;"
        "command -v cmake ninja git || echo no build tools"
    )
    said = inside(image, look).split("\n")
    assert said[0] == "OPENMP=ON Release"
    assert said[1:9] == ["/opt/taco/build:", "bin", "lib", "", "/opt/taco/test:", "bats", "data", "/tmp/f.so"]
    assert said[9] == "no build tools"


def test_turbotransformers_builds_what_it_clones_at_the_pinned_commits(forge: Forge, built, inside):
    zlib = forge.publish(
        "madler/zlib", {"CMakeLists.txt": CLONED.format(name="zlib"), "zlib.c": "int zlib() { return 1211; }"}
    )
    # The tag moves on after the recipe was written: what is built stays what the recipe names.
    forge.commit("madler/zlib", "later.txt")
    (forge.root / "madler/zlib.git/zlib.c").write_text("int zlib() { return 9999; }")
    forge.commit("madler/zlib", "another.txt")
    forge.git("madler/zlib", "tag", "v1.2.11")
    cnpy = forge.publish(
        "rogersce/cnpy", {"CMakeLists.txt": CLONED.format(name="cnpy"), "cnpy.c": "int cnpy() { return 65; }"}
    )
    forge.commit("rogersce/cnpy", "later.txt")
    cloned = (
        "set(zlib_git https://github.com/madler/zlib.git)\nset(zlib_tag v1.2.11)\n"
        f"set(cnpy_git https://github.com/rogersce/cnpy.git)\nset(cnpy_tag {cnpy})\n"
    )
    forge.publish("catchorg/Catch2", {"catch.hpp": "\n"})
    files = {
        "CMakeLists.txt": TURBO.replace("include(External", cloned + "include(External"),
        "turbo_transformers/CMakeLists.txt": TURBO_PARTS,
        "turbo_transformers/python/setup.py": SETUP,
        "turbo_transformers/python/stub.c": STUB,
        "turbo_transformers/python/turbo_transformers/__init__.py": "import _turbo_stub\n",
    }
    # One repository in place of each of its submodules. 3rd/cub is not checked out.
    modules = {
        f"3rd/{name}": "catchorg/Catch2" for name in ("Catch2", "FP16", "abseil", "dlpack", "loguru", "pybind11")
    }
    turbo = forge.publish("Tencent/TurboTransformers", files, {**modules, "3rd/cub": "catchorg/Catch2"})

    def without_torch(variant: dict) -> None:
        """torch and MKL are 1.1 GB, and beside the point."""
        variant["wheels"] = [w for w in variant["wheels"] if w.partition("==")[0] in ("setuptools", "wheel")]
        kept = [b for b in variant["blocks"] if b != "mkl" and "torch" not in b]
        variant["blocks"] = [*kept[:-1], {"imports": {"modules": ["contexttimer", "docopt", "turbo_transformers"]}}]
        variant["env"] = {}

    image = built("turbotransformers", {"turbotransformers": turbo, "zlib": zlib, "cnpy": cnpy}, without_torch)
    look = (
        "cd /opt/turbotransformers/build/turbo_transformers; core/tt_core_test; layers/kernels/tt_kernels_test;"
        "python3 -c 'import turbo_transformers; print(turbo_transformers.__file__)';"
        "find /opt/turbotransformers/build -type f | wc -l; ls -d /opt/fetched /fetched 2>/dev/null || echo not kept"
    )
    assert inside(image, look).split("\n")[:5] == [
        "1211 65",
        "1211 65",
        "/opt/venv/lib/python3.9/site-packages/turbo_transformers/__init__.py",
        "2",
        "not kept",
    ]
