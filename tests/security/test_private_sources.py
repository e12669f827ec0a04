"""Private repositories: the user's keys are used for hosts of the user's own configuration, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import SourceError, UsageError
from reprokit.image.render import render
from reprokit.recipe.model import Source
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.git.resolve import lock_git
from reprokit.supply.kinds.git.store import submodule_url
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.forge import Forge
from tests.support.rendering import COMMIT, source, target
from tests.support.ssh_server import SshServer, ssh_server


@pytest.fixture
def server(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    root = short_path / "ssh"
    root.mkdir()
    with ssh_server(root) as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


def mirrors(store: Store, *hosts: str) -> Mirrors:
    return Mirrors(store, Configuration(hosts=hosts), (), PipSettings(), AptSettings())


@pytest.mark.slow
def test_a_key_of_the_agent_opens_repositories_of_the_users_own_hosts_only(server: SshServer, store: Store):
    forge = Forge(server.root / "forge")
    forge.commit("team/part", "part.txt")
    commit = forge.commit("team/secret", "data.txt", submodule="team/part")
    asked = Source(name="s", git=f"{server.address}/team/secret.git", commit=commit, path="/s", submodules=True)
    for stranger in ((), ("other.test",), ("127.0.0.1:1",)):
        with pytest.raises(SourceError, match=r"ssh to 127\.0\.0\.1 would use your keys"):
            lock_git(asked, mirrors(store, *stranger), print)
    assert server.connections == 0
    top = lock_git(asked.model_copy(update={"submodules": False}), mirrors(store, "127.0.0.1"), print)
    assert [c.commit for c in top] == [commit] and server.connections
    assert server.private_key not in top[0].model_dump_json()


def test_an_address_of_ssh_cannot_be_an_option_or_a_command():
    for address in ("ssh://-oProxyCommand=id/x", "ssh://a@-oProxyCommand=id/x", "a@-oX:x", "ssh://a@h/x;id",
                    "ssh://a:secret@h/x", "ssh://h/x", "ext::sh -c id", "a@h:-x y"):  # fmt: skip
        with pytest.raises(ValueError, match="not an https:// address"):
            Source(name="s", git=address, commit=COMMIT, path="/s")
    assert Source(name="s", git="git@host.test:a/b.git", commit=COMMIT, path="/s").git == "ssh://git@host.test/a/b"
    with pytest.raises(UsageError):
        submodule_url("https://forge.test/a/b", "x", "ssh://-oProxyCommand=id/x")


def test_a_strangers_repository_names_no_private_one_as_its_submodule():
    strangers = ("https://forge.test/a/b", "https://host.test/a/b", "ssh://git@forge.test/a/b", "ssh://x@host.test/a")
    for parent in strangers:
        for address in ("git@host.test:team/secret", "ssh://git@host.test/team/secret"):
            with pytest.raises(UsageError, match="not an https:// address"):
                submodule_url(parent, "x", address)
    own = "ssh://git@host.test/team/a"
    for address in ("git@host.test:team/part.git", "ssh://git@host.test/team/part", "../part"):
        assert submodule_url(own, "x", address) == "ssh://git@host.test/team/part"


def test_the_image_fetches_a_private_source_from_the_gateway(tmp_path: Path):
    private = {**source("a", "/a"), "git": "git@host.test:team/a.git"}
    text = render(target(tmp_path, sources=[private, source("b", "/b")], blocks=["git"])).dockerfile
    assert "git remote add origin https://host.test/team/a;" in text and "ssh://git@host.test/team" not in text
    for start in ("git@host.test:", "ssh://git@host.test/"):
        assert f'url."$REPROKIT_GIT"host.test/.insteadOf {start}' in text
