"""What strangers can write (workspaces, checkouts, a bundle's files) is opened by `reprokit.untrusted.files` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "reprokit"
CALLS = {
    *(
        "open",
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "touch",
        "mkdir",
        "unlink",
        "rmdir",
        "symlink_to",
    ),
    *("symlink_to", "iterdir", "glob", "rglob", "scandir", "rmtree", "copyfile", "copytree", "copy2", "makedirs"),
}
# Modules that open paths themselves, by whose the paths are.
OTHERS = {
    "what comes with reprokit": [
        "compat/distributions.py",
        "compat/facts.py",
        "container/prepare.py",
        "explain/load.py",
        "explain/pitfalls.py",
        "helper/sidecar.py",
        "recipe/blocks.py",
        "recipe/start.py",
    ],
    "a container's: they run there": ["profiling/launcher.py", "profiling/reduce.py"],
    "reprokit's own private folders": [
        *("container/log.py", "explain/last.py", "image/buildkit.py", "image/record.py", "image/base/stage.py"),
        "image/entries.py",
        *("filelocks.py", "nodes/remote_staging.py", "nodes/spool.py", "nodes/ssh.py", "oci/blob_folder.py"),
        *("bundle/inputs.py", "bundle/inputs_import.py", "config/*", "paths.py", "supply/*"),
        *("bench/checkout.py", "results/index.py", "results/reproduction.py", "verify/compare.py", "verify/run.py"),
        *("sweep/inside.py", "sweep/slurm_array.py"),
    ],
    "named on the command line, or new at the user's wish": [
        *(
            "results/attention_plots.py",
            "results/plot_layout.py",
            "results/plots.py",
            "bench/printed.py",
            "bundle/delta.py",
            "bundle/formats.py",
            "bundle/squashfs.py",
            "bundle/tools/tool.py",
        ),
        *("bundle/partial_file.py", "bundle/read.py", "bundle/resumable_tar.py", "bundle/signature.py"),
        *("bundle/recipes.py", "bundle/selection.py", "bundle/write.py", "commands/*", "recipe/find.py"),
    ],
    "the system's, or the user's settings": [
        *("cli.py", "completion.py", "config/*"),
        *(
            "container/evidence.py",
            "host/disk.py",
            "host/gpu.py",
            "host/kills.py",
            "host/machine.py",
            "host/memory.py",
            "host/mounts.py",
            "nodes/config.py",
        ),
    ],
    # Folders as a whole, which are vouched for before; what is in them is opened by the module for it.
    "a workspace's own place": [
        *(
            "bench/inputs.py",
            "bundle/workspaces.py",
            "host/workspace.py",
            "nodes/workspace_copy.py",
        ),
    ],
}


def opened(text: str) -> Iterator[str]:
    """The calls that take a path from the file system; those on archives in memory are none."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"
        if isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            of = node.func.value
            if not (
                isinstance(of, ast.Name) and of.id in ("tarfile", "folder", "self", "urllib", "opener", "checkout")
            ):
                yield node.func.attr


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_who_opens_paths_is_known(path: Path):
    name = str(path.relative_to(PACKAGE))
    known = any(fnmatch(name, pattern) for patterns in OTHERS.values() for pattern in patterns)
    if name != "untrusted/files.py" and not known:
        assert list(opened(path.read_text())) == [], "open it by reprokit.untrusted.files, or say above whose it is"


def test_one_that_opens_paths_would_be_found():
    text = "Path('x').read_text()\nopen('x')\nshutil.rmtree('x')\ntarfile.open(fileobj=memory)\nfolder.open('x', 0)"
    assert sorted(opened(text)) == ["open", "read_text", "rmtree"]


def test_nothing_is_listed_that_is_gone():
    for patterns in OTHERS.values():
        for pattern in patterns:
            assert list(PACKAGE.glob(pattern)), pattern
