from __future__ import annotations

from packaging.utils import canonicalize_name

from reprokit.compat.distributions import bundled_distributions

TABLE = bundled_distributions()


def test_a_name_of_conda_is_taken_for_one_of_pypi_only_where_it_is_known_to_be():
    names = {
        **{"numpy": "numpy", "importlib_metadata": "importlib-metadata", "lightfm": "lightfm"},
        **{"pytorch": "torch", "filesystem-spec": "fsspec", "dgl-cuda11.1": "dgl", "pyg": "torch-geometric"},
        **{"nodejs": "apt:nodejs", "libgcc-ng": "", "ld_impl_linux-64": "", "libpng": ""},
        **{"samtools": None, "r-ggplot2": None, "moose": None},
    }
    assert {name: TABLE.of_conda(name) for name in names} == names
    projects = [each for each in TABLE.conda.values() if each and not each.startswith("apt:")]
    assert [each for each in projects if each != canonicalize_name(each)] == ["ruamel.yaml"]
    assert not TABLE.conda_system & set(TABLE.conda)


def test_modules_are_known_by_their_distributions():
    names = {"patoolib": "patool", "colors": "ansicolors", "torchdiffeq": "torchdiffeq", "apex": "", "moose": None}
    names |= {"dgl": "dgl", "pyximport": "cython", "fast_transformers": "pytorch-fast-transformers", "dllogger": ""}
    assert {name: TABLE.of_module(name) for name in names} == names


def test_a_library_is_known_by_its_header():
    names = {
        **{"mpfr": "libmpfr-dev", "mpc": "libmpc-dev", "libmpfr.so": "libmpfr-dev", "mpfr.h": "libmpfr-dev", "m": ""},
        **{"google/dense_hash_map": "libsparsehash-dev", "google/protobuf/any.h": "libprotobuf-dev"},
    }
    assert {name: TABLE.of_part(name) for name in names} == names
