from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.container import parse
from reprokit.container.settings import Port
from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount, require_source

HERE = Path("/here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data:/data", BindMount("/data", "/data")),
        ("data:/in/", BindMount("/here/data", "/in")),
        ("/a://opt/.//in/./x/", BindMount("/a", "/opt/in/x")),
        ("../x:/in:ro", BindMount("/x", "/in", read_only=True)),
        ("/ro:/in", BindMount("/ro", "/in")),
        ("/a b:/c:rw", BindMount("/a b", "/c")),
    ],
)
def test_mounts(text, expected):
    assert parse.mount(text, HERE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/data",
        ":/x",
        "/x:",
        "/a:b",
        "/a:/b:zz",
        "/a:/b:ro:x",
        "/a:/b/../c",
        "/a:/",
        "/a:/./",
        "",
        "~no-such-user/x:/x",
        "\udcff:/x",
    ],
)
def test_bad_mounts(text):
    with pytest.raises(UsageError):
        parse.mount(text, HERE)


def test_a_mount_of_a_loop_of_links(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError):  # Python 3.13 resolves it to itself
        require_source(parse.mount("loop:/x", tmp_path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8888", Port("127.0.0.1", 8888, 8888)),
        ("9000:80", Port("127.0.0.1", 9000, 80)),
        ("0.0.0.0:9000:80", Port("0.0.0.0", 9000, 80)),
        ("[::1]:9000:80", Port("::1", 9000, 80)),
        ("53:53/udp", Port("127.0.0.1", 53, 53, "udp")),
    ],
)
def test_ports(text, expected):
    assert parse.port(text) == expected


@pytest.mark.parametrize("text", ["", "a", "0:1", "1:70000", "1:2:3", "999.1.1.1:1:1", "host:1:2", "1:2/icmp", "-1:2"])
def test_bad_ports(text):
    with pytest.raises(UsageError):
        parse.port(text)


def test_environment_takes_values_or_the_callers():
    given = parse.environment(["A=1", "B", "C", "D=x=y", "E="], {"B": "caller"})
    assert given == {"A": "1", "B": "caller", "D": "x=y", "E": ""}
    for bad in ("=1", "1A=2", "A B=c", "A;x=1", "A=\udcff", "X"):
        with pytest.raises(UsageError):
            parse.environment([bad], {"X": "\udcff"})


@pytest.mark.parametrize(
    ("text", "size"), [("8g", 8 << 30), ("512m", 512 << 20), ("1.5GiB", 3 << 29), ("8GB", 8 * 10**9)]
)
def test_sizes(text, size):
    assert parse.shm_size(text) == size


@pytest.mark.parametrize("text", ["8", "g", "-1g", "8x", "", "0", "9" * 21 + "g", "9" * 400 + "g", "2000000000t"])
def test_bad_sizes(text):
    with pytest.raises(UsageError):
        parse.shm_size(text)


def test_names_and_users():
    assert parse.name("a-b_c.d1") == "a-b_c.d1"
    assert parse.user("1000:video") == "1000:video"
    for bad in ("-a", "a", "a b", "a/b", "x" * 130):
        with pytest.raises(UsageError):
            parse.name(bad)
    for bad in ("", "a b", "a:b:c", "-r"):
        with pytest.raises(UsageError):
            parse.user(bad)


def test_an_environment_file_is_read_as_docker_does_and_never_shown(tmp_path):
    file = tmp_path / "tokens.env"
    file.write_text("# tokens\nTOKEN=hunter2=x\n\n  PLAIN=a b # c\nCALLER\nMISSING\n")
    found = parse.environment_file(file, {"CALLER": "mine"})
    assert found == {"TOKEN": "hunter2=x", "PLAIN": "a b # c", "CALLER": "mine"}
    file.write_bytes("\ufeffA=x\u2028y\r\nB=1\x0cC=2\n".encode())
    assert parse.environment_file(file, {}) == {"A": "x\u2028y", "B": "1\x0cC=2"}
    for text in ("A=1\nhunter2 is my password\n", "A=1\nhunter-2=1\n"):
        file.write_text(text)
        with pytest.raises(UsageError) as caught:
            parse.environment_file(file, {})
        assert caught.value.where == f"{file}:2" and "hunter" not in caught.value.message
    with pytest.raises(UsageError, match="cannot read --env-file"):
        parse.environment_file(tmp_path / "gone", {})
