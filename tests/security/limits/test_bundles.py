"""Bundles, tars and packages that grow: each is refused in one line that says how to raise the limit."""

from __future__ import annotations

import gzip
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reprokit.oci.layout import END
from reprokit.oci.model import Image, blob_path, digest_of
from reprokit.untrusted import limits
from tests.support.bombs import GIB, TARS, UNPACK, a_bundle, empty, entry, frame, refused
from tests.support.images import tar_of
from tests.support.made import Made, tar

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


def configs() -> bytes:
    made = Made.of({f"x/y:{n}": [b"layer"] for n in range(8)})
    for number, image in enumerate(made.images):
        value = json.loads(image.config) | {"comment": str(number) * (15 << 20)}
        made.images[number] = Image(image.name, json.dumps(value).encode(), image.layers)
        made.metadata["images"][number]["id"] = made.images[number].id
    return tar(made.files)


def layered(count: int) -> bytes:
    layers = [b"%d" % n for n in range(count)]
    return tar(Made.of({"x/y:1": layers}, absent=layers).files)


def of_values(value: bytes, count: int) -> bytes:
    files = Made.of({"x/y:1": [b"layer"]}).files
    files["reprokit.json"] = b'{"images":[' + b",".join([value] * count) + b"]}"
    return tar(files)


GROWN: dict[str, tuple[Callable[[], bytes], limits.Limit]] = {
    "names of a config": (lambda: names(600, 1 << 20), limits.IMAGES),
    "a config under many names": (lambda: names(250, 1 << 20), limits.DOCUMENTS),
    "configs": (configs, limits.DOCUMENTS),
    "layers": (lambda: layered(30_000), limits.LAYERS),
    **{
        f"values {value!r}": (lambda value=value: of_values(value, 15_000_000 // (len(value) + 1)), limits.VALUES)
        for value in (b"[]", b"{}", b'{"":{}}', b"0", b'""')
    },
}


@pytest.mark.long
@pytest.mark.parametrize("name", GROWN)
def test_a_bundle_that_grows(run: Run, tmp_path: Path, name: str) -> None:
    make, limit = GROWN[name]
    (tmp_path / "x.rkit").write_bytes(make())
    refused(run("show", "x.rkit", code=2), limit)


@pytest.mark.long
def test_bundles_within_the_limits(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.rkit"
    file.write_bytes(names(250, 200 << 10))
    assert run("show", "x.rkit").count("x/y:") == 250
    file.write_bytes(layered(499))
    assert "499" in run("show", file, "--json")
    for value, values in ((b"[]", 2), (b'{"":{}}', 4), (b"0", 1)):  # as many as are allowed, all of them wrong
        file.write_bytes(of_values(value, 280_000 // values))
        assert "reprokit.json is not valid" in run("show", "x.rkit", code=2)
    file.write_bytes(names(300, 0))
    assert run("show", "x.rkit", REPROKIT_LIMIT_IMAGES="300").count("x/y:") == 300
    for wrong in ("many", "-1", "1e9", "9" * 30, "\u0663"):
        text = run("show", "x.rkit", code=2, REPROKIT_LIMIT_IMAGES=wrong)
        assert "is not an integer ($REPROKIT_LIMIT_IMAGES)" in text


@pytest.mark.long
def test_layers_of_zeros_are_not_hashed_to_their_end(run: Run, tmp_path: Path) -> None:
    code = "from reprokit.bundle import read\nwith read.opened(Path(sys.argv[1])) as b: read.verify(b)"
    refused(run(a_bundle(tmp_path / "x.rkit", frame(20 * GIB)), python=code, code=2), limits.UNPACKED)
    content = bytes(64 << 20)  # what real layers have of it
    run(Made.of({"x/y:1": [content]}).write(tmp_path / "y.rkit"), python=code)


# --- Workspaces


def workspace(path: Path, content: bytes) -> Path:
    made = Made.of({"x/y:1": [b"layer"]})
    made.blobs["workspaces/w.tar.zst"] = content
    described = {"kind": "workspace", "name": "w", "path": "workspaces/w.tar.zst"}
    made.metadata["parts"] = [described | {"digest": digest_of(content), "size": len(content)}]
    return made.write(path)


def folders(*parts: str) -> list[bytes]:
    return [entry("/".join(parts[:n]), kind=tarfile.DIRTYPE) for n in range(1, len(parts) + 1)]


@pytest.mark.long
def test_a_workspace(run: Run, tmp_path: Path) -> None:
    nested = zstandard.compress(b"".join([*folders(*"d" * (limits.DEPTH.most + 2)), END]))
    less = {"REPROKIT_LIMIT_UNPACKED": str(64 << 20)}
    for content, limit in (TARS["zeros"], TARS["a PAX header"], (nested, limits.DEPTH)):
        refused(run(workspace(tmp_path / "x.rkit", content), python=UNPACK, code=2, **less), limit)
        assert not list((tmp_path / "home").rglob("w*/*"))
    run(tmp_path / "x.rkit", python=UNPACK, REPROKIT_LIMIT_DEPTH="100")  # the control


@pytest.mark.long
def test_names_that_no_file_can_have(run: Run, tmp_path: Path) -> None:
    for name in ("n" * 256, "/".join(["d" * 9] * 200), "\u20ac" * 90):
        content = zstandard.compress(b"".join([*folders(*name.split("/")[:-1]), entry(name), END]))
        text = run(workspace(tmp_path / "x.rkit", content), python=UNPACK, code=2)
        assert "too long" in text or "more than 64 folders inside each other" in text


# --- Layers


@pytest.mark.long
@pytest.mark.parametrize("name", TARS)
def test_a_layer(run: Run, tmp_path: Path, name: str) -> None:
    layer, limit = TARS[name]
    assert len(layer) < 2 << 20
    file = a_bundle(tmp_path / "x.rkit", layer)
    # One of them to the limit itself, which takes seconds.
    fewer = {} if name == "empty files" else {"REPROKIT_LIMIT_ENTRIES": "50000"}
    refused(run("diff", file, empty(tmp_path), code=2, **fewer), limit)


def pax(name: str, records: dict[str, str], form: int = tarfile.PAX_FORMAT) -> bytes:
    info = tarfile.TarInfo(name)
    info.pax_headers = records
    return info.tobuf(form)


def extended(content: bytes) -> bytes:
    return entry(size=len(content), kind=tarfile.XHDTYPE) + content + bytes(-len(content) % 512) + entry()


# Sparse files take no room in the archive. Lengths that lie make tarfile take time that grows with the square
# of the header (CVE-2024-6232).
LIES = [b"5 abc" * 200_000, b"1" * 1_000_000, b"0 a=b\n", b"-9 a=b\n", b"9999999 a=b\n", b" a=b\n"]
DAMAGED: list[tuple[bytes, str]] = [
    (entry(kind=tarfile.GNUTYPE_SPARSE), "sparse"),
    (pax("x", {"GNU.sparse.major": "1", "GNU.sparse.realsize": "9" * 15}), "sparse"),
    *((extended(content), "extended header is damaged") for content in LIES),
    (entry("p" * 4097), "longer than a path can be"),
    (entry("p" * 500_000), "longer than a path can be"),
]


@pytest.mark.long
def test_headers_of_a_layer(run: Run, tmp_path: Path) -> None:
    for header, words in DAMAGED:
        file = a_bundle(tmp_path / "x.rkit", zstandard.compress(header + END))
        assert words in run("diff", file, empty(tmp_path), code=2)
    # Those that engines write are read.
    name = "d" * 200 + "/" + "usr/lib/python3/" + "n" * 150 + "-1.0.dist-info/METADATA"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        header = pax(name, {"SCHILY.xattr.user.x": "v" * 60_000}, form)
        file = Made.of({"x/y:1": [header + END]}).write(tmp_path / "x.rkit")
        assert "n" * 150 in run("diff", file, empty(tmp_path), code=1)


@pytest.mark.long
def test_packages_without_end(run: Run, tmp_path: Path) -> None:
    long, size = "/".join(["d" * 200] * 15), 20 << 20
    entries = b"".join(entry(f"{long}/{n}-1.dist-info/METADATA") for n in range(6_000))
    for content in (entries, entry("var/lib/dpkg/status", size) + b"Package: a\n\n" * (size // 12)):
        file = a_bundle(tmp_path / "x.rkit", zstandard.compress(content + END))
        refused(run("diff", file, empty(tmp_path), code=2), limits.PACKAGES)
    # Each layer may remove much of those below.
    packages = b"".join([*(entry(f"a/p{n}-1.dist-info/METADATA") for n in range(20_000)), END])
    whiteouts = b"".join([*(entry(f"a/.wh.p{n}-1.dist-info") for n in range(1, 20_000)), END])
    one = Made.of({"x/y:1": [packages, whiteouts]}).write(tmp_path / "x.rkit")
    assert "python:p0" in (text := run("diff", one, empty(tmp_path), code=1))
    assert "python:p1" not in text


@pytest.mark.long
def test_many_layers_of_many_entries(run: Run, tmp_path: Path) -> None:
    """Each is within the limits."""
    layers = [entry() * 8192 + entry(f"{n}") for n in range(10)]
    file = Made.of({"x/y:1": layers}).write(tmp_path / "x.rkit")
    refused(run("diff", file, empty(tmp_path), code=2, REPROKIT_LIMIT_ENTRIES="60000"), limits.ENTRIES)
    run("diff", file, empty(tmp_path), code=1, REPROKIT_LIMIT_ENTRIES="90000")


# --- What engines save, and Debian packages

READ = """
from reprokit.oci.docker_archive import ArchiveReader
saved = ArchiveReader([open('x.tar', 'rb').read()])
print(sum(len(b) for l in saved.layers() for b in l.blocks))
"""


@pytest.mark.long
def test_what_an_engine_saves(run: Run, tmp_path: Path) -> None:
    for layer in (frame(2 * GIB), gzip.compress(bytes(GIB), 1)):  # comes in pieces
        (tmp_path / "x.tar").write_bytes(tar_of({blob_path(digest_of(layer)): layer}))
        assert int(run(python=READ)) in (GIB, 2 * GIB)
    document = b"{" + b" " * (15 << 20) + b"}"
    (tmp_path / "x.tar").write_bytes(tar_of({f"{n}.json": document for n in range(6)}))
    refused(run(python=READ, code=2), limits.DOCUMENTS)
    index = json.dumps({"manifests": [{"digest": "sha256:a"}] * 2}).encode()  # indexes that name each other
    (tmp_path / "x.tar").write_bytes(tar_of({"blobs/sha256/a": index, "index.json": index}))
    refused(run(python=f"{READ}\nsaved.images()", code=2), limits.IMAGES)


def a_deb(name: str, packed: bytes, size: int | str = "") -> bytes:
    return f"!<arch>\n{name:<48}{size or len(packed):<10}`\n".encode() + packed


CONTROL = "from reprokit.supply.kinds.apt.deb import control; print(control(Path('x.deb')))"
XZ = ["xz", "-0", "--check=crc32", "-c"]


@pytest.mark.long
@pytest.mark.parametrize("form", ["zst", "gz", "xz"])
def test_a_debian_package(run: Run, tmp_path: Path, form: str) -> None:
    content = entry("control", 1 << 28) + bytes(1 << 28)
    packed = {
        "zst": lambda: frame(entry("control", 4 * GIB), 4 * GIB),
        "gz": lambda: gzip.compress(content, 1),
        "xz": lambda: subprocess.run(XZ, input=content, capture_output=True, check=True).stdout,
    }[form]()
    (tmp_path / "x.deb").write_bytes(a_deb(f"control.tar.{form}", packed))
    refused(run(python=CONTROL, code=2), limits.CONTROL)


@pytest.mark.long
def test_a_debian_package_whose_members_have_no_end(run: Run, tmp_path: Path) -> None:
    """A negative size led back to the same header for ever."""
    for size in ("-60", "+60", "1_0", " 60", "6\u0660"):
        (tmp_path / "x.deb").write_bytes(a_deb("data.tar", b"", size))
        assert "not a Debian package" in run(python=CONTROL, code=4)
