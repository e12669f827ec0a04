from __future__ import annotations

from dataclasses import replace
from typing import Any

from reprokit.container import gpu
from reprokit.container.launch import IDLE, Start, create_body
from reprokit.container.settings import ContainerSettings, Port, from_label
from reprokit.container.user import Identity
from reprokit.engine import EngineInfo
from reprokit.host.mounts import BindMount

START = Start("c", "faith", "cpu", "/workspace", "sha256:2", "sha256:1", {"A": "b=c"})
SETTINGS = ContainerSettings(
    mounts=(BindMount("/inside/data", "/data", read_only=True),),
    ports=(Port("127.0.0.1", 9000, 80), Port("0.0.0.0", 9001, 80), Port("127.0.0.1", 53, 53, "udp")),
    shm=8 << 30,
)
WHO = Identity("1000:1001", ("44",), False)


def body(settings: ContainerSettings = SETTINGS, who: Identity = WHO, options: tuple[str, ...] = ()) -> dict[str, Any]:
    info = EngineInfo(security_options=options)
    (rung,) = gpu.ladder(gpu.NONE, ())
    return create_body(START, settings, rung, who, 1000, (BindMount("/data", "/data", read_only=True),), info)


def test_body_says_what_the_container_is_made_from():
    made = body()
    assert from_label(made["Labels"].pop("reprokit.settings")) == SETTINGS
    assert made == {
        "Image": "sha256:2",
        "User": "1000:1001",
        "Hostname": "faith",
        "WorkingDir": "/workspace",
        "Env": ["A=b=c", "NVIDIA_VISIBLE_DEVICES=void"],
        "Labels": {
            "reprokit.container": "c",
            "reprokit.recipe": "faith",
            "reprokit.variant": "cpu",
            "reprokit.image": "sha256:1",
            "reprokit.owner": "1000",
            "reprokit.user": "1000:1001",
        },
        "Entrypoint": list(IDLE),
        "Cmd": [],
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},
        "ExposedPorts": {"80/tcp": {}, "53/udp": {}},
        "HostConfig": {
            "Init": True,
            "Mounts": [{"Type": "bind", "Source": "/data", "Target": "/data", "ReadOnly": True}],
            "PortBindings": {
                "80/tcp": [
                    {"HostIp": ip, "HostPort": port} for ip, port in (("127.0.0.1", "9000"), ("0.0.0.0", "9001"))
                ],
                "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "53"}],
            },
            "ShmSize": 8 << 30,
            "NetworkMode": "bridge",
            "SecurityOpt": ["no-new-privileges"],
            "DeviceRequests": [],
            "GroupAdd": ["44"],
        },
    }


def test_host_network_takes_no_host_name_and_shifted_ids_are_switched_off():
    made = body(replace(SETTINGS, network="host"), replace(WHO, host_users=True))
    assert "Hostname" not in made
    assert made["HostConfig"]["PortBindings"] == {}
    assert made["HostConfig"]["UsernsMode"] == "host"


def test_selinux_relabels_nothing_and_capabilities_are_added_only_on_request():
    host = body(options=("name=seccomp,profile=default", "name=selinux"))["HostConfig"]
    assert host["SecurityOpt"] == ["no-new-privileges", "label=disable"]
    (rung,) = gpu.ladder(gpu.NONE, ())
    made = create_body(replace(START, capabilities=("SYS_ADMIN",)), SETTINGS, rung, WHO, 1000, (), EngineInfo())
    assert made["HostConfig"]["CapAdd"] == ["SYS_ADMIN"]
    assert made["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
