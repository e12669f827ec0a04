from __future__ import annotations

import pytest

from reprokit.container.host import Here
from reprokit.container.path_mapping import own_container, reachable, translate
from reprokit.container.spec import Mount
from reprokit.errors import EngineError

ID = "9f" * 32
INSIDE = f"""\
500 400 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A
510 500 8:1 /var/lib/docker/containers/{ID}/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw
511 500 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
"""
PODMAN = f"""\
600 1 0:40 /containers/storage/overlay-containers/{ID}/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw
"""
# A host that runs containers mounts things below the engine's folder, too, but not at these three files.
HOST = f"""\
26 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 26 0:60 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw
91 26 8:1 /run/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw
"""


def test_only_inside_a_container_there_is_an_own_id():
    assert own_container(INSIDE) == ID
    assert own_container(PODMAN) == ID
    assert own_container(HOST) is None
    assert own_container("") is None


MOUNTS = [
    {"Type": "bind", "Source": "/srv/home", "Destination": "/home"},
    {"Type": "bind", "Source": "/fast/ana", "Destination": "/home/ana/data"},
]


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("/home/ana", "/srv/home/ana"),
        ("/home", "/srv/home"),
        ("/home/ana/data/x", "/fast/ana/x"),
        ("/home/ana/database", "/srv/home/ana/database"),
    ],
)
def test_paths_are_translated_by_the_deepest_mount(inside, outside):
    assert translate(Mount(inside, "/w", True), MOUNTS) == Mount(outside, "/w", True)


def test_a_path_that_only_this_container_has_is_refused():
    with pytest.raises(EngineError, match="/tmp/x"):
        translate(Mount("/tmp/x", "/w"), MOUNTS)


class _Engine:
    def __init__(self, url: str, described: dict | None) -> None:
        self.url = url
        self.described = described
        self.host = Here()

    def container(self, name: str) -> dict | None:
        return self.described if name == ID else None


def test_mounts_of_a_nested_docker(monkeypatch):
    monkeypatch.setattr("reprokit.container.path_mapping.mountinfo", lambda: INSIDE)
    mounts = (Mount("/home/ana", "/w"),)
    outside = _Engine("unix:///var/run/docker.sock", {"Mounts": MOUNTS})
    assert reachable(outside, mounts) == (Mount("/srv/home/ana", "/w"),)
    assert reachable(_Engine("unix:///var/run/docker.sock", None), mounts) == mounts


@pytest.mark.parametrize("url", ["tcp://node7:2375", "ssh://ana@node7", "https://10.0.0.7:2376"])
def test_an_engine_elsewhere_sees_no_folder_of_ours(url):
    with pytest.raises(EngineError, match="another machine"):
        reachable(_Engine(url, None), (Mount("/x", "/w"),))


@pytest.mark.parametrize("url", ["unix:///run/user/1000/docker.sock", "tcp://localhost:2375", "tcp://127.0.0.1:2375"])
def test_an_engine_here_does(url, monkeypatch):
    monkeypatch.setattr("reprokit.container.path_mapping.mountinfo", lambda: HOST)
    assert reachable(_Engine(url, None), (Mount("/x", "/w"),)) == (Mount("/x", "/w"),)
