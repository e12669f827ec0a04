"""Which capabilities the container of a profile gets. The engine and the container's answers are stand-ins."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from reprokit.bench import container
from reprokit.container.attach import Command
from reprokit.container.execute import Completed
from reprokit.container.settings import RunOptions
from reprokit.display import reporting
from reprokit.engine import ContainerInfo
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.host.mounts import BindMount
from reprokit.profiling import run
from reprokit.untrusted.files import Folder
from tests.support.images import tar_of


class Stub:
    """An engine that knows these capabilities, and whose containers answer from `answers`."""

    def __init__(self, known: set[str], restricted: bool = False, report: dict[str, bytes] | None = None) -> None:
        self.known, self.restricted, self.report = known, restricted, {"report": b"x"} if report is None else report
        self.made: list[tuple[tuple[str, ...], bool]] = []
        self.mounts: list[tuple[BindMount, ...]] = []
        self.notices: list[str] = []

    host = SimpleNamespace(name="")

    def ensure_running(self, engine, target, options: RunOptions) -> str:
        if unknown := set(options.capabilities) - self.known:
            raise EngineError(f'invalid CapAdd: unknown capability: "CAP_{unknown.pop()}"')
        self.made.append((options.capabilities, options.root))
        self.mounts.append(options.mounts)
        return "c"

    def execute(self, engine, container, argv, **options) -> Completed:
        if argv[0] == "cat":
            return Completed(0, "ModifyDeviceFiles: 0\nRmProfilingAdminOnly: 1\n" if self.restricted else "")
        return Completed(0, "0\n0\n") if "id -u" in argv[-1] else Completed(0)

    def container(self, name: str) -> ContainerInfo | None:
        return ContainerInfo("c", name, config={"User": "0:0"}) if name == "c" else None

    def put_archive(self, container: str, folder: str, tar: bytes) -> None:
        pass

    @contextlib.contextmanager
    def archive(self, container: str, path: str, limit) -> Iterator[Iterator[bytes] | None]:
        yield iter(io.BytesIO(tar_of(self.report))) if self.report else None


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """`profile(stub, "perf")`: the capabilities and root of the containers that were made, in turn."""

    def with_stub(stub: Stub, tool: str, user: str | None = None) -> list[tuple[tuple[str, ...], bool]]:
        monkeypatch.setattr(container, "ensure_running", stub.ensure_running)
        monkeypatch.setattr(run, "execute", stub.execute)
        monkeypatch.setattr(container, "usual_name", lambda engine, target: "usual")
        monkeypatch.setattr(run, "numeric_user", lambda engine, container, user: "0:0")
        with Folder(tmp_path) as folder:
            command = Command(["./a.out"], user=user)
            with reporting(stub.notices.append):
                run.profile(stub, None, command, RunOptions(), tool, folder, lambda *_: 0)
        return stub.made

    return with_stub


def test_perf_gets_the_least_that_the_engine_knows_and_the_others_none(profile):
    assert profile(Stub({"PERFMON", "SYS_ADMIN"}), "perf") == [((), False), (("PERFMON",), False)]
    older = Stub({"SYS_ADMIN"})
    assert profile(older, "perf") == [((), False), (("SYS_ADMIN",), False)]
    assert "perf: the container of this run has SYS_ADMIN, for perf_event_open" in older.notices[0]
    with pytest.raises(EngineError, match="unknown capability"):
        profile(Stub(set()), "perf")
    for tool in ("nsys", "py-spy", "ncu"):
        assert profile(Stub(set()), tool) == [((), False)]


def test_ncu_gets_one_only_where_the_driver_asks_for_it_and_the_user_for_root(profile):
    refused = Stub({"SYS_ADMIN"}, restricted=True)
    with pytest.raises(UsageError, match="only administrators") as raised:
        profile(refused, "ncu")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in raised.value.hint and "--user root" in raised.value.hint
    assert refused.made == [((), False)]
    assert profile(Stub({"SYS_ADMIN"}, restricted=True), "ncu", "root") == [((), True), (("SYS_ADMIN",), True)]
    assert profile(Stub(set()), "ncu", "root") == [((), True)]


def test_this_machines_tool_is_mounted_if_the_image_has_none(profile, monkeypatch):
    monkeypatch.setattr(run, "_succeeds", lambda ask, argv: False)
    mount = BindMount("/opt/nvidia/nsight-systems/2024.1.1", "/.reprokit-nsys", True)
    monkeypatch.setattr(run.host_tools, "nsight", lambda: {"nsys": (mount, "/.reprokit-nsys/bin/nsys")})
    stub = Stub(set())
    assert profile(stub, "nsys") == [((), False)] * 2
    assert stub.mounts == [(), (mount,)] and f"nsys: this machine's, from {mount.source}" in stub.notices
    node = Stub(set())
    node.host = SimpleNamespace(name="lab1")
    with pytest.raises(UsageError, match="has nsys"):
        profile(node, "nsys")


def test_a_profiler_that_leaves_no_report_failed(profile):
    with pytest.raises(WorkFailed, match="perf left no report") as raised:
        profile(Stub({"PERFMON"}, report={}), "perf")
    assert "kernel.perf_event_paranoid" in raised.value.hint
