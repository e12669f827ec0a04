"""Answers of engines, as they should be and as they should not."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest

from reprokit.engine.client import EngineClient
from reprokit.engine.info import (
    ContainerInfo,
    ContainerMount,
    EngineInfo,
    EngineVersion,
    HistoryStep,
    ImageInfo,
    TransferEvent,
    VolumeInfo,
)
from reprokit.errors import EngineError
from reprokit.host.machine import Machine

NOTHING = [None, [], {}, "x", 7, [7], {"Labels": 7}, ["x", None], True]


def test_an_image_of_podman_is_named_as_docker_names_it() -> None:
    names = ["docker.io/reprokit/faith:cpu", "docker.io/library/debian:12", "localhost/x:1", "<none>:<none>"]
    image = ImageInfo.of({"Id": "7f", "ParentId": "6e", "RepoTags": names, "Labels": {"a": "b"}, "Created": 5})
    assert (image.id, image.parent, image.created) == ("sha256:7f", "sha256:6e", 5.0)
    assert image.names == ("reprokit/faith:cpu", "debian:12", "localhost/x:1") and image.labels == {"a": "b"}


def test_an_inspected_container_and_one_of_a_list_are_alike() -> None:
    mounts = [{"Source": "/s", "Destination": "/d", "Name": "v"}]
    config = {"Labels": {"a": "b"}, "Env": ["A=1=2"], "Entrypoint": ["/x"], "User": "7", "WorkingDir": "/w"}
    inspected = ContainerInfo.of(
        {
            **{"Id": "c", "Name": "/n", "Image": "sha256:1", "Mounts": mounts, "Config": config},
            **{"State": {"Status": "paused", "Pid": 9}, "Created": "2026-11-29T19:31:12.123456789Z", "ExecIDs": ["e"]},
        }
    )
    listed = ContainerInfo.of(
        {
            **{"Id": "c", "Names": ["/n"], "Image": "debian:12", "ImageID": "sha256:1", "Mounts": mounts},
            **{"State": "paused", "Created": 1796067072, "Labels": {"a": "b"}},
        }
    )
    for container in (inspected, listed):
        assert (container.name, container.image, container.labels) == ("n", "sha256:1", {"a": "b"})
        assert container.running and container.mounts == (ContainerMount("/s", "/d", "v"),)
        assert container.created == pytest.approx(1796067072, abs=86400)
    assert (inspected.pid, inspected.execs, inspected.env) == (9, ("e",), {"A": "1=2"})
    assert (inspected.entrypoint, inspected.user, inspected.workdir) == (("/x",), "7", "/w")


@pytest.mark.parametrize(
    ("answer", "devices"),
    [
        ({}, ()),
        ({"CDISpecDirs": []}, ()),
        ({"CDISpecDirs": None, "DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}, ()),
        ({"CDISpecDirs": ["/etc/cdi"]}, ("nvidia.com/gpu=7",)),
        ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]},
         ("nvidia.com/gpu=0",)),
        ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": [{"Source": "cdi", "ID": "other.com/x=0"}, 7]}, ()),
        ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": []}, ()),
    ],
)  # fmt: skip
def test_cdi_counts_only_where_the_engine_has_it_on(answer: object, devices: tuple[str, ...]) -> None:
    class Host(Machine):
        def cdi_devices(self, folders: Iterable[str]) -> tuple[str, ...]:
            return ("nvidia.com/gpu=7", "vendor.com/net=1")

    client: Any = None
    assert EngineClient(client, Host()).cdi_devices(EngineInfo.of(answer)) == devices


def test_an_engine_reports_its_store_and_whether_it_is_podman() -> None:
    containerd = EngineInfo.of({"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]})
    assert containerd.containerd and not EngineInfo.of({"DriverStatus": [["Backing Filesystem", "extfs"]]}).containerd
    assert EngineVersion.of({"Components": [{"Name": "Podman Engine"}], "Version": "4.3.1"}).podman
    assert EngineVersion.of({"Components": [{"Name": "Engine"}], "Arch": "arm64"}) == EngineVersion(
        architecture="arm64"
    )


@pytest.mark.parametrize("odd", NOTHING)
def test_an_engines_report_has_only_texts(odd: object) -> None:
    keys = (
        "ID ServerVersion DockerRootDir Driver DriverStatus SecurityOptions CgroupVersion MemoryLimit RegistryConfig "
        "Runtimes CDISpecDirs DiscoveredDevices SystemTime Version ApiVersion Os Arch Components progressDetail"
    )
    answer = dict.fromkeys(keys.split(), odd)
    info, version = EngineInfo.of(answer), EngineVersion.of(answer)
    texts = (info.id, info.version, info.root, info.driver, info.cgroup_version, version.version, version.api)
    assert all(isinstance(text, str) for text in (*texts, *info.security_options, *info.mirrors, *info.cdi_folders))
    assert (info.containerd, version.podman, info.limits_processors) == (False, False, False)
    assert TransferEvent.of(odd) == TransferEvent("", "")
    if not isinstance(odd, dict):
        for kind in (EngineInfo, EngineVersion):
            with pytest.raises(ValueError, match="nothing about itself"):
                kind.of(odd)


@pytest.mark.parametrize("odd", NOTHING)
def test_fields_of_another_type_have_their_default(odd: object) -> None:
    fields = ("RepoTags", "RepoDigests", "RootFS", "Config", "Labels", "Mounts", "Names", "State", "ExecIDs", "Author")
    answer = {"Id": "1", **dict.fromkeys(fields, odd), "Size": None, "Created": "yesterday"}
    assert ImageInfo.of(answer).layers == () and ImageInfo.of(answer).created == pytest.approx(time.time(), abs=60)
    container = ContainerInfo.of(answer)
    assert (container.pid, container.env, container.entrypoint) == (0, {}, ())
    assert VolumeInfo.of(odd).name == HistoryStep.of(odd).command == ""
    for kind in (ImageInfo, ContainerInfo):
        with pytest.raises(EngineError, match="no ID"):
            kind.of(odd)
