from __future__ import annotations

from reprokit.container.spec import IDLE, ContainerSpec, Port, to_api
from reprokit.host.mounts import BindMount

SPEC = ContainerSpec(
    image="sha256:1",
    user="1000:1001",
    hostname="faith",
    workdir="/workspace",
    labels={"reprokit.container": "c"},
    env={"A": "b=c"},
    mounts=(BindMount("/data", "/data", read_only=True),),
    ports=(Port("127.0.0.1", 9000, 80), Port("0.0.0.0", 9001, 80), Port("127.0.0.1", 53, 53, "udp")),
    shm=8 << 30,
    groups=("44",),
)


def test_body_says_what_the_spec_says():
    assert to_api(SPEC) == {
        "Image": "sha256:1",
        "User": "1000:1001",
        "Hostname": "faith",
        "WorkingDir": "/workspace",
        "Env": ["A=b=c"],
        "Labels": {"reprokit.container": "c"},
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
                    {"HostIp": "127.0.0.1", "HostPort": "9000"},
                    {"HostIp": "0.0.0.0", "HostPort": "9001"},
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


def test_nothing_is_privileged():
    host = to_api(SPEC)["HostConfig"]
    assert not {"Privileged", "CapAdd", "PidMode", "IpcMode", "Devices", "UsernsMode"} & set(host)


def test_host_network_takes_no_host_name_and_shifted_ids_are_switched_off():
    body = to_api(ContainerSpec("i", "0:0", "h", "/", {}, network="host", host_users=True))
    assert "Hostname" not in body
    assert body["HostConfig"]["UsernsMode"] == "host"
