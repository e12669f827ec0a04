"""Hostile values add no instruction to a Dockerfile and no command to its shell."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.errors import UsageError
from reprokit.image import quoting
from reprokit.image.facts import judged
from reprokit.image.render import instruction_lines, render, template_environment
from tests.support.rendering import target

nasty = st.text(alphabet=st.sampled_from("a0 $`\\\"'#{}%<>|&;()*?!~=:-\n\r\t\x00\u2028\u0085"), max_size=30) | st.text(
    max_size=30
)
HOSTILE = [
    "$(touch canary)", "`touch canary`", "'; touch canary; '", '"; touch canary; "', "a\\", "\\' ; touch canary #",
    "&& touch canary", "| touch canary", "{{ 7*7 }}", "{% raw %}", "# escape=`", "${PATH}", "<<EOF", "> canary", "-n",
    "*", "~", "",
]  # fmt: skip


@given(nasty)
def test_a_shell_word_is_one_word_of_one_line(value):
    try:
        quoted = quoting.sh(value)
    except UsageError:
        assert not value.isprintable()
        return
    assert shlex.split(quoted) == [value] and "\n" not in quoted
    # No builder takes a line for continued, or for a heredoc, because of the value.
    assert not quoted.endswith("\\") and not re.match(r"\d*<<", quoted)


@given(nasty)
def test_a_bare_word_holds_nothing_that_any_parser_reads(value):
    try:
        word = quoting.word(value)
    except UsageError:
        return
    assert word == value and re.fullmatch(r"[\w./:@+~=-]+", word, re.ASCII) and not word.startswith("-")


def docker_env(quoted: str) -> str:
    """What Docker makes of a double-quoted ENV value: backslash escapes a quote, a dollar, itself."""
    assert quoted[0] == quoted[-1] == '"'
    inner, out, position = quoted[1:-1], "", 0
    while position < len(inner):
        char = inner[position]
        if char == "\\" and inner[position + 1 : position + 2] in ('"', "$", "\\"):
            position += 1
            char = inner[position]
        elif char in '"$':
            raise AssertionError(f"{char} is read by Docker in {quoted}")
        out += char
        position += 1
    return out


@given(nasty)
def test_an_environment_value_is_itself_again(value):
    try:
        quoted = quoting.env(value)
    except UsageError:
        assert not value.isprintable()
        return
    assert docker_env(quoted) == value and "\n" not in quoted


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("value", HOSTILE)
def test_a_real_shell_prints_it_and_runs_nothing(tmp_path, shell, value):
    done = subprocess.run(
        [shell, "-c", f"printf '%s' {quoting.sh(value)}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == value and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [True, 1.5, None, ["a"]])
def test_what_is_no_text_is_refused(value):
    for quote in quoting.FILTERS.values():
        with pytest.raises(TypeError):
            quote(value)


def test_a_template_that_forgets_its_filter_fails():
    with pytest.raises(TypeError, match="without a quoting filter"):
        template_environment().from_string("RUN {{ value }}").render(value="id")
    assert template_environment().from_string("RUN {{ value|sh }}").render(value="a b") == "RUN 'a b'"


def test_templates_are_sandboxed():
    from jinja2.exceptions import SecurityError, UndefinedError

    for text in ("{{ ''.__class__.__mro__|sh }}", "{{ cycler.__init__.__globals__|sh }}"):
        with pytest.raises((SecurityError, UndefinedError)):
            template_environment().from_string(text).render()


variants = st.fixed_dictionaries(
    {
        "env": st.dictionaries(st.just("HOSTILE"), nasty),
        "option": nasty,
        "module": nasty,
        "ref": nasty,
        "description": nasty,
    }
)


@pytest.mark.slow
@settings(max_examples=150)
@given(variants)
def test_no_value_adds_an_instruction(tmp_path, values):
    def of_recipe(values):
        source = {"name": "a", "git": "https://example.org/a", "commit": "0" * 40, "path": "/a", "ref": values["ref"]}
        return target(
            tmp_path,
            description=values["description"],
            pins={"python": "3.11"},
            env=values["env"],
            sources=[source],
            blocks=[
                "python",
                {"git": {"python_paths": [values["option"]]}},
                {"imports": {"modules": [values["module"]]}},
            ],
        )

    plain = render(of_recipe({**{k: "x" for k in values}, "env": dict.fromkeys(values["env"], "x")}))
    try:
        chosen = of_recipe(values)
        judged(chosen)
    except UsageError:
        return
    # What is judged good, as `check` does it, no template refuses.
    hostile = render(chosen)
    lines, plain_lines = hostile.dockerfile.splitlines(), plain.dockerfile.splitlines()
    assert len(lines) == len(plain_lines) and hostile.steps == plain.steps
    for line in instruction_lines(hostile.dockerfile):
        assert lines[line - 1].split()[0] == plain_lines[line - 1].split()[0]


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize(
    ("wanted", "found", "passes"),
    [
        ("12", "12", True),
        ("12", "12.2.0", True),
        ("12", "11.4.0", False),
        ("12", "120", False),
        ("3.1", "3.10.2", False),
        ("3.11", "3.11.2", True),
        ("2.13.0", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0", False),
        ("1.8.0+cu111", "1.8.0+cu111", True),
        ("11", "1:11.0.1-2", False),
        ("11", "11.0.1-2", True),
        ("*", "12", False),
        ("12", "", False),
    ],
)
def test_the_assertion_of_blocks(tmp_path, shell, wanted, found, passes):
    from reprokit.recipe.blocks import templates

    idiom = (templates() / "expect.j2").read_text().replace("{{ block|word }}", "gcc").rstrip().removesuffix("\\")
    done = subprocess.run(
        [shell, "-c", idiom.replace("\\\n", "\n") + f"\nexpect gcc {quoting.sh(wanted)} {quoting.sh(found)}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if passes else 1)
    line = f"reprokit: block gcc: expected gcc {wanted}, found {found or 'nothing'}\n"
    assert done.stderr == ("" if passes else line)
