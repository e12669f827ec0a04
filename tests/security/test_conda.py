"""conda packages of a stranger: their names are names in a tar, and nothing else on this host."""

from __future__ import annotations

import bz2
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reprokit.errors import ReprokitError, SourceError
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask
from tests.support.conda_packages import index, kept, linked, member, package, stated

OWN = b"the user's own\n"
PAYLOAD = b"touch /tmp/owned\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_bytes(OWN)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _host(tmp_path: Path, home: Path, store: Store) -> Iterator[None]:
    """Whatever a test does, nothing outside the store is written, changed or made."""
    (tmp_path / "secret").write_text("secret")
    yield
    assert (home / ".bashrc").read_bytes() == OWN and names(home) == [".bashrc"]
    assert names(tmp_path) == ["home", "secret", "store"] and names(store.root / "tmp") == []


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content_of(store: Store, *packages: CondaPackage) -> dict[str, tuple[str, bytes]]:
    """Each member of the environment: target of a link, content."""
    with tarfile.open(environment(packages, store)) as tar:
        files = {m.name: tar.extractfile(m) if m.isreg() else None for m in tar}
        return {m.name: (m.linkname, file.read() if (file := files[m.name]) else b"") for m in tar}


def a_link(store: Store, target: object, path: str = "q", name: str = "a") -> CondaPackage:
    return package(store, name, [linked(path, str(target))], [stated(path, kind="softlink")])


LATE = member("slow", bytes(1 << 20))
BELOW: dict[str, Callable[[Path], tuple[Sequence[bytes], Sequence[Any]]]] = {
    "a path that leads back": lambda home: (
        [LATE, member("z/keep"), member("q/.bashrc", PAYLOAD)], [stated("z/keep"), stated("z/../q/.bashrc")]
    ),
    "a new file": lambda home: ([LATE, member("q/sub/x", PAYLOAD)], [stated("z/../q/sub/x")]),
    "a path below the link": lambda home: ([member("q/.bashrc", PAYLOAD)], [stated("q/.bashrc", PAYLOAD)]),
    "a folder below the link": lambda home: ([], [stated("q/new", kind="directory")]),
    "a link in the same archive": lambda home: (
        [linked("l", str(home)), member("l/.bashrc", PAYLOAD)], [stated("l", kind="softlink"), stated("l/.bashrc")]
    ),
    "an absolute path": lambda home: ([member("x", PAYLOAD)], [stated(str(home / ".bashrc"))]),
    "an absolute folder": lambda home: ([], [stated(str(home / "new"), kind="directory")]),
    "parents": lambda home: ([member("../" * 5 + "x", PAYLOAD)], [stated("../" * 5 + "x")]),
    "a folder above": lambda home: ([], [stated("../" * 5 + "new", kind="directory")]),
    "no part": lambda home: ([member("a//x", PAYLOAD)], [stated("a//x")]),
    "this folder": lambda home: ([member("a/./x", PAYLOAD)], [stated("a/./x")]),
    "no path": lambda home: ([], [stated("", kind="directory")]),
    "a nul": lambda home: ([], [stated("a\0b", kind="directory")]),
}  # fmt: skip


@pytest.mark.parametrize("attack", list(BELOW))
def test_no_path_leads_out_or_through_a_link(store: Store, home: Path, attack: str) -> None:
    entries, paths = BELOW[attack](home)
    with pytest.raises(SourceError, match="cannot be linked"):
        environment((a_link(store, home), package(store, "b", entries, paths, ["a"])), store)


@pytest.mark.parametrize("target", ["/etc", "../../..", "/opt/conda/lib", "q", "libfoo.so.1"])
def test_a_link_is_a_link_in_the_image_wherever_it_leads(store: Store, target: str) -> None:
    found = content_of(store, a_link(store, target), package(store, "b", [member("lib/f", b"1")], [stated("lib/f")]))
    assert found["q"] == (target, b"") and found["lib/f"] == ("", b"1")


def test_a_file_of_the_host_is_not_read_through_a_link(store: Store, tmp_path: Path) -> None:
    """Also where the list says that the link is a file, or has a placeholder; and lists that are links."""
    secret = str(tmp_path / "secret")
    for name, mode in (("a", ""), ("b", "text")):
        listed = stated("q", mode=mode)
        assert content_of(store, package(store, name, [linked("q", secret)], [listed]))["q"] == (secret, b"")
    for name, entry in (
        ("c", member("q", kind=tarfile.LNKTYPE, target=secret)),
        ("d", member("q", kind=tarfile.CHRTYPE)),
        ("e", member("q", kind=tarfile.FIFOTYPE)),
    ):
        with pytest.raises(SourceError, match="cannot be linked"):
            environment((package(store, name, [entry], [stated("q")]),), store)
    raw = b"".join([linked("info/index.json", secret), member("info/paths.json", b"{}"), bytes(1024)])
    with pytest.raises(SourceError, match=r"has no info/index\.json"):
        environment((kept(store, "f", bz2.compress(raw)),), store)


def test_a_record_goes_through_no_link(store: Store, home: Path) -> None:
    """conda's own record of a package has a path, too."""
    for path in ("conda-meta", "conda-meta/a-1.0-0.json"):
        try:
            found = content_of(store, a_link(store, home, path))
        except SourceError as error:
            assert path == "conda-meta" and "is below it" in error.message
        else:
            assert json.loads(found[path][1])["name"] == "a" and found[path][0] == ""
    spoilt = a_link(store, home).model_copy(update={"version": "1/../../../x"})
    with pytest.raises(SourceError, match="is not a path in the environment"):
        environment((spoilt,), store)


def python(store: Store, **more: Any) -> CondaPackage:
    known = index("python", version="3.11.4", **more)
    raw = package(store, "python", [member("bin/python3.11")], [stated("bin/python3.11")], **{"index": known})
    return raw.model_copy(update={"version": "3.11.4"})


def noarch(store: Store, point: str, path: str = "site-packages/m.py") -> CondaPackage:
    link = json.dumps({"noarch": {"type": "python", "entry_points": [point]}, "package_metadata_version": 1}).encode()
    known = index("n", ["python"], noarch="python")
    return package(store, "n", [member(path, b"m")], [stated(path, b"m")], index=known, link=link)


def test_programs_of_entry_points_stay_in_bin(store: Store, home: Path) -> None:
    found = content_of(store, python(store), noarch(store, "run = m:f"))
    assert found["lib/python3.11/site-packages/m.py"] == ("", b"m") and b"from m import f" in found["bin/run"][1]
    for point in (f"../../{home}/run = m:f", f"{home}/run = m:f", ".. = m:f", "run = m:f; import os", ""):
        with pytest.raises(SourceError, match="cannot be linked"):
            environment((python(store), noarch(store, point)), store)


def test_the_place_of_python_packages_stays_below_the_environment(store: Store, home: Path) -> None:
    found = content_of(store, python(store, python_site_packages_path="lib/p/site-packages"), noarch(store, "r = m:f"))
    assert found["lib/p/site-packages/m.py"] == ("", b"m")
    for place in ("../../x", str(home), "lib/../../x"):
        with pytest.raises(SourceError, match="is not a path in the environment"):
            environment((python(store, python_site_packages_path=place), noarch(store, "r = m:f")), store)
    with pytest.raises(SourceError, match="is not a path in the environment"):
        environment((python(store), noarch(store, "r = m:f", "site-packages/../../../x")), store)


def test_the_build_gets_one_line_and_knows_the_error(store: Store, home: Path) -> None:
    """An absolute path once made the linker abort the process."""
    bad = package(store, "b", [], [stated(str(home / "new"), kind="directory")])
    good = package(store, "a", [member("x", b"1")], [stated("x", b"1")])
    for packages, status in (((bad,), 500), ((good,), 200)):
        with Gateway(Mirrors(store), ServedSet(conda=packages)) as gateway:
            address = f"{gateway.inputs.arguments()['REPROKIT_CONDA']}environment.tar"
            answer, body = ask(gateway, address)
            assert answer.status == status and isinstance(gateway.failure, ReprokitError) == (status == 500)
            assert status == 200 or (b"the conda package b-1.0-0.tar.bz2" in body and body.count(b"\n") == 1)
