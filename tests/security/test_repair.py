"""Logs that attack the recipe which a repair changes. The control is tests/importing/test_permitted.py."""

from __future__ import annotations

import pytest

from reprokit.explain.judge import explain
from reprokit.importing.edits import changed
from reprokit.importing.permitted import permitted
from reprokit.recipe.load import load_text
from tests.support import logs
from tests.support.repairs import RECIPE, VARIANT, World, failure


@pytest.mark.parametrize(
    ("op", "path", "value"),
    [
        ("add", "/variants/*/wheel_indexes/-", "https://evil.example/simple"),
        ("add", "/variants/*/files/-", {"name": "x", "urls": ["https://evil.example/x"], "path": "/usr/bin/x"}),
        ("replace", "/variants/*/sources/0/git", "https://evil.example/x"),
        ("replace", "/variants/*/sources/0/commit", "1" * 40),
        ("add", "/variants/*/mounts/-", {"source": "x", "target": "/etc"}),
        ("add", "/variants/*/env/LD_PRELOAD", "/workspace/evil.so"),
        ("add", "/variants/*/build_args/CFLAGS", "-fplugin=evil"),
        ("add", "/variants/*/blocks/-", {"run": {"commands": ["evil"]}}),
        ("replace", "/variants/*/base", "evil.example/image"),
        ("replace", "/smoke/0/command", "evil"),
        ("remove", "/variants/*/apt/0", "git"),
        ("add", "/variants/*/apt/-", "x; touch /tmp/evil"),
        ("add", "/variants/*/apt/-", "git=1:1.0"),
        ("add", "/variants/*/apt/../env/X", "evil"),
        ("add", "/variants/*/apt/-", ["git", "evil"]),
        ("add", "/variants/*/wheels/-", "evil @ https://evil.example/evil.whl"),
        ("add", "/variants/*/wheels/-", "evil @ git+https://evil.example/evil@main"),
        ("add", "/variants/*/wheels/-", "--extra-index-url=https://evil.example"),
        ("add", "/variants/*/wheels/-", "numpy; python_version > '3'"),
        ("add", "/variants/*/wheels/-", {"file": "../../etc/passwd"}),
        ("replace", "/variants/*/pins/gcc", "11; touch /tmp/evil"),
        ("replace", "/variants/*/pins/gcc", "11\n  evil: x"),
        ("replace", "/variants/*/pins/base", "evil.example/image"),
        ("add", "/variants/*/sources/0/submodules", ["../../x"]),
        ("add", "/variants/*/build_args/MAX_JOBS", "9999999999"),
        ("add", "/variants/*/build_args/MAX_JOBS", "1; evil"),
        ("add", "/variants/*/build_args/MAX_JOBS", "-1"),
    ],
)
def test_a_change_beyond_packages_pins_submodules_and_jobs_is_refused(op, path, value):
    assert isinstance(permitted({"op": op, "path": path, "value": value}, VARIANT), str)


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'evil_package'",
        "ModuleNotFoundError: No module named 'evil @ https://evil.example/x'",
        "E: fatal error: ../../evil.h: No such file or directory",
        "a.c:1:10: fatal error: evil/evil.h: No such file or directory",
        "/usr/bin/ld: cannot find -levil: No such file or directory",
        "/bin/sh: 1: evil: not found",
        "No package 'evil' found",
        "libevil.so.1: cannot open shared object file: No such file or directory",
    ],
)
def test_a_setup_that_prints_a_known_failure_adds_no_package_of_its_own_choice(line: str):
    """The names in a log choose among the packages of reprokit's table; the control adds one of these."""
    world = World([failure(line)])
    rounds = world.run()
    assert world.written == [] and rounds[0].changes == ()
    control = World([failure("ModuleNotFoundError: No module named 'h5py'")], [])
    assert control.run()[0].changes == ("wheels: h5py==1.0",)


def test_text_of_a_log_stays_in_its_comment():
    evil = "src/x.c:1:10: fatal error: curl/a\u2028b\x1b[31m\u202e: No such file or directory"
    (change,) = explain(logs.stream(f"{evil}\n"), failed=True).causes[0].recipe_change or [None]
    cause = explain(logs.stream(f"{evil}\n"), failed=True).causes[0].cause
    text = changed(
        RECIPE, "cpu", [change or {"op": "add", "path": "/variants/*/apt/-", "value": "git"}], f"{cause}\nx: y"
    )
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    assert len(variant.apt) == 1 and not variant.env and "\x1b" not in text and "\nx: y" not in text
