from __future__ import annotations

import pytest

from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.errors import UsageError


@pytest.mark.parametrize(
    ("text", "sm", "line"),
    [
        ("3090", 86, "geforce"),
        ("rtx3090", 86, "geforce"),
        ("RTX 3090", 86, "geforce"),
        ("NVIDIA GeForce RTX 3090", 86, "geforce"),
        ("GeForce RTX 3090 Ti", 86, "geforce"),
        ("geforce-rtx-3090", 86, "geforce"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", 86, "geforce"),
        ("RTX 4090 Laptop", 89, "geforce"),
        ("4080 Super", 89, "geforce"),
        ("RTX 2080 SUPER with Max-Q Design".replace("with ", ""), 75, "geforce"),
        ("GTX 1060 6GB", 61, "geforce"),
        ("GeForce GT 710", 35, "geforce"),
        ("Quadro K2000", 30, "workstation"),
        ("1080ti", 61, "geforce"),
        ("5090", 120, "geforce"),
        ("A100", 80, "datacenter"),
        ("A100-SXM4-80GB", 80, "datacenter"),
        ("NVIDIA A100-PCIE-40GB", 80, "datacenter"),
        ("NVIDIA A100 80GB PCIe", 80, "datacenter"),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 80, "datacenter"),
        ("A100X", 80, "datacenter"),
        ("H100", 90, "datacenter"),
        ("NVIDIA H100 80GB HBM3", 90, "datacenter"),
        ("NVIDIA H100 PCIe", 90, "datacenter"),
        ("H100 NVL", 90, "datacenter"),
        ("H200", 90, "datacenter"),
        ("NVIDIA GH200 480GB", 90, "datacenter"),
        ("Tesla V100-SXM2-16GB", 70, "datacenter"),
        ("V100-PCIE-32GB", 70, "datacenter"),
        ("Tesla V100-DGXS-32GB", 70, "datacenter"),
        ("Tesla P100-PCIE-16GB", 60, "datacenter"),
        ("Tesla T4", 75, "datacenter"),
        ("K80", 37, "datacenter"),
        ("NVIDIA L40S", 89, "datacenter"),
        ("A10G", 86, "datacenter"),
        ("B200", 100, "datacenter"),
        ("DGX Spark", 121, "datacenter"),
        ("Quadro RTX 6000", 75, "workstation"),
        ("NVIDIA RTX 6000 Ada Generation", 89, "workstation"),
        ("RTX A6000", 86, "workstation"),
        ("a6000", 86, "workstation"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 120, "workstation"),
        ("TITAN V", 70, "titan"),
        ("NVIDIA TITAN RTX", 75, "titan"),
        ("TITAN Xp", 61, "titan"),
        ("Jetson AGX Orin", 87, "jetson"),
        ("8.6", 86, ""),
        ("sm_86", 86, ""),
        ("sm86", 86, ""),
        ("compute_90", 90, ""),
        ("sm_90a", 90, ""),
        ("12.0", 120, ""),
    ],
)
def test_names_as_people_write_them(text: str, sm: int, line: str) -> None:
    gpu = parse_gpu(bundled(), text)
    assert gpu is not None
    assert (gpu.sm, gpu.line) == (sm, line)


def test_some_capabilities_are_not_verified() -> None:
    assert not parse_gpu(bundled(), "B100").verified  # type: ignore[union-attr]
    assert parse_gpu(bundled(), "RTX 3070").verified  # type: ignore[union-attr]


def test_none_is_no_gpu() -> None:
    assert parse_gpu(bundled(), "none") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("4.4", "no GPU has compute capability 4.4"),
        ("sm_99", "no GPU has compute capability"),
        ("3091", "unknown GPU"),
        ("RTX 3900", "unknown GPU"),
        ("", "unknown GPU"),
        ("RX 7900", "unknown GPU"),
        ("RTX 6000", "several GPUs"),
        ("TITAN X", "several GPUs"),
    ],
)
def test_what_nobody_knows_is_wrong_usage(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_gpu(bundled(), text)
    assert caught.value.hint


def test_the_hint_names_near_spellings() -> None:
    with pytest.raises(UsageError) as caught:
        parse_gpu(bundled(), "RTX 3900")
    assert "RTX 3090" in caught.value.hint or "RTX 3080" in caught.value.hint


def test_every_known_name_is_its_own_spelling() -> None:
    for group in bundled().gpus.groups:
        for name in group.names:
            if name in ("GeForce GTX TITAN X",):
                continue
            gpu = parse_gpu(bundled(), name)
            assert gpu is not None
            assert f"{gpu.capability[0]}.{gpu.capability[1]}" == group.cc, name
