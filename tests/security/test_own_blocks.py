"""Own blocks of a stranger's checkout: what their templates cannot reach, and which instructions they cannot write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.errors import UsageError
from reprokit.image import own_blocks, sandbox
from reprokit.image.dockerfile import parse
from reprokit.image.own_blocks import checked
from reprokit.image.render import render
from tests.support.paths import ROOT
from tests.support.rendering import source, target

FRONT = "{#\ndoes: a block of a stranger\n#}\n"
HARMLESS = "RUN echo one; \\\n    echo two\n"
VARIANT = {"sources": [source("a", "/opt/a")], "pins": {"gcc": "12"}}


def own(folder: Path, template: str, front: str = FRONT, name: str = "own") -> Path:
    (folder / "blocks").mkdir(exist_ok=True)
    file = folder / "blocks" / f"{name}.j2"
    file.write_text(front + template)
    return file


def final(text: str) -> str:
    return "{% block final %}\n" + text + "{% endblock %}\n"


def rendered(folder: Path, template: str) -> str:
    own(folder, template)
    return render(target(folder, **VARIANT, blocks=["git", "own"])).dockerfile


TEMPLATE = """\
{% block build %}
COPY --from=git {{ sources["a"].path|word }} {{ sources["a"].path|word }}
RUN {% include "expect.j2" %}
{{ ["gcc-" ~ major.gcc]|apt_install }}
    expect gcc {{ pins.gcc|sh }} "$(gcc -dumpfullversion)"
{% endblock %}
{% block final %}
COPY --from=own /opt/a /opt/a
# a comment
ENV A=1 B="two words"
WORKDIR /opt/a
{% for name in options.names if name != "b" %}
RUN echo {{ name|upper|sh }}{% if not loop.last %}; \\
    echo more{% endif %}

{% endfor %}
{% endblock %}
"""


@pytest.mark.slow
def test_a_harmless_block_is_rendered(tmp_path):
    front = "{#\ndoes: x\nbuild_from: image\npins: [gcc]\noptions:\n  names: {type: list, default: [], does: y}\n#}\n"
    own(tmp_path, TEMPLATE, front)
    blocks = ["git", {"own": {"names": ["a b", "b", "c"]}}]
    result = render(target(tmp_path, **VARIANT, build_args={"X": "1"}, blocks=blocks))
    lines = result.dockerfile.splitlines()
    at = lines.index("FROM with-git AS own")
    assert lines[at + 1 : at + 4] == ["ARG REPROKIT_APT_OWN=", 'ARG X="1"', "COPY --from=git /opt/a /opt/a"]
    assert "RUN echo 'A B'; \\" in lines and "RUN echo C" in lines
    assert result.block_at(at + 1) == "own" and result.installs[-1].packages == ("gcc-12",)


TRICKS = """\
{{ ''.__class__.__mro__|sh }}
{{ ''['__class__']|sh }}
{{ options|attr('__class__')|sh }}
{{ '{0.__class__}'.format(options)|sh }}
{{ '{0.__class__}'.format_map(options)|sh }}
{{ ('%s' % options)|sh }}
{{ '%s'|format(options)|sh }}
{{ [options]|map(attribute='__class__')|first|sh }}
{{ [options]|map('attr', '__class__')|first|sh }}
{{ ['']|map(attribute='__class__.__mro__')|first|sh }}
{{ [options]|sort(attribute='__class__')|first|sh }}
{{ options.pop('x')|sh }}
{{ installs.append(1)|sh }}
{{ cycler.__init__.__globals__|sh }}
{{ lipsum()|sh }}
{{ namespace()|sh }}
{{ dict(a=1)|sh }}
{{ range(10)|list|join|sh }}
{{ self.final()|sh }}
{{ super()|sh }}
{{ loop|sh }}
{{ (2 ** 10)|sh }}
{{ ('x' * 10)|sh }}
{{ '{}'|tojson|sh }}
{{ pins.gcc|safe }}
{{ pins.gcc|e }}
{{ pins.gcc }}
{{ (pins.gcc|sh)|replace('1', ';') }}
{{ (pins.gcc|sh) ~ pins.gcc }}
{% filter replace('1', ';') %}{{ pins.gcc|sh }}{% endfilter %}
{% set x %}{{ pins.gcc }}{% endset %}{{ x }}
{% macro m() %}x{% endmacro %}{{ m() }}
{% call m() %}x{% endcall %}
{% import 'expect.j2' as e %}
{% from 'expect.j2' import e %}
{% extends 'expect.j2' %}
{% include 'other.j2' %}
{% include '../blocks/git.j2' %}
{% include '/etc/passwd' %}
{% include pins.gcc %}
{% include ['expect.j2'] %}
{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}
{% with x = 1 %}{% endwith %}
{% autoescape true %}{{ pins.gcc }}{% endautoescape %}
{% do installs.append(1) %}
{% trans %}x{% endtrans %}
{% debug %}
""".splitlines()


@pytest.mark.parametrize("trick", TRICKS)
def test_a_template_reaches_nothing_but_its_values(trick: str):
    facts = {"final": {"pins": {"gcc": "12"}, "options": {"x": "y"}, "block": "own", "installs": []}}
    includes = {"expect.j2": "set -eu"}
    with pytest.raises(sandbox.Refused):
        dict(sandbox.rendered(final(trick), includes, facts))
    assert dict(sandbox.rendered(final("{{ pins.gcc|sh }}"), includes, facts))["final"]["text"] == "12"


LOOPS = "".join(f"{{% for {v} in 'abcdefghijklmnopqrstuvwxyz' %}}" for v in "abcdefghijklm") + "{% endfor %}" * 13


@pytest.mark.slow
@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(LOOPS, marks=pytest.mark.long, id="time"),
        pytest.param("{% set a = 'xxxxxxxx' %}" + "{% set a = a ~ a %}" * 40, id="memory"),
        pytest.param("{% for a in 'abcdefghijklmnopqrstuvwxyz' %}" * 4 + "x" * 99 + "{% endfor %}" * 4, id="output"),
        pytest.param("{{ " + "[" * 3000 + "]" * 3000 + "|sh }}", id="depth"),
    ],
)
def test_rendering_is_bounded(tmp_path, bomb: str):
    with pytest.raises(UsageError, match=r"too much|too deeply|writes more than"):
        rendered(tmp_path, final(bomb))


def test_a_process_that_was_killed_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(own_blocks, "_answer", lambda job: "")
    with pytest.raises(UsageError, match="cannot be rendered: it takes too much time or memory"):
        rendered(tmp_path, final(HARMLESS))


def test_code_that_got_out_of_the_template_has_no_file_no_socket_and_no_process():
    """Each line works before the limits, and fails after them."""
    code = f"""if True:
        import os, socket, sys
        sys.path.insert(0, {str(ROOT)!r})
        from reprokit.image.sandbox import confine
        def works(call):
            try:
                call()
            except (OSError, MemoryError):
                return False
            return True
        calls = [lambda: open("/etc/hostname"), lambda: socket.socket(), lambda: os.pipe(), lambda: bytearray(1 << 30)]
        before = [works(call) for call in calls]
        confine()
        os.close(2)
        print(before, [works(call) for call in calls])
    """
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{[True] * 4} {[False] * 4}\n"


def test_the_process_has_no_secret_of_the_users_environment(monkeypatch):
    seen: dict = {}

    class Spy(subprocess.Popen):
        def __init__(self, command, **options):
            seen.update(options)
            super().__init__(command, **options)

    monkeypatch.setenv("TOKEN_OF_THE_USER", "secret")
    monkeypatch.setattr(subprocess, "Popen", Spy)
    own_blocks._answer('{"template": "", "includes": {}, "parts": {}}')
    assert "TOKEN_OF_THE_USER" not in seen["env"] and seen["cwd"] == "/"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "message"),
    [
        *((final(f"RUN set -eu; \\\n{{{{ ['{package}']|apt_install }}}}\n    true\n"), "asks apt for what is not")
          for package in ("-oDPkg::Pre-Invoke::=id", "a b", "a;id", "$(id)")),
        ("{% block build %}\nRUN x\n{% endblock %}", "no `build_from`"),
        ("{% block finale %}\nRUN x\n{% endblock %}", "writes nothing"),
        (final("RUN {{ pins.gc|sh }}\n"), "no attribute 'gc'"),
    ],
)  # fmt: skip
def test_a_mistake_of_its_author_is_named(tmp_path, template: str, message: str):
    with pytest.raises(UsageError, match=message) as caught:
        rendered(tmp_path, template)
    assert "own.j2" in caught.value.where


@pytest.mark.slow
def test_a_name_of_a_bundled_block_or_of_a_stage_is_refused(tmp_path):
    own(tmp_path, final(HARMLESS))
    for name in ("image", "scratch", "with-git", "env", "1x"):
        file = own(tmp_path, final(HARMLESS), name=name)
        with pytest.raises(UsageError, match="another meaning"):
            render(target(tmp_path, **VARIANT, blocks=["git", name]))
        file.unlink()
    own(tmp_path, final(HARMLESS), name="git")  # the bundled block is used
    assert "git fetch" in render(target(tmp_path, **VARIANT, blocks=["git", "own"])).dockerfile


FRONTS = [
    "", "{#\ninstalls: apt\ndoes: x\n#}\n", "{#\nargument: BASE=x\ndoes: x\n#}\n",
    "{#\nwheel: '{pin.__class__}'\ndoes: x\n#}\n", "{#\ndoes: x\nname: git\n#}\n", "{#\ndoes: x\nrepeats: true\n#}\n",
    "{#\ndoes: &a x\npins: [*a]\n#}\n", '{#\ndoes: "\\e[2J"\n#}\n', "{#\ndoes: " + "x" * 301 + "\n#}\n",
    "{#\ndoes: x\nbuild_from: nvidia/cuda\n#}\n", "{#\npins: [gcc]\n#}\n",
]  # fmt: skip


def test_a_front_comment_states_no_more_than_own_blocks_can(tmp_path):
    for front in FRONTS:
        file = own(tmp_path, final(HARMLESS), front)
        with pytest.raises(UsageError) as caught:
            render(target(tmp_path, **VARIANT, blocks=["git", "own"]))
        assert caught.value.where.startswith(str(file))


def test_a_block_is_a_small_file_and_no_link(tmp_path):
    (tmp_path / "secret").write_text(FRONT + final(HARMLESS))
    file = own(tmp_path, "")
    chosen = target(tmp_path, **VARIANT, blocks=["git", "own"])
    for make in (
        lambda: file.symlink_to(tmp_path / "secret"),
        lambda: os.mkfifo(file),
        lambda: file.write_text("x" * 70_000),
    ):
        file.unlink()
        make()
        with pytest.raises(UsageError) as caught:
            render(chosen)
        assert str(file) in caught.value.where


def test_a_patch_is_a_file_beside_the_recipe(tmp_path):
    (inside := tmp_path / "recipes").mkdir()
    (tmp_path / "secret").write_text("s")
    (inside / "link.patch").symlink_to(tmp_path / "secret")
    for path in ("link.patch", "gone.patch"):
        chosen = target(inside, sources=[source("a", "/a", patches=[path])], blocks=["git"])
        with pytest.raises(UsageError):
            render(chosen)
    for path in ("../secret", "/etc/passwd", "a b.patch", "-x.patch"):
        with pytest.raises(UsageError, match="not allowed here"):
            target(inside, sources=[source("a", "/a", patches=[path])], blocks=["git"])
    (inside / "link.patch").unlink()
    (inside / "link.patch").write_text("p")
    chosen = target(inside, sources=[source("a", "/a", patches=["link.patch"])], blocks=["git"])
    assert render(chosen).context == {"patches/link.patch": b"p"}


def test_a_build_argument_replaces_none_of_reprokits(tmp_path):
    for name in ("BASE", "REPROKIT_APT", "https_proxy", "HTTP_PROXY", "BUILDKIT_SYNTAX", "DOCKER_X"):
        with pytest.raises(UsageError, match="set by reprokit or the builder"):
            target(tmp_path, build_args={name: "x"}, blocks=[])


# --- Instructions

WRITTEN = [
    "FROM debian:12\n", "from debian:12\n", " FROM debian:12\n", "ADD https://example.org/x /x\n", "LABEL a=b\n",
    'SHELL ["/bin/bash", "-c"]\n', "ARG X=1\n", "USER root\n", "VOLUME /x\n", "ONBUILD RUN x\n", "EXPOSE 1\n",
    "CMD x\n",
    "ENTRYPOINT x\n", "HEALTHCHECK CMD x\n", "STOPSIGNAL 9\n", "MAINTAINER x\n", "run x\n", "RUN\n", "RUN \n",
    "RUN\tx\n",
    "# escape=`\n", "#syntax = example.org/frontend\n", "# CHECK=skip=all\n", "# a comment \\\n",
    "RUN --mount=type=secret,id=x cat /run/secrets/x\n", "RUN --network=host x\n", "RUN --security=insecure x\n",
    "RUN \\\n    --mount=type=bind,from=example.org/x x\n", "RUN --mo\\\nunt=type=ssh x\n",
    "RUN cat <<EOF\nFROM debian:12\nEOF\n", "COPY --from=git <<EOF /x\nx\nEOF\n", "RUN 3<<-EOF cat\nEOF\n",
    "RUN x \\\n", "RUN x \\", "RUN x \\\n\n", "\\\nFROM debian:12\n", "RUN x \\ \nFROM debian:12\n",
    "RUN x \\\\\nFROM debian:12\n", "RUN x \\\n\nFROM debian:12\n", "RUN x \\\n# y\nRUN z\n",
    "RUN x\rFROM debian:12\n", "RUN x\x0bFROM y\n", "RUN x\x00\n", "RUN x\u2028FROM debian:12\n", "RUN x\x85FROM y\n",
    "\u00a0FROM debian:12\n", "RUN \x1b[2Jx\n", "RUN \u202etxt\n",
    "COPY x /x\n", "COPY --from=alpine:3 /x /x\n", "COPY --from=0 /x /x\n", "COPY --from=later /x /x\n",
    "COPY --from=git --chown=0:0 /x /x\n", "COPY --chmod=4755 --from=git /x /x\n", 'COPY --from=git ["/x", "/x"]\n',
    "COPY --from=GIT /x /x\n", "COPY --from=$STAGE /x /x\n", "COPY --from=git /x\n", "COPY --from=git /x $HOME\n",
    "COPY --link --from=git /x /x\n", "COPY --from=git /x /x --from=alpine\n",
    "ENV A 1\n", "ENV A=B C\n", "ENV =1\n", "ENV\n", "ENV A-B=1\n",
    "WORKDIR x\n", "WORKDIR /proc/self/fd/8\n", "WORKDIR $HOME\n", "WORKDIR /a/../proc\n", 'WORKDIR "/proc"\n',
    "WORKDIR \n",
    "RUN x\n" * 101,
]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_only_instructions_that_all_builders_read_alike_are_written(text):
    with pytest.raises(UsageError):
        checked(HARMLESS + text, "own.j2", ["git"])
    assert checked(HARMLESS + "COPY --from=git /x /y\n", "own.j2", ["git"])


PIECES = [
    "RUN ", "FROM x", "COPY --from=git /a /b",
    "ENV A=", "WORKDIR /", "#", "\\", "\n", " ", "\t", "<<E", "\r", "x", "'", '"',
    "$", "escape=`", "--mount=", "\\\n", "\n\n", "\u2028",
]  # fmt: skip


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@pytest.mark.slow
def test_the_parser_of_builds_reads_what_was_checked(text):
    try:
        accepted = checked(text, "own.j2", ["git"])
    except UsageError:
        return
    (stage,) = parse(f"FROM base AS own\n{accepted}USER end\n").stages
    *own, last = [each.name for each in stage.instructions]
    assert last == "USER" and set(own) <= {"RUN", "ENV", "WORKDIR", "COPY"}
