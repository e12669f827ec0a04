"""A process that has imported reprokit and forks into verbs: the other end of `tests.support.verbs`."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from typing import NoReturn

import reprokit

MESSAGE = 1 << 20
FILES = 4  # standard input, output and error, and where the PID and the exit code go


def serve(descriptor: int) -> None:
    """Run the verbs that are requested on a socket, until its other end is closed."""
    for module in pkgutil.walk_packages(reprokit.__path__, "reprokit."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)
    from reprokit.explain.load import bundled_matcher

    bundled_matcher()  # it takes seconds, and every verb that fails needs it
    gc.freeze()  # a collection would write to, and so copy, the pages that all verbs share
    # Nobody waits for handlers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=descriptor)
    while True:
        request, files, _, _ = socket.recv_fds(requests, MESSAGE, FILES)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _handle(request, files)
        for file in files:
            os.close(file)


def _handle(request: bytes, files: list[int]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _become(request, files)
    with socket.socket(fileno=files[-1]) as answers:
        answers.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        answers.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(request: bytes, files: list[int]) -> NoReturn:
    words, folder, environment = json.loads(request)
    for number, file in enumerate(files[:-1]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [sys.argv[0], *words]
    from reprokit.__main__ import main

    main()
