"""What only root can do in a test."""

from __future__ import annotations

import os

import pytest

OWN_ENGINE = "starts a dockerd of its own, which takes root"
OTHER_USER = "becomes another user, which takes root"


def as_root(what: str = OTHER_USER) -> pytest.MarkDecorator:
    """A mark that skips a test for an ordinary user."""
    return pytest.mark.skipif(os.geteuid() != 0, reason=what)


def need_root(what: str = OWN_ENGINE) -> None:
    """Skip what runs, a test or a fixture, for an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip(what)
