from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.container.mounts import as_engine_paths, links_of, require_apart, translate
from reprokit.errors import EngineError, UsageError
from reprokit.host.machine import Machine
from reprokit.host.mounts import BindMount
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe

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
    assert translate(BindMount(inside, "/w", True), MOUNTS) == BindMount(outside, "/w", True)


def test_a_path_that_only_this_container_has_is_refused():
    with pytest.raises(EngineError, match="/tmp/x"):
        translate(BindMount("/tmp/x", "/w"), MOUNTS)


class _Engine:
    def __init__(self, url: str, described: dict | None) -> None:
        self.url = url
        self.described = described
        self.host = Machine()

    def container(self, name: str) -> dict | None:
        return self.described if name == ID else None


def test_mounts_of_a_nested_docker(monkeypatch):
    monkeypatch.setattr("reprokit.host.mounts.mountinfo", lambda: INSIDE)
    mounts = (BindMount("/home/ana", "/w"),)
    outside = _Engine("unix:///var/run/docker.sock", {"Mounts": MOUNTS})
    assert as_engine_paths(outside, mounts) == (BindMount("/srv/home/ana", "/w"),)
    assert as_engine_paths(_Engine("unix:///var/run/docker.sock", None), mounts) == mounts


@pytest.mark.parametrize("url", ["tcp://node7:2375", "ssh://ana@node7", "https://10.0.0.7:2376"])
def test_an_engine_elsewhere_sees_no_folder_of_ours(url):
    with pytest.raises(EngineError, match="another machine"):
        as_engine_paths(_Engine(url, None), (BindMount("/x", "/w"),))


@pytest.mark.parametrize("url", ["unix:///run/user/1000/docker.sock", "tcp://localhost:2375", "tcp://127.0.0.1:2375"])
def test_an_engine_here_does(url, monkeypatch):
    monkeypatch.setattr("reprokit.host.mounts.mountinfo", lambda: HOST)
    assert as_engine_paths(_Engine(url, None), (BindMount("/x", "/w"),)) == (BindMount("/x", "/w"),)


@pytest.fixture
def paper() -> Target:
    mounts = [{"source": "a/b", "target": "/b"}, {"source": "link/x", "target": "/x"}]
    recipe = Recipe.model_validate(
        {
            "name": "paper",
            "paper": {"title": "T", "venue": "V", "year": 2024, "licence": "none"},
            "variants": {"cpu": {"base": "debian:12", "mounts": mounts}},
        }
    )
    return Target(recipe, "cpu", Path("paper.yaml"))


def test_other_paths_are_links_but_for_what_the_user_mounts(paper):
    workspace = BindMount("/w", "/workspace")
    assert links_of(paper, [workspace]) == {"/b": "/workspace/a/b", "/x": "/workspace/link/x"}
    assert links_of(paper, [workspace, BindMount("/d", "/b"), BindMount("/d", "/x/below")]) == {
        "/x": "/workspace/link/x"
    }


@pytest.mark.parametrize(
    ("mounts", "others"),
    [
        ([BindMount("/w", "/workspace"), BindMount("/w/data", "/data")], []),
        ([BindMount("/w", "/workspace"), BindMount("/", "/host")], []),
        ([BindMount("/w", "/workspace")], [("other", BindMount("/", "/host"))]),
        ([BindMount("/w", "/workspace")], [("other", BindMount("/w/data", "/data", True))]),
    ],
)
def test_a_source_that_a_container_could_replace(mounts, others):
    with pytest.raises(UsageError, match="could replace") as error:
        require_apart(mounts, others)
    assert error.value.hint


def test_sources_that_no_container_can_replace():
    mounts = [BindMount("/w", "/workspace"), BindMount("/wide", "/wide"), BindMount("/", "/host", True)]
    others = [
        ("other", BindMount("/w", "/workspace")),
        ("one", BindMount("/d", "/d")),
        ("two", BindMount("/d/e", "/e")),
    ]
    require_apart(mounts, others)
