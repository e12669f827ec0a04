"""Outputs that a verb writes without a path of the user's, in a stranger's checkout with links in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reprokit import cli
from reprokit.bench import report
from reprokit.bundle.tools import TOOLS
from reprokit.bundle.tools.tool import ToolJob
from reprokit.bundle.tools.tool import write as write_tool
from reprokit.commands import profile, sweep
from reprokit.errors import UsageError
from reprokit.recipe.find import Target, target
from reprokit.recipe.load import load_text
from reprokit.recipe.variants import add_variant
from reprokit.results import lines
from reprokit.smoke.repair import replace_text
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Lock
from reprokit.verbs import GROUPS
from tests.support.records import RECORD

RECIPE = "name: paper\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants:\n  cpu: {base: 'debian:12'}\n"
REPORT = Path("results/paper-report")
OURS = replace(RECORD, recipe="paper")


def verb(*words: str) -> None:
    done = CliRunner().invoke(cli.app, words)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception


def appended() -> None:
    lines.check_writable(Path("results/paper.jsonl"))
    lines.append(Path.cwd(), "results/paper.jsonl", [OURS])


def export(tool: str) -> Callable[[], None]:
    job = ToolJob(Target(load_text(RECIPE, "paper.yaml", "paper"), "cpu", Path("paper.yaml")), Path("/w"), "1:1")
    return lambda: write_tool(TOOLS[tool], job, None) and None


def locked() -> None:
    write(lock_path(target("paper").path), Lock(recipe="paper", variants={}))


# What each verb writes below the current folder, and the code that does. A lock is beside its recipe.
OUTPUTS: dict[str, tuple[str, Callable[[], None]]] = {
    "reproduce": ("results/paper-report/index.html", lambda: report.write(["paper"], None, REPORT)),
    "bench": ("results/paper.jsonl", appended),
    "sweep": ("results/paper.jsonl", lambda: sweep._record("paper", [OURS])),
    "results": ("results/paper.jsonl", lambda: lines.remove(Path.cwd(), "results/paper.jsonl", [OURS])),
    "profile": ("profiles/paper-cpu-1", lambda: profile._opened(None, Path("profiles/paper-cpu-1")) and None),
    "new": ("recipes/other.yaml", lambda: verb("new", "other")),
    "new --repair": ("recipes/other.md", lambda: replace_text(Path("recipes/other.md"), "page")),
    "solve": ("recipes/paper.yaml", lambda: add_variant(target("paper"), "new", "newer", {"python": "3.11"})),
    "lock": ("recipes/paper.lock.yaml", locked),
    "render --as devcontainer": (".devcontainer/devcontainer.json", export("devcontainer")),
    "render --as apptainer": ("paper-cpu.def", export("apptainer")),
    "render --as slurm": ("paper-cpu.sbatch", export("slurm")),
}
# Verbs that write to paths of the command line, to reprokit's own folders and workspaces, or nothing.
OTHERS = {
    *("list", "show", "check", "fetch", "store", "config", "build", "export", "verify"),
    *("smoke", "images", "clean", "run", "shell", "exec", "notebook", "ps", "logs", "stop", "rm"),
    *("report", "diff", "load", "nodes", "send", "push", "pull", "help", "doctor"),
    *("explain", "completion"),
}


@pytest.fixture
def checkout(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout as the current folder; `../outside` is the user's."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "checkout" / "recipes").mkdir(parents=True)
    (tmp_path / "checkout" / "recipes" / "paper.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    return tmp_path / "checkout"


def test_every_verb_is_in_one_of_the_lists():
    writing = {name.split()[0] for name in OUTPUTS}
    assert {name for group in GROUPS.values() for name in group} == writing | OTHERS and not writing & OTHERS


def planted(output: Path) -> list[Path]:
    """The parts of a path at which a link may be, but folders of recipes."""
    return [part for part in (*reversed(output.parents), output) if part.name not in ("", "recipes")]


@pytest.mark.parametrize("name", OUTPUTS)
def test_no_link_is_followed(checkout: Path, name: str):
    path, run = OUTPUTS[name]
    for link in planted(Path(path)):
        theirs = Path("../outside") / link.name
        theirs.mkdir(exist_ok=True) if link != Path(path) else theirs.write_text("the user's")
        link.parent.mkdir(exist_ok=True)
        before = link.read_bytes() if link.is_file() else None
        link.unlink(missing_ok=True)
        link.symlink_to(theirs.absolute())
        with suppress(UsageError):  # or the link is replaced
            run()
        assert not list(theirs.iterdir()) if theirs.is_dir() else theirs.read_text() == "the user's"
        link.unlink()
        if before is not None:
            link.write_bytes(before)
    run()  # the control
    assert Path(path).exists()


@pytest.mark.parametrize(
    ("run", "link", "option"),
    [
        (OUTPUTS["reproduce"][1], "results/paper-report", "-o DIR"),
        (lambda: verb("reproduce", "paper"), "results/paper-report", "-o DIR"),  # before its first step
        (OUTPUTS["profile"][1], "profiles", "-o DIR"),
        (OUTPUTS["render --as slurm"][1], "paper-cpu.sbatch", "-o FILE"),
        (OUTPUTS["new"][1], "recipes", ""),
    ],
)
def test_a_link_is_refused_with_the_option_for_another_path(checkout: Path, run, link: str, option: str):
    Path(link).parent.mkdir(exist_ok=True)
    if link == "recipes":
        Path(link).rename("../outside/recipes")
    Path(link).symlink_to("../outside/recipes")
    with pytest.raises(UsageError, match="a link is in the way") as refused:
        run()
    assert "remove the link" in refused.value.hint and option in refused.value.hint


def test_links_of_the_users_own_choice(checkout: Path):
    """A path of the command line and the folder of recipes may be links; the file that Apptainer builds may not."""
    Path("paper-cpu.sif").symlink_to("../outside/x")
    with pytest.raises(UsageError, match="the SIF exists already"):
        OUTPUTS["render --as apptainer"][1]()
    Path("linked").symlink_to("../outside")
    verb("report", "paper", "-o", "linked/page")
    assert Path("../outside/page/index.html").is_file()
    Path("recipes").rename("../outside/recipes")
    Path("recipes").symlink_to("../outside/recipes")
    locked()
    assert Path("../outside/recipes/paper.lock.yaml").is_file()
