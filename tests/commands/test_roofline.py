"""`reprokit roofline` without a container: data sheets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_the_data_sheet_of_a_gpu(call):
    found = json.loads(call("roofline", "--device", "V100", "--json").stdout)
    (sheet,) = found["data_sheets"]
    assert (sheet["bandwidth"], found["measured"]) == (pytest.approx(898.048), [])
    shown = call("roofline", "--device", "Tesla V100-SXM2-16GB", "--plot", "roof.svg").stdout
    assert "877 MHz x 4096 bit x 2" in shown and "898" in shown and "source: " in shown
    assert "898 GB/s" in Path("roof.svg").read_text()


def test_all_that_are_known_where_there_is_no_gpu(call, monkeypatch):
    monkeypatch.setattr("reprokit.host.gpu.gpus", list)
    assert {"V100", "A100 80GB", "H100", "RTX 3090"} <= {
        line.partition("  ")[0] for line in call("roofline").stdout.splitlines()
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--device", "Voodoo 2"), "no data sheet of 'Voodoo 2'"),
        (("--threads", "1,x"), "not a list of numbers"),
        (("--threads", "0"), "not a list of numbers"),
        (("--threads", "99999999999999999999"), "not a list of numbers"),
        (("--plot", "roof.txt"), ".svg, .png or .pdf"),
    ],
)
def test_wrong_usage(call, options, message):
    result = call("roofline", *options)
    assert message in result.exception.message
