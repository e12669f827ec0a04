"""Parse apt's output."""

from __future__ import annotations

import pytest

from reprokit.supply.kinds.apt.resolve import as_of, listed, packages_of
from reprokit.supply.kinds.apt.settings import remembered
from reprokit.supply.store import Store

SHA = "{:064x}".format
CURL = "curl_7.88.1-10%2bdeb12u15_amd64.deb"
SECURITY = "http://u:p@mirror.test/pub/debian-security/pool/updates/main/d/dbus/libdbus-1-3_1.14_amd64.deb"
URIS = f"""\
Reading package lists...
'http://mirror.test/debian/pool/main/c/curl/{CURL}' {CURL.replace("%2b", "+")} 315800 SHA256:{SHA(1)}
'{SECURITY}' libdbus-1-3_2%3a1.14-1_amd64.deb 7 SHA256:{SHA(2)}
'http://u:p@lab.test/own/./tool_1.0~rc1_all.deb' tool_1.0~rc1_all.deb 9 SHA256:{SHA(3)}
"""
LISTED = """\
      curl | 7.88.1-10+deb12u15 | http://mirror.test/debian bookworm/main amd64 Packages
      curl | 7.88.1-10+deb12u15 | http://mirror.test/debian bookworm-updates/main amd64 Packages
      curl | 7.88.1-10+deb12u5 | http://mirror.test/pub/debian-security bookworm-security/main amd64 Packages
 libdbus-1-3 | 2:1.14-1 | http://mirror.test/pub/debian-security bookworm-security/main amd64 Packages
      tool | 1.0~rc1 | http://lab.test/own ./ Packages
      curl | 7.88.1-10+deb12u15 | http://mirror.test/debian bookworm/main Sources
"""
DATES = """\
/var/lib/apt/lists/mirror.test_debian_dists_bookworm_InRelease:Date: Sat, 05 Sep 2026 09:31:36 UTC
/var/lib/apt/lists/mirror.test_debian_dists_bookworm-updates_InRelease:Date: Fri, 20 Nov 2026 02:12:41 UTC
/var/lib/apt/lists/mirror.test_pub_debian-security_dists_bookworm-security_Release:Date: Thu, 19 Nov 2026 22:12:41 +0100
"""


def test_packages_with_epochs_quoted_names_and_archives(store: Store):
    curl, dbus, tool = packages_of(URIS, store)
    assert (curl.archive, curl.path) == ("debian", "pool/main/c/curl/curl_7.88.1-10+deb12u15_amd64.deb")
    assert (curl.version, curl.size, curl.sha256, curl.url) == ("7.88.1-10+deb12u15", 315800, SHA(1), None)
    assert (dbus.name, dbus.version, dbus.archive) == ("libdbus-1-3", "2:1.14-1", "debian-security")
    address = "http://lab.test/own/./tool_1.0~rc1_all.deb"
    assert (tool.version, tool.architecture, tool.url) == ("1.0~rc1", "all", address)


def test_the_order_is_not_that_of_apt_and_archives_are_remembered_without_credentials(store: Store):
    lines = URIS.splitlines()
    assert packages_of("\n".join([*lines[::-1], *lines]), store) == packages_of(URIS, store)
    assert remembered(store, "debian") == ("http://mirror.test/debian",)
    assert remembered(store, "debian-security") == ("http://mirror.test/pub/debian-security",)
    assert packages_of(URIS.replace("SHA256:", "MD5Sum:"), store) == ()


def test_versions_by_suite():
    assert [(line.name, line.version) for line in listed(LISTED)][:2] == [("curl", "7.88.1-10+deb12u15")] * 2
    assert listed(LISTED)[3].suite == "mirror.test_pub_debian-security_dists_bookworm-security"
    assert {line.name for line in listed(LISTED)} == {"curl", "libdbus-1-3"}
    line = "  own | 1 | http://lab.test:8080/a_b/~me/debian buster/updates/main amd64 Packages\n"
    assert [each.suite for each in listed(line)] == ["lab.test:8080_a%5fb_%7eme_debian_dists_buster_updates"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"curl", "libdbus-1-3", "tool"}, "20261119T211241Z"),
        ({"curl"}, "20260905T093136Z"),  # not the updates suite's, which has it too
        ({"tool"}, ""),
        (set(), ""),
    ],
)
def test_the_date_is_that_of_suites_that_gave_packages(names: set[str], expected: str, store: Store):
    assert as_of([p for p in packages_of(URIS, store) if p.name in names], LISTED + DATES) == expected
