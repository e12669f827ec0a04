"""The roofline's plot: roofs, points, and names from outside."""

from __future__ import annotations

import pytest

from reprokit.results.roofline import RooflinePoint
from reprokit.results.roofline_plot import Roof, draw_roofline

pytestmark = pytest.mark.slow


def test_roofs_and_points_are_drawn_and_names_cannot_mark_up(tmp_path):
    points = [RooflinePoint("spmm <script> $x$ \x1b[2J", 0.5, 40.0), RooflinePoint("far", 1e9, 1e9)]
    draw_roofline([Roof("V100 fp32", 15667.2, 898.0)], points, tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text()
    assert "V100 fp32: 1.567e+04 GFLOP/s, 898 GB/s" in svg and "FLOP a byte" in svg
    assert "<script>" not in svg and "\x1b" not in svg and "$x$" in svg
    draw_roofline([Roof("V100 fp32", 15667.2, 898.0)], points, tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()
