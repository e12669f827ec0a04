"""What users write about a container, and the settings that a container keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.container import parse
from reprokit.container.settings import ContainerSettings, Port, RunOptions, changes, from_label, merge, to_label
from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount, require_source

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


HERE = Path("/here")


def test_mounts(tmp_path):
    for text, source, target in (
        ("/data:/data", "/data", "/data"),
        ("data:/in/", "/here/data", "/in"),
        ("/a://opt/.//in/./x/", "/a", "/opt/in/x"),
        ("/ro:/in", "/ro", "/in"),
        ("/a b:/c:rw", "/a b", "/c"),
    ):
        assert parse.mount(text, HERE) == BindMount(source, target)
    assert parse.mount("../x:/in:ro", HERE) == BindMount("/x", "/in", read_only=True)
    wrong_target = ["/data", "/x:", "/a:b", "/a:/b:zz", "/a:/b:ro:x", "/a:/b/../c", "/a:/", "/a:/./"]
    for text in ("", ":/x", "~no-such-user/x:/x", "\udcff:/x", *wrong_target):
        with pytest.raises(UsageError):
            parse.mount(text, HERE)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError):  # Python 3.13 resolves it to itself
        require_source(parse.mount("loop:/x", tmp_path))


def test_ports():
    assert parse.port("8888") == Port("127.0.0.1", 8888, 8888)
    assert parse.port("9000:80") == Port("127.0.0.1", 9000, 80)
    assert parse.port("0.0.0.0:9000:80") == Port("0.0.0.0", 9000, 80)
    assert parse.port("[::1]:9000:80") == Port("::1", 9000, 80)
    assert parse.port("53:53/udp") == Port("127.0.0.1", 53, 53, "udp")


def test_sizes_names_users_and_variables():
    sizes = {"8g": 8 << 30, "512m": 512 << 20, "1.5GiB": 3 << 29, "8GB": 8 * 10**9}
    assert {text: parse.shm_size(text) for text in sizes} == sizes
    assert parse.name("a-b_c.d1") == "a-b_c.d1"
    assert parse.user("1000:video") == "1000:video"
    variables = parse.environment(["A=1", "B", "C", "D=x=y", "E="], {"B": "caller"})
    assert variables == {"A": "1", "B": "caller", "D": "x=y", "E": ""}


def one_variable(text: str) -> dict[str, str]:
    return parse.environment([text], {"X": "\udcff"})


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (parse.port, ["", "a", "0:1", "1:70000", "1:2:3", "999.1.1.1:1:1", "host:1:2", "1:2/icmp", "-1:2"]),
        (parse.shm_size, ["8", "g", "-1g", "8x", "", "0", "9" * 21 + "g", "9" * 400 + "g", "2000000000t"]),
        (parse.name, ["-a", "a", "a b", "a/b", "x" * 130]),
        (parse.user, ["", "a b", "a:b:c", "-r"]),
        (one_variable, ["=1", "1A=2", "A B=c", "A;x=1", "A=\udcff", "X"]),
    ],
)
def test_bad_input(read, texts: list[str]):
    for text in texts:
        with pytest.raises(UsageError):
            read(text)


def test_an_environment_file_is_read_as_docker_does_and_never_shown(tmp_path):
    file = tmp_path / "tokens.env"
    file.write_text("# tokens\nTOKEN=hunter2=x\n\n  PLAIN=a b # c\nCALLER\nMISSING\n")
    assert parse.environment_file(file, {"CALLER": "mine"}) == {
        "TOKEN": "hunter2=x",
        "PLAIN": "a b # c",
        "CALLER": "mine",
    }
    file.write_bytes("\ufeffA=x\u2028y\r\nB=1\x0cC=2\n".encode())
    assert parse.environment_file(file, {}) == {"A": "x\u2028y", "B": "1\x0cC=2"}
    for text in ("A=1\nhunter2 is my password\n", "A=1\nhunter-2=1\n"):
        file.write_text(text)
        with pytest.raises(UsageError) as caught:
            parse.environment_file(file, {})
        assert caught.value.where == f"{file}:2" and "hunter" not in caught.value.message
    with pytest.raises(UsageError, match="cannot read --env-file"):
        parse.environment_file(tmp_path / "gone", {})
