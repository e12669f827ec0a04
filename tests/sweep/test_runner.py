"""Places and their aliases."""

from __future__ import annotations

from reprokit.sweep.runner import JobPlace, alias


def test_an_alias_hides_the_host_and_tells_hosts_apart():
    assert alias("ray", "secret.example.org") == alias("ray", "secret.example.org") != alias("ray", "other")
    assert "secret" not in alias("ray", "secret.example.org")
    assert (str(JobPlace("here")), str(JobPlace("k", "gpu1"))) == ("this machine", "gpu1")
