"""Remembered addresses of archives."""

from __future__ import annotations

from reprokit.supply.kinds.apt.settings import remember_archive, remembered
from reprokit.supply.store import Store


def test_the_latest_address_comes_first_and_holds_no_credentials(store: Store):
    assert remembered(store, "debian") == ()
    for base in ("http://one.test/debian/", "http://me:secret@two.test/debian", "http://one.test/debian"):
        remember_archive(store, "debian", base)
    assert remembered(store, "debian") == ("http://one.test/debian", "http://two.test/debian")
    assert remembered(store, "ubuntu") == ()
