"""Bundles that grow: each is refused in one line that says how to raise the limit."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reprokit.oci.layout import END
from reprokit.oci.model import Image, digest_of
from reprokit.untrusted import limits
from tests.support.bombs import GIB, TARS, UNPACK, a_bundle, entry, frame, refused
from tests.support.made import Made, tar

pytestmark = pytest.mark.long

Run = Callable[..., str]


def names(count: int, size: int) -> bytes:
    """One config of `size` bytes under so many names."""
    made = Made.of({"x/y:1": [b"layer"]})
    value = json.loads(made.images[0].config) | {"comment": "x" * size}
    image = Image("x/y:1", json.dumps(value).encode(), made.images[0].layers)
    made.images = [Image(f"x/y:{n}", image.config, image.layers) for n in range(count)]
    described = made.metadata["images"][0] | {"id": image.id}
    made.metadata["images"] = [described | {"name": each.name} for each in made.images]
    return tar(made.files)


def test_a_config_under_many_names(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.rkit").write_bytes(names(600, 1 << 20))
    refused(run("inspect", "x.rkit", code=2), limits.IMAGES)
    (tmp_path / "x.rkit").write_bytes(names(250, 1 << 20))
    refused(run("inspect", "x.rkit", code=2), limits.DOCUMENTS)
    (tmp_path / "x.rkit").write_bytes(names(250, 200 << 10))
    assert run("inspect", "x.rkit").count("x/y:") == 250


def test_many_configs(run: Run, tmp_path: Path) -> None:
    made = Made.of({f"x/y:{n}": [b"layer"] for n in range(8)})
    for number, image in enumerate(made.images):
        value = json.loads(image.config) | {"comment": str(number) * (15 << 20)}
        made.images[number] = Image(image.name, json.dumps(value).encode(), image.layers)
        made.metadata["images"][number]["id"] = made.images[number].id
    refused(run("inspect", made.write(tmp_path / "x.rkit"), code=2), limits.DOCUMENTS)


def layered(count: int) -> Made:
    made = Made.of({"x/y:1": [b"%d" % n for n in range(count)]}, absent=[b"%d" % n for n in range(count)])
    return made


def test_many_layers(run: Run, tmp_path: Path) -> None:
    refused(run("inspect", layered(30_000).write(tmp_path / "x.rkit"), code=2), limits.LAYERS)
    assert "499" in run("inspect", layered(499).write(tmp_path / "x.rkit"), "--json")


@pytest.mark.parametrize("value", [b"[]", b"{}", b'{"":{}}', b"0", b'""'])
def test_a_document_of_many_values(run: Run, tmp_path: Path, value: bytes) -> None:
    made = Made.of({"x/y:1": [b"layer"]})
    files = made.files
    files["reprokit.json"] = b'{"images":[' + b",".join([value] * (15_000_000 // (len(value) + 1))) + b"]}"
    (tmp_path / "x.rkit").write_bytes(tar(files))
    refused(run("inspect", "x.rkit", code=2), limits.VALUES)
    # Those that are just allowed are wrong in as many places.
    files["reprokit.json"] = (
        b'{"images":[' + b",".join([value] * (280_000 // (1 + len(value.translate(None, b'"]}0'))))) + b"]}"
    )
    (tmp_path / "x.rkit").write_bytes(tar(files))
    assert "reprokit.json is not valid" in run("inspect", "x.rkit", code=2)


def test_layers_of_zeros_are_not_hashed_to_their_end(run: Run, tmp_path: Path) -> None:
    code = (
        "from reprokit.bundle import read, verify\nwith read.opened(Path(sys.argv[1])) as bundle: verify.verify(bundle)"
    )
    file = a_bundle(tmp_path / "x.rkit", frame(20 * GIB))
    refused(run(file, python=code, code=2), limits.UNPACKED)
    content = bytes(64 << 20)  # what real layers have of it
    run(Made.of({"x/y:1": [content]}).write(tmp_path / "y.rkit"), python=code)


NESTED = b"".join(entry("/".join("d" * n), kind=tarfile.DIRTYPE) for n in range(1, limits.DEPTH.most + 3))


@pytest.mark.parametrize("name", ["zeros", "a PAX header", "nested folders"])
def test_a_workspace(run: Run, tmp_path: Path, name: str) -> None:
    content, limit = {**TARS, "nested folders": (zstandard.compress(NESTED + END), limits.DEPTH)}[name]
    made = Made.of({"x/y:1": [b"layer"]})
    made.blobs["workspaces/w.tar.zst"] = content
    described = {"kind": "workspace", "name": "w", "path": "workspaces/w.tar.zst"}
    made.metadata["parts"] = [described | {"digest": digest_of(content), "size": len(content)}]
    less = {"REPROKIT_LIMIT_UNPACKED": str(64 << 20)}
    refused(run(made.write(tmp_path / "x.rkit"), python=UNPACK, code=2, **less), limit)
    assert not list((tmp_path / "home").rglob("w*/*"))
    if name == "nested folders":  # the control
        run(tmp_path / "x.rkit", python=UNPACK, REPROKIT_LIMIT_DEPTH="100")


def test_each_limit_can_be_raised(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.rkit").write_bytes(names(300, 0))
    refused(run("inspect", "x.rkit", code=2), limits.IMAGES)
    assert run("inspect", "x.rkit", REPROKIT_LIMIT_IMAGES="300").count("x/y:") == 300
    for wrong in ("many", "-1", "1e9", "9" * 30, "\u0663"):
        text = run("inspect", "x.rkit", code=2, REPROKIT_LIMIT_IMAGES=wrong)
        assert "is not an integer ($REPROKIT_LIMIT_IMAGES)" in text
