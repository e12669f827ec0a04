"""Git commits, fetched by the host's git into the store: several at a time, mirrors first.

git cannot resume a pack. After an interrupted fetch, a commit is fetched in pieces: first its trees, then its files in
batches. Each batch is kept, also for the next process. A server without filters sends everything at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from reprokit.config import mirror_hint
from reprokit.display import notify
from reprokit.errors import NoConnection, ReprokitError, SourceError
from reprokit.filelocks import acquire
from reprokit.formatting import counted
from reprokit.redact import redact
from reprokit.supply.fetch.download import Stop, Stopped
from reprokit.supply.gateway import guarded
from reprokit.supply.kinds.git.command import GitFailed, git, git_with_progress
from reprokit.supply.kinds.git.store import check_objects, folder_of, has_commit, tree_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import key_of, unwritable
from reprokit.untrusted.addresses import Own

if TYPE_CHECKING:
    from reprokit.supply.mirrors import Mirrors

_ATTEMPTS = 4
_AT_ONCE = 4
_BATCH = 256  # files; an interruption loses one batch, and each batch takes a round trip
_FOR_GOOD = (
    "not found",
    "does not exist",
    "not appear to be a git",
    "Authentication failed",
    "could not read Username",
    "not allowed",
)
# A server that prepares a pack reports progress every few seconds, so a minute of silence means a dead connection.
# Even small packs are kept as packs, which git syncs to the disk.
_SETTINGS = ["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60", "-c", "fetch.unpackLimit=1"]
_NAME = "reprokit"
_QUIETLY = ["--no-tags", "--no-write-fetch-head", "--progress"]

# The user's git settings that a company's network needs. With a proxy of git's own, that proxy resolves names.
_KEPT = ("http.proxy", "http.sslCAInfo", "http.sslCAPath", "http.sslVerify")
_AGENTS = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "XDG_CONFIG_HOME")


@contextmanager
def git_environment(address: str, mirrors: Mirrors) -> Iterator[Mapping[str, str] | None]:
    """The environment of a git that connects to this address; None to use the user's git unrestricted.

    Unrestricted are mirrors, hosts of the configuration, and addresses that `url.insteadOf` changes. Others are used
    without credential helpers, agents and netrc, and only over https. Raises SourceError for ssh to another host,
    GitFailed for a host that this command could not reach.
    """
    lost = mirrors.store.lost
    if why := lost.why(address):
        raise GitFailed(f"{urlsplit(address).hostname} cannot be reached: {why}")
    environ = None
    try:
        with _environment(address, mirrors) as environ:
            yield environ
    except GitFailed as error:
        if error.unreachable and environ is None:  # otherwise the gateway records it
            lost.failed(address, str(error))
        elif error.unreachable and (why := lost.last_failure(address)):
            raise GitFailed(f"{urlsplit(address).hostname} cannot be reached: {why}") from None
        raise


@contextmanager
def _environment(address: str, mirrors: Mirrors) -> Iterator[Mapping[str, str] | None]:
    parts = urlsplit(address)
    if parts.scheme == "ssh":
        yield _ssh_environment(parts, mirrors.own)
        return
    if parts.scheme not in ("http", "https") or git("ls-remote", "--get-url", address).strip() != address:
        yield None
        return
    own = mirrors.own
    if own.names(parts.hostname or "", parts.port or 443) or own.trusts(parts):
        yield None
        return
    with guarded(mirrors, own) as variables:
        kept = {name: value for name in _KEPT if (value := _setting(name, address))}
        bare = {n: v for n, v in os.environ.items() if n.startswith("GIT_SSL_") or not n.startswith("GIT_")}
        for name in _AGENTS:
            bare.pop(name, None)
        settings = {f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(kept)}
        settings |= {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(kept.values())}
        isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "https"}
        # git's HTTP library looks for .netrc in the home folder.
        home = str(Path(variables["NETRC"]).parent / "none")
        yield {**bare, **variables, **settings, **isolated, "GIT_CONFIG_COUNT": str(len(kept)), "HOME": home}


def _ssh_environment(address: SplitResult, own: Own) -> Mapping[str, str] | None:
    """The user's keys and agent, without prompts. The agent stays on this host."""
    if not own.names(address.hostname or "", address.port or 22):
        raise SourceError(
            f"ssh to {address.hostname} would use your keys, and your configuration does not name that host",
            address.geturl(),
            "if you trust it, add it to `hosts:` of your configuration: `reprokit config`",
        )
    if {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys() or _setting("core.sshCommand", address.geturl()):
        return None
    return {**os.environ, "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oForwardAgent=no"}


def _setting(name: str, address: str) -> str:
    try:
        return git("config", "--get-urlmatch", name, address).strip()
    except GitFailed:
        return ""


def fetch_git(commits: Sequence[GitCommit], mirrors: Mirrors, offline: bool = False) -> int:
    """Fetch locked commits into the store; returns how many were missing.

    Raises SourceError if a fetch fails, a commit's tree differs from the lock, or a commit is missing while `offline`.
    """
    store = mirrors.store
    missing = [locked for locked in commits if not folder_of(locked.address, store).is_dir()]
    if missing and offline:
        raise SourceError(
            f"the store lacks {counted(len(missing), 'git commit')}, such as {missing[0].commit[:12]}",
            missing[0].url,
            "`reprokit fetch` downloads them; it needs a network",
        )
    ensure([locked.address for locked in missing], mirrors)
    for locked in commits:
        tree = tree_of(locked.address, store)
        if tree != locked.tree:
            raise SourceError(f"commit {locked.commit} has the tree {tree}, expected {locked.tree}", locked.url)
    return len(missing)


def ensure(commits: Iterable[Commit], mirrors: Mirrors) -> None:
    """Fetch those of these commits that are missing.

    Raises SourceError if a fetch fails, UsageError for too large objects, EngineError if the store is not
    writable.
    """
    store = mirrors.store
    missing = [c for c in dict.fromkeys(commits) if not folder_of(c, store).is_dir()]
    if not missing:
        return
    stop = Stop()  # git would continue long after another error, or Ctrl-C
    with ThreadPoolExecutor(min(_AT_ONCE, len(missing))) as pool:
        try:
            for task in as_completed([pool.submit(_ensure, c, mirrors, stop) for c in missing]):
                task.result()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            stop.call()
            if isinstance(error, OSError):
                raise unwritable(error, store) from None
            raise


def _ensure(commit: Commit, mirrors: Mirrors, stop: Stop) -> None:
    store = mirrors.store
    published = folder_of(commit, store)
    published.parent.mkdir(parents=True, exist_ok=True)
    with published.with_suffix(".lock").open("ab") as lock:
        acquire(lock, f"another reprokit is fetching {commit.url}; waiting for it")
        if published.is_dir():
            return
        pieces = store.root / "partial" / f"{commit.commit}-{key_of(commit.url)[:16]}.git"
        with store.scratch() as scratch:
            fetch = _Fetch(commit, Path(scratch) / "repository", pieces, stop)
            try:
                _try(fetch, mirrors.git(commit.url), mirrors)
            except (ReprokitError, OSError, Stopped):
                if not any(pieces.glob("objects/pack/*.pack")):
                    shutil.rmtree(pieces, ignore_errors=True)
                raise
            fetch.folder.replace(published)
        shutil.rmtree(pieces, ignore_errors=True)


def _try(fetch: _Fetch, addresses: list[str], mirrors: Mirrors) -> None:
    """Try every address in turn, repeatedly unless its error is final."""
    commit = fetch.commit
    answers: dict[str, GitFailed] = {}
    notify(f"{commit.name}: fetching {commit.commit[:12]}")
    for attempt in range(_ATTEMPTS):
        for address in tuple(addresses):
            try:
                with git_environment(address, mirrors) as fetch.environ:
                    fetch.fetch(address)
            except GitFailed as error:
                mirrors.report(address, str(error))
                if any(words in str(error) for words in _FOR_GOOD) or mirrors.store.lost.why(address):
                    addresses.remove(address)
                answers[address], failed = error, error
            else:
                mirrors.report(address, None)
                return
            if addresses and address != commit.url:
                notify(f"{commit.name}: {address}: {failed}")
        if not addresses or attempt == _ATTEMPTS - 1:
            break
        notify(f"{commit.name}: {failed}; trying again in {2**attempt} s")
        fetch.stop.wait(2**attempt)
    raise explained(answers, commit)


@dataclass
class _Fetch:
    """The fetch of one commit into `folder`; after an interruption, through the repository `pieces`."""

    commit: Commit
    folder: Path
    pieces: Path
    stop: Stop
    environ: Mapping[str, str] | None = None

    def fetch(self, address: str) -> None:
        """Raises GitFailed, UsageError for too large objects, and OSError if the disk is full."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if not self.pieces.exists():
            self.pieces.mkdir(parents=True)  # its existence marks an interrupted fetch
            self._fetch_all(address)
        elif self._in_pieces(address):
            self.environ = None  # the commands below are local
            with self._kept():
                self._fetch_all(str(self.pieces))
        else:
            self._fetch_all(address)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Work on the pieces. If git fails then, they are damaged, for example by a power cut, and are removed."""
        try:
            yield
        except GitFailed:
            shutil.rmtree(self.pieces)
            raise GitFailed("the kept part of an earlier fetch is damaged and was removed") from None

    def _fetch_all(self, address: str) -> None:
        git("init", "--quiet", "--bare", str(self.folder))
        into = f"+{self.commit.commit}:refs/heads/reprokit"
        try:
            self._git(self.folder, ["fetch", *_QUIETLY, *_trusting(address), "--depth=1", address, into])
        except GitFailed as error:
            if not error.refused_by_commit:
                raise
            self._history(address)
        git("symbolic-ref", "HEAD", "refs/heads/reprokit", folder=self.folder)
        shutil.rmtree(self.folder / "hooks", ignore_errors=True)
        check_objects(self.folder, self.commit.url)

    def _history(self, address: str) -> None:
        notify(f"{self.commit.name}: the server does not serve single commits; fetching the whole history")
        self._git(self.folder, ["fetch", *_QUIETLY, *_trusting(address), address, "+refs/*:refs/remotes/all/*"])
        if not has_commit(self.folder, self.commit.commit):
            raise GitFailed(f"no branch or tag of the repository holds {self.commit.commit}: not found")
        git("update-ref", "refs/heads/reprokit", self.commit.commit, folder=self.folder)

    def _in_pieces(self, address: str) -> bool:
        """Fetch the missing pieces; false if the server does not serve single files."""
        for lock in self.pieces.rglob("*.lock"):
            lock.unlink()  # left by a killed git: this process is the only user
        with self._kept():
            git("init", "--quiet", "--bare", str(self.pieces))
            for index in self.pieces.glob("objects/pack/*.idx"):
                git("verify-pack", str(index))
        # git stores the remote of a partial fetch in its configuration: by name, as the address may hold a password.
        # Without noop it searches for ancestors of objects that are no commits.
        settings = ["-c", f"remote.{_NAME}.url={address}", "-c", "fetch.negotiationAlgorithm=noop"]
        options = [*_QUIETLY, *_trusting(address), "--filter=blob:none"]
        try:
            if not has_commit(self.pieces, self.commit.commit):
                into = f"+{self.commit.commit}:refs/heads/reprokit"
                self._git(self.pieces, [*settings, "fetch", *options, "--depth=1", _NAME, into])
            missing = self._missing()
            for start in range(0, len(missing), _BATCH):
                notify(f"{self.commit.name}: in pieces, {start} of {len(missing)} files done")
                batch = missing[start : start + _BATCH]
                self._git(self.pieces, [*settings, "fetch", *options, _NAME, *batch])
        except GitFailed as error:
            if error.refused_by_commit:
                return False
            raise
        return True

    def _missing(self) -> list[str]:
        with self._kept():
            listed = git("rev-list", "--objects", "--missing=print", self.commit.commit, folder=self.pieces)
        return [line.removeprefix("?") for line in listed.splitlines() if line.startswith("?")]

    def _git(self, folder: Path, arguments: list[str]) -> None:
        def on_step(step: str) -> None:
            notify(f"{self.commit.name}: {step}")

        git_with_progress(folder, [*_SETTINGS, *arguments], on_step, self.stop, self.environ)


def _trusting(address: str) -> list[str]:
    """Allow a mirror in a folder of another user, which git refuses by default."""
    return ["--upload-pack=git -c safe.directory=* upload-pack"] if address.startswith("file://") else []


def explained(answers: dict[str, GitFailed], commit: Commit) -> SourceError:
    """git's errors as one about the commit: its own address first, then its mirrors."""
    address = commit.url if commit.url in answers else next(reversed(answers))
    others = "".join(f"\n  {redact(other)}: {error}" for other, error in answers.items() if other != address)
    text = f"git could not fetch {commit.commit[:12]}: {answers[address]}{others}"
    return unread(answers[address], redact(address), text)


def unread(error: GitFailed, where: str, text: str = "") -> SourceError:
    """The error for a repository that cannot be read, with the remedy; `text` replaces git's own."""
    if error.unreachable:
        return NoConnection(text or str(error), where, mirror_hint("git"))
    if any(words in str(error) for words in _FOR_GOOD):
        copy = "name it in REPROKIT_GIT_MIRRORS or the configuration: `reprokit help mirrors`"
        hint = f"check the address and the commit; if you have a copy of the repository, {copy}"
    elif "unable to access" in str(error):
        hint = "check the network and git's own settings (proxies, url.insteadOf)"
    else:
        hint = "`git fetch` of that commit by hand shows details"
    return SourceError(text or str(error), where, hint)
