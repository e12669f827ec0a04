"""The headers that sources include, and the packages that have them."""

from __future__ import annotations

import pytest

SOURCE = """\
/* a */
#include <hdf5.h>
# include "mpi.h"
#include "own.h"
#ifdef _WIN32
#include <sql.h>
#endif
#include MACRO
"""
CYTHON = "cdef extern from *:\n  pass\ncdef extern from 'libxml/tree.h' nogil:\n  pass\ncdef int include\n"
FILES = {"a.c": SOURCE, "b.pxd": CYTHON, "include/own.h": "", "tests/c.c": "#include <png.h>\n"}


@pytest.mark.slow
def test_c_and_cython_sources_include_headers(stated):
    assert {(s.value, str(s.origin), s.scope) for s in stated(FILES) if s.subject == "library"} == {
        *{("hdf5.h", "a.c:2", "run"), ("mpi.h", "a.c:3", "run"), ("own.h", "a.c:4", "run")},
        *{("libxml/tree.h", "b.pxd:3", "run"), ("png.h", "tests/c.c:1", "test")},
    }


def test_what_is_compiled_gets_the_packages_of_its_headers(decided):
    setup = "from setuptools import Extension, setup\nsetup(name='tool', ext_modules=[{}])\n"
    compiled = {**FILES, "setup.py": setup.format("Extension('core', ['a.c'])"), "hdf5.h": ""}
    found = decided(compiled).apt
    assert [(c.value, str(c.origins[0])) for c in found] == [("libopenmpi-dev", "a.c:3"), ("libxml2-dev", "b.pxd:3")]
    assert not decided({"setup.py": "from setuptools import setup\nsetup(name='tool')\n"}).apt
