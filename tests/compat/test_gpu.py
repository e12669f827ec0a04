"""GPUs by the names that people and drivers give them, and their peaks by the data sheet."""

from __future__ import annotations

import pytest

from reprokit.compat.facts import bundled
from reprokit.compat.gpu import known_peaks, parse_gpu, peaks_of
from reprokit.errors import UsageError

SPELLINGS = {
    (30, "workstation"): "Quadro K2000",
    (35, "geforce"): "GeForce GT 710",
    (37, "datacenter"): "K80",
    (60, "datacenter"): "Tesla P100-PCIE-16GB",
    (61, "geforce"): "GTX 1060 6GB, 1080ti",
    (61, "titan"): "TITAN Xp",
    (70, "datacenter"): "Tesla V100-SXM2-16GB, V100-PCIE-32GB, Tesla V100-DGXS-32GB",
    (70, "titan"): "TITAN V",
    (75, "datacenter"): "Tesla T4",
    (75, "geforce"): "RTX 2080 SUPER Max-Q Design",
    (75, "titan"): "NVIDIA TITAN RTX",
    (75, "workstation"): "Quadro RTX 6000",
    (80, "datacenter"): "A100, A100-SXM4-80GB, NVIDIA A100-PCIE-40GB, NVIDIA A100 80GB PCIe, A100X, "
    "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
    (86, "datacenter"): "A10G",
    (86, "geforce"): "3090, rtx3090, RTX 3090, NVIDIA GeForce RTX 3090, GeForce RTX 3090 Ti, geforce-rtx-3090, "
    "NVIDIA GeForce RTX 3080 Laptop GPU",
    (86, "workstation"): "RTX A6000, a6000",
    (87, "jetson"): "Jetson AGX Orin",
    (89, "datacenter"): "NVIDIA L40S",
    (89, "geforce"): "RTX 4090 Laptop, 4080 Super",
    (89, "workstation"): "NVIDIA RTX 6000 Ada Generation",
    (90, "datacenter"): "H100, NVIDIA H100 80GB HBM3, NVIDIA H100 PCIe, H100 NVL, H200, NVIDIA GH200 480GB",
    (100, "datacenter"): "B200",
    (120, "geforce"): "5090",
    (120, "workstation"): "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    (121, "datacenter"): "DGX Spark",
    (86, ""): "8.6, sm_86, sm86",
    (90, ""): "compute_90, sm_90a",
    (120, ""): "12.0",
}


@pytest.mark.parametrize(("expected", "names"), SPELLINGS.items(), ids=SPELLINGS.values())
def test_names_as_people_write_them(expected: tuple[int, str], names: str) -> None:
    gpus = {name: parse_gpu(bundled(), name) for name in names.split(", ")}
    assert {name: (gpu.sm, gpu.line) for name, gpu in gpus.items()} == dict.fromkeys(gpus, expected)


def test_every_bundled_name_is_its_own_spelling() -> None:
    capabilities = {name: group.cc for group in bundled().gpus.groups for name in group.names}
    del capabilities["GeForce GTX TITAN X"]  # `TITAN X` is several GPUs
    gpus = {name: parse_gpu(bundled(), name) for name in capabilities}
    assert {name: ".".join(map(str, gpu.capability)) for name, gpu in gpus.items()} == capabilities
    assert (gpus["B100"].verified, gpus["GeForce RTX 3070"].verified) == (False, True)
    assert parse_gpu(bundled(), "none") is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("4.4", "no GPU has compute capability 4.4", "capabilities are "),
        ("sm_99", "no GPU has compute capability", "capabilities are "),
        ("3091", "unknown GPU", "did you mean "),
        ("RTX 3900", "unknown GPU", "RTX 30"),
        ("", "unknown GPU", "write a compute capability such as 8.6"),
        ("RX 7900", "unknown GPU", "did you mean "),
        ("RTX 6000", "several GPUs", "write one of "),
        ("TITAN X", "several GPUs", "write one of "),
    ],
)
def test_an_unknown_name_is_refused_with_near_spellings(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_gpu(bundled(), text)
    assert hint in caught.value.hint


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
def test_peaks_as_the_data_sheet_has_them(name: str, fp32: float, tensor: int | None, bandwidth: int) -> None:
    peaks = peaks_of(bundled(), name)
    assert (round(peaks.fp32 / 1e3, 1), round(peaks.bandwidth)) == (fp32, bandwidth)
    assert (peaks.tensor and round(peaks.tensor / 1e3)) == tensor
    assert peaks.sources


def test_peaks_have_a_formula_and_their_own_name() -> None:
    assert peaks_of(bundled(), "V100").how == "5120 cores x 2 x 1530 MHz; 877 MHz x 4096 bit x 2"
    assert [each.name for each in known_peaks(bundled()) if peaks_of(bundled(), each.name) != each] == []
    others = ["", "cpu", "none", "AMD EPYC", "NVIDIA GeForce RTX 3080 Laptop GPU", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"]
    assert [name for name in others if peaks_of(bundled(), name) is not None] == []
