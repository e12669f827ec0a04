"""Real failures, provoked in a container one after the other, each named by its cause."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.container.execute import execute
from reprokit.engine import Engine
from reprokit.explain.judge import explain
from reprokit.explain.last import keep, read_log
from reprokit.image.base.resolve import BaseImage
from tests.support.names import unique

pytestmark = pytest.mark.engine

# What was done: (shell commands, the rule that names the cause first).
PROVOKED = {
    "nvcc removed": ("nvcc --version", "nvcc-not-found"),
    "llvm-config removed": ("/usr/bin/llvm-config-10 --version", "cmake-llvm-missing"),
    "git removed": ("git clone https://example.invalid/a", "git-not-installed"),
    "CMake removed": ("cmake --build build", "program-missing"),
    "disk filled": ("dd if=/dev/zero of=/small/x bs=1M count=4", "disk-full"),
    "archive cut": ("head -c 9999 /bin/sh | gzip | head -c 200 > /tmp/t.gz; tar xzf /tmp/t.gz", "archive-truncated"),
    "checksum lied about": ("echo x > /tmp/f; echo {0}  /tmp/f | sha256sum -c", "checksum-mismatch"),
    "library removed": (
        "libs=/lib/x86_64-linux-gnu; mkdir /tmp/d; mv $libs/libselinux.so.1* /tmp/d; ls; code=$?;"
        "$libs/ld-linux-x86-64.so.2 --library-path /tmp/d /bin/mv /tmp/d/libselinux.so.1* $libs; exit $code",
        "shared-library-missing"),
    "interpreter removed": ("printf '#!/opt/conda/bin/python\\n' > /tmp/s; chmod +x /tmp/s; bash -c /tmp/s",
                            "bad-interpreter"),
    "program of another machine": (
        "printf '\\177ELF\\002rest' > /tmp/e; chmod +x /tmp/e; bash -c /tmp/e", "exec-format"),
    "network closed": ("apt-get -o APT::Update::Error-Mode=any update", "apt-unreachable"),
    "package misspelt": ("apt-get install -y llvm-99-dev", "apt-package-missing"),
    "file system read-only": ("echo x > /sys/kernel/x", "read-only-file-system"),
    "port taken": (
        "perl -MIO::Socket::INET -e 'for (1, 2) { $s[$_] = IO::Socket::INET->new(Listen=>1, LocalPort=>7777) "
        "or die \"bind: $!\" }'", "port-in-use"),
    "too few open files": ("ulimit -n 4; cat <(:) <(:) <(:); exit 1", "open-files-limit"),
    "arguments too long": ("x=$(head -c 3000000 /dev/zero | tr '\\0' a); ls $x", "argument-list-too-long"),
    "script cut": ("eval 'if true; then'", "shell-syntax"),
    "variable unset": ("set -u; echo $CUDA_HOME_NOT_SET", "unbound-variable"),
    "links in a circle": ("ln -s /tmp/l /tmp/l; cat /tmp/l", "symlink-loop"),
    "no folder for temporary files": ("TMPDIR=/nope mktemp", "no-temp-dir"),
    "no right to write": ("setpriv --reuid 65534 --clear-groups mkdir /opt/x", "permission-denied-path"),
    "memory limit reached": ("exec tail /dev/zero", "out-of-memory-in-container"),
    "a child out of memory": ("tail /dev/zero; exit 1", "out-of-memory-in-container"),
    "killed by somebody": ("kill -9 $$", "killed-by-someone"),
    "aborted": ("kill -ABRT $$", "ended-by-signal"),
    "wrong instruction": ("kill -ILL $$", "illegal-instruction"),
    "crashed": ("kill -SEGV $$", "segfault"),
}  # fmt: skip


@pytest.fixture(scope="module")
def container(engine: Engine, debian_12: BaseImage) -> Iterator[str]:
    """A container without network, with 64 MB of memory and a disk of 1 MB at /small."""
    name = unique("provoked")
    limits = {"Memory": 64 << 20, "MemorySwap": 64 << 20, "NetworkMode": "none", "Tmpfs": {"/small": "size=1m"}}
    config = {"Image": debian_12.name, "Cmd": ["sleep", "600"], "HostConfig": limits}
    identifier = engine.create_container(name, config)
    try:
        engine.start(identifier)
        yield name
    finally:
        engine.remove(identifier, force=True)


@pytest.mark.parametrize("what", PROVOKED)
def test_a_provoked_failure_ends_in_its_named_cause(
    engine: Engine, container: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    script, rule = PROVOKED[what]
    done = execute(engine, container, ["bash", "-c", script.replace("{0}", "0" * 64)], logged=False)
    assert done.exit_code, done
    lines = keep(f"{done.stdout}\n{done.stderr}", done.facts)
    cause = explain(io.BytesIO(read_log()[0]), failed=True).causes[0]
    assert (cause.rule, lines[0]) == (rule, f"cause: {cause.cause}")
    assert lines[1] == f"remedy: {cause.remedy}"


def reads_kernel_log() -> bool:
    """Whether the kernel lets this user open its log; the mode of the file allows everybody."""
    try:
        Path("/dev/kmsg").open("rb").close()
    except OSError:
        return False
    return True


def test_what_the_kernel_killed_is_named_with_its_pid_on_the_host(engine: Engine, container: str):
    (fact,) = execute(engine, container, ["bash", "-c", "tail /dev/zero; exit 1"], logged=False).facts
    who = r"tail \(PID \d+ of the host\)" if reads_kernel_log() else "1 process"
    assert re.fullmatch(rf"reprokit: out of memory: the kernel killed {who} in container {container}", fact)


def test_a_command_that_succeeds_has_no_facts(engine: Engine, container: str):
    # The shell survives a child that is killed.
    assert execute(engine, container, ["bash", "-c", "tail /dev/zero; true"], logged=False).facts == ()
