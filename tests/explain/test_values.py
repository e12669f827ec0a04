"""Names, also hostile ones and without a demangler; pins; packages, which come from the table alone."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from reprokit.explain.values import demangled, packages, pins
from tests.support import logs


def test_a_name_is_demangled():
    assert demangled("_ZN2at3cosENS_6TensorE") == "at::cos(at::Tensor)"


@pytest.mark.parametrize("symbol", ["main", "", "_Z", "_Z" + "N" * 5000, "_Zü", "_ZN2at3cos\n_ZN1aE"[:9], "--help"])
def test_what_is_no_name_stays(symbol: str):
    assert demangled(symbol) == symbol


def test_a_name_that_unfolds_is_cut_off():
    name = "_Z1f" + "St4pairI" * 40 + "ii" + "E" * 40
    assert len(demangled(name)) <= 1000


def test_without_a_demangler_the_symbol_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert demangled("_ZN2at3cosENS_6TensorE") == "_ZN2at3cosENS_6TensorE"


@pytest.mark.parametrize(("arch", "cuda"), [("sm_86", "11.1"), ("89", "11.8"), ("8.0", "11.0"), ("compute_90", "11.8")])
def test_the_oldest_cuda_of_an_architecture(arch: str, cuda: str):
    assert pins({"arch": arch}) == {"oldest_cuda": cuda}


@pytest.mark.parametrize("arch", ["", "sm_999999", "x", "99"])
def test_an_unknown_architecture_has_none(arch: str):
    assert pins({"arch": arch}) == {}


@pytest.mark.parametrize(("number", "cuda"), [("11040", "11.4"), ("12010", "12.1"), ("9020", "9.2")])
def test_the_newest_cuda_of_a_driver(number: str, cuda: str):
    assert pins({"driver_cuda": number}) == {"driver_newest_cuda": cuda}


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
