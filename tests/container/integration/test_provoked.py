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

# Shell commands, and the rule that names the cause first. Texts of other programs are in tests/explain.
PROVOKED = [
    ("nvcc --version", "nvcc-not-found"),
    ("git clone https://example.invalid/a", "git-not-installed"),
    ("dd if=/dev/zero of=/small/x bs=1M count=4", "disk-full"),
    ("head -c 9999 /bin/sh | gzip | head -c 200 > /tmp/t.gz; tar xzf /tmp/t.gz", "archive-truncated"),
    (f"echo x > /tmp/f; echo {'0' * 64}  /tmp/f | sha256sum -c", "checksum-mismatch"),
    ("printf '#!/opt/conda/bin/python\\n' > /tmp/s; chmod +x /tmp/s; bash -c /tmp/s", "bad-interpreter"),
    ("printf '\\177ELF\\002rest' > /tmp/e; chmod +x /tmp/e; bash -c /tmp/e", "exec-format"),
    ("apt-get -o APT::Update::Error-Mode=any update", "apt-unreachable"),
    ("apt-get install -y llvm-99-dev", "apt-package-missing"),
    ("echo x > /sys/kernel/x", "read-only-file-system"),
    ("ulimit -n 4; cat <(:) <(:) <(:); exit 1", "open-files-limit"),
    ("x=$(head -c 3000000 /dev/zero | tr '\\0' a); ls $x", "argument-list-too-long"),
    ("setpriv --reuid 65534 --clear-groups mkdir /opt/x", "permission-denied-path"),
    ("exec tail /dev/zero", "out-of-memory-in-container"),
    ("tail /dev/zero; exit 1", "out-of-memory-in-container"),  # a child
    ("kill -9 $$", "killed-by-someone"),
    ("kill -ABRT $$", "ended-by-signal"),
    ("kill -ILL $$", "illegal-instruction"),
    ("kill -SEGV $$", "segfault"),
]


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


@pytest.mark.parametrize(("script", "rule"), PROVOKED, ids=[f"{rule}-{n}" for n, (_, rule) in enumerate(PROVOKED)])
def test_a_provoked_failure_ends_in_its_named_cause(engine, container, script, rule, monkeypatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    done = execute(engine, container, ["bash", "-c", script], logged=False)
    assert done.exit_code, done
    lines = keep(f"{done.stdout}\n{done.stderr}", done.facts)
    cause = explain(io.BytesIO(read_log()[0]), failed=True).causes[0]
    assert (cause.rule, lines[0]) == (rule, f"cause: {cause.sentence}")
    assert lines[1] == f"remedy: {cause.remedy}"


def reads_kernel_log() -> bool:
    """Whether the kernel lets this user open its log; the mode of the file allows everybody."""
    try:
        Path("/dev/kmsg").open("rb").close()
    except OSError:
        return False
    return True


def test_what_the_kernel_killed_is_named_with_its_pid_on_the_host(engine, container):
    (fact,) = execute(engine, container, ["bash", "-c", "tail /dev/zero; exit 1"], logged=False).facts
    who = r"tail \(PID \d+ of the host\)" if reads_kernel_log() else "1 process"
    assert re.fullmatch(rf"reprokit: out of memory: the kernel killed {who} in container {container}", fact)
    # A command that succeeds has no facts. The shell survives a child that is killed.
    assert execute(engine, container, ["bash", "-c", "tail /dev/zero; true"], logged=False).facts == ()
