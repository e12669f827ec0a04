"""Nodes as users write them."""

from __future__ import annotations

import pytest

from reprokit import completion
from reprokit.config import load
from reprokit.config.nodes import Node, parse_node
from reprokit.errors import UsageError
from reprokit.nodes import config


def test_addresses():
    for text, *parts in (
        ("me@lab", "lab", "me"),
        ("me@10.0.0.3:2222", "10.0.0.3", "me", 2222),
        ("lab1", "lab1"),
        ("me@[fe80::1%eth0]:22", "fe80::1%eth0", "me", 22),
        ("CORP\\a b@c@lab", "lab", "CORP\\a b@c"),
    ):
        assert parse_node(text) == Node(text, *parts)
    assert parse_node("me@lab", jump="a@b:1,c").jump == "a@b:1,c"
    with pytest.raises(UsageError, match="-oX"):
        parse_node("me@lab", jump="a@b,-oX")


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "me@-oX", "me@", "me@lab:x", "me@lab:70000", "lab\n", "a b"])
def test_invalid_addresses(text):
    with pytest.raises(UsageError):
        parse_node(text)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes the user's configuration."""
    file = tmp_path / "config.yaml"
    monkeypatch.setenv("REPROKIT_CONFIG", str(file))
    return file.write_text


def test_the_configuration_names_nodes(written):
    written("nodes:\n  lab1:\n  lab2: me@x:22\n  lab3: {address: me@y, jump: gate}\n")
    nodes = [Node("lab1", "lab1"), Node("lab2", "x", "me", 22), Node("lab3", "y", "me", 0, "gate")]
    assert list(load().nodes) == nodes
    assert config.find("lab3", jump="other") == Node("lab3", "y", "me", 0, "other")
    assert config.find("me@z") == Node("me@z", "z", "me")


@pytest.mark.parametrize(
    ("text", "said"), [("nodes: {a: {adress: x}}", "adress"), ("nodes: {a: '-oX'}", "'-oX'"), ("nodes: [a]", "nodes")]
)
def test_errors_of_the_configuration_name_the_file(written, tmp_path, text, said):
    written(text)
    with pytest.raises(UsageError, match=said) as error:
        load()
    assert error.value.where == f"{tmp_path / 'config.yaml'}:1"


def test_names_of_the_ssh_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    ssh = tmp_path / ".ssh"
    (ssh / "more").mkdir(parents=True)
    (ssh / "config").write_text(
        "Include ~no-such-user/config\n"
        'Include more/*\nHost lab1 "lab 2" # a comment\n  User me\nhost=lab3\nHost *.org !x\nInclude config\n'
    )
    (ssh / "more" / "one").write_text("Host lab4\n")
    assert config.ssh_names() == ["lab4", "lab1", "lab 2", "lab3"]


def test_completion_offers_nodes(written, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    written("nodes: {lab1: , zoo: me@lab2}\n")
    assert completion.nodes("la") == ["lab1"]
    assert completion.images_and_nodes("z") == ["zoo"]
    written("nodes: {'-x': }\n")
    assert completion.nodes("") == []
