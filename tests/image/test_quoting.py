"""Hostile values add no instruction to a Dockerfile and no command to its shell."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError, UndefinedError

from reprokit.errors import UsageError
from reprokit.image import quoting
from reprokit.image.facts import template_facts
from reprokit.image.render import instruction_lines, render, template_environment
from reprokit.recipe.blocks import shared_template
from tests.support.rendering import source, target

nasty = st.text(alphabet=st.sampled_from("a0 $`\\\"'#{}%<>|&;()*?!~=:-\n\r\t\x00\u2028\u0085"), max_size=30) | st.text(
    max_size=30
)
HOSTILE = [
    "$(touch canary)", "`touch canary`", "'; touch canary; '", '"; touch canary; "', "a\\", "\\' ; touch canary #",
    "&& touch canary", "| touch canary", "{{ 7*7 }}", "{% raw %}", "# escape=`", "${PATH}", "<<EOF", "> canary", "-n",
    "*", "~", "",
]  # fmt: skip


def docker_env(quoted: str) -> str:
    """What Docker makes of a double-quoted ENV value: backslash escapes a quote, a dollar, itself."""
    assert quoted[0] == quoted[-1] == '"'
    unescaped = re.sub(r'\\["$\\]', "", quoted[1:-1])
    assert '"' not in unescaped and "$" not in unescaped, f"Docker reads a special character in {quoted}"
    return re.sub(r'\\(["$\\])', r"\1", quoted[1:-1])


@given(nasty)
def test_a_quoted_value_is_itself_again(value):
    for quote in (quoting.sh, quoting.env, quoting.word):
        try:
            quoted = quote(value)
        except UsageError as error:
            assert quote is quoting.word or (not value.isprintable() and "control character" in error.message)
            continue
        assert "\n" not in quoted
        if quote is quoting.sh:
            # No builder takes a line for continued, or for a heredoc, because of the value.
            assert shlex.split(quoted) == [value] and not quoted.endswith("\\") and not re.match(r"\d*<<", quoted)
        elif quote is quoting.env:
            assert docker_env(quoted) == value
        else:
            assert quoted == value and re.fullmatch(r"[\w./:@+~=-]+", quoted, re.ASCII) and quoted[0] != "-"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_real_shell_prints_it_and_runs_nothing(tmp_path, shell):
    command = [shell, "-c", "printf '%s\\n' " + " ".join(map(quoting.sh, HOSTILE))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == HOSTILE and list(tmp_path.iterdir()) == []


def test_templates_must_quote_text_and_are_sandboxed():
    for value in (True, 1.5, None, ["a"]):
        for quote in quoting.FILTERS.values():
            with pytest.raises(TypeError):
                quote(value)
    environment = template_environment()
    with pytest.raises(TypeError, match="without a quoting filter"):
        environment.from_string("RUN {{ value }}").render(value="id")
    assert environment.from_string("RUN {{ value|sh }}").render(value="a b") == "RUN 'a b'"
    for text in ("{{ ''.__class__.__mro__|sh }}", "{{ cycler.__init__.__globals__|sh }}"):
        with pytest.raises((SecurityError, UndefinedError)):
            environment.from_string(text).render()


@pytest.mark.slow
@settings(max_examples=100)
@given(env=st.dictionaries(st.just("HOSTILE"), nasty), option=nasty, module=nasty, ref=nasty, description=nasty)
def test_no_value_adds_an_instruction(tmp_path, env, option, module, ref, description):
    def variant(env, option, module, ref, description):
        blocks = ["python", {"git": {"python_paths": [option]}}, {"imports": {"modules": [module]}}]
        fields = {"pins": {"python": "3.11"}, "sources": [source("a", "/a", ref=ref)], "blocks": blocks}
        return target(tmp_path, description=description, env=env, **fields)

    plain = render(variant(dict.fromkeys(env, "x"), "x", "x", "x", "x"))
    try:
        chosen = variant(env, option, module, ref, description)
        template_facts(chosen)
    except UsageError:
        return
    # What is judged good, as `check` does it, no template refuses.
    hostile = render(chosen)
    lines, plain_lines = hostile.dockerfile.splitlines(), plain.dockerfile.splitlines()
    assert len(lines) == len(plain_lines) and hostile.steps == plain.steps
    for line in instruction_lines(hostile.dockerfile):
        assert lines[line - 1].split()[0] == plain_lines[line - 1].split()[0]


VERSIONS = [
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
]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_assertion_of_blocks(shell):
    idiom = shared_template("expect.j2").replace("{{ block|word }}", "gcc").rstrip().removesuffix("\\")
    calls = [
        f"(expect gcc {quoting.sh(pin)} {quoting.sh(version)}) && echo 0 || echo $?" for pin, version, _ in VERSIONS
    ]
    script = "\n".join(["exec 2>&1", idiom.replace("\\\n", "\n"), *calls])
    printed = subprocess.run([shell, "-c", script], capture_output=True, text=True).stdout.splitlines()
    expected = []
    for pin, version, passes in VERSIONS:
        line = f"reprokit: block gcc: expected gcc {pin}, found {version or 'nothing'}"
        expected += ["0"] if passes else [line, "1"]
    assert printed == expected
