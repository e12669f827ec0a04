"""Programs of a stranger's image: none runs unasked or as root, none decides ids, none outlives its limits."""

from __future__ import annotations

import json
import os
import resource
import socket
import stat
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reprokit.container import attach, names, notebook
from reprokit.container.attach import Command
from reprokit.container.execute import Completed, execute
from reprokit.container.lifecycle import ensure_running, stop
from reprokit.container.log import log_path
from reprokit.container.prepare import read_etc
from reprokit.container.session import in_container
from reprokit.container.settings import ContainerSettings, RunOptions, to_label
from reprokit.engine import Engine
from reprokit.errors import SourceError, UsageError, WorkFailed
from reprokit.helper.program import program
from tests.support.names import unique
from tests.support.papers import Paper, paper
from tests.support.processes import sleeping
from tests.support.upstream import Upstream
from tests.support.users import GID, SHARED, UID, give
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
# The labels claim another container, its owner and root.
LABELS = {
    names.NAME: "NAME",
    names.OWNER: str(UID),
    names.USER: "0:0",
    names.SETTINGS: to_label(ContainerSettings(workspace="/etc", recipe_file="/x")),
}
DOCKERFILE = """
FROM {base}
RUN cp /usr/bin/id /usr/bin/suid-id && chmod 4755 /usr/bin/suid-id && echo 'fake:x:0:0::/:/bin/sh' >> /etc/passwd
COPY evil.so /evil.so
ENV LD_PRELOAD=/evil.so
USER 0
VOLUME /data
EXPOSE 7000
HEALTHCHECK CMD touch /workspace/by-0-healthcheck
ENTRYPOINT ["/bin/sh", "-c", "touch /workspace/by-0-entrypoint; sleep 1000"]
"""
SLEEP = {"Entrypoint": ["sleep", "1000"], "HostConfig": {"Init": True}}


@pytest.fixture(scope="module")
def a_paper(engine: Engine, debian_12, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paper]:
    library = tmp_path_factory.mktemp("library") / "evil.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=LIBRARY, text=True, check=True)
    labels = "".join(f"LABEL {name}='{value}'\n" for name, value in LABELS.items())
    with paper(engine, DOCKERFILE.format(base=debian_12.name) + labels, {"evil.so": library.read_bytes()}) as made:
        yield made


@pytest.fixture
def stranger(a_paper: Paper) -> Iterator[Paper]:
    """The recipe without containers, its workspace empty and open to all."""
    give(a_paper.place, os.geteuid(), os.getegid())  # `as_user` makes it another user's
    a_paper.workspace.mkdir(parents=True, exist_ok=True)
    a_paper.workspace.chmod(0o777)
    yield a_paper
    a_paper.clear()


@pytest.fixture
def running(stranger: Paper) -> str:
    """The recipe's container, of an ordinary user."""
    made = stranger.recipe()
    return stranger.as_user(lambda own: ensure_running(own, made))


def loaded(paper: Paper) -> set[str]:
    """The users whose processes loaded the library."""
    return {path.name.split("-")[1] for path in paper.workspace.glob("by-*")}


def output(engine: Engine, container: str, *words: str, user: str | None = None) -> str:
    return execute(engine, container, list(words), user=user, logged=False).stdout


@pytest.mark.compiler
def test_nothing_of_the_image_runs_until_it_is_asked_to(engine, stranger, running):
    time.sleep(0.5)
    assert loaded(stranger) == set()
    answer = output(engine, running, "sh", "-c", "grep ^Uid /proc/[0-9]*/status; cat /proc/1/cmdline; id -G")
    assert "/.reprokit-idle\0idle\0" in answer and str(SHARED) in answer.split()
    assert {line.split()[1] for line in answer.splitlines() if ":Uid" in line} == {str(UID)}
    assert loaded(stranger) == {str(UID)}  # the command that was asked for did load it
    # The control: the image's own `tail`, as root, was the idle process of earlier versions.
    mounts = [{"Type": "bind", "Source": str(stranger.workspace), "Target": "/workspace"}]
    host = {"Mounts": mounts, "Init": True}
    engine.start(stranger.by_hand(Entrypoint=["tail", "-f", "/dev/null"], User="0:0", HostConfig=host))
    wait_for(lambda: "0" in loaded(stranger))


@pytest.mark.compiler
def test_root_only_where_it_is_asked_for(engine, stranger, running):
    made = stranger.recipe()
    folder = output(engine, running, "sh", "-c", "echo work > $HOME/work; echo $HOME").strip()
    with pytest.raises(UsageError, match="was not made for root") as error:
        in_container(engine, running, Command(["id"], user="root"))
    assert "run --user root" in error.value.hint
    for path in stranger.workspace.iterdir():
        path.unlink()
    stranger.as_user(lambda own: ensure_running(own, made, RunOptions(root=True)))
    time.sleep(0.5)
    assert loaded(stranger) == set()
    script = f"cat {folder}/work; chown 1:1 {folder}/work && id -u"
    assert output(engine, running, "sh", "-c", script, user="0:0") == "work\n0\n"
    assert output(engine, running, "id", "-u") == f"{UID}\n"
    # It stays root's, and is not made anew for it each time.
    before = engine.container(running).id
    stranger.as_user(lambda own: ensure_running(own, made, RunOptions(root=True)))
    stranger.as_user(lambda own: ensure_running(own, made))
    assert engine.container(running).id == before
    # An idle program that root replaces is put back.
    replace = ["cp", "--remove-destination", "/usr/bin/sleep", "/.reprokit-idle"]
    assert execute(engine, running, replace, logged=False).exit_code == 1
    assert execute(engine, running, replace, user="0:0", logged=False).exit_code == 0
    stranger.as_user(lambda own: stop(own, running))
    for path in stranger.workspace.iterdir():
        path.unlink()
    stranger.as_user(lambda own: ensure_running(own, made))
    time.sleep(0.5)
    assert loaded(stranger) == set()
    idle = program(engine.version().architecture).read_bytes()
    with engine.archive(running, "/.reprokit-idle") as blocks:
        assert idle in b"".join(blocks or ())


@pytest.mark.compiler
def test_setuid_programs_and_names_of_users_gain_nothing(engine, stranger, running):
    script = "suid-id -u; cp /bin/sh /workspace/left; chmod 4755 /workspace/left; chown 0 /workspace/left"
    assert output(engine, running, "sh", "-c", script) == f"{UID}\n"
    left = (stranger.workspace / "left").stat()
    assert left.st_mode & stat.S_ISUID and left.st_uid == UID
    control = stranger.by_hand(**SLEEP, User=f"{UID}:{GID}")
    engine.start(control)
    assert output(engine, control, "suid-id", "-u") == "0\n"
    with pytest.raises(UsageError, match="'fake' root"):
        in_container(engine, running, Command(["id"], user="fake"))
    assert output(engine, running, "id", "-u", user="fake") == "0\n"  # the control: the engine believes the image
    assert in_container(engine, running, Command(["sh", "-c", "[ $(id -u) = 1 ]"], user="daemon")) == 0


GROUPS = {
    "by-name": (f"RUN echo '{SHARED}:x:0:' >> /etc/group", "a group named"),
    "by-no-number": (f"RUN echo ' {SHARED}:x:none:' >> /etc/group", "a group named"),
    "open-file": ("RUN chmod 666 /etc/group", "replace /etc/group"),
    "open-folder": ("RUN chmod 777 /etc", "replace /etc/group"),
    "own-folder": (f"RUN chown {UID} /etc", "replace /etc/group"),
    "linked-file": ("RUN mv /etc/group /workspace-group && ln -s /workspace-group /etc/group", "replace /etc/group"),
}


@pytest.mark.parametrize("case", GROUPS)
def test_an_image_that_would_choose_the_users_groups_is_refused(engine, debian_12, case: str):
    line, words = GROUPS[case]
    with paper(engine, f"FROM {debian_12.name}\n{line}\n") as stranger:
        made = stranger.recipe()
        with pytest.raises(UsageError, match=words):
            stranger.as_user(lambda own: ensure_running(own, made))
        assert engine.containers([f"reprokit.recipe={stranger.name}"]) == []
        if case == "by-name":  # the control: the engine takes the number for a name
            host = {"GroupAdd": [str(SHARED)], "Init": True}
            name = stranger.by_hand(Entrypoint=["sleep", "1000"], User=f"{UID}:{GID}", HostConfig=host)
            engine.start(name)
            assert "0" in output(engine, name, "id", "-G").split()


@pytest.mark.compiler
@pytest.mark.parametrize("file", ["/etc/group", "/etc/aaa"])
def test_a_huge_file_of_accounts_is_not_read(engine, stranger, file: str):
    name = stranger.by_hand(**SLEEP, User="0:0")
    engine.start(name)
    assert read_etc(engine, name).passwd.startswith("root:")
    assert execute(engine, name, ["truncate", "-s", "1500M", file], logged=False).exit_code == 0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UsageError, match=r"more than \d+ bytes") as error:
        read_etc(engine, name)
    assert "REPROKIT_LIMIT_" in error.value.hint
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 64 << 10  # KiB


# --- Limits of time and output


@pytest.fixture
def container(engine: Engine, debian_12) -> Iterator[str]:
    made = engine.create_container(unique("shell"), {"Image": debian_12.name, "User": "0:0", "Cmd": ["sleep", "900"]})
    engine.start(made)
    yield made
    if engine.container(made):
        engine.remove(made, force=True)


@pytest.mark.parametrize("shell", ["exec sleep 800", "exit 0", "exit 1", "exec cat /dev/zero", "rm /bin/sh", ""])
def test_a_command_ends_in_time_whatever_the_shell_does(engine, container, monkeypatch, shell: str):
    """A shell of the usual kind, the control, leaves the container alone."""
    monkeypatch.setattr(attach, "_SHELL_SECONDS", 1.0 if shell else 60.0)
    monkeypatch.setattr(attach, "_INTERRUPT_SECONDS", 0.5)
    monkeypatch.setattr(attach, "_EXIT_CODE_TRIES", 20)
    seconds = str(1_000_000 + uuid.uuid4().int % 1_000_000)
    if shell:
        script = f"rm /bin/sh; echo '#!/bin/dash' > /bin/sh; echo '{shell}' >> /bin/sh; chmod 755 /bin/sh"
        assert execute(engine, container, ["dash", "-c", script], logged=False).exit_code == 0
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(execute, engine, container, ["sleep", seconds], logged=False, timeout=0.5)
        try:
            assert done.result(timeout=200).timed_out
            wait_for(lambda: not sleeping(seconds))
            if not shell:
                assert output(engine, container, "cat", "/proc/1/cmdline") == "sleep\0900\0"
        finally:
            engine.remove(container, force=True)


@pytest.mark.usefixtures("home")
def test_a_command_ends_when_it_has_written_too_much(engine, container, monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", str(1 << 20))
    much = ["sh", "-c", f"while :; do echo {'y' * 50}; done"]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(execute, engine, container, much)
        try:
            with pytest.raises(WorkFailed, match="wrote more than 1 MiB"):
                done.result(timeout=200)
            assert "yyy" not in output(engine, container, "sh", "-c", "cat /proc/[0-9]*/cmdline")
        finally:
            engine.remove(container, force=True)
    assert log_path(container).stat().st_size < 4 << 20


# --- A container that serves a notebook

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
ANSWERS = {
    "nonsense": b"nonsense\r\n\r\n",
    "line": b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n",
    "headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/metadata\r\nContent-Length: 0\r\n\r\n",
    "404": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "closed": b"",
}


@pytest.mark.slow
def test_a_notebook_is_asked_again_until_it_answers_itself(upstream: Upstream):
    """`upstream` is a service of this host."""
    upstream.answers["/metadata"] = (200, {}, b"secret")
    answers = [each.replace(b"%d", b"%d" % upstream.port) for each in ANSWERS.values()] + [ANSWER]
    ended, called = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answers.pop(0))

        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=serve, daemon=True).start()
        call = threading.Thread(target=notebook._call_when_up, args=(address, ended, called.set), daemon=True)
        call.start()
        assert called.wait(120) and not answers
        ended.set()
    assert upstream.requests == []


GOOD = {"application": "jupyterlab", "python": "3.11", "libc": "2.36", "machine": "x86_64", "site": "/usr/site"}


@pytest.mark.parametrize(
    "changed",
    [{"application": "os"}, {"application": ["a"]}, {"python": 3.11}, {"libc": None}, {"machine": "x\n"},
     {"site": {"a": 1}}, {"site": "relative"}, {"site": "/" + "x" * 2000}],
)  # fmt: skip
def test_what_a_notebooks_python3_prints_is_checked(monkeypatch, changed: dict):
    printed = GOOD
    monkeypatch.setattr(notebook, "execute", lambda *_, **__: Completed(0, f"noise\n{json.dumps(printed)}\n"))
    assert notebook.probe(None, "c").site == GOOD["site"]  # type: ignore[arg-type]
    printed = {**GOOD, **changed}
    with pytest.raises(SourceError, match="what the container's python3 prints is not valid"):
        notebook.probe(None, "c")  # type: ignore[arg-type]
