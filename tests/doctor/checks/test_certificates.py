"""Certificates of the site."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import certificates
from tests.support.examined import FakeMachine


@pytest.fixture(autouse=True)
def none_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def test_a_file_that_is_missing(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.find(certificates) == []
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such; touch /tmp/x `id`.pem")
    assert machine.rules(certificates) == {"certificates.missing"}


def test_certificates_that_containers_lack(machine: FakeMachine) -> None:
    machine.file("usr/local/share/ca-certificates/site.crt")
    (found,) = machine.find(certificates)
    assert "CERTIFICATE_VERIFY_FAILED" in found.reason and found.severity == "info"
