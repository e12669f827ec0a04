"""Quoted values of Dockerfiles."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ('ARCHES="6.0 7.0+PTX" MODE=fast', ["ARCHES=6.0 7.0+PTX", "MODE=fast"]),
        ("FLAGS='-a -b'", ["FLAGS=-a -b"]),
        ("A=b\\ c", ["A=b c"]),
        ("FLAGS -a -b", ["FLAGS=-a -b"]),
        ('FLAGS "-a -b"', ["FLAGS=-a -b"]),
        ('A="b', ["A=b"]),
    ],
)
def test_a_quoted_value_of_a_dockerfile_is_whole(stated, setting, expected):
    found = stated({"Dockerfile": f"FROM debian\nENV {setting}\n"})
    assert [s.value for s in found if s.subject == "env"] == expected


def test_a_quoted_argument_of_a_dockerfile_names_several_packages(stated):
    found = stated({"Dockerfile": 'FROM debian\nARG PKGS="numpy==1.21.0 scipy==1.7.0"\nRUN pip install ${PKGS}\n'})
    assert [s.value for s in found if s.subject == "package"] == ["numpy==1.21.0", "scipy==1.7.0"]


@pytest.mark.parametrize(
    ("image", "packages"),
    [("pytorch/pytorch:1.5-cuda10.1-cudnn7-runtime", ["torch==1.5"]), ("nvcr.io/nvidia/pytorch:20.12-py3", [])],
)
def test_the_month_in_the_tag_of_nvidias_image_is_no_torch(stated, image, packages):
    found = stated({"Dockerfile": f"FROM {image}\n"})
    assert [s.value for s in found if s.subject == "package"] == packages
    assert [s.value for s in found if s.subject == "base"] == [image]
