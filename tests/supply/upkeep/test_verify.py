from __future__ import annotations

import subprocess
from pathlib import Path

from reprokit.supply.kinds.git.store import faults, folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep import repair, verify
from tests.support.repositories import Repositories
from tests.support.stores import fetch, overwrite, put


def test_a_store_that_holds_what_it_was_given(store: Store, commit: Commit):
    sizes = [put(store, b"x" * n) and n for n in (0, 1, 3_000_000)]
    seen: list[tuple[int, int]] = []
    verified = verify(store, lambda done, total: seen.append((done, total)))
    assert (verified.files, verified.repositories, verified.bad) == (3, 1, ())
    assert seen[-1] == (verified.size, verified.size) and verified.size > sum(sizes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_flipped_byte_a_short_file_a_stray_and_a_link_are_named(store: Store, tmp_path: Path):
    assert verify(store).bad == ()
    flipped, short, good, link = (put(store, content) for content in (b"abc", b"defg", b"hi", b"jk"))
    overwrite(store.path(flipped), 1, b"X")
    store.path(short).write_bytes(b"def")
    stray = store.path(good).with_name("notes.txt")
    stray.write_text("x")
    store.path(link).rename(tmp_path / "elsewhere")
    store.path(link).symlink_to(tmp_path / "elsewhere")
    bad = {each.path: each for each in verify(store).bad}
    assert set(bad) == {store.path(flipped), store.path(short), store.path(link), stray}
    assert bad[store.path(flipped)].what == flipped
    assert bad[store.path(short)].why.startswith("its 3 bytes hash to cb8379ac")
    assert bad[store.path(link)].why == "no plain file"


def test_repair_removes_only_what_is_bad(store: Store, commit: Commit, repositories: Repositories):
    bad, good = put(store, b"abc"), put(store, b"def")
    overwrite(store.path(bad), 0, b"X")
    (folder_of(commit, store) / "HEAD").unlink()
    head = repositories.make("team/other", {"a": "1"})
    other = fetch(store, "team/other", head)
    repair(store, verify(store).bad)
    assert not store.path(bad).exists() and store.path(good).exists()
    assert not folder_of(commit, store).exists() and folder_of(other, store).exists()
    assert verify(store).bad == ()
    fetch(store, "team/tool", commit.commit)
    assert folder_of(commit, store).exists()


def test_a_repository_with_a_spoilt_pack_or_without_an_object(store: Store, commit: Commit):
    folder = folder_of(commit, store)
    assert faults(folder, "1" * 40)
    (pack,) = (folder / "objects" / "pack").glob("*.pack")
    content = pack.read_bytes()
    overwrite(pack, len(content) // 2, bytes([content[len(content) // 2] ^ 1]))
    (bad,) = verify(store).bad
    assert bad.what == f"forge.test/team/tool at {commit.commit}" and bad.why
    pack.write_bytes(content[:-30])
    assert len(verify(store).bad) == 1
    for path in pack.parent.iterdir():
        path.unlink()
    assert len(verify(store).bad) == 1
    subprocess.run(["git", "-C", str(folder), "unpack-objects", "-q"], input=content, check=True)
    assert verify(store).bad == ()
    blob = subprocess.check_output(["git", "-C", str(folder), "rev-parse", f"{commit.commit}:a"], text=True).strip()
    (folder / "objects" / blob[:2] / blob[2:]).unlink()
    (bad,) = verify(store).bad
    assert "broken link" in bad.why or "missing" in bad.why


def test_old_commits_of_a_form_that_git_refuses_today_are_unharmed(store: Store, commit: Commit):
    folder = folder_of(commit, store)
    git = ["git", "-C", str(folder)]
    tree = subprocess.check_output([*git, "rev-parse", f"{commit.commit}^{{tree}}"], text=True).strip()
    text = f"tree {tree}\nauthor a <a@b> 1 +051800\ncommitter a <a@b> 1 +0000\n\nx\n"
    write = [*git, "hash-object", "-t", "commit", "-w", "--stdin", "--literally"]
    old = subprocess.run(write, input=text, text=True, check=True, capture_output=True).stdout.strip()
    assert subprocess.run([*git, "fsck", old], capture_output=True).returncode
    assert faults(folder, old) == ""
