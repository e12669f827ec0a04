"""Names, also hostile ones and without a demangler; pins; packages, which come from the table alone."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from reprokit.explain.values import demangled, packages, pins
from tests.support import logs


@pytest.mark.parametrize("symbol", ["main", "", "_Z", "_Z" + "N" * 5000, "_Zü", "_ZN2at3cos\n_ZN1aE"[:9], "--help"])
def test_what_is_no_name_stays(symbol: str):
    assert demangled(symbol) == symbol


def test_a_name_is_demangled_cut_off_and_stays_without_a_demangler(monkeypatch: pytest.MonkeyPatch):
    assert demangled("_ZN2at3cosENS_6TensorE") == "at::cos(at::Tensor)"
    assert len(demangled("_Z1f" + "St4pairI" * 40 + "ii" + "E" * 40)) <= 1000
    monkeypatch.setenv("PATH", "/nonexistent")
    assert demangled("_ZN2at3cosENS_6TensorE") == "_ZN2at3cosENS_6TensorE"


@pytest.mark.parametrize(
    ("name", "value", "pin"),
    [
        *(("arch", arch, {"oldest_cuda": "11.1"}) for arch in ("sm_86", "86", "8.6", "compute_86")),
        ("arch", "89", {"oldest_cuda": "11.8"}),
        ("arch", "8.0", {"oldest_cuda": "11.0"}),
        *(("arch", arch, {}) for arch in ("", "sm_999999", "x", "99")),
        ("driver_cuda", "11040", {"driver_newest_cuda": "11.4"}),
        ("driver_cuda", "12010", {"driver_newest_cuda": "12.1"}),
        ("driver_cuda", "9020", {"driver_newest_cuda": "9.2"}),
    ],
)
def test_pins_of_an_architecture_or_driver(name: str, value: str, pin: dict[str, str]):
    assert pins({name: value}) == pin


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


@pytest.mark.parametrize(
    ("log", "cause", "change"),
    [
        ("AttributeError: module 'numpy' has no attribute 'float'", "numpy.float: in numpy up to 1.23", "numpy 1.23"),
        ("AttributeError: module 'torch' has no attribute 'rfft'", "torch.rfft: in torch up to 1.7", "torch 1.7"),
        ("ModuleNotFoundError: No module named 'torch._six'", "torch._six: in torch up to 1.13", "torch 1.13"),
        (
            "ImportError: cannot import name 'AdamW' from 'transformers' (/a.py)",
            "AdamW: in transformers up to 4",
            "transformers 4.49",
        ),
        ('a.cu(3): error: identifier "cudaThreadSynchronize" is undefined', "in cuda up to 12.9", "cuda 12.9"),
    ],
)
def test_a_missing_name_has_the_releases_that_have_it(log: str, cause: str, change: str):
    first = explain(logs.stream(f"{log}\n"), failed=True).causes[0]
    package, release = change.split()
    assert cause in first.cause and first.remedy.startswith(f"pin {change}")
    assert first.recipe_change == [{"op": "replace", "path": f"/variants/*/pins/{package}", "value": release}]


def test_a_recipes_pin_decides_on_which_side_to_look():
    log = "AttributeError: module 'numpy' has no attribute 'AxisError'\n"  # 1.13 to 1.26
    assert [
        explain(logs.stream(log), True, pins={"numpy": pin}).causes[0].remedy[:14] for pin in ("1.12.1", "2.0.2")
    ] == [
        "pin numpy 1.13",
        "pin numpy 1.26",
    ]
