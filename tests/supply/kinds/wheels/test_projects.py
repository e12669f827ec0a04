"""Requirements that are built in the image: sdists and commits of git, with all that their build takes in."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import ReprokitError, SourceError
from reprokit.supply.kinds.git.resolve import lock_commits
from reprokit.supply.kinds.wheels import package_index
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import WheelRequest
from reprokit.supply.kinds.wheels.resolve import lock_wheels
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import HOSTS
from tests.support.json_index import Index
from tests.support.repositories import TOOL, Repositories
from tests.support.upstream import Upstream
from tests.support.wheels import PYTHON_311, names

DAY = "2021-01-01"
BUILT_WITH_OLD = {"pyproject.toml": '[build-system]\nrequires = ["setuptools<60"]\n'}


@pytest.fixture
def json_index(upstream: Upstream, tmp_path: Path) -> Index:
    made = Index(upstream, tmp_path / "wheels")
    for name, version in (("setuptools", "59.0"), ("setuptools", "80.0"), ("wheel", "0.36"), ("low", "1.0")):
        made.wheel(name, version, DAY)
    return made


@pytest.fixture
def mirrors(store: Store, upstream: Upstream) -> Mirrors:
    settings = PipSettings(index=f"http://127.0.0.1:{upstream.port}/simple/")
    return Mirrors(store, Configuration(hosts=HOSTS), pip=settings)


@pytest.mark.slow
def test_an_sdist_brings_what_its_build_requires(json_index: Index, mirrors: Mirrors, store: Store):
    json_index.sdist("old", "1.4", DAY, "low>=1\n", BUILT_WITH_OLD)
    request = WheelRequest(["old>=1", "setuptools"], PYTHON_311)
    found = lock_wheels(request, mirrors)
    assert names(found) == ["low==1.0", "old==1.4", "setuptools==59.0", "setuptools==80.0", "wheel==0.36"]
    assert [wheel.version for wheel in found if wheel.build_only] == ["59.0", "0.36"]
    site = package_index(found)
    site.prepare(store, Path())
    assert site.files["constraints-txt"] == b"low==1.0\nold==1.4\nsetuptools==80.0\n"
    # The same entries stay when newer ones come.
    json_index.wheel("low", "2.0", DAY)
    json_index.wheel("wheel", "0.40", DAY)
    assert lock_wheels(request, mirrors, keep=found) == found


@pytest.mark.slow
def test_an_sdist_that_cannot_be_built_is_named_with_the_nearest_wheels(json_index: Index, mirrors: Mirrors):
    """As pandas 1.1.0 on Python 3.11, which is built with a NumPy that has no wheel there."""
    json_index.sdist("old", "1.4", DAY, "", {"pyproject.toml": '[build-system]\nrequires = ["low==0.5"]\n'})
    for version, tag in (("1.3", "cp38-cp38-manylinux2014_x86_64"), ("1.5", "py3-none-any"), ("1.6b1", "py3-none-any")):
        json_index.wheel("old", version, DAY, tag)
    nearest = "nearest versions that have one: 1.5"
    with pytest.raises(SourceError) as error:
        lock_wheels(WheelRequest(["old==1.4", "setuptools"], PYTHON_311), mirrors)
    assert error.value.message.startswith("no wheel of old==1.4 for Python 3.11, and what builds its sdist cannot")
    assert "low==0.5" in error.value.message and (error.value.where, error.value.hint) == ("old==1.4", nearest)
    # An exact list is installed as it is.
    with pytest.raises(SourceError, match=r"no wheel of old==1\.4") as error:
        lock_wheels(WheelRequest(["old==1.4"], PYTHON_311), mirrors)
    assert error.value.hint.startswith(f"{nearest}; or list a release without a wheel under `sdists`")


@pytest.mark.slow
def test_metadata_of_an_sdist_reaches_no_file_of_the_host(json_index: Index, mirrors: Mirrors):
    attacks = [
        ("low @ file:///etc/passwd\n", "setuptools"),
        ("low\n", "setuptools @ file:///etc/passwd"),
        ("low\n", "-r /etc/passwd"),
        ("low\n", "setuptools\\n-r /etc/passwd"),
    ]
    for number, (requires, build) in enumerate(attacks):
        project = {"pyproject.toml": f'[build-system]\nrequires = ["{build}"]\n'}
        json_index.sdist(f"old{number}", "1.4", DAY, requires, project)
        try:
            locked = lock_wheels(WheelRequest([f"old{number}>=1"], PYTHON_311), mirrors)
        except ReprokitError as error:
            assert "root:" not in str(error)
        else:
            assert "low" not in [wheel.name for wheel in locked]


@pytest.mark.slow
def test_only_a_file_with_an_allowed_checksum_is_locked(json_index: Index, mirrors: Mirrors):
    json_index.wheel("six", "1.0", DAY)
    good = lock_wheels(WheelRequest(["six"], PYTHON_311), mirrors)
    allowed = {"six": [good[0].sha256]}
    assert lock_wheels(WheelRequest(["six"], PYTHON_311, checksums=allowed), mirrors) == good
    with pytest.raises(SourceError, match="requirements file allows"):
        lock_wheels(WheelRequest(["six"], PYTHON_311, checksums={"six": ["0" * 64]}), mirrors)


@pytest.mark.slow
def test_a_project_of_git_is_read_at_its_commit_and_never_run(
    json_index: Index, mirrors: Mirrors, repositories: Repositories, store: Store
):
    project = '[project]\nname = "tool"\nversion = "2.0"\ndependencies = ["low"]\n'
    project += "[project.optional-dependencies]\nmore = [\"six; python_version > '3'\"]\n"
    project += '[build-system]\nrequires = ["setuptools<60"]\n'
    commit = repositories.make("team/tool", {"py/pyproject.toml": project, "py/setup.py": "raise SystemExit"})
    repositories.git("team/tool", "tag", "v2")
    moved = repositories.commit("team/tool", {"other": "x"})
    json_index.wheel("six", "1.0", DAY)
    json_index.wheel("user", "1.0", DAY, requires=("tool>=1.5",))
    text = f"tool[more] @ git+{TOOL}@v2#subdirectory=py"
    found = lock_wheels(WheelRequest([text, "user"], PYTHON_311), mirrors)
    assert names(w for w in found if not w.build_only) == ["low==1.0", "six==1.0", "user==1.0"]
    assert names(w for w in found if w.build_only) == ["setuptools==59.0", "wheel==0.36"]
    [locked] = lock_commits([], [text], {}, mirrors)
    assert (locked.commit, locked.ref) == (commit, "v2") and GitCommit.model_validate(locked.model_dump()) == locked
    # A tag that moves changes nothing until the section is locked again.
    repositories.git("team/tool", "tag", "-f", "v2")
    refs = {(locked.url, locked.ref): locked.commit}
    assert lock_commits([], [text], refs, mirrors) == (locked,)
    assert lock_commits([], [text], {}, mirrors)[0].commit == moved
    for wrong, why in ((text.replace("v2", "v3"), "no tag or branch 'v3'"), (text.replace("tool[", "tol["), "called")):
        with pytest.raises(ReprokitError, match=why):
            lock_wheels(WheelRequest([wrong], PYTHON_311), mirrors)
