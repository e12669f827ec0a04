"""`inspect` and `diff`, from the command line."""

from __future__ import annotations

import json

import pytest

from reprokit import completion
from reprokit.bundle.compare import instructions
from reprokit.commands.show import _print_bundle as show
from tests.support.images import tar_of
from tests.support.made import Made

PINS = {"cuda": "11.8", "python": "3.10"}


def status(**packages: str) -> dict[str, bytes]:
    lines = [f"Package: {name}\nStatus: install ok installed\nVersion: {v}\n" for name, v in packages.items()]
    return {"var/lib/dpkg/status": "\n".join(lines).encode()}


BASE = tar_of({**status(gcc="12", make="4"), "opt/lib/numpy-1.26.4.dist-info/METADATA": b"Name: numpy"})
CHANGED = {"opt/lib/numpy-1.26.4.dist-info/.wh.METADATA": b"", "opt/lib/torch-2.1.dist-info/METADATA": b""}
UPDATE = tar_of({**status(gcc="13"), **CHANGED})


@pytest.mark.slow
def test_inspect_and_diff(reprokit, tmp_path):
    old = Made.of({"reprokit/x:1": [BASE]}, pins=PINS, min_driver="520.61.05").write(tmp_path / "old.rkit")
    made = Made.of({"reprokit/x:1": [BASE, UPDATE]}, [BASE], {"a": "b"}, pins={**PINS, "cuda": "12.1"})
    new = made.write(tmp_path / "new.rkit")
    shown = " ".join(reprokit("show", new).split())
    assert "reprokit/x:1" in shown and "cuda=12.1" in shown and "excluded" in shown and "not signed" in shown
    assert "driver 520.61.05 or newer" in reprokit("show", old)
    told = json.loads(reprokit("show", new, "--json"))
    assert [layer["packed"] is None for layer in told["images"][0]["layers"]] == [True, False]
    assert told["absent"] == [told["images"][0]["layers"][0]["diff_id"]]

    told = json.loads(reprokit("diff", old, new, "--json", code=1))[0]
    removed = [["dpkg:make", "4", ""], ["python:numpy", "1.26.4", ""]]
    assert told["packages"] == [["dpkg:gcc", "12", "13"], *removed, ["python:torch", "", "2.1"]]
    assert told["pins"] == [["cuda", "11.8", "12.1"]] and told["settings"] == [["label a", "", "b"]]
    assert len(told["added"]) == 1 and told["removed"] == [] and told["unknown"] == 0
    assert "dpkg:gcc: 12 -> 13" in reprokit("diff", old, new, code=1)
    assert "the same" in reprokit("diff", old, old)

    (tmp_path / "x").write_bytes(b"x" * 5000)
    assert "not a bundle" in reprokit("show", tmp_path / "x", code=2)
    assert "cannot read the bundle" in reprokit("diff", tmp_path / "y", tmp_path / "x", code=2)


def test_the_shell_offers_bundles_and_folders(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    for name in ("a.rkit", "b.rkit", "c.txt", ".d.rkit", "deep/e.rkit"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert completion.bundles("") == ["a.rkit", "b.rkit", "deep/"]
    assert completion.bundles("deep/") == ["deep/e.rkit"]
    assert completion.bundles(f"{tmp_path}/b") == [f"{tmp_path}/b.rkit"]
    assert completion.bundles("nowhere/") == []


def test_a_layer_shows_its_instruction_or_its_block_without_boilerplate():
    expect = 'expect() { case "$3" in "$2"*) ;; *) echo "reprokit: block git: expected $1 $2" >&2; exit 1 ;; esac; };'
    sources = 'sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb $REPROKIT_APT ./" > /tmp/locked.list; };'
    sources += " apt-get $sources update; DEBIAN_FRONTEND=noninteractive apt-get $sources"
    install = "install -y --no-install-recommends make"
    commands = {
        "|1 A=b /bin/sh -c set -eu; make": "set -eu; make",
        "COPY x / # buildkit\x1b[2J": "COPY x / # buildkit [2J",
        f"|1 REPROKIT_APT= /bin/sh -c set -eu;     {expect}     mkdir -p /opt/x; expect commit a b": (
            "block git: mkdir -p /opt/x; expect commit a b"
        ),
        f"RUN /bin/sh -c set -eu; \\\n    {expect} \\\n    {sources} {install}; # buildkit": (
            "block git: apt-get install make; # buildkit"
        ),
        "/bin/sh -c echo set -eu": "echo set -eu",
    }
    history = [{"created_by": command} for command in commands]
    history.insert(1, {"created_by": "/bin/sh -c #(nop)  ENV A=b", "empty_layer": True})
    config = json.dumps({"history": history}).encode()
    assert instructions(config, 5) == list(commands.values())
    assert instructions(config, 6) == [""] * 6


def test_a_layer_is_one_line_of_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("reprokit.tables.width", lambda *_: 80)
    layer = {
        "diff_id": "sha256:" + "a" * 64,
        "packed": 999_000_000,
        "instruction": "apt-get\n install  " + "gcc-12 " * 40,
    }
    image = {
        "name": "reprokit/fused-attention:cuda-debian12", "packed": 1, "size": 2, "id": "sha256:" + "b" * 64,
        "recipe": "", "pins": {}, "min_driver": "", "compute_capabilities": [], "layers": [layer],
    }  # fmt: skip
    show({"file": "a.rkit", "bytes": 1, "created": "", "reprokit": "1", "signed_by": "", "images": [image],
          "inputs": None, "beside": [], "parts": []})  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and lines[-1].startswith("  aaaaaaaaaaaa  999 MB  apt-get install gcc-12")
