"""The file system in which a base's packages are configured: some unpacked, so that dpkg runs, and all as .deb files.

Packages are only read here. The result is one tar for the engine.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reprokit.errors import SourceError, UsageError
from reprokit.oci.layout import END, padding
from reprokit.supply.kinds.apt import deb
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store
from reprokit.untrusted.limits import BASE, BASE_ENTRIES, PACKAGE

# The folder of packages and script, which is removed from the base.
FOLDER = ".reprokit"
SCRIPT = f"{FOLDER}/configure"
_SCRIPT = f"""\
set -eu
umask 022
# podman writes both into a container whose image has no users. Then base-passwd would not make the complete ones.
rm -f /etc/passwd /etc/group
# Essential packages come first, as scripts of the others may use them. dpkg would refuse their order without --force.
for folder in essential others; do
    set -- /{FOLDER}/$folder/*.deb
    [ ! -e "$1" ] || dpkg --force-unsafe-io --force-depends --install "$@"
done
rm -rf /{FOLDER}
"""
_FILES = {
    "etc/fstab": (0o644, "# UNCONFIGURED FSTAB FOR BASE SYSTEM\n"),
    "etc/apt/apt.conf.d/99reprokit": (0o644, 'Acquire::Languages "none";\n'),
    "etc/dpkg/dpkg.cfg.d/99reprokit": (0o644, "force-unsafe-io\n"),
    # Packages must not start daemons.
    "usr/sbin/policy-rc.d": (0o755, "#!/bin/sh\nexit 101\n"),
    "var/lib/dpkg/status": (0o644, ""),
    SCRIPT: (0o700, _SCRIPT),
}
# The latest date that all formats here can write: the year 2242.
_LATEST = 1 << 33
# A release with either package has the folders of `_MOVED` in /usr.
_MERGED = {"usrmerge", "usr-is-merged"}
# Half of the files. No script reads them, so dpkg unpacks them in the container only.
_UNREAD = ("usr/share/doc/", "usr/share/info/", "usr/share/locale/", "usr/share/man/")
_NEEDS = ("pre-depends", "depends")
_MOVED = {"bin", "sbin", "lib", "lib32", "lib64", "libo32", "libx32"}
_FIELD = re.compile(r"^([A-Za-z-]+):((?:.*\n?)(?:[ \t].*\n?)*)", re.MULTILINE)


@dataclass(frozen=True)
class Stage:
    """The packages of a base. `newest` is the date of the newest package in Unix time.

    `unpacked` names the packages that dpkg itself needs, `essential` those that are configured first.
    """

    packages: Sequence[AptPackage]
    store: Store
    unpacked: frozenset[str]
    essential: frozenset[str]
    newest: int

    @classmethod
    def of(cls, packages: Sequence[AptPackage], store: Store) -> Stage:
        """Raises SourceError if a package is missing or damaged, UsageError if the packages cannot make a base."""
        stanzas, newest = [], 0
        BASE.check(sum(package.size for package in packages), "bytes of packages in a base")
        for package in packages:
            file = _file(package, store)
            stanzas.append(deb.stanza(file, package.name))
            # The date in the header of its first member, see ar(5).
            date = file.getvalue()[24:36].strip()
            newest = max(newest, min(int(date), _LATEST) if date.isdigit() else 0)
        # An essential package works without its dependencies, but not without its pre-dependencies (Debian policy,
        # 3.8 and 7.2).
        unpacked = _needed(stanzas, ("pre-depends",))
        if "dpkg" not in unpacked:
            raise UsageError("the packages in the lock cannot make a base: dpkg is not among them")
        # base-files first, as it sets the modes of shared folders.
        ordered = sorted(packages, key=lambda p: (p.name != "base-files", p.name, p.version, p.sha256))
        return cls(ordered, store, unpacked, _needed(stanzas, _NEEDS), newest)

    def tar(self, sources: str) -> Iterator[bytes]:
        """The tar in blocks, with apt's `sources`. Raises SourceError or UsageError with the package at fault."""
        merged = any(package.name in _MERGED for package in self.packages)
        links: set[str] = set()
        seen: set[str] = set()
        size = 0
        for number, package in enumerate(self.packages):
            file = _file(package, self.store)
            if package.name in self.unpacked:
                for member, stream in deb.data(file, package.name):
                    info = _checked(member, package.name, self.newest)
                    if merged:
                        links |= _into_usr(info)
                    if not info.name or (info.isdir() and info.name in seen) or info.linkname == f"/{info.name}":
                        continue
                    if info.name.startswith(_UNREAD):
                        continue
                    seen.add(info.name)
                    BASE_ENTRIES.check(len(seen), "files in a base", package.name)
                    size += info.size
                    BASE.check(size, "bytes in a base", package.name)
                    yield _header(info)
                    if info.isreg():
                        yield from stream.body(info.size)
                        yield padding(info.size)
            folder = "essential" if package.name in self.essential else "others"
            yield from _member(f"{FOLDER}/{folder}/{number:04}.deb", 0o600, self.newest, file.getvalue())
        for name in sorted(links):
            link = tarfile.TarInfo(name)
            link.type, link.linkname, link.mode, link.mtime = tarfile.SYMTYPE, f"usr/{name}", 0o777, self.newest
            yield _header(link)
        for name, (mode, text) in {**_FILES, "etc/apt/sources.list": (0o644, sources)}.items():
            yield from _member(name, mode, self.newest, text.encode())
        yield END


def path_of(name: str, where: str) -> str:
    """An entry's path below the root, "" for the root. Raises UsageError if it leads out of it."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise UsageError(f"the entry {name[:200]!r} leads out of the file system", where)
    return "/".join(part for part in parts if part not in ("", "."))


def _checked(member: tarfile.TarInfo, package: str, newest: int) -> tarfile.TarInfo:
    """The safe part of an entry of a package. Raises UsageError for devices and pipes."""
    info = tarfile.TarInfo(path_of(member.name, package))
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise UsageError(f"the entry {member.name[:200]!r} is a device or a pipe", package)
    info.type, info.mode, info.mtime = member.type, member.mode & 0o7777, min(max(int(member.mtime), 0), newest)
    info.uid, info.gid = member.uid, member.gid
    info.size = member.size if member.isreg() else 0
    info.linkname = path_of(member.linkname, package) if member.islnk() else member.linkname
    return info


def _into_usr(info: tarfile.TarInfo) -> set[str]:
    """Move an entry of a top-level folder such as /bin to /usr. Returns that folder, which becomes a link."""
    first = info.name.partition("/")[0]
    if info.issym() and info.name == first:  # the link itself, from base-files
        return set()
    if info.islnk():
        info.linkname = _moved(info.linkname)
    before, info.name = info.name, _moved(info.name)
    return {first} if info.name != before else set()


def _moved(path: str) -> str:
    return f"usr/{path}" if path.partition("/")[0] in _MOVED else path


def _needed(stanzas: Iterable[str], first: Iterable[str]) -> frozenset[str]:
    """Names of the essential packages, those that they need by the relations `first`, and all that those need."""
    packages = {fields["package"]: fields for fields in map(_fields, stanzas) if "package" in fields}
    having: dict[str, set[str]] = {}
    for name, fields in packages.items():
        for provided in (name, *_names(fields.get("provides", ""))):
            having.setdefault(provided, set()).add(name)
    required = {name for name, fields in packages.items() if fields.get("essential") == "yes"}
    pending = [(name, first) for name in required]
    while pending:
        name, relations = pending.pop()
        for relation in relations:
            for needed in _names(packages[name].get(relation, "")):
                new = having.get(needed, set()) - required
                required |= new
                pending += [(package, _NEEDS) for package in new]
    return frozenset(required)


def _fields(stanza: str) -> Mapping[str, str]:
    return {name.lower(): value.strip() for name, value in _FIELD.findall(stanza)}


def _names(relations: str) -> list[str]:
    """The packages of `a (>= 1), b:any | c`, with all alternatives: a base has only needed packages anyway."""
    return re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", relations)


def _file(package: AptPackage, store: Store) -> io.BytesIO:
    """A verified package, read only once so that it cannot change afterwards."""
    PACKAGE.check(package.size, "bytes in a package of a base", package.name)
    try:
        with store.path(package.sha256).open("rb") as file:
            content = file.read(package.size + 1)
    except FileNotFoundError:
        missing = f"{package.name} {package.version} is not in the store"
        raise SourceError(missing, hint="fetch it: `reprokit fetch`") from None
    if hashlib.sha256(content).hexdigest() != package.sha256:
        damaged, path = f"{package.name} {package.version} is damaged", str(store.path(package.sha256))
        raise SourceError(damaged, path, "repair it: `reprokit store verify --repair`")
    return io.BytesIO(content)


def _member(name: str, mode: int, mtime: int, content: bytes) -> Iterator[bytes]:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime, info.size = mode, mtime, len(content)
    yield _header(info)
    yield content
    yield padding(len(content))


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
