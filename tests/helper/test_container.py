"""A build's container: its steps, what they leave, and what they try on the program that runs them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.helper import container as helper_container
from reprokit.helper.container import PATH, BuildContainer, Command, Entry, build_container, listening
from tests.support.paths import ROOT
from tests.support.privileges import OTHER_USER, need_root
from tests.support.users import as_user
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")  # cap_net_bind_service+ep


@pytest.fixture
def container(engine: Engine, bookworm) -> Iterator[BuildContainer]:
    with build_container(engine, bookworm.base.image_id) as made:
        yield made


def ran(container: BuildContainer, script: str, **changes) -> tuple[int, str]:
    """A step's exit code and output."""
    output = bytearray()
    command = Command(["bash", "-c", script], {"PATH": PATH}, **changes)
    return container.run(command, output.extend), output.decode()


def test_a_step_has_its_user_folder_variables_and_exit_code(container: BuildContainer):
    output = bytearray()
    command = Command(["sh", "-c", "id; pwd; env; exit 3"], {"A": "b\nc"}, "/usr", 1000, 7, [7, 42])
    assert container.run(command, output.extend) == 3
    assert output == b"uid=1000 gid=7(lp) groups=7(lp),42(shadow)\n/usr\nA=b\nc\nPWD=/usr\n"
    assert ran(container, "kill -9 $$") == (137, "")
    assert ran(container, "cat; tty; umask; readlink /proc/self/fd/0") == (0, "not a tty\n0022\n/dev/null\n")


def test_errors_may_come_apart(container: BuildContainer):
    output, errors = bytearray(), bytearray()
    command = Command(["sh", "-c", "echo a; echo b >&2; exec >&-; echo c >&2"], {"PATH": PATH})
    assert container.run(command, output.extend, errors.extend) == 0
    assert (output, errors) == (b"a\n", b"b\nc\n")


@pytest.mark.parametrize(
    ("arguments", "folder", "code", "said"),
    [
        (["nothing"], "/", 127, "reprokit: cannot execute nothing: error 2\n"),
        (["/etc/passwd"], "/", 126, "reprokit: cannot execute /etc/passwd: error 13\n"),
        (["true"], "/nowhere", 126, "reprokit: cannot enter the folder /nowhere: error 2\n"),
    ],
)
def test_a_step_that_cannot_begin_says_why(container: BuildContainer, arguments, folder, code, said):
    output = bytearray()
    assert container.run(Command(arguments, {"PATH": PATH}, folder), output.extend) == code
    assert output.decode() == said


def test_nothing_of_a_step_outlives_it(container: BuildContainer):
    """Neither daemons, nor those of another user, nor what holds the step's output open."""
    daemons = (
        "setsid sleep 600 & nohup sleep 600 > /dev/null & (setsid su nobody -s /bin/sh -c 'sleep 600' &); echo left"
    )
    assert ran(container, daemons) == (0, "left\n")
    assert ran(container, "set -- /proc/[0-9]*; echo $#") == (0, "2\n")  # process 1 and bash
    assert ran(container, "exec > /dev/null 2>&1; sleep 0.2; exit 5") == (5, "")


def test_processes_without_end_stay_in_the_container(engine: Engine, bookworm):
    with build_container(engine, bookworm.base.image_id) as container:
        assert 0 < engine.api.inspect_container(container.name)["HostConfig"]["PidsLimit"] < 10_000
    with build_container(engine, bookworm.base.image_id, settings={"PidsLimit": 50}) as container:
        code, _ = ran(container, "bomb() { bomb | bomb & }; bomb; sleep 0.2; exit 4")
        assert code in (4, 254)  # bash itself may find no process for its sleep
        assert ran(container, "echo on") == (0, "on\n")


def test_a_steps_output_comes_in_order_and_whole(container: BuildContainer):
    sizes: list[int] = []
    command = Command(["sh", "-c", "head -c 30000000 /dev/zero; echo last >&2"], {"PATH": PATH})
    assert container.run(command, lambda block: sizes.append(len(block))) == 0
    assert sum(sizes) == 30_000_005 and max(sizes) <= 1 << 16


@pytest.mark.parametrize(
    "attack",
    [
        "kill -9 1; kill -TERM 1; kill -INT 1; kill -STOP 1; kill -KILL -1",
        "! cat /proc/1/environ && ! cat /proc/1/mem && ! ls -l /proc/1/fd/3 && ! ls /proc/1/exe -l",
        "! echo x > /dev/reprokit/helper && ! rm /dev/reprokit/control && ! mv /dev/reprokit /dev/other",
        "! mount -t tmpfs none /dev/reprokit && ! umount /dev/reprokit/helper",
        "! gdb -p 1 && ! nsenter -t 1 -a true",
    ],
)
def test_a_step_cannot_reach_the_program_that_runs_it(container: BuildContainer, attack: str):
    ran(container, attack)
    # What survives the first attack is the container itself.
    if attack.startswith("!"):
        assert ran(container, f"({attack}) > /dev/null 2>&1")[0] == 0
    assert ran(container, "echo on") == (0, "on\n")


def test_a_step_cannot_take_the_programs_place(container: BuildContainer):
    connect = 'print IO::Socket::UNIX->new("/dev/reprokit/control") ? "taken" : "refused", "\\n"'
    assert ran(container, f"perl -MIO::Socket::UNIX -e '{connect}'") == (0, "refused\n")


def test_the_only_way_out_is_the_gateway(engine: Engine, bookworm):
    with listening() as (path, listens), build_container(engine, bookworm.base.image_id, path) as container:

        def answer() -> None:
            client = listens.accept()[0]
            with client:
                client.sendall(b"got " + client.recv(100))

        threading.Thread(target=answer, daemon=True).start()
        ask = "exec 3<>/dev/tcp/127.0.0.1/3128 && echo asked >&3 && cat <&3; ls /sys/class/net"
        assert ran(container, ask) == (0, "got asked\nlo\n")


def test_without_a_gateway_nothing_answers(container: BuildContainer):
    assert ran(container, "exec 3<>/dev/tcp/127.0.0.1/3128 && cat <&3") == (0, "")


def test_files_get_all_their_attributes(container: BuildContainer):
    second = 10**9
    entries = [
        Entry("/a", stat.S_IFDIR, 0o750, 1, 2, 5 * second),
        Entry("/a/file", stat.S_IFREG, 0o4755, 3, 4, 7 * second + 9, content=iter([b"x" * 3_000_000, b"y"])),
        Entry("/a/hard", stat.S_IFREG, target="/a/file", hard=True),
        Entry("/a/link", stat.S_IFLNK, 0o777, 5, 6, 8 * second, target="file"),
        Entry("/a/fifo", stat.S_IFIFO, 0o600),
        Entry("/a/null", stat.S_IFCHR, 0o666, device=(1, 3)),
        Entry(
            "/lib/made", stat.S_IFREG, attributes={"security.capability": bytes.fromhex("0100000200040000" + 12 * "00")}
        ),
        Entry("/lib", stat.S_IFDIR, 0o700, 9, 9),  # a link to usr/lib
    ]
    for entry in entries:
        container.make(entry)
    for entry in (entries[0], entries[-1]):
        container.settle(entry)
    container.check()
    listing = (
        "cd /a; stat -c '%n %A %u:%g %s %.9Y' . file link fifo null; stat -c '%h %t:%T' file null; getcap /lib/made"
    )
    assert ran(container, listing)[1].splitlines() == [
        ". drwxr-x--- 1:2 4096 5.000000000",
        "file -rwsr-xr-x 3:4 3000001 7.000000009",
        "link lrwxrwxrwx 5:6 4 8.000000000",
        "fifo prw------- 0:0 0 0.000000000",
        "null crw-rw-rw- 0:0 0 0.000000000",
        "2 0:0",
        "1 1:3",
        *(ran(container, "getcap /lib/made")[1].splitlines() or ["bash: line 1: getcap: command not found"]),
    ]
    assert (
        ran(container, "stat -c '%F %u' /lib /usr/lib; cat /a/link | tail -c 1")[1] == "symbolic link 0\ndirectory 0\ny"
    )
    names = "my ($p, $n, $v) = (q(/lib/made), q(security.capability), chr(0) x 64)"
    size = f"perl -e '{names}; print syscall(191, $p, $n, $v, 64)'"  # getxattr
    assert os.uname().machine != "x86_64" or ran(container, size)[1] == "20"
    found = container.status("/a/link"), container.status("/a/link", follow=False), container.status("/none")
    assert [each and each.size for each in found] == [3_000_001, 4, None]


def test_a_file_replaces_another_and_never_a_folder(container: BuildContainer):
    container.make(Entry("/old", stat.S_IFLNK, target="/etc/passwd"))
    container.make(Entry("/old", stat.S_IFREG, content=iter([b"new"])))
    container.check()
    assert container.read("/old") == b"new" and container.read("/etc/passwd") != b"new"
    container.make(Entry("/fine", stat.S_IFDIR))
    container.make(Entry("/etc", stat.S_IFREG))
    container.make(Entry("/none/below", stat.S_IFREG))
    with pytest.raises(EngineError, match=r"cannot write /etc in the image: File exists"):
        container.check()
    container.check()
    container.remove("/old")
    container.remove("/fine")
    container.check()
    assert container.status("/old") is None and container.status("/fine") is None


def test_only_regular_files_are_read(container: BuildContainer):
    """A fifo or a device would hold the build up, and a large file fill this process's memory."""
    assert ran(container, "mkfifo /fifo; ln -s /dev/zero /zero; head -c 5000000 /dev/zero > /large") == (0, "")
    assert [container.read(path) for path in ("/fifo", "/zero", "/large", "/etc", "/none")] == [None] * 5
    assert (container.read("/etc/debian_version") or b"").startswith(b"12")


def test_a_commit_has_nothing_of_the_container(engine: Engine, container: BuildContainer):
    assert ran(container, "echo x > /x; ls /dev/reprokit > /dev/null") == (0, "")
    assert {each.path for each in engine.changes(container.name)} == {"/x"}


def test_it_ends_with_the_context_and_with_this_process(engine: Engine, bookworm):
    script = (
        "import json, signal; from reprokit.engine import Engine\n"
        "from reprokit.helper.container import build_container\n"
        f"with build_container(Engine.connect(), {bookworm.base.image_id!r}) as made:\n"
        "    print(json.dumps(made.name), flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        name = json.loads(process.stdout.readline())
        assert engine.container(name).running
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: engine.container(name) is None)
    with build_container(engine, bookworm.base.image_id) as container:
        assert engine.container(container.name) is not None
    assert engine.container(container.name) is None
    with pytest.raises(EngineError, match="has ended"):
        ran(container, "true")


def test_an_end_from_outside_is_an_error(engine: Engine, container: BuildContainer):
    threading.Timer(0.5, engine.stop, [container.name]).start()
    with pytest.raises(EngineError, match="the build's container has ended") as error:
        ran(container, "sleep 100")
    assert error.value.exit_code == 3


def test_a_container_that_does_not_start_is_an_error(engine: Engine, bookworm, monkeypatch, tmp_path: Path):
    (tmp_path / "no-program").write_bytes(b"no program")
    monkeypatch.setattr(helper_container, "program", lambda architecture: tmp_path / "no-program")
    with pytest.raises(EngineError), build_container(engine, bookworm.base.image_id):
        pass
    assert not [each for each in engine.containers([]) if "no-program" in str(each.mounts)]


def test_a_long_path_of_the_sockets_does_not_matter(engine: Engine, bookworm, monkeypatch, tmp_path: Path):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with build_container(engine, bookworm.base.image_id) as container:
        assert ran(container, "echo on") == (0, "on\n")


def test_the_sockets_are_out_of_other_users_reach():
    need_root(OTHER_USER)
    with listening() as (path, _):
        assert path.parent.stat().st_mode & 0o777 == 0o700

        def refused() -> bool:
            try:
                path.stat()
            except PermissionError:
                return True
            return False

        assert not refused() and as_user(refused, reads_all=False)
