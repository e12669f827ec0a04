from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.container import parse
from reprokit.container.settings import Port
from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount, require_source

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
