from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.container.settings import ContainerSettings, Port, RunOptions, changes, from_label, merge, to_label
from reprokit.host.mounts import BindMount

HAVE = ContainerSettings(
    gpus="all",
    rung="CDI",
    mounts=(BindMount("/w", "/workspace"), BindMount("/d", "/data")),
    ports=(Port("127.0.0.1", 8888, 8888),),
    shm=1 << 30,
)


def test_what_a_run_requests_is_added_or_replaced():
    assert merge(HAVE, RunOptions()) == HAVE
    again = RunOptions(gpus="all", mounts=HAVE.mounts[1:], ports=HAVE.ports, shm=1 << 30, network="bridge")
    assert changes(HAVE, HAVE) == changes(HAVE, merge(HAVE, again)) == []
    mounts = (BindMount("/e", "/data", True), BindMount("/f", "/f"))
    ports = (Port("127.0.0.1", 9999, 8888), Port("127.0.0.1", 53, 8888, "udp"))
    more = merge(HAVE, RunOptions(mounts=mounts, ports=ports))
    assert (more.mounts, more.ports) == ((BindMount("/w", "/workspace"), *mounts), ports)
    assert changes(HAVE, more) == ["mount /data", "mount /f", "port 9999", "port 53"]
    other = merge(HAVE, RunOptions(gpus="0", shm=2 << 30, network="host", root=True))
    assert (other.gpus, other.shm, other.network) == ("none", 2 << 30, "host")
    assert changes(HAVE, other) == ["--gpus none", "--shm-size 2147483648", "--network host", "--user root"]
    assert merge(other, RunOptions()).root


@pytest.mark.slow
@given(
    st.builds(
        ContainerSettings,
        gpus=st.sampled_from(["all", "none", "device=0,1"]),
        mounts=st.lists(st.builds(BindMount, st.text(), st.text(), st.booleans())).map(tuple),
        ports=st.lists(st.builds(Port, st.text(), st.integers(), st.integers())).map(tuple),
        shm=st.integers(0),
    )
)
def test_the_label_holds_everything(settings):
    assert from_label(to_label(settings)) == settings


def test_a_foreign_label_is_an_error():
    changed = ['"mounts": [], "ports": [], "unknown": 1', '"mounts": 1', '"mounts": [], "ports": [], "workspace": 5']
    changed += ['"mounts": [], "ports": [["a", "b"]]', '"mounts": [{"source": 1, "target": "/x"}], "ports": []']
    for text in ("", "{}", "[]", "null", *(f"{{{each}}}" for each in changed)):
        with pytest.raises(ValueError):
            from_label(text)
