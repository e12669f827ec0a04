"""Interrupted fetches, which continue in pieces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.git.command import git
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.git_server import GitServer
from tests.support.processes import naming
from tests.support.repositories import TOOL, Repositories, allow_filters, big_files, mirror, show
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.slow
def test_a_line_that_cuts_every_big_answer_still_brings_the_commit(
    repositories: Repositories, server: GitServer, store: Store, places: Mirrors
):
    top = Commit(TOOL, repositories.make("team/tool", big_files(600)))
    allow_filters(repositories, "team/tool")
    # One pack of 600 files has 2.4 MB and is always cut. A batch of 256 files is smaller than the cut.
    server.cuts, server.cut_after = 10**6, 1_500_000
    said: list[str] = []
    ensure([top], places, said.append)
    assert show(top, "file599", store) == big_files(600)["file599"]
    assert any("in pieces, 256 of 600 files done" in line for line in said)
    assert max(server.packs) < 1_500_000
    assert not list((store.root / "partial").iterdir())
    # The result is an ordinary repository.
    assert "promisor" not in (folder_of(top, store) / "config").read_text()
    git("fsck", "--full", folder=folder_of(top, store))


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.slow
def test_the_password_of_a_mirror_stays_out_of_the_store(
    repositories: Repositories, server: GitServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    top = Commit("https://elsewhere.test/team/tool", repositories.make("team/tool", big_files(2)))
    allow_filters(repositories, "team/tool")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.http://127.0.0.1:9/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://elsewhere.test/")
    server.cuts, server.cut_after = 10**6, 1_000
    said: list[str] = []
    places = Mirrors(store, mirror(server.url.replace("//", "//me:secret@") + "/{path}.git"))
    with pytest.raises(SourceError) as error:
        ensure([top], places, said.append)
    # Its folders arrived, its files did not.
    assert any("in pieces, 0 of 2 files" in line for line in said)
    left = [path for path in store.root.rglob("*") if path.is_file()]
    assert [path for path in left if path.suffix == ".pack"]
    assert not [path for path in left if b"secret" in path.read_bytes()]
    assert "secret" not in f"{said} {error.value.message} {error.value.where}"


@pytest.mark.slow
def test_a_killed_fetch_goes_on_from_what_it_had(
    repositories: Repositories,
    server: GitServer,
    next_server: Callable[[], GitServer],
    store: Store,
    places: Mirrors,
):
    top = Commit(TOOL, repositories.make("team/tool", big_files(600)))
    allow_filters(repositories, "team/tool")
    server.cuts, server.cut_after = 10**6, 1_000  # from here on nothing arrives
    script = (
        "import sys; from pathlib import Path; from reprokit.supply.kinds.git.fetch import ensure;"
        "from reprokit.supply.kinds.git.store import Commit; from reprokit.supply.store import Store;"
        "from reprokit.supply.mirrors.places import Mirrors;"
        "from reprokit.config import Configuration;"
        "store = Store(Path(sys.argv[1]));"
        "ensure([Commit(*sys.argv[2:])], Mirrors(store, Configuration()), lambda line: print(line, flush=True))"
    )
    command = [sys.executable, "-c", script, str(store.root), top.url, top.commit]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "trying again" in line:
                server.cuts = 0
            if "256 of 600" in line:
                break
        os.killpg(process.pid, signal.SIGKILL)
    # git runs for a moment after its parent has ended.
    wait_for(lambda: not naming(store.root))
    assert not folder_of(top, store).exists()
    # The first server may still be answering the killed process.
    second = next_server()
    ensure([top], places)
    assert show(top, "file599", store) == big_files(600)["file599"]
    assert sum(second.packs) < 600 * 4000  # not all of it again


@pytest.mark.usefixtures("no_waiting")
def test_spoilt_pieces_are_thrown_away(repositories: Repositories, server: GitServer, store: Store, places: Mirrors):
    top = Commit(TOOL, repositories.make("team/tool", big_files(2)))
    allow_filters(repositories, "team/tool")
    server.cuts, server.cut_after = 10**6, 1_000
    with pytest.raises(SourceError):
        ensure([top], places)
    server.cuts = 0
    (pack,) = (store.root / "partial").rglob("*.pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:-30] + b"x" * 30)
    ensure([top], places)
    assert show(top, "file1", store) == big_files(2)["file1"]
