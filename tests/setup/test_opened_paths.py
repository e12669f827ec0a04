"""What strangers can write (workspaces, checkouts, a bundle's files) is opened by `reprokit.untrusted.files` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.paths import ROOT

PACKAGE = ROOT / "reprokit"
# Functions and methods that take a path, by name: those of `open`, os, shutil, glob and pathlib.
CALLS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkdir", "makedirs", "unlink", "rmdir"),
    *("symlink_to", "hardlink_to", "iterdir", "glob", "iglob", "rglob", "scandir", "listdir", "fwalk"),
    *("rmtree", "copyfile", "copytree", "copy2"),
}
# Modules that open paths themselves, by whose the paths are. All others, new ones too, use `reprokit.untrusted.files`.
OTHERS = {
    "what comes with reprokit": """
        commands/help.py compat/distributions.py compat/facts.py compat/interfaces.py config/archives.py
        container/prepare.py explain/load.py helper/program.py recipe/blocks.py recipe/start.py
    """,
    "a container's: they run there": """
        profiling/launcher.py profiling/reduce.py
    """,
    "reprokit's own private folders": """
        bench/checkout.py bench/container.py bundle/inputs.py container/log.py explain/last.py filelocks.py
        helper/container.py image/base/stage.py image/entries.py image/record.py nodes/remote_staging.py nodes/send.py
        nodes/ssh.py oci/blob_folder.py paths.py profiling/peaks.py smoke/reproduce.py supply/fetch/download.py
        supply/fetch/pool.py supply/gateway.py supply/kinds/apt/deb.py supply/kinds/conda/environment.py
        supply/kinds/git/command.py supply/kinds/git/fetch.py supply/kinds/git/serve.py supply/kinds/git/store.py
        supply/kinds/wheels/uv.py supply/site.py supply/store.py supply/upkeep.py sweep/inside.py sweep/slurm_array.py
        verify/compare.py verify/layers.py verify/run.py
    """,
    "named on the command line, or new at the user's wish": """
        bundle/export.py bundle/formats.py bundle/read.py bundle/resumable_tar.py bundle/signature.py commands/doctor.py
        commands/explain.py commands/export.py commands/profile.py commands/render.py commands/smoke.py
    """,
    "the system's, or the user's settings": """
        cli.py completion.py config/__init__.py container/evidence.py host/gpu.py host/kills.py host/machine.py
        host/memory.py host/mounts.py installation.py nodes/config.py profiling/host_tools.py
        supply/kinds/apt/settings.py supply/kinds/wheels/index.py
    """,
    "only names in a folder of recipes or results, or a file that replaces another": """
        bench/records.py bundle/recipes.py image/lock/beside.py recipe/find.py supply/lock/file.py
    """,
    # Folders as a whole, which are vouched for before; what is in them is opened by the module for it.
    "a workspace's own place": """
        bench/inputs.py bundle/workspaces.py host/workspace.py nodes/remote.py
    """,
}
KNOWN = " ".join(OTHERS.values()).split()


def opened(text: str) -> Iterator[str]:
    """The calls that take a path from the file system."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            of, _, name = ast.unparse(node.func).rpartition(".")
            if (name in CALLS or (of, name) == ("os", "walk")) and not is_harmless(node, of, name):
                yield name


def is_harmless(node: ast.Call, of: str, name: str) -> bool:
    """Whether it opens a tar from memory, an address, or is `open(path, flags)` or `mkdir(path)` of a `Folder`."""
    if of == "tarfile":
        return not node.args
    given = [arg for arg in node.args if not (isinstance(arg, ast.Constant) and arg.value in ("r", "rb", "w", "wb"))]
    return of == "opener" or (of not in ("", "os") and len(given) == {"open": 2, "mkdir": 1}.get(name))


def test_who_opens_paths_is_known():
    opens = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if any(opened(path.read_text()))}
    opens.discard("untrusted/files.py")
    assert opens - set(KNOWN) == set(), "open it by reprokit.untrusted.files, or say above whose it is"
    assert set(KNOWN) - opens == set(), "these open nothing: remove them from the list above"


def test_the_calls_that_open_paths_are_recognised():
    paths = "Path('x').read_text() open('x') os.open('x',0) folder.open() folder.iterdir() scandir('x') os.walk('x')"
    paths += " self.file.open('rb') folder.mkdir(parents=True) gzip.open('x','rb') tarfile.open('x')"
    others = "tarfile.open(fileobj=memory) folder.open('x',os.O_RDONLY) folder.mkdir('x') ast.walk(x) read('x')"
    assert [call for call in paths.split() if len(list(opened(call))) != 1] == []
    assert [call for call in others.split() if any(opened(call))] == []
