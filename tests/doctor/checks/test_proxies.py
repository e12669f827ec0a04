"""The login's proxies."""

from __future__ import annotations

import socket

import pytest

from reprokit.doctor.checks import proxies
from tests.support.examined import FakeMachine


def test_a_proxy_on_loopback_is_out_of_reach_of_containers(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.rules(proxies) == set()
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = f"me:{'hunter2' * 99}@127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("http_proxy", proxy)
        (found,) = machine.find(proxies)
        assert found.rule == "proxies.loopback" and "--network host" in found.remedy
    (found,) = machine.find(proxies)
    assert found.rule == "proxies.unreachable" and found.severity == "error"
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("proxy", ["http://", "http://[::1", "http://x:99999", "ftp://x", "\x1b]0;x\x07"])
def test_addresses_that_are_none(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    assert machine.rules(proxies) == {"proxies.unreachable"}


def test_two_spellings_of_different_proxies(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "_connection_error", lambda proxy: "")
    monkeypatch.setenv("http_proxy", "http://a.test:1")
    monkeypatch.setenv("HTTP_PROXY", "http://b.test:1")
    assert machine.rules(proxies) == {"proxies.unlike"}
