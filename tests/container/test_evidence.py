"""What a failed command's container says: published ports that nobody hears, from the kernel's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.container import names
from reprokit.container.evidence import Evidence
from reprokit.container.settings import ContainerSettings, Port, to_label
from reprokit.host.kills import KernelWatch

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REFUSED = b"curl: (7) Failed to connect to 127.0.0.1 port 8888: Connection refused\n"


def facts(root: Path, tcp: str, tcp6: str = "", output: bytes = REFUSED, code: int = 1) -> tuple[str, ...]:
    folder = root / "7" / "net"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tcp").write_text(HEAD + tcp)
    (folder / "tcp6").write_text(HEAD + tcp6)
    settings = ContainerSettings(ports=(Port("127.0.0.1", 8888, 8888), Port("127.0.0.1", 6006, 6006)))
    labels = {names.SETTINGS: to_label(settings)}
    described = {"Id": "f" * 64, "State": {"Pid": 7}, "Config": {"Labels": labels}}
    with KernelWatch(7, root) as kernel:
        return Evidence("gnn", described, kernel, root).facts(code, output)


NOBODY = ("reprokit: port 8888 is published, and no process in the container listens on it",)
LOOPBACK = ("reprokit: port 8888 is published, and a process in the container listens on its loopback only",)


@pytest.mark.parametrize(
    ("tcp", "tcp6", "expected"),
    [
        ("", "", NOBODY),
        ("   0: 0100007F:22B8 00000000:0000 0A 0\n", "", LOOPBACK),
        ("", "   0: 00000000000000000000000001000000:22B8 0:0 0A 0\n", LOOPBACK),
        ("   0: 00000000:22B8 00000000:0000 0A 0\n", "", ()),
        ("   0: 0100007F:22B8 0:0 0A 0\n   1: 020011AC:22B8 0:0 0A 0\n", "", ()),
        ("   0: 0100007F:22B8 0100007F:9999 01 0\n", "", NOBODY),  # a connection, no listener
        ("   0: 00000000:1776 00000000:0000 0A 0\n", "", NOBODY),
    ],
)
def test_who_listens_on_a_refused_port(tmp_path: Path, tcp: str, tcp6: str, expected: tuple[str, ...]):
    assert facts(tmp_path, tcp, tcp6) == expected


def test_a_port_that_nobody_asked_for_is_no_fact(tmp_path: Path):
    much = b"x" * 8_000_000 + b" connection refused 8888" + b"y" * 8_000_000  # searched in linear time
    line, other = b"train.py: error in line 8888\n", b"connection to 10.0.0.1 port 5432 refused\n"
    for output in (b"", line, other, b"8888\nrefused\n", much):
        assert facts(tmp_path, "", output=output) == ()
    assert facts(tmp_path, "", code=0) == ()


def test_of_a_container_elsewhere_only_the_exit_code_is_reported(tmp_path: Path):
    with KernelWatch(0, tmp_path) as kernel:
        assert Evidence("gnn", {}, kernel, tmp_path).facts(137, REFUSED) == ("reprokit: exit code 137 (SIGKILL)",)
