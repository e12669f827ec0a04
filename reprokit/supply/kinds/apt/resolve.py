"""Resolve apt packages with the base's own apt in a temporary container, as the build installs them.

The output of apt is the same from apt 1.6 (Ubuntu 18.04) to 3.0 (Debian 13).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from reprokit.config.archives import archive_of
from reprokit.display import notify
from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError
from reprokit.helper.container import ADDRESS, PATH, BuildContainer, Command, build_container, listening
from reprokit.recipe.spelling import nearest
from reprokit.redact import redact
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.apt.install import AptInstall, FollowedSets, changed_packages, enable, is_vendors
from reprokit.supply.kinds.apt.settings import remember_archive
from reprokit.supply.kinds.kind import Tools, UpstreamChange
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store
from reprokit.untrusted.documents import understood
from reprokit.untrusted.limits import APT_SECONDS, PROGRAM_OUTPUT

# Any failed part fails the update. No retries: apt 2.6 can hang when it retries one of two archives of a host.
# Packages that the image has downloaded are listed too. apt keeps its cache even if the image forbids that: else every
# call builds it again.
_CONFIGURATION = """
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "0";
APT::Update::Error-Mode "any";
Dir::Cache::Archives "/tmp/archives";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
"""
# As in the block `base`: the vendor's lists are signed with a key that was replaced in April 2022.
WITHOUT_VENDOR = (
    "for list in /etc/apt/sources.list.d/cuda*.list /etc/apt/sources.list.d/nvidia-ml*.list; do "
    '[ ! -e "$list" ] || : > "$list"; done'
)
_TRIES = 3
# The archive of packages that are locked with their address.
_UNNAMED = "other"
# apt-get --print-uris: 'ADDRESS' NAME_VERSION_ARCHITECTURE.deb SIZE SHA256:DIGEST
_URI = re.compile(r"^'(\S+)' ([^\s_]+)_([^\s_]+)_([^\s_]+)\.deb (\d+) SHA256:([0-9a-f]{64})$", re.MULTILINE)
# apt-cache madison: NAME | VERSION | ADDRESS SUITE/COMPONENT ARCHITECTURE Packages
_LISTED = re.compile(r"^ *(\S+) \| *(\S+) \| (\S+) (\S+)/[^/\s]+ \S+ Packages$", re.MULTILINE)
# grep -H ^Date: of the Release files, which are named after their address
_DATE = re.compile(r"^(?:.*/)?([^/\s]+)_(?:In)?Release:Date: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class CommandResult:
    """Exit code, standard output and standard error of a command."""

    code: int
    output: str
    errors: str


class BaseApt:
    """Use as a context manager: inside it the container runs, with today's package lists.

    Its network is a gateway, which uses the host's mirrors and proxies. Raises SourceError if the lists cannot be
    downloaded, EngineError.
    """

    def __init__(self, tools: Tools) -> None:
        self.engine, self.base, self.mirrors = tools.engine, tools.base(), tools.mirrors
        self._stack = ExitStack()
        self._is_late = False

    def __enter__(self) -> BaseApt:
        with ExitStack() as stack:
            socket, listens = stack.enter_context(listening())
            gateway = Gateway(self.mirrors, archives=self.base.archives, listening=listens, address=ADDRESS)
            self._gateway = stack.enter_context(gateway)
            self._container: BuildContainer = stack.enter_context(
                build_container(self.engine, self.base.image_id, socket)
            )
            # The programs come from the base, which may be a stranger's, and may never end.
            late = threading.Timer(APT_SECONDS.most, self._end_late)
            late.daemon = True
            stack.callback(late.cancel)
            late.start()
            self.ask(["sh", "-ec", f"mkdir -p /tmp/archives/partial; echo '{_CONFIGURATION}' >/tmp/apt.conf"])
            if is_vendors(self.base.reference):
                self.ask(["sh", "-c", WITHOUT_VENDOR])
            self.update()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, command: Sequence[str]) -> CommandResult:
        """Run a command as root. Raises SourceError for more output, or time of the container, than limits allow."""
        environment = {**self._gateway.build_arguments(), "APT_CONFIG": "/tmp/apt.conf", "LC_ALL": "C.UTF-8"}
        environment |= {"DEBIAN_FRONTEND": "noninteractive", "PATH": PATH, "HOME": "/root"}
        output, errors = bytearray(), bytearray()

        def collect(to: bytearray, data: bytes) -> None:
            to.extend(data)
            if len(output) + len(errors) > PROGRAM_OUTPUT.most:
                self._refuse(f"prints more than {PROGRAM_OUTPUT.most >> 20} MiB", PROGRAM_OUTPUT.hint)

        try:
            run = partial(self._container.run, Command(list(command), environment))
            code = run(partial(collect, output), partial(collect, errors))
        except EngineError:
            if self._is_late:
                self._refuse(f"takes more than {APT_SECONDS.most} s", APT_SECONDS.hint)
            raise
        texts = (part.decode("utf-8", "replace") for part in (output, errors))
        return CommandResult(code, *(redact(text) for text in texts))

    def _refuse(self, fault: str, hint: str) -> NoReturn:
        raise SourceError(f"the package manager of {self.base.reference} {fault}", hint=hint)

    def _end_late(self) -> None:
        self._is_late = True
        self._container.abort()

    def update(self) -> None:
        """Download today's package lists. Raises SourceError."""
        notify(f"reading the package lists of {self.base.reference}")
        for _ in range(_TRIES):
            answer = self.ask(["apt-get", "update"])
            if answer.code == 0:
                return
        failed = re.search(r"^E: .*", answer.errors, re.MULTILINE)
        raise self._gateway.unreached(f"cannot download the package lists of {self.base.reference}") or SourceError(
            f"cannot download the package lists of {self.base.reference}: {failed[0] if failed else answer.errors}",
            hint="`reprokit config` shows the mirrors and proxies in use",
        )


@dataclass(frozen=True)
class Listed:
    """A version of a package in a suite, and the name of the suite's package lists."""

    name: str
    version: str
    suite: str


def packages_of(text: str, store: Store) -> tuple[AptPackage, ...]:
    """The packages of `apt-get --print-uris` with Acquire::ForceHash=SHA256, each once, by name.

    Their archives are remembered in the store, for fetches on this machine.
    """
    packages = {}
    for address, name, version, architecture, size, sha256 in _URI.findall(text):
        with understood("apt's output", name):
            address = unquote(address)
            archive, path = archive_of(address) or (_UNNAMED, urlsplit(address).path.lstrip("/"))
            if archive != _UNNAMED:
                remember_archive(store, archive, redact(address).removesuffix(path))
            packages[sha256] = AptPackage(
                name=name,
                version=unquote(version),
                architecture=architecture,
                archive=archive,
                path=path,
                sha256=sha256,
                size=int(size),
                url=redact(address) if archive == _UNNAMED else None,
            )
    return in_order(packages.values())


def in_order(packages: Iterable[AptPackage]) -> tuple[AptPackage, ...]:
    """Packages as a lock lists them."""
    return tuple(sorted(packages, key=lambda p: (p.name, p.version, p.architecture, p.sha256)))


def listed(text: str) -> tuple[Listed, ...]:
    """The lines of `apt-cache madison`: each package's newest version first."""
    return tuple(
        Listed(name, version, _list_name(f"{address.rstrip('/')}/dists/{suite}"))
        for name, version, address, suite in _LISTED.findall(text)
    )


def as_of(packages: Sequence[AptPackage], text: str) -> str:
    """The newest date of the suites that these packages need, as `20261121T101500Z`, or empty.

    If several suites have a package, the oldest one counts, so that later changes of the others change no lock.
    """
    dates = {suite: _date(date) for suite, date in _DATE.findall(text)}
    by_package: dict[tuple[str, str], list[datetime]] = {}
    for line in listed(text):
        if date := dates.get(line.suite):
            by_package.setdefault((line.name, line.version), []).append(date)
    needed = [min(by_package[key]) for p in packages if (key := (p.name, p.version)) in by_package]
    return f"{max(needed):%Y%m%dT%H%M%SZ}" if needed else ""


def _date(text: str) -> datetime:
    with understood("the date of a package list", text[:100]):
        return parsedate_to_datetime(text.strip()).astimezone(timezone.utc)


def _list_name(address: str) -> str:
    """apt's file name for an address (URItoFileName of its fileutl.cc)."""
    with understood("the address of a package list", address[:200]):
        parts = urlsplit(address)
    quoted = re.sub(r"[\\|{}\[\]<>\"^~_=!@#$%&*]", lambda match: f"%{ord(match[0]):02x}", parts.path)
    return (parts.netloc.rpartition("@")[2] + quoted).replace("/", "_")


def lock_apt(
    installs: Sequence[AptInstall], tools: Tools, followed: FollowedSets | None = None
) -> tuple[tuple[AptPackage, ...], str]:
    """The packages that these installs download on the base, with dependencies and upgrades of the base's own.

    The set of a block is what it downloads besides the packages of earlier blocks. Also the date of their package
    lists, as `20261121T101500Z`. Only the lists are downloaded. Installs in `followed` are not resolved. Raises
    UsageError or SourceError naming the package and its block, EngineError.
    """
    followed = followed or FollowedSets()
    # The packages installed after a list of requests, and the blocks that need each package.
    installed: dict[tuple[str, ...], set[AptPackage]] = {}
    takers: dict[AptPackage, set[str]] = {}
    enabled: set[str] = set()
    resolved = any(install not in followed.sets for install in installs)
    with BaseApt(tools) if resolved else nullcontext() as apt:
        for install in installs:
            before, requested = installed.get(install.before, set()), (*install.before, *install.packages)
            downloads = set(followed.sets.get(install, ()))
            if apt:
                _enable(apt, install.components, enabled)
            if apt and install not in followed.sets:
                downloads = _downloads(apt, install, tools.store) - before
            installed[requested] = before | downloads
            for package in downloads:
                takers.setdefault(package, set()).add(install.block)
        packages = in_order(p.model_copy(update={"blocks": tuple(sorted(of))}) for p, of in takers.items())
        return packages, (as_of(packages, _lists(apt, packages)) if apt else "") or followed.as_of


def _downloads(apt: BaseApt, install: AptInstall, store: Store) -> set[AptPackage]:
    """The packages that apt downloads for an install and those before it."""
    command = ["apt-get", "install", "-q", "--yes", "--no-install-recommends", "--print-uris"]
    answer = apt.ask([*command, *dict.fromkeys((*install.before, *install.packages))])
    if answer.code:
        raise _explained(apt, install, answer)
    return set(packages_of(answer.output, store))


def changed_apt(installs: Sequence[AptInstall], locked: Sequence[AptPackage], tools: Tools) -> list[UpstreamChange]:
    """The locked packages that the base's archives list in another newest version, or not at all."""
    if not locked:
        return []
    with BaseApt(tools) as apt:
        enabled: set[str] = set()
        for install in installs:
            _enable(apt, install.components, enabled)
        return changed_packages("apt", locked, _newest(_lists(apt, locked)))


def _newest(text: str) -> dict[str, str]:
    """The newest version of each package in the output of `apt-cache madison`."""
    newest: dict[str, str] = {}
    for line in listed(text):
        newest.setdefault(line.name, line.version)
    return newest


def _enable(apt: BaseApt, components: Sequence[str], enabled: set[str]) -> None:
    """Enable these components for the installs that follow, as their blocks do."""
    if set(components) - enabled:
        enabled |= set(components)
        apt.ask(["sh", "-c", "; ".join(enable(components))])
        apt.update()


def _lists(apt: BaseApt, packages: Sequence[AptPackage]) -> str:
    """The available versions of these packages, and the dates of the lists."""
    versions = apt.ask(["apt-cache", "madison", *dict.fromkeys(p.name for p in packages)]).output
    return versions + apt.ask(["sh", "-c", "grep -H ^Date: /var/lib/apt/lists/*Release"]).output


def _explained(apt: BaseApt, install: AptInstall, answer: CommandResult) -> ReprokitError:
    """apt's error as one about the block, with alternatives."""
    where = f"block {install.block}"
    if version := re.search(r"^E: Version '(\S+)' for '(\S+)' was not found", answer.errors, re.MULTILINE):
        versions = [line.version for line in listed(apt.ask(["apt-cache", "madison", version[2]]).output)]
        hint = f"versions for {apt.base.reference}: {', '.join(dict.fromkeys(versions)) or 'none'}"
        return UsageError(f"no such version: {version[2]} {version[1]}", where, hint)
    unknown = re.search(
        r"^E: (?:Unable to locate package|Couldn't find any package by \S+|Package) '?([^\s']+)'?"
        r"(?: has no installation candidate)?$",
        answer.errors,
        re.MULTILINE,
    )
    if unknown:
        name = unknown[1]
        near = nearest(name, apt.ask(["apt-cache", "pkgnames", name[:3]]).output.split())
        return UsageError(f"{apt.base.reference} has no package {name}{near}", where)
    text = answer.output + answer.errors
    unmet = re.search(r"^The following packages have unmet dependencies:\n((?: .*\n)+)", text, re.MULTILINE)
    if unmet:
        causes = "; ".join(" ".join(line.split()) for line in unmet[1].splitlines()[:4])
        return SourceError(f"{' '.join(install.packages)} cannot be installed: {causes}", where)
    first = next((line for line in answer.errors.splitlines() if line.startswith("E: ")), answer.errors.strip())
    return SourceError(f"apt cannot resolve {' '.join(install.packages)}: {first}", where)
