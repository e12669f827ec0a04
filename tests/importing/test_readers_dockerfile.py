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
