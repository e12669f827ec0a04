"""Peaks of GPUs from their data sheets, by the names that drivers give them."""

from __future__ import annotations

import pytest

from reprokit.compat.facts import bundled
from reprokit.compat.peaks import known_peaks, peaks_of


@pytest.mark.parametrize(
    ("name", "fp32", "tensor", "bandwidth"),
    [
        ("V100", 15.7, 125, 898),
        ("Tesla V100-SXM2-16GB", 15.7, 125, 898),
        ("Tesla V100-PCIE-32GB", 14.1, 112, 898),
        ("Tesla P100-PCIE-16GB", 9.3, None, 732),
        ("Tesla P100-PCIE-12GB", 9.3, None, 549),
        ("Tesla T4", 8.1, 65, 320),
        ("NVIDIA A100-SXM4-40GB", 19.5, 312, 1555),
        ("NVIDIA A100-SXM4-80GB", 19.5, 312, 2039),
        ("NVIDIA A100 80GB PCIe", 19.5, 312, 1935),
        ("NVIDIA H100 80GB HBM3", 66.9, 989, 3352),
        ("NVIDIA H100 PCIe", 51.2, 756, 2039),
        ("NVIDIA H200", 66.9, 989, 4800),
        ("NVIDIA H200 NVL", 60.3, 836, 4800),
        ("NVIDIA GeForce RTX 3090", 35.6, 71, 936),
        ("rtx 4090", 82.6, 165, 1008),
    ],
)
def test_peaks_as_the_data_sheet_has_them(name, fp32, tensor, bandwidth):
    found = peaks_of(bundled(), name)
    assert (round(found.fp32 / 1e3, 1), round(found.bandwidth)) == (fp32, bandwidth)
    assert (found.tensor and round(found.tensor / 1e3)) == tensor
    assert found.sources


def test_the_formula_is_shown():
    assert peaks_of(bundled(), "V100").how == "5120 cores x 2 x 1530 MHz; 877 MHz x 4096 bit x 2"


@pytest.mark.parametrize(
    "name", ["", "cpu", "none", "AMD EPYC", "NVIDIA GeForce RTX 3080 Laptop GPU", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"]
)
def test_other_devices_have_no_data_sheet(name):
    assert peaks_of(bundled(), name) is None


def test_each_row_is_found_by_its_own_name():
    assert [each.name for each in known_peaks(bundled()) if peaks_of(bundled(), each.name) != each] == []
