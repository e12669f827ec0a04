"""Evidence that a failed command leaves outside its output.

Out-of-memory kills, lost GPUs, unkillable processes, ports without a listener.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reprokit.container import names
from reprokit.engine import ContainerInfo, Engine
from reprokit.host.kills import KernelWatch, ProcessorWatch, in_group, stuck

_REFUSED = (b"refused", b"reset by peer", b"empty reply")
_LONGEST = 1000
_NUMBER = re.compile(rb"\b\d{2,5}\b")
_LISTENS = "0A"
_LARGEST = 4 << 20
_MOST_STUCK = 3
# A command that has been idle for longer than this at its time limit hung.
_HUNG_S = 30
_LOOPBACK = ("7F", "00000000000000000000000001000000")


@contextmanager
def watching(engine: Engine, container: str) -> Iterator[Evidence]:
    """Watch a running container. On another machine only the exit code is evidence."""
    local = not engine.host.name and engine.url.startswith("unix://")
    info = engine.container(container) if local else None
    # An engine in a virtual machine counts its own processes.
    if info and not in_group(info.pid, info.id):
        info = None
    processor = ProcessorWatch(info.pid if info else 0)
    if info:
        processor.start()
    try:
        with KernelWatch(info.pid if info else 0) as kernel:
            yield Evidence(container, info, kernel, idle_s=processor.idle_s)
    finally:
        processor.end()


class Evidence:
    """`info` is None for a container on another machine."""

    def __init__(
        self,
        container: str,
        info: ContainerInfo | None,
        kernel: KernelWatch,
        proc: Path = Path("/proc"),
        idle_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._container, self._info, self._kernel, self._proc = container, info, kernel, proc
        self._idle_s = idle_s

    def facts(self, code: int, output: bytes, killed: bool = False) -> tuple[str, ...]:
        """Lines about a command that ended with this exit code and output; none for a success.

        If reprokit `killed` it, its remaining processes are those that the kernel could not kill.
        """
        if code == 0:
            return ()
        lines = [*self._end(code)]
        if self._info:
            if killed:
                if (idle := self._idle_s()) > _HUNG_S:
                    lines.append(f"reprokit: the command used no processor in its last {idle:.0f} s")
                lines += [
                    f"reprokit: {process} cannot be killed: it hangs in the kernel ({where})"
                    for process, where in stuck(self._info.id, self._proc)[:_MOST_STUCK]
                ]
            lines += [
                f"reprokit: the GPU {address} stopped answering while the command ran"
                for address in self._kernel.lost_gpus()
            ]
            lines += self._ports(self._info, output)
        return tuple(lines)

    def _end(self, code: int) -> Iterator[str]:
        killed = self._kernel.killed(self._info.id)[0] if self._info else ""
        if killed:
            yield f"reprokit: out of memory: the kernel killed {killed} in container {self._container}"
        else:
            yield from self._kernel.signal_facts(code, self._info is not None)

    def _ports(self, info: ContainerInfo, output: bytes) -> Iterator[str]:
        """Lines about published ports that the output reports as refused."""
        ports = names.settings_of(info.labels).ports
        if not ports:
            return
        lines = (line[:_LONGEST] for line in output.lower().split(b"\n") if any(word in line for word in _REFUSED))
        refused = {int(number) for line in lines for number in _NUMBER.findall(line)}
        ports = tuple(port for port in ports if refused & {port.container, port.host})
        listening = self._listening(info.pid) if ports else None
        if listening is None:
            return
        for port in ports:
            addresses = listening.get(port.container, set())
            if not addresses:
                yield f"reprokit: port {port.container} is published, and no process in the container listens on it"
            elif all(address.endswith(_LOOPBACK) for address in addresses):
                yield (
                    f"reprokit: port {port.container} is published, and a process in the container listens on its "
                    "loopback only"
                )

    def _listening(self, pid: int) -> Mapping[int, set[str]] | None:
        """The addresses (hex) on which the container's processes listen, by port; None if unknown."""
        addresses: dict[int, set[str]] = {}
        for table in ("tcp", "tcp6"):
            try:
                with (self._proc / f"{pid}/net/{table}").open(encoding="ascii", errors="replace") as file:
                    lines = file.read(_LARGEST).splitlines()[1:]
            except OSError:
                return None
            for fields in map(str.split, lines):
                if len(fields) > 3 and fields[3] == _LISTENS:
                    address, _, port = fields[1].partition(":")
                    addresses.setdefault(int(port, 16), set()).add(address)
        return addresses
