"""The base's own apt in a temporary container."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from reprokit.display import notify
from reprokit.errors import EngineError, SourceError
from reprokit.helper.container import ADDRESS, PATH, BuildContainer, Command, build_container, listening
from reprokit.redact import redact
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.apt.install import is_vendors
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.served_set import ServedSet
from reprokit.untrusted.limits import APT_SECONDS, PROGRAM_OUTPUT

# Any failed part fails the update. No retries: apt 2.6 can hang when it retries one of two archives of a host.
# Packages that the image has downloaded are listed too. apt keeps its cache even if the image forbids that: else every
# call builds it again.
_CONFIGURATION = """
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "0";
APT::Update::Error-Mode "any";
Dir::Cache::Archives "/tmp/archives";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
"""
# As in the block `base`: the vendor's lists are signed with a key that was replaced in April 2022.
WITHOUT_VENDOR = (
    "for list in /etc/apt/sources.list.d/cuda*.list /etc/apt/sources.list.d/nvidia-ml*.list; do "
    '[ ! -e "$list" ] || : > "$list"; done'
)
_TRIES = 3


@dataclass(frozen=True)
class CommandResult:
    """Exit code, standard output and standard error of a command."""

    code: int
    output: str
    errors: str


class BaseApt:
    """Use as a context manager: inside it the container runs, with today's package lists.

    Its network is a gateway, which uses the host's mirrors and proxies. Raises SourceError if the lists cannot be
    downloaded, EngineError.
    """

    def __init__(self, tools: Tools) -> None:
        self.engine, self.base, self.store = tools.engine, tools.base(), tools.store
        self._stack = ExitStack()
        self._is_late = False

    def __enter__(self) -> BaseApt:
        with ExitStack() as stack:
            socket, listens = stack.enter_context(listening())
            gateway = Gateway(self.store, ServedSet(), archives=self.base.archives, listening=listens, address=ADDRESS)
            self._gateway = stack.enter_context(gateway)
            self._container: BuildContainer = stack.enter_context(
                build_container(self.engine, self.base.image_id, socket)
            )
            # Each program here is the base's, and may be a stranger's that never ends.
            late = threading.Timer(APT_SECONDS.most, self._end_late)
            late.daemon = True
            stack.callback(late.cancel)
            late.start()
            self.ask(["sh", "-ec", f"mkdir -p /tmp/archives/partial; echo '{_CONFIGURATION}' >/tmp/apt.conf"])
            if is_vendors(self.base.reference):
                self.ask(["sh", "-c", WITHOUT_VENDOR])
            self.update()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, command: Sequence[str]) -> CommandResult:
        """Run a command as root. Raises SourceError for more output, or time of the container, than limits allow."""
        environment = {**self._gateway.build_arguments(), "APT_CONFIG": "/tmp/apt.conf", "LC_ALL": "C.UTF-8"}
        environment |= {"DEBIAN_FRONTEND": "noninteractive", "PATH": PATH, "HOME": "/root"}
        output, errors = bytearray(), bytearray()

        def collect(to: bytearray, data: bytes) -> None:
            to.extend(data)
            if len(output) + len(errors) > PROGRAM_OUTPUT.most:
                self._refuse(f"prints more than {PROGRAM_OUTPUT.most >> 20} MiB", PROGRAM_OUTPUT.hint)

        try:
            run = partial(self._container.run, Command(list(command), environment))
            code = run(partial(collect, output), partial(collect, errors))
        except EngineError:
            if self._is_late:
                self._refuse(f"takes more than {APT_SECONDS.most} s", APT_SECONDS.hint)
            raise
        texts = (part.decode("utf-8", "replace") for part in (output, errors))
        return CommandResult(code, *(redact(text) for text in texts))

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise SourceError(f"the package manager of {self.base.reference} {what}", hint=hint)

    def _end_late(self) -> None:
        self._is_late = True
        self._container.abort()

    def update(self) -> None:
        """Download today's package lists. Raises SourceError."""
        notify(f"reading the package lists of {self.base.reference}")
        for _ in range(_TRIES):
            answer = self.ask(["apt-get", "update"])
            if answer.code == 0:
                return
        failed = re.search(r"^E: .*", answer.errors, re.MULTILINE)
        raise self._gateway.unreached(f"cannot download the package lists of {self.base.reference}") or SourceError(
            f"cannot download the package lists of {self.base.reference}: {failed[0] if failed else answer.errors}",
            hint="`reprokit config` shows the mirrors and proxies in use",
        )
