"""Debian packages made here, and locks of them."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store
from tests.support.builds import root_file_system


def make_deb(
    folder: Path, name: str, version: str = "1.0", architecture: str = "all", packing: str = "xz", **fields: str
) -> Path:
    """A package that holds /usr/share/NAME, packed with `packing`; `fields` are more of its control file."""
    tree = folder / f"{name}-tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/share").mkdir(parents=True)
    (tree / "usr/share" / name).write_text(version)
    more = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: T <t@example.org>\n{more}"
        "Description: made by a test\n with a second line\n"
    )
    without_epoch = version.partition(":")[2] or version
    file = folder / f"{name}_{without_epoch}_{architecture}.deb"
    command = ["dpkg-deb", f"-Z{packing}", "--root-owner-group", "-b", tree, file]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(tree)
    return file


def entry(name: str, content: bytes = b"", mode: int = 0o644, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """An entry of a package: a file unless `fields` of TarInfo say another `type`."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def packed_deb(
    file: Path,
    control: str,
    data: Iterable[tuple[tarfile.TarInfo, bytes]],
    scripts: Mapping[str, str] = {},
    pack: Callable[[bytes], bytes] | None = None,
) -> Path:
    """A package of any entries, such as dpkg-deb would not pack; `pack` is gzip's or none."""
    text = f"{control}\nMaintainer: T <t@example.org>\nDescription: made by a test\n"
    parts = [entry("./control", text.encode()), *(entry(f"./{k}", v.encode(), 0o755) for k, v in scripts.items())]
    packed = {"data.tar.gz": pack(_tar(data))} if pack else {"data.tar": _tar(data)}
    members = {"debian-binary": b"2.0\n", "control.tar": _tar(parts), **packed}
    with file.open("wb") as out:
        out.write(b"!<arch>\n")
        for name, content in members.items():
            out.write(f"{name:<16}{1_700_000_000:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
            out.write(content + b"\n" * (len(content) % 2))
    return file


def _tar(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def small_system(folder: Path, mark: str) -> Path:
    """The package `dpkg` of a distribution that has nothing else: this machine's dpkg, a shell, and what they load.

    `mark` makes it differ from those of other tests.
    """
    tools = "sh rm tar dpkg dpkg-deb dpkg-query diff dpkg-split ldconfig start-stop-daemon cat ls mkdir"
    with tarfile.open(fileobj=io.BytesIO(root_file_system(tools.split()))) as tar:
        entries = [(m, file.read() if (file := tar.extractfile(m)) else b"") for m in tar]
    folders = [f"./var/lib/dpkg/{name}" for name in ("info", "updates", "triggers", "alternatives")]
    entries += [entry(name, mode=0o755, type=tarfile.DIRTYPE) for name in ("./proc", "./sys", "./dev", *folders)]
    entries.append(entry("./etc/mark", mark.encode()))
    control = "Package: dpkg\nVersion: 1\nArchitecture: all\nEssential: yes"
    return packed_deb(folder / "dpkg_1_all.deb", control, entries)


def locked(file: Path, store: Store) -> AptPackage:
    """The package of this file, which is copied into the store."""
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    store.path(sha256).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, store.path(sha256))
    command = ["dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}", file]
    name, version, architecture = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return AptPackage(
        name=name, version=version, architecture=architecture, archive="debian", path=f"pool/main/{file.name}",
        sha256=sha256, size=file.stat().st_size,
    )  # fmt: skip
