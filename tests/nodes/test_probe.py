"""The facts about a node, among the output of its login scripts."""

from __future__ import annotations

import subprocess

import pytest

from reprokit.host.gpu import GpuDevice
from reprokit.host.machine import Machine
from reprokit.host.user import Caller
from reprokit.nodes.probe import SCRIPT, parse

ID = "9f" * 32
SAID = f"""\
Welcome to lab1! reprokit:uid is nobody's
reprokit:uid 1001
reprokit:gid 100
reprokit:groups 100 27 998
reprokit:user ana
reprokit:cache /home/ana/my caches
reprokit:memory MemTotal:       65843332 kB
reprokit:proxy http_proxy=http://proxy:3128
reprokit:proxy NO_PROXY=localhost,.lab
reprokit:listening    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100
reprokit:listening    1: 00000000000000000000000000000000:0016 0000000000000000:0000 0A 00000000:00000000 0 0 0
reprokit:mount 511 500 8:1 /docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
reprokit:device /dev/nvidiactl
reprokit:gpu NVIDIA A100-SXM4-80GB, 535.54.03, 8.0
reprokit:driver 535.54.03
reprokit:docker unix:///run/user/1001/docker.sock
reprokit:running {ID}
"""


def test_all_facts():
    seen = parse(SAID)
    assert seen.caller == Caller(1001, 100, (100, 27, 998), "ana")
    assert (seen.cache, seen.memory) == ("/home/ana/my caches", 65843332 * 1024)
    assert seen.proxies == {"http_proxy": "http://proxy:3128", "NO_PROXY": "localhost,.lab"}
    assert seen.listening == {8080, 22} and seen.devices == ("/dev/nvidiactl",)
    assert seen.gpus == (GpuDevice("NVIDIA A100-SXM4-80GB", "535.54.03", "8.0"),)
    assert seen.docker == "unix:///run/user/1001/docker.sock"
    assert seen.nested and not seen.hung
    assert not parse(SAID.replace(f"reprokit:running {ID}", "reprokit:running " + "aa" * 32)).nested


def test_few_facts():
    seen = parse("reprokit:uid 0\nreprokit:gid 0\nreprokit:cache /root/.cache\nreprokit:driver 440.33.01\n")
    # The driver does not know compute_cap, or only its module is loaded.
    assert seen.gpus == (GpuDevice("", "440.33.01", ""),)
    assert seen.docker == "unix:///var/run/docker.sock" and not seen.nested and seen.memory is None


@pytest.mark.parametrize("output", ["", "bash: id: command not found\n", "reprokit:uid x\nreprokit:gid 0\n"])
def test_an_invalid_answer(output: str):
    with pytest.raises(ValueError):
        parse(output)


def test_the_script_runs_anywhere():
    done = subprocess.run(["sh", "-c", SCRIPT], capture_output=True, text=True, check=True)
    seen = parse(done.stdout)
    assert seen.cache.startswith("/") and seen.machine == Machine().identity() != ""


def test_a_line_of_digits_is_read_at_once():
    """Searched, it would take hours, in which nothing else of the process goes on."""
    assert parse(SAID + f"reprokit:memory {'9' * 4_000_000}\n").cache
    assert parse(f"reprokit:memory {'9' * 4_000_000}\n{SAID}").memory is None
