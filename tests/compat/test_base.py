from __future__ import annotations

import pytest

from reprokit.compat.base import IMPLIED, parse_base
from reprokit.compat.facts import bundled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04", "nvidia_cuda cuda=11.8.0 distro=ubuntu:22.04 cudnn=8.9.6.50"),
        ("nvidia/cuda:11.8.0-cudnn8-devel-ubuntu18.04", "nvidia_cuda cuda=11.8.0 distro=ubuntu:18.04 cudnn=8.6.0.163"),
        ("nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04", "nvidia_cuda cuda=12.4.1 distro=ubuntu:22.04"),
        ("docker.io/nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04", "nvidia_cuda cuda=10.2 distro=ubuntu:18.04 cudnn=7"),
        ("pytorch/pytorch:1.13.0-cuda11.6-cudnn8-devel", "pytorch torch=1.13.0+cu116 cuda=11.6 cudnn=8"),
        ("debian:12", "distro distro=debian:12"),
        ("debian:bookworm-slim", "distro distro=debian:12"),
        ("debian:12.5-slim", "distro distro=debian:12"),
        ("docker.io/library/ubuntu:focal-20240123", "distro distro=ubuntu:20.04"),
        ("ubuntu:22.04@sha256:" + "a" * 64, "distro distro=ubuntu:22.04"),
        ("debian:latest", "distro"),
        ("python:3.8.10-slim-bullseye", "python python=3.8.10 distro=debian:11"),
        ("localhost:5000/mine:1", "other"),
        ("localhost:5000/mine", "other"),
        ("nvcr.io/nvidia/pytorch:22.09-py3", "other"),
    ],
)
def test_what_an_image_brings(text: str, expected: str) -> None:
    base = parse_base(bundled(), text)
    kind, *implied = expected.split()
    assert (base.kind, base.implied) == (kind, dict(pin.split("=") for pin in implied))
    assert set(base.implied) <= set(IMPLIED)


def test_parts_of_a_reference() -> None:
    base = parse_base(bundled(), "nvcr.io/nvidia/cuda:11.8.0-runtime-ubuntu22.04@sha256:" + "0" * 64)
    assert (base.repository, base.tag) == ("nvcr.io/nvidia/cuda", "11.8.0-runtime-ubuntu22.04")
    assert (base.flavour, base.os, base.digest) == ("runtime", "ubuntu22.04", "sha256:" + "0" * 64)
