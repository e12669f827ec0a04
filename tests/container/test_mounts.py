from __future__ import annotations

import pytest

from reprokit.container.mounts import as_engine_paths, links_of, require_apart, translate
from reprokit.engine import ContainerInfo
from reprokit.engine.info import ContainerMount
from reprokit.errors import EngineError, UsageError
from reprokit.host.machine import Machine
from reprokit.host.mounts import BindMount
from tests.support.rendering import target

ID = "9f" * 32
INSIDE = f"""\
500 400 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A
510 500 8:1 /var/lib/docker/containers/{ID}/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw
511 500 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
"""
# A host that runs containers mounts things below the engine's folder, too, but not at these three files.
HOST = f"""\
26 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 26 0:60 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw
91 26 8:1 /run/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw
"""


MOUNTS = (
    ContainerMount("/srv/home", "/home"),
    ContainerMount("/fast/ana", "/home/ana/data"),
)


def test_paths_are_translated_by_the_deepest_mount():
    paths = {"/home/ana": "/srv/home/ana", "/home": "/srv/home", "/home/ana/data/x": "/fast/ana/x"}
    paths["/home/ana/database"] = "/srv/home/ana/database"
    for inside, outside in paths.items():
        assert translate(BindMount(inside, "/w", True), MOUNTS) == BindMount(outside, "/w", True)
    with pytest.raises(EngineError, match="/tmp/x"):
        translate(BindMount("/tmp/x", "/w"), MOUNTS)


class _Engine:
    def __init__(self, url: str, described: ContainerInfo | None) -> None:
        self.url = url
        self.described = described
        self.host = Machine()

    def container(self, name: str) -> ContainerInfo | None:
        return self.described if name == ID else None


def test_mounts_of_a_nested_docker(monkeypatch):
    monkeypatch.setattr("reprokit.host.mounts.mountinfo", lambda: INSIDE)
    mounts = (BindMount("/home/ana", "/w"),)
    outside = _Engine("unix:///var/run/docker.sock", ContainerInfo(ID, mounts=MOUNTS))
    assert as_engine_paths(outside, mounts) == (BindMount("/srv/home/ana", "/w"),)
    assert as_engine_paths(_Engine("unix:///var/run/docker.sock", None), mounts) == mounts


def test_an_engine_elsewhere_sees_no_folder_of_ours(monkeypatch):
    mounts = (BindMount("/x", "/w"),)
    for url in ("tcp://node7:2375", "ssh://ana@node7", "https://10.0.0.7:2376"):
        with pytest.raises(EngineError, match="another machine"):
            as_engine_paths(_Engine(url, None), mounts)
    monkeypatch.setattr("reprokit.host.mounts.mountinfo", lambda: HOST)
    for url in ("unix:///run/user/1000/docker.sock", "tcp://localhost:2375", "tcp://127.0.0.1:2375"):
        assert as_engine_paths(_Engine(url, None), mounts) == mounts


def test_other_paths_are_links_but_for_what_the_user_mounts(tmp_path):
    paper = target(tmp_path, mounts=[{"source": "a/b", "target": "/b"}, {"source": "link/x", "target": "/x"}])
    workspace = BindMount("/w", "/workspace")
    assert links_of(paper, [workspace]) == {"/b": "/workspace/a/b", "/x": "/workspace/link/x"}
    others = [BindMount("/d", "/b"), BindMount("/d", "/x/below")]
    assert links_of(paper, [workspace, *others]) == {"/x": "/workspace/link/x"}


def test_a_source_that_a_container_could_replace():
    workspace = BindMount("/w", "/workspace")
    for mine, others in (
        ([BindMount("/w/data", "/data")], []),
        ([BindMount("/", "/host")], []),
        ([], [("other", BindMount("/", "/host"))]),
        ([], [("other", BindMount("/w/data", "/data", True))]),
    ):
        with pytest.raises(UsageError, match="could replace") as error:
            require_apart([workspace, *mine], others)
        assert error.value.hint
    mine = [workspace, BindMount("/wide", "/wide"), BindMount("/", "/host", True)]
    require_apart(mine, [("other", workspace), ("one", BindMount("/d", "/d")), ("two", BindMount("/d/e", "/e"))])
