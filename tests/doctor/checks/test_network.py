"""The network: names, proxies, certificates, the user's mirrors, and keys for nodes."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from reprokit.doctor.checks import network
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.mirrors.effective import Line, MirrorAnswer
from tests.support.examined import FakeMachine

LINE = Line("apt", "http://me:hunter2@mirror.test/{path}", "config.yaml:3")


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
    assert machine.rules("dns") == rules


def test_a_network_without_names(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.program("getent", "exit 2")
    assert machine.rules("dns") == {"dns.resolve"}
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")  # which resolves names itself
    assert machine.rules("dns") == set()


def test_proxies_that_containers_or_nobody_can_reach(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.rules("proxies") == set()
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = f"me:{'hunter2' * 99}@127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("http_proxy", proxy)
        (finding,) = machine.find("proxies")
        assert finding.rule == "proxies.loopback" and "--network host" in finding.remedy
    (finding,) = machine.find("proxies")
    assert finding.rule == "proxies.unreachable" and finding.severity == "error"
    assert "hunter2" not in str(finding)
    monkeypatch.delenv("http_proxy")
    for wrong in ("http://", "http://[::1", "http://x:99999", "ftp://x", "\x1b]0;x\x07"):
        monkeypatch.setenv("https_proxy", wrong)
        assert machine.rules("proxies") == {"proxies.unreachable"}, wrong
    monkeypatch.delenv("https_proxy")
    monkeypatch.setattr(network, "_connection_error", lambda proxy: "")
    monkeypatch.setenv("http_proxy", "http://a.test:1")
    monkeypatch.setenv("HTTP_PROXY", "http://b.test:1")
    assert machine.rules("proxies") == {"proxies.unlike"}


def test_certificates_of_the_site(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    assert machine.find("certificates") == []
    machine.file("usr/local/share/ca-certificates/site.crt")
    (finding,) = machine.find("certificates")  # containers lack them
    assert "CERTIFICATE_VERIFY_FAILED" in finding.reason and finding.severity == "info"
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such; touch /tmp/x `id`.pem")
    assert machine.rules("certificates") == {"certificates.missing"}


@pytest.fixture
def only_own_mirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "Mirrors", lambda store: Mirrors(store, pip=PipSettings(), apt=AptSettings()))


@pytest.mark.usefixtures("only_own_mirrors")
@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        (MirrorAnswer(LINE, 0.1, 3e6), set()),
        (MirrorAnswer(LINE, 0.1, 9e3), {"mirrors.slow"}),
        (MirrorAnswer(LINE, error="HTTP 503"), {"mirrors.fails", "mirrors.silent"}),
        (MirrorAnswer(LINE, error="certificate verify failed"), {"mirrors.certificate", "mirrors.silent"}),
    ],
)
def test_answers_of_mirrors(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, answer: MirrorAnswer, rules: set[str]
) -> None:
    monkeypatch.setattr(network, "lines", lambda mirrors: [LINE])
    monkeypatch.setattr(network, "ask", lambda line, client: answer)
    assert machine.rules("mirrors") == rules
    assert "hunter2" not in str(machine.find("mirrors"))


@pytest.mark.slow
@pytest.mark.usefixtures("only_own_mirrors")
def test_a_mirror_that_hangs_does_not_hide_the_others(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Line("wheels", "https://wheels.test/simple", "pip")
    monkeypatch.setattr(network, "_MIRROR_S", 3)
    monkeypatch.setattr(network, "lines", lambda mirrors: [LINE, other])

    def ask(line: Line, client: object) -> MirrorAnswer:
        if line is LINE:
            threading.Event().wait(60)
        return MirrorAnswer(line, 0.1, 3e6)

    monkeypatch.setattr(network, "ask", ask)
    rules = {finding.subjects[0]: finding.rule for finding in machine.find("mirrors")}
    assert rules["mirror.wheels=https://wheels.test/simple"] == "mirrors"
    assert rules["mirror.apt=http://mirror.test/{path}"] == "mirrors.fails"


def test_keys_for_nodes(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("HOME", str(tmp_path))
    machine.program("ssh", "")
    machine.program("ssh-add", "exit 2")
    (tmp_path / "config.yaml").touch()
    assert machine.rules("ssh_agent") == set()  # there are no nodes
    (tmp_path / "config.yaml").write_text("nodes: {lab1: me@192.0.2.1}\n")
    assert machine.rules("ssh_agent") == {"ssh_agent.keys"}
    machine.program("ssh-add", "exit 0")
    assert machine.rules("ssh_agent") == set()
    machine.program("ssh-add", "exit 2")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519.pub").write_text("x")
    assert machine.rules("ssh_agent") == set()
    monkeypatch.setenv("REPROKIT_CONFIG", "/nonexistent.yaml")
    assert [finding.severity for finding in machine.find("ssh_agent")] == ["unknown"]
