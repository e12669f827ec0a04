"""The host's apt, with separate folders, downloads from the archive."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.apt import deb
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask, environment
from tests.support.debs import locked, make_deb
from tests.support.waiting import wait_for

Apt = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("packages")
    return [
        make_deb(folder, "app", "1:2.0+b1", "amd64", Depends="lib (>= 1)"),
        make_deb(folder, "lib", "1.5~rc1", packing="zstd", Multi_Arch="foreign"),
        make_deb(folder, "other", packing="gzip"),
    ]


@pytest.fixture
def served(packages: list[Path], store: Store) -> ServedSet:
    return ServedSet(apt=[locked(file, store).model_copy(update={"blocks": ("apt",)}) for file in packages])


@pytest.fixture
def gateway(store: Store, served: ServedSet):
    with Gateway(Mirrors(store), served) as running:
        yield running


@pytest.fixture
def apt(tmp_path: Path, gateway: Gateway) -> Apt:
    """`apt-get` of a host on which nothing is installed, with the sources that a block writes."""
    root = tmp_path / "root"
    for folder in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/lib/dpkg"):
        (root / folder).mkdir(parents=True)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    settings = {"Dir": f"{root}/", "Dir::State::status": f"{root}/var/lib/dpkg/status"}
    settings |= {"APT::Sandbox::User": "", "APT::Architecture": "amd64", "APT::Architectures": "amd64"}
    (root / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
    (root / "locked.list").write_text(f"deb [trusted=yes] {gateway.inputs.arguments()['REPROKIT_APT']} ./\n")
    environ = {**environment(gateway, tmp_path), "APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C"}
    sources = ["-o", f"Dir::Etc::SourceList={root}/locked.list", "-o", "Dir::Etc::SourceParts=-"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["apt-get", *sources, *arguments], env=environ, capture_output=True, text=True)

    return run


def test_apt_gets_the_locked_packages_with_what_they_need(apt: Apt, gateway: Gateway, tmp_path: Path):
    updated = apt("update")
    assert (updated.returncode, updated.stderr) == (0, "")
    done = apt("install", "-y", "-d", "--no-install-recommends", "app")
    assert (done.returncode, done.stderr) == (0, "")
    got = sorted((tmp_path / "root/var/cache/apt/archives").glob("*.deb"))
    assert [file.name for file in got] == ["app_1%3a2.0+b1_amd64.deb", "lib_1.5~rc1_all.deb"]
    by_name = {package.name: package for package in gateway.inputs.of("apt")}
    for file in got:
        assert file.read_bytes() == gateway.store.path(by_name[file.name.partition("_")[0]].sha256).read_bytes()
    assert not gateway.missing and not gateway.hosts


def test_apt_goes_on_after_a_cut_and_refuses_other_bytes(apt: Apt, gateway: Gateway, tmp_path: Path):
    apt("update")
    other = next(package for package in gateway.inputs.of("apt") if package.name == "other")
    file = gateway.store.path(other.sha256)
    content = file.read_bytes()
    archives = tmp_path / "root/var/cache/apt/archives"
    (archives / "partial/other_1.0_all.deb").write_bytes(content[:100])
    before = gateway.bytes_served
    assert apt("install", "-y", "-d", "other").returncode == 0
    # apt has the last byte before the gateway's thread has counted it.
    wait_for(lambda: gateway.bytes_served != before)
    assert gateway.bytes_served - before == len(content) - 100
    (archives / "other_1.0_all.deb").unlink()
    file.write_bytes(b"x" * other.size)
    done = apt("install", "-y", "-d", "other")
    assert done.returncode != 0 and "Hash Sum mismatch" in done.stderr


def test_what_is_not_locked_is_not_there(apt: Apt, gateway: Gateway):
    apt("update")
    assert "Unable to locate package stranger" in apt("install", "-y", "-d", "stranger").stderr
    assert "Version '9' for 'other' was not found" in apt("install", "-y", "-d", "other=9").stderr
    archive = gateway.inputs.arguments()["REPROKIT_APT"]
    assert ask(gateway, f"{archive}./InRelease")[0].status == 404
    assert not gateway.missing
    answer, body = ask(gateway, f"{archive}pool/stranger_1.0_all.deb")
    assert (answer.status, body) == (404, b"reprokit gateway: pool/stranger_1.0_all.deb is not in the lock\n")
    assert gateway.missing == {"pool/stranger_1.0_all.deb": 1}
    answer, body = ask(gateway, archive.replace(archive.split("/")[3], "0" * 16) + "./Packages")
    assert (answer.status, body) == (404, b"reprokit gateway: another build's apt\n")


def pages(gateway: Gateway) -> dict[str, bytes]:
    (archive,) = (server for server in gateway.inputs.servers.values() if server.host == "apt.reprokit.invalid")
    return {path: content for path, content in archive.files.items() if isinstance(content, bytes)}


def test_the_same_packages_are_the_same_archive_and_opened_once(
    store: Store, served: ServedSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other_way_round = ServedSet(apt=tuple(reversed(served.of("apt"))))
    with Gateway(Mirrors(store), served) as first:
        content = pages(first)
    monkeypatch.setattr(deb, "control", None)
    with Gateway(Mirrors(store), other_way_round) as second:
        assert pages(second) == content
    assert served.arguments() == other_way_round.arguments()
    fewer = ServedSet(apt=served.of("apt")[1:])
    assert fewer.arguments()["REPROKIT_APT"] != served.arguments()["REPROKIT_APT"]
    with pytest.raises(SourceError) as caught, Gateway(Mirrors(Store(tmp_path / "empty")), served):
        pass
    assert caught.value.message in {f"{p.name} {p.version} is not in the store" for p in served.of("apt")}


def test_no_packages_at_all(store: Store):
    with Gateway(Mirrors(store), ServedSet(apt=())) as gateway:
        assert ask(gateway, f"{gateway.inputs.arguments()['REPROKIT_APT']}./Packages")[1] == b""
    with Gateway(Mirrors(store)) as gateway:
        assert "REPROKIT_APT" not in ServedSet().arguments()
        assert ask(gateway, "http://apt.reprokit.invalid/0/./Packages")[0].status == 404
