"""Names."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import dns
from tests.support.examined import FakeMachine


@pytest.mark.parametrize(
    ("servers", "rules"),
    [
        (["192.0.2.1"], set()),
        (["127.0.0.53"], set()),
        (["127.0.0.1"], {"dns.loopback"}),
        (["::1", "127.0.0.1"], {"dns.loopback"}),
        (["127.0.0.1", "192.0.2.1"], set()),
        (["\x1b[31m"], set()),
    ],
)
def test_resolvers(machine: FakeMachine, servers: list[str], rules: set[str]) -> None:
    machine.program("getent", "exit 0")
    machine.file("etc/resolv.conf", "".join(f"nameserver {server}\n" for server in servers))
    assert machine.rules(dns) == rules


def test_a_network_without_names(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.program("getent", "exit 2")
    assert machine.rules(dns) == {"dns.resolve"}
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")  # which resolves names itself
    assert machine.rules(dns) == set()
