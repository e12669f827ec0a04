"""No program of an image runs unasked or as root, and an image decides nobody's ids."""

from __future__ import annotations

import resource
import stat
import subprocess
import time

import pytest

from reprokit.container.attach import Command
from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running, stop
from reprokit.container.prepare import read_etc
from reprokit.container.session import in_container
from reprokit.container.settings import RunOptions
from reprokit.errors import UsageError
from reprokit.helper.program import program
from tests.support.papers import Paper, paper
from tests.support.users import GID, SHARED, UID
from tests.support.waiting import wait_for

# Leaves a file for every process that loads it.
LIBRARY = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
    char name[64];
    snprintf(name, sizeof name, "/workspace/by-%d-%d", getuid(), getpid());
    close(open(name, O_CREAT | O_WRONLY, 0666));
}
"""
DOCKERFILE = """
FROM {base}
RUN cp /usr/bin/id /usr/bin/suid-id && chmod 4755 /usr/bin/suid-id && echo 'fake:x:0:0::/:/bin/sh' >> /etc/passwd
COPY evil.so /evil.so
ENV LD_PRELOAD=/evil.so
USER 0
HEALTHCHECK CMD touch /workspace/by-0-healthcheck
ENTRYPOINT ["/bin/sh", "-c", "touch /workspace/by-0-entrypoint; sleep 1000"]
"""

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def a_paper(engine, debian_12, tmp_path_factory):
    library = tmp_path_factory.mktemp("library") / "evil.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=LIBRARY, text=True, check=True)
    files = {"evil.so": library.read_bytes()}
    with paper(engine, DOCKERFILE.format(base=debian_12.name), files) as made:
        yield made


@pytest.fixture
def stranger(a_paper: Paper):
    """The recipe without containers, its workspace empty and open to all."""
    a_paper.workspace.mkdir(parents=True, exist_ok=True)
    a_paper.workspace.chmod(0o777)
    yield a_paper
    a_paper.clear()


def loaded(paper: Paper) -> set[tuple[str, str]]:
    """Who loaded the library: user and process."""
    found = (path.name.split("-") for path in paper.workspace.glob("by-*"))
    return {(uid, process) for _, uid, process in found}


def test_nothing_of_the_image_runs_until_it_is_asked_to(engine, stranger):
    made = stranger.recipe()
    name = stranger.as_user(lambda own: ensure_running(own, made))
    time.sleep(0.5)
    assert loaded(stranger) == set()
    answer = execute(engine, name, ["sh", "-c", "grep ^Uid /proc/[0-9]*/status; cat /proc/1/cmdline"], logged=False)
    assert "/.reprokit-idle\0idle\0" in answer.stdout
    assert {line.split()[1] for line in answer.stdout.splitlines() if ":Uid" in line} == {str(UID)}
    # The command that was asked for did load it.
    assert {uid for uid, _ in loaded(stranger)} == {str(UID)}


def test_an_image_can_run_as_root_by_itself(engine, stranger):
    """The control: the image's own `tail`, as root, was the idle process of earlier versions."""
    mounts = [{"Type": "bind", "Source": str(stranger.workspace), "Target": "/workspace"}]
    host = {"Mounts": mounts, "Init": True}
    name = stranger.by_hand(Entrypoint=["tail", "-f", "/dev/null"], User="0:0", HostConfig=host)
    engine.start(name)
    wait_for(lambda: loaded(stranger))
    assert {uid for uid, _ in loaded(stranger)} == {"0"}


def test_root_only_where_it_is_asked_for(engine, stranger):
    made = stranger.recipe()
    name = stranger.as_user(lambda own: ensure_running(own, made))
    home = execute(engine, name, ["sh", "-c", "echo work > $HOME/work; echo $HOME"], logged=False).stdout.strip()
    with pytest.raises(UsageError, match="was not made for root") as error:
        in_container(engine, name, Command(["id"], user="root"), print)
    assert "run --user root" in error.value.hint
    for path in stranger.workspace.iterdir():
        path.unlink()
    said: list[str] = []
    stranger.as_user(lambda own: ensure_running(own, made, RunOptions(root=True), said.append))
    time.sleep(0.5)
    assert loaded(stranger) == set()
    script = f"cat {home}/work; chown 1:1 {home}/work && id -u"
    assert execute(engine, name, ["sh", "-c", script], user="0:0", logged=False).stdout == "work\n0\n"
    assert execute(engine, name, ["id", "-u"], logged=False).stdout == f"{UID}\n"
    # It stays root's, and is not made anew for it each time.
    before = engine.container(name)["Id"]
    stranger.as_user(lambda own: ensure_running(own, made, RunOptions(root=True)))
    stranger.as_user(lambda own: ensure_running(own, made))
    assert engine.container(name)["Id"] == before


def test_an_idle_program_that_was_replaced_is_put_back(engine, stranger):
    made = stranger.recipe()
    name = stranger.as_user(lambda own: ensure_running(own, made, RunOptions(root=True)))
    replace = ["cp", "--remove-destination", "/usr/bin/sleep", "/.reprokit-idle"]
    assert execute(engine, name, replace, logged=False).exit_code == 1
    assert execute(engine, name, replace, user="0:0", logged=False).exit_code == 0
    stranger.as_user(lambda own: stop(own, name))
    for path in stranger.workspace.iterdir():
        path.unlink()
    stranger.as_user(lambda own: ensure_running(own, made))
    time.sleep(0.5)
    assert loaded(stranger) == set()
    own = program(engine.version()["Arch"]).read_bytes()
    archive = engine.get_archive(name, "/.reprokit-idle")
    assert archive is not None and own in archive


def test_setuid_programs_gain_nothing(engine, stranger):
    made = stranger.recipe()
    name = stranger.as_user(lambda own: ensure_running(own, made))
    script = "suid-id -u; cp /bin/sh /workspace/left; chmod 4755 /workspace/left; chown 0 /workspace/left"
    assert execute(engine, name, ["sh", "-c", script], logged=False).stdout == f"{UID}\n"
    left = (stranger.workspace / "left").stat()
    assert left.st_mode & stat.S_ISUID and left.st_uid == UID
    control = stranger.by_hand(Entrypoint=["sleep", "1000"], User=f"{UID}:{GID}", HostConfig={"Init": True})
    engine.start(control)
    assert execute(engine, control, ["suid-id", "-u"], logged=False).stdout == "0\n"


def test_an_image_makes_no_user_root(engine, stranger):
    made = stranger.recipe()
    name = stranger.as_user(lambda own: ensure_running(own, made))
    with pytest.raises(UsageError, match="'fake' root"):
        in_container(engine, name, Command(["id"], user="fake"), print)
    # The control: the engine believes the image.
    assert execute(engine, name, ["id", "-u"], user="fake", logged=False).stdout == "0\n"
    daemons = Command(["sh", "-c", "[ $(id -u) = 1 ]"], user="daemon")
    assert in_container(engine, name, daemons, print) == 0


GROUPS = {
    "by-name": (f"RUN echo '{SHARED}:x:0:' >> /etc/group", "a group named"),
    "by-no-number": (f"RUN echo ' {SHARED}:x:none:' >> /etc/group", "a group named"),
    "open-file": ("RUN chmod 666 /etc/group", "replace /etc/group"),
    "open-folder": ("RUN chmod 777 /etc", "replace /etc/group"),
    "own-folder": (f"RUN chown {UID} /etc", "replace /etc/group"),
    "linked-file": ("RUN mv /etc/group /workspace-group && ln -s /workspace-group /etc/group", "replace /etc/group"),
}


@pytest.mark.parametrize("case", GROUPS)
def test_an_image_that_would_choose_the_users_groups_is_refused(engine, debian_12, case):
    line, words = GROUPS[case]
    with paper(engine, f"FROM {debian_12.name}\n{line}\n") as stranger:
        made = stranger.recipe()
        with pytest.raises(UsageError, match=words):
            stranger.as_user(lambda own: ensure_running(own, made))
        assert engine.containers([f"reprokit.recipe={stranger.name}"]) == []
        if case == "by-name":  # the control: the engine takes the number for a name
            config = {"Entrypoint": ["sleep", "1000"], "User": f"{UID}:{GID}"}
            name = stranger.by_hand(**config, HostConfig={"GroupAdd": [str(SHARED)], "Init": True})
            engine.start(name)
            assert "0" in execute(engine, name, ["id", "-G"], logged=False).stdout.split()


def test_the_users_groups_come_along(engine, stranger):
    made = stranger.recipe()
    name = stranger.as_user(lambda own: ensure_running(own, made))
    assert str(SHARED) in execute(engine, name, ["id", "-G"], logged=False).stdout.split()


@pytest.mark.parametrize("file", ["/etc/group", "/etc/aaa"])
def test_a_huge_file_of_accounts_is_not_read(engine, stranger, file):
    host = {"Init": True}
    name = stranger.by_hand(Entrypoint=["sleep", "1000"], User="0:0", HostConfig=host)
    engine.start(name)
    assert read_etc(engine, name).passwd.startswith("root:")
    assert execute(engine, name, ["truncate", "-s", "1500M", file], logged=False).exit_code == 0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UsageError, match=r"more than \d+ bytes") as error:
        read_etc(engine, name)
    assert "REPROKIT_LIMIT_" in error.value.hint
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 64 << 10  # KiB


def test_a_container_of_another_name_is_not_reprokits(engine, stranger):
    """A base image with reprokit's labels has containers during a build, too."""
    from reprokit.container.names import known_containers

    labels = {"reprokit.container": "another", "reprokit.owner": "x", "reprokit.user": "0:0"}
    name = stranger.by_hand(Entrypoint=["sleep", "1000"], Labels=labels)
    assert name not in {known.name for known in known_containers(engine)}
    own = ensure_running(engine, stranger.recipe())
    assert own in {known.name for known in known_containers(engine)}
