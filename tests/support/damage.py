"""Ways to damage a bundle, by number: the same number gives the same damage."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Callable

import zstandard

from reprokit.bundle.model import METADATA
from reprokit.oci.layout import header
from reprokit.oci.model import (
    DOCKER_MANIFEST,
    INDEX,
    OCI_LAYOUT,
    ZSTD_LAYER_TYPE,
    Descriptor,
    Layer,
    blob_path,
    digest_of,
)
from tests.support.made import END, Made, tar

Damage = Callable[[Made, random.Random], bytes]


def flipped(made: Made, chance: random.Random) -> bytes:
    """A bit anywhere."""
    raw = bytearray(tar(made.files))
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    return bytes(raw)


def flipped_in_small_file(made: Made, chance: random.Random) -> bytes:
    files = made.files
    name = chance.choice([INDEX, DOCKER_MANIFEST, METADATA, OCI_LAYOUT, blob_path(made.images[0].id)])
    content = bytearray(files[name])
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return tar({**files, name: bytes(content)})


def cut(made: Made, chance: random.Random) -> bytes:
    raw = tar(made.files)
    return raw[: chance.randrange(len(raw))]


def cut_at_block(made: Made, chance: random.Random) -> bytes:
    raw = tar(made.files)
    return raw[: 512 * chance.randrange(len(raw) // 512)]


def member_missing(made: Made, chance: random.Random) -> bytes:
    files = made.files
    del files[chance.choice(sorted(files))]
    return tar(files)


def members_swapped(made: Made, chance: random.Random) -> bytes:
    files = made.files
    one, other = chance.sample(sorted(files), 2)
    files[one], files[other] = files[other], files[one]
    return tar(files)


def layers_swapped(made: Made, chance: random.Random) -> bytes:
    """Valid blobs in the wrong order: only their diff IDs are wrong."""
    _alone(made)
    first, second, *rest = made.images[0].layers
    swapped = (Layer(first.diff_id, first.size, second.blob), Layer(second.diff_id, second.size, first.blob), *rest)
    made.images[0] = type(made.images[0])(made.images[0].name, made.images[0].config, swapped)
    return tar(made.files)


def member_twice(made: Made, chance: random.Random) -> bytes:
    files = made.files
    name = chance.choice(sorted(files))
    return tar(files)[: -len(END)] + tar({name: files[name]})


def stranger(made: Made, chance: random.Random) -> bytes:
    """A file that nothing names, at a possible or an impossible path."""
    content = chance.randbytes(chance.randrange(2000))
    paths = ["../x", "/tmp/x", "blobs/sha256/../../../x", "blobs/../x", "./index.json", f"blobs/sha256/{'0' * 63}/"]
    paths += ["x", "workspaces/x", "store/x", blob_path(digest_of(content)), "workspaces/..", "INDEX.JSON"]
    return tar({chance.choice([*paths, "index.json\n"]): content, **made.files})


def link(made: Made, chance: random.Random) -> bytes:
    """A member that is a link, a folder or a device instead of a file."""
    files = made.files
    target = chance.choice(sorted(files))
    parts = []
    for path, content in files.items():
        if path != target:
            parts.append(header(path, len(content)) + content + bytes(-len(content) % 512))
            continue
        info = tarfile.TarInfo(path)
        kinds = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
        info.type = chance.choice(kinds)
        info.linkname = chance.choice(["/etc/passwd", "../../x", "index.json"])
        parts.append(info.tobuf(tarfile.GNU_FORMAT))
    return b"".join(parts) + END


def other_header(made: Made, chance: random.Random) -> bytes:
    """Headers with owners, modes and times, as other tools write them; or extended ones."""
    buffer = io.BytesIO()
    form = chance.choice([tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
    with tarfile.open(fileobj=buffer, mode="w", format=form) as out:
        for path, content in made.files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), chance.choice([0o644, 0o777, 0o4755])
            info.mtime = chance.random() * 1e9
            info.pax_headers = {"path": "../../x"} if chance.random() < 0.3 else {}
            out.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def absurd_size(made: Made, chance: random.Random) -> bytes:
    """A header with a wrong size."""
    files = made.files
    target = chance.choice(sorted(files))
    size = len(files[target])
    claimed = chance.choice([1 << 33, 1 << 43, (1 << 62) + 1, size + 512, max(size - 600, 0), 1 << 80])
    parts = [
        header(path, claimed if path == target else len(content)) + content + bytes(-len(content) % 512)
        for path, content in files.items()
    ]
    return b"".join(parts) + END


def absurd_statement(made: Made, chance: random.Random) -> bytes:
    entry = chance.choice(made.metadata["images"])
    field = chance.choice(["size", "packed"])
    value = entry[field]
    entry[field] = chance.choice([-1, 0, value + 1, value - 1, 1 << 45, 1 << 63, 1 << 200, 1.5, "x", None])
    return tar(made.files)


def bomb(made: Made, chance: random.Random) -> bytes:
    """A layer that unpacks to more than the metadata says, or metadata that claims more than fits on a disk."""
    _alone(made)
    size = 64 << 20
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    raw = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    _last_blob(made, raw)
    made.metadata["images"][0]["size"] += chance.choice([0, 1000, 1 << 44])
    return tar(made.files)


def wide_window(made: Made, chance: random.Random) -> bytes:
    """A layer whose window needs 2 GB of memory."""
    _alone(made)
    frame = bytes.fromhex("28b52ffd") + b"\x00" + bytes([21 << 3]) + (1 | 5 << 3).to_bytes(3, "little") + b"hello"
    _last_blob(made, frame)
    return tar(made.files)


def _alone(made: Made) -> None:
    """Only the first image, so that a layer is not compared with itself in another."""
    del made.images[1:], made.metadata["images"][1:]


def _last_blob(made: Made, raw: bytes) -> None:
    """Another blob for the last layer, with the sizes that belong to it."""
    image, old = made.images[0], made.images[0].layers[-1]
    assert old.blob
    blob = Descriptor(ZSTD_LAYER_TYPE, digest_of(raw), len(raw))
    made.images[0] = type(image)(image.name, image.config, (*image.layers[:-1], Layer(old.diff_id, 0, blob)))
    made.blobs[blob_path(blob.digest)] = raw
    del made.blobs[blob_path(old.blob.digest)]
    made.metadata["images"][0]["packed"] += blob.size - old.blob.size


def json_bomb(made: Made, chance: random.Random) -> bytes:
    name = chance.choice([INDEX, DOCKER_MANIFEST, METADATA, OCI_LAYOUT])
    contents = [b"[" * 200_000, b"{}", b"null", b"[]", b'"x"', b"1" * 10_000, b"\xff\xfe", b" " * (17 << 20)]
    return tar({**made.files, name: chance.choice(contents)})


def padded(made: Made, chance: random.Random) -> bytes:
    """Data after the end, or in the padding of an entry."""
    raw = tar(made.files)
    if chance.random() < 0.5:
        return raw + chance.choice([b"\0", bytes(512), bytes(8192), b"x" * 600, raw])
    at = raw.index(header(INDEX, len(made.files[INDEX]))) - 1
    return raw[:at] + b"x" + raw[at + 1 :] if raw[at] == 0 else raw + b"x"


def absent_lie(made: Made, chance: random.Random) -> bytes:
    """Layers marked as excluded that are present or that no image has, or layers excluded without a mark."""
    layer = chance.choice(made.images[0].layers)
    if chance.random() < 0.5:
        made.metadata["absent"] = [chance.choice([layer.diff_id, "sha256:" + "0" * 64, "sha256:x"])]
        return tar(made.files)
    files = made.files
    assert layer.blob
    del files[blob_path(layer.blob.digest)]
    return tar(files)


ALL: tuple[Damage, ...] = (
    flipped, flipped, flipped, flipped_in_small_file, cut, cut_at_block, member_missing, members_swapped,
    layers_swapped, member_twice, stranger, link, other_header, absurd_size, absurd_statement, bomb, wide_window,
    json_bomb, padded, absent_lie,
)  # fmt: skip


def spoilt(number: int, made: Made) -> tuple[str, bytes]:
    """The kind of damage, and the file."""
    kind = ALL[number % len(ALL)]
    return kind.__name__, kind(made, random.Random(number))
