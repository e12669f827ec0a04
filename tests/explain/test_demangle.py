"""Mangled names, also hostile ones and without a demangler."""

from __future__ import annotations

import pytest

from reprokit.explain.demangle import demangled


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
