"""Packages for what a log says is missing come from the table alone."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from reprokit.explain.packages import packages
from tests.support import logs


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"module": "yaml"}, {"distribution": "pyyaml"}),
        ({"module": "sklearn.metrics"}, {"distribution": "scikit-learn"}),
        ({"module": "requests"}, {"distribution": "requests"}),
        ({"header": "openssl/ssl.h"}, {"apt": "libssl-dev"}),
        ({"library": "openblas"}, {"apt": "libopenblas-dev"}),
        ({"library": "libhdf5.so"}, {"apt": "libhdf5-dev"}),
        ({"package": "OpenCV"}, {"apt": "libopencv-dev"}),
        ({"package": "Threads"}, {}),  # a part of the system
        ({"module": "apex"}, {}),  # another project has its name on PyPI
        ({"module": "reqeusts", "header": "evil.h", "program": "evil", "library": "../../evil"}, {}),
    ],
)
def test_what_is_missing_has_a_package(values, found):
    assert packages(values) == found


@pytest.mark.parametrize(
    ("log", "path", "value"),
    [
        ("ModuleNotFoundError: No module named 'h5py'", "wheels", "h5py"),
        (
            "Preparing metadata (pyproject.toml) failed: egg_info\n  ModuleNotFoundError: No module named 'yaml'",
            "wheels",
            "pyyaml",
        ),
        ("src/curl.c:4:10: fatal error: curl/curl.h: No such file or directory", "apt", "libcurl4-openssl-dev"),
        ("/usr/bin/ld: cannot find -lxml2: No such file or directory", "apt", "libxml2-dev"),
        ("error: pkg-config probably not installed: FileNotFoundError(2, 'No such file')", "apt", "pkg-config"),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "apt", "libgl1"),
        ("/bin/sh: 1: swig: not found", "apt", "swig"),
        ("reprokit: out of memory during the build: the kernel killed cc1plus; MAX_JOBS=3 fits", "build_args", "3"),
    ],
)
def test_a_failure_proposes_the_package(log, path, value):
    (change,) = explain(logs.stream(f"{log}\n"), failed=True).causes[0].recipe_change
    assert change["path"].split("/")[3] == path and change["value"] == value


def test_what_the_table_lacks_is_no_change():
    for line in ("ModuleNotFoundError: No module named 'evil_package'", "a.c:1:10: fatal error: evil.h: No such file"):
        assert explain(logs.stream(f"{line} or directory\n"), failed=True).causes[0].recipe_change == []
