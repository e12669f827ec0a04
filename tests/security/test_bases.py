"""Packages of a base that are an attacker's: what they bring runs in a container without a network, or not at all."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reprokit.display import reporting
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, SourceError, UsageError, WorkFailed
from reprokit.image.base import bootstrap as bootstrap_module
from reprokit.image.base.bootstrap import bootstrap, name_of
from reprokit.image.base.release import Release
from reprokit.image.base.resolve import locked_base
from reprokit.image.base.stage import Stage
from reprokit.image.labels import image_name
from reprokit.supply.lock.model import Base, Bootstrap
from reprokit.supply.store import Store
from tests.support.builds import root_file_system, target_of
from tests.support.debs import entry, locked, packed_deb, small_system
from tests.support.names import unique

RELEASE = Release("debian", "12", "bookworm")
Packages = Callable[..., Bootstrap]

# Runs as root wherever it is run; `{marker}` is a path of the host.
PAYLOAD = """#!/bin/sh
mkdir -p {folder}
echo {script} >>{folder}/marker
[ {script} = postinst ] || exit 0
{{
    echo interfaces: $(cat /proc/net/dev | while read -r name rest; do echo "$name"; done)
    echo process: $(cat /proc/1/comm)
    while read -r name value; do [ "$name" != CapEff: ] || echo capabilities: "$value"; done </proc/self/status
    echo mounts: $(while read -r what where rest; do echo "$where"; done </proc/mounts)
    for socket in /run/*.sock /var/run/*.sock; do [ ! -e "$socket" ] || echo socket: "$socket"; done
}} >/etc/report 2>&1
"""

# Run by dpkg itself, when it has written its status.
HIDE = b"post-invoke=: >/var/lib/dpkg/status\n"


@dataclass
class Made:
    base: Base
    image: dict
    store: Store
    said: list[str]
    outside: Path
    beside: Path
    seen: list[Path]


@pytest.fixture(scope="module")
def made(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A base of which one package is hostile, made in a home that others can enter, as earlier versions left it."""
    root = tmp_path_factory.mktemp("bases")
    home = root / "home"
    # Not below /tmp, of which nothing stays in a base.
    outside, beside = (Path("/var/tmp", unique(name)) for name in ("outside", "beside"))
    beside.mkdir()
    (home / "tmp").mkdir(parents=True)
    (home / "tmp").chmod(0o777)
    store = Store(home / "store")
    files = [small_system(root, unique("system"))]
    scripts = {s: PAYLOAD.format(folder=outside, script=s) for s in ("preinst", "postinst")}
    hook = f'{{"mkdir -p {outside}; echo apt >>{outside}/marker"; }};\n'
    data = [
        entry("./etc/apt/apt.conf.d/00hook", f"APT::Update::Pre-Invoke {hook}DPkg::Pre-Invoke {hook}".encode()),
        entry(
            "./etc/dpkg/dpkg.cfg.d/00hook", f"pre-invoke=mkdir -p {outside}; echo dpkg >>{outside}/marker\n".encode()
        ),
        entry("./etc/host", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        entry(f".{beside}", mode=0o755, type=tarfile.DIRTYPE),
        entry("./etc/above", type=tarfile.SYMTYPE, linkname=f"../../../../..{beside}"),
        entry("./etc/above/through", b"a link"),
    ]
    control = "Package: hostile\nVersion: 1\nArchitecture: all\nEssential: yes\nPre-Depends: dpkg"
    files.append(packed_deb(root / "hostile_1_all.deb", control, data, scripts))
    lock = Base(reference="debian:12", bootstrap=a_lock(files, store))
    said: list[str] = []
    seen: list[Path] = []

    def notify(line: str) -> None:
        said.append(line)
        if line.startswith("bootstrapping"):  # nothing is made yet
            return
        seen.extend(path for path in (home / "tmp", home / "store") if path.stat().st_mode & 0o077)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPROKIT_HOME", str(home))
        with store.in_use(), reporting(notify):
            base = locked_base(engine, lock, store)
        assert base.name == name_of(RELEASE, lock.bootstrap)
        yield Made(lock, engine.image(base.image_id), store, said, outside, beside, seen)
    beside.rmdir()
    engine.remove_image(base.name, force=True)


def a_lock(files: list[Path], store: Store) -> Bootstrap:
    packages = tuple(locked(file, store) for file in files)
    return Bootstrap(distribution="debian", suite="bookworm", architecture="amd64", packages=packages)


@pytest.fixture
def packages(tmp_path: Path, home: Path) -> Packages:
    """`packages(*entries, **scripts)`: the small system and a package of these entries."""

    def make(
        *entries: tuple[tarfile.TarInfo, bytes], essential: bool = True, pack: Any = None, **scripts: str
    ) -> Bootstrap:
        control = "Package: hostile\nVersion: 1\nArchitecture: all" + ("\nEssential: yes" if essential else "")
        files = [small_system(tmp_path, unique("system"))]
        files.append(packed_deb(tmp_path / "hostile_1_all.deb", control, entries, scripts, pack))
        return a_lock(files, Store())

    return make


@pytest.mark.xdist_group("bases")
def test_a_package_reaches_nothing_outside(engine: Engine, made: Made):
    container = engine.create_container(unique("bases"), {"Image": made.image.id, "Cmd": ["sh"]})
    try:
        with tarfile.open(fileobj=io.BytesIO(b"".join(engine.export(container)))) as tar:
            files = {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}
            assert tar.getmember("etc/host").linkname == "/etc/passwd"
    finally:
        engine.remove(container, force=True)
    # Scripts and hooks run inside, where the payload works and is harmless.
    assert not made.outside.exists()
    assert {b"preinst", b"postinst", b"dpkg"} <= set(files[f"{made.outside}/marker".lstrip("/")].split())
    # They see no network and nothing of the host.
    report = dict(line.split(": ", 1) for line in files["etc/report"].decode().splitlines() if ": " in line)
    assert set(report["interfaces"].split()) == {"Inter-|", "face", "lo:"}
    assert report["process"] == "sh" and "socket" not in report
    # Neither CAP_SYS_ADMIN nor CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE.
    assert not int(report["capabilities"], 16) & (1 << 21 | 1 << 16 | 1 << 17 | 1 << 19)
    inside = {"/", "/proc", "/dev", "/sys", "/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}
    assert {m for m in report["mounts"].split() if not m.startswith(("/proc/", "/dev/", "/sys/"))} <= inside
    # Links lead nowhere outside, and nobody else enters the folders that a base is made in.
    assert f"{made.beside}/through".lstrip("/") in files and list(made.beside.iterdir()) == []
    assert made.said and made.seen == []


@pytest.mark.xdist_group("bases")
def test_an_image_of_a_recipe_called_base_is_no_base(engine, made: Made):
    key = name_of(RELEASE, made.base.bootstrap).rpartition(":")[2]
    attack = image_name(target_of("base"))
    assert attack.startswith("reprokit/base:")
    planted = engine.import_image(io.BytesIO(root_file_system()), attack.partition(":")[0], key, [])
    try:
        found = locked_base(engine, made.base, made.store)
        assert found.image_id == made.image.id != planted
        with pytest.raises(ReprokitError):
            target_of("own/base")
    finally:
        engine.remove_image(f"reprokit/base:{key}", force=True)


@pytest.mark.xdist_group("bases")
def test_equal_packages_give_equal_layers(engine, made: Made, home: Path):
    name = f"reprokit/own/base:{unique('again')}"
    again = bootstrap(engine, name, RELEASE, made.base.bootstrap, made.store)
    try:
        image = engine.image(name)
        assert image.id == again and image.layers == made.image.layers
    finally:
        engine.remove_image(name, force=True)
    assert not list((home / "tmp").iterdir())


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (entry("./../../etc/cron.d/x", b"x"), "leads out"),
        (entry("/etc/cron.d/x", b"x"), "leads out"),
        (entry("./usr/../../x", b"x"), "leads out"),
        (entry("./x", type=tarfile.LNKTYPE, linkname="../../../etc/shadow"), "leads out"),
        (entry("./x", type=tarfile.LNKTYPE, linkname="/etc/shadow"), "leads out"),
        (entry("./dev/sda", type=tarfile.BLKTYPE, devmajor=8, devminor=0), "device"),
        (entry("./mem", type=tarfile.CHRTYPE, devmajor=1, devminor=1), "device"),
        (entry("./pipe", type=tarfile.FIFOTYPE), "device or a pipe"),
        (entry("./" + "x" * (2 << 20)), "header"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0].name[:30],
)
def test_entries_that_no_package_of_a_base_has_are_refused(packages: Packages, bad, words):
    good = entry("./etc/fine", b"x")
    assert b"etc/fine" in b"".join(Stage.of(packages(good).packages, Store()).tar(""))
    hostile = Stage.of(packages(good, bad).packages, Store())
    with pytest.raises(UsageError, match=words):
        for _ in hostile.tar(""):
            pass


def test_a_package_that_unpacks_to_too_much(packages: Packages, monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_BASE", str(20 << 20))
    stage = Stage.of(packages(entry("./zeros", bytes(20 << 20)), pack=gzip.compress).packages, Store())
    with pytest.raises(UsageError, match="more than 20971520 bytes in a base") as error:
        for _ in stage.tar(""):
            pass
    assert "REPROKIT_LIMIT_BASE=" in error.value.hint


def test_packages_that_changed_in_the_store_or_are_no_base(packages: Packages):
    lock = packages()
    path = Store().path(lock.packages[0].sha256)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(SourceError, match="dpkg 1 is damaged"):
        Stage.of(lock.packages, Store())
    with pytest.raises(UsageError, match="dpkg is not among them"):
        Stage.of(lock.packages[1:], Store())


NO_FILE = entry("./mem", type=tarfile.CHRTYPE, devmajor=1, devminor=1)
HIDING = entry("./etc/dpkg/dpkg.cfg.d/x", HIDE)


@pytest.mark.parametrize(
    ("entries", "essential", "scripts", "moment", "kind", "words"),
    [
        ([], False, {"postinst": "#!/bin/sh\necho the reason\nexit 7\n"}, "", WorkFailed, "dpkg: error"),
        ([NO_FILE], False, {}, "", UsageError, "'mem', which is a device or a pipe"),
        ([HIDING], True, {}, "", UsageError, "differs from the locked packages"),
        *(([], True, {}, moment, KeyboardInterrupt, None) for moment in ("unpacking", "configuring", "importing")),
    ],
    ids=["fails", "device", "hides", "unpacking", "configuring", "importing"],
)
def test_what_goes_wrong_is_one_error_and_leaves_nothing(
    engine: Engine, packages: Packages, monkeypatch, entries, essential, scripts, moment, kind, words
):
    def interrupt(line: str) -> None:
        if moment and moment in line:
            raise KeyboardInterrupt

    name, tag = f"reprokit/own/base:{unique('bad')}", unique("stage")
    monkeypatch.setattr(bootstrap_module.secrets, "token_hex", lambda size: tag)
    lock = packages(*entries, essential=essential, **scripts)
    with pytest.raises(kind, match=words), reporting(interrupt):
        bootstrap(engine, name, RELEASE, lock, Store())
    assert engine.container(f"reprokit-stage-{tag}") is None and engine.image(f"reprokit/own/stage:{tag}") is None
    assert engine.image(name) is None
