"""Compare locked packages with today's."""

from __future__ import annotations

from reprokit.supply.kinds.apt.install import changed_packages, drifts, dropped
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.model import AptPackage


def package(name: str, version: str, architecture: str = "amd64", content: int = 0) -> AptPackage:
    sha256 = f"{abs(hash((name, version, architecture))) + content:064x}"[:64]
    return AptPackage(
        name=name, version=version, architecture=architecture, archive="debian", path="pool/x", sha256=sha256, size=1
    )


def test_each_difference_is_named():
    before = (package("curl", "1"), package("old", "1"), package("lib", "1"), package("lib", "1", "all"))
    after = (package("curl", "2"), package("new", "1"), package("lib", "1"), package("lib", "1", "all"))
    assert drifts(before, before[::-1]) == ()
    assert drifts(before, after) == ("curl 1 -> 2", "new new -> 1", "old 1 -> gone")
    # Other bytes under the same version are a difference.
    assert drifts([package("curl", "1")], [package("curl", "1", content=1)]) == ("curl 1 -> 1",)


def test_what_moved_is_told_from_what_vanished():
    locked = [package("curl", "1"), package("gone", "3"), package("lib", "2")]
    assert changed_packages("apt", locked, {"curl": "2", "lib": "2"}) == [
        UpstreamChange("apt", "curl", "1", "2", "newer"),
        UpstreamChange("apt", "gone", "3", "", "vanished"),
    ]


def test_the_error_names_the_package_and_the_ways_out():
    error = dropped([package("curl", "7.88"), package("lib", "1")], "featgraph:cpu")
    assert error.message == "apt package curl 7.88 is on no mirror any more, nor are 1 more"
    assert error.where == "featgraph:cpu" and error.exit_code == 4
    assert error.hint == "`reprokit lock featgraph:cpu --update apt`, or build --drift"
    assert dropped([package("curl", "7.88")], "x:y").message == "apt package curl 7.88 is on no mirror any more"
