"""Releases of distributions by reference."""

from __future__ import annotations

import pytest

from reprokit.image.base.release import release_of


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("debian:12", "debian 12 (bookworm)"),
        ("debian:bullseye-slim", "debian 11 (bullseye)"),
        ("docker.io/library/debian:trixie", "debian 13 (trixie)"),
        ("ubuntu:20.04", "ubuntu 20.04 (focal)"),
        ("ubuntu:jammy@sha256:" + "0" * 64, "ubuntu 22.04 (jammy)"),
    ],
)
def test_releases_of_references(reference: str, name: str):
    release = release_of(reference)
    assert release and release.name == name


@pytest.mark.parametrize(
    "reference", ["debian:latest", "nvidia/cuda:11.8.0-devel-ubuntu22.04", "alpine:3", "me/debian:12"]
)
def test_what_cannot_be_bootstrapped(reference: str):
    assert release_of(reference) is None
