"""The commits of one build for its gateway: git's smart HTTP protocol (gitprotocol-http(5)), read only; archives."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, unquote

from reprokit.errors import SourceError
from reprokit.supply.kinds.git.command import start_git
from reprokit.supply.kinds.git.store import check_count, folder_of, packed_size, serving_repository, submodules_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.site import Content, Site
from reprokit.supply.store import Store, key_of
from reprokit.untrusted.limits import ENTRIES, GIT_REQUEST, check_unpacked

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler

_SERVICE = "git-upload-pack"
_BLOCK = 1 << 16
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_LONGEST_LINE = 10


def archives(commits: Sequence[GitCommit]) -> Site:
    """`/KEY/HOST/OWNER/REPOSITORY/archive/REF.tar.gz` are the files of one commit, as GitHub has them."""
    # A tag that is locked at another commit gets another address, and thus another layer. A commit names its content.
    key = key_of(sorted([locked.url, locked.ref, locked.commit] for locked in commits if locked.ref))[:16]

    def contents(store: Store) -> Mapping[str, Content]:
        return {
            f"{c.address.name}/archive/{c.ref or c.commit}.tar.gz": partial(archive_of, c.address, store)
            for c in commits
        }

    return Site("archives", key, contents)


def archive_of(commit: Commit, store: Store) -> Path:
    """A .tar.gz of the commit, below one folder, in the store.

    Raises SourceError if the store lacks an object, UsageError if the archive is much larger than the commits.
    """
    with store.scratch() as scratch:
        path = Path(scratch) / "archive.tar.gz"
        # Without a date: pip writes the checksum of the archive into the image.
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as out,
        ):
            _write(out, commit, store)
        return store.path(store.add(path))


def _write(out: tarfile.TarFile, top: Commit, store: Store) -> None:
    """Add the files of a commit and of its submodules, within limits: small repositories can name endless paths."""
    pending = [(top.commit, top)]
    packed: dict[Commit, int] = {}
    paths = entries = unpacked = 0
    while pending:
        below, commit = pending.pop()
        packed[commit] = packed_size(folder_of(commit, store))
        for member, content in _files(commit, store, below):
            entries, unpacked = entries + 1, unpacked + member.size
            ENTRIES.check(entries, "files in an archive", top.url)
            check_unpacked(unpacked, sum(packed.values()), top.url)
            out.addfile(member, content)
        inner = submodules_of(commit, store).items()
        paths += len(inner)
        check_count(paths, top.url)
        pending += [(f"{below}/{path}", c) for path, c in reversed(inner) if folder_of(c, store).is_dir()]


def _files(commit: Commit, store: Store, below: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    # Without the user's settings: filters of these could run programs on files of the commit.
    isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
    repository = ("-c", "safe.directory=*", f"--git-dir={folder_of(commit, store)}")
    command = (*repository, "archive", f"--prefix={below}/", commit.commit)
    with start_git(*command, stderr=subprocess.DEVNULL, environ={**os.environ, **isolated}) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                for member in tar:
                    yield member, tar.extractfile(member) if member.isreg() else None
        except tarfile.TarError as error:
            raise SourceError(f"the files of {commit.commit[:12]} cannot be read: {error}", commit.url) from None
        finally:
            process.stdout.close()  # type: ignore[union-attr]
    if process.returncode:
        raise SourceError(f"the files of {commit.commit[:12]} cannot be read", commit.url)


class Repositories:
    """Bare repositories `/HOST/OWNER/REPOSITORY[.git]`, each with exactly this build's commits of it.

    The address needs no key: a commit names its content.
    """

    host, key = "git.reprokit.invalid", ""
    address = f"http://{host}/"

    def __init__(self, commits: Sequence[GitCommit]) -> None:
        self.commits = sorted({locked.address for locked in commits})
        self.folders: dict[str, Path] = {}

    def prepare(self, store: Store, scratch: Path) -> None:
        for name, commits in groupby(self.commits, key=lambda commit: commit.name):
            self.folders[name] = scratch / f"{len(self.folders)}.git"
            serving_repository(list(commits), store, self.folders[name])

    def answer(self, handler: Handler, address: SplitResult) -> None:
        """Answer `/NAME/info/refs?service=git-upload-pack` and `POST /NAME/git-upload-pack`."""
        path = unquote(address.path).strip("/")
        for end in ("/info/refs", f"/{_SERVICE}"):
            name = path.removesuffix(end)
            if name != path:
                break
        name = name.removesuffix(".git")
        repository = self.folders.get(name)
        if repository is None:
            handler.discard_body()
            handler.gateway.note(handler.gateway.missing, name)
            handler.refuse(404, f"{name} is not a source of this recipe")
        elif end == "/info/refs" and parse_qs(address.query).get("service") == [_SERVICE]:
            _advertise(handler, repository)
        elif end == f"/{_SERVICE}" and handler.command == "POST":
            _upload_pack(handler, repository)
        else:
            handler.discard_body()
            handler.refuse(403, "only fetching over git's smart protocol is served")


def _command(handler: Handler, repository: Path, *options: str) -> subprocess.Popen[bytes]:
    environ = dict(os.environ)
    # The value becomes git's environment, so only known versions pass.
    protocol = handler.headers.get("Git-Protocol", "")
    environ.pop("GIT_PROTOCOL", None)
    if protocol in ("version=1", "version=2"):
        environ["GIT_PROTOCOL"] = protocol
    settings = ["-c", "uploadpack.allowAnySHA1InWant=true", "-c", "safe.directory=*"]
    command = [*settings, "upload-pack", "--strict", "--stateless-rpc", *options, str(repository)]
    return start_git(*command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, environ=environ)


def _advertise(handler: Handler, repository: Path) -> None:
    handler.discard_body()
    with _command(handler, repository, "--advertise-refs") as process:
        body, _ = process.communicate()
    if process.returncode:
        handler.refuse(500, "git upload-pack failed")
        return
    service = f"# service={_SERVICE}\n".encode()
    if handler.headers.get("Git-Protocol", "") != "version=2":
        body = b"%04x" % (len(service) + 4) + service + b"0000" + body
    headers = {"Content-Type": f"application/x-{_SERVICE}-advertisement", "Content-Length": str(len(body))}
    handler.start(200, {**headers, "Cache-Control": "no-cache"})
    handler.wfile.write(body)


def _upload_pack(handler: Handler, repository: Path) -> None:
    with _command(handler, repository) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            # Stateless: git reads the whole request before it answers.
            for block in _body(handler):
                process.stdin.write(block)
            process.stdin.close()
        except BrokenPipeError:
            handler.close_connection = True
        _send(handler, process.stdout)


def _send(handler: Handler, stdout: IO[bytes]) -> None:
    handler.start(
        200,
        {
            "Content-Type": f"application/x-{_SERVICE}-result",
            "Cache-Control": "no-cache",
            "Transfer-Encoding": "chunked",
        },
    )
    while block := stdout.read1(_BLOCK):  # type: ignore[attr-defined]
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
        handler.gateway.served(len(block))
    handler.wfile.write(b"0\r\n\r\n")


def _body(handler: Handler) -> Iterator[bytes]:
    """The request's body, unpacked. A malformed or too long body ends early and closes its connection."""
    blocks = _chunks(handler) if handler.headers.get("Transfer-Encoding") == "chunked" else handler.body()
    allowed = GIT_REQUEST  # git keeps the commits that a request names in memory
    for block in _unpacked(blocks) if handler.headers.get("Content-Encoding") in ("gzip", "x-gzip") else blocks:
        allowed -= len(block)
        if allowed < 0:
            handler.close_connection = True
            return
        yield block


def _unpacked(blocks: Iterator[bytes]) -> Iterator[bytes]:
    unzip = zlib.decompressobj(wbits=31)
    for block in blocks:
        while block:
            yield unzip.decompress(block, _BLOCK)
            block = unzip.unconsumed_tail
    yield unzip.flush()


def _chunks(handler: Handler) -> Iterator[bytes]:
    """Chunks as git sends them: without extensions and trailers."""
    while size := _CHUNK.fullmatch(handler.rfile.readline(_LONGEST_LINE)):
        remaining = int(size[1], 16)
        last = not remaining
        while remaining:
            block = handler.rfile.read(min(remaining, _BLOCK))
            if not block:
                break
            remaining -= len(block)
            yield block
        if remaining or handler.rfile.readline(2) != b"\r\n":
            break
        if last:
            return
    handler.close_connection = True
