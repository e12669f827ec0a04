"""Own blocks of a stranger's checkout: what their templates cannot reach, and what they cannot write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.image import own_blocks, sandbox
from reprokit.image.render import render
from tests.support.paths import ROOT
from tests.support.rendering import source, target

pytestmark = pytest.mark.slow

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


def rendered(folder: Path, template: str, **options: object) -> str:
    own(folder, template)
    return render(target(folder, **VARIANT, blocks=["git", {"own": options} if options else "own"])).dockerfile


def test_a_harmless_block_is_rendered(tmp_path):
    front = "{#\ndoes: x\nbuild_from: image\npins: [gcc]\noptions:\n  names: {type: list, default: [], does: y}\n#}\n"
    template = """\
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
    own(tmp_path, template, front)
    blocks = ["git", {"own": {"names": ["a b", "b", "c"]}}]
    found = render(target(tmp_path, **VARIANT, build_args={"X": "1"}, blocks=blocks))
    lines = found.dockerfile.splitlines()
    at = lines.index("FROM with-git AS own")
    assert lines[at : at + 4] == [
        "FROM with-git AS own", "ARG REPROKIT_APT_OWN=", 'ARG X="1"', "COPY --from=git /opt/a /opt/a",
    ]  # fmt: skip
    assert "RUN echo 'A B'; \\" in lines and "RUN echo C" in lines
    assert found.block_at(at + 1) == "own" and found.installs[-1].packages == ("gcc-12",)


TRICKS = [
    "{{ ''.__class__.__mro__|sh }}",
    "{{ ''['__class__']|sh }}",
    "{{ options|attr('__class__')|sh }}",
    "{{ '{0.__class__}'.format(options)|sh }}",
    "{{ '{0.__class__}'.format_map(options)|sh }}",
    "{{ ('%s' % options)|sh }}",
    "{{ '%s'|format(options)|sh }}",
    "{{ [options]|map(attribute='__class__')|first|sh }}",
    "{{ [options]|map('attr', '__class__')|first|sh }}",
    "{{ ['']|map(attribute='__class__.__mro__')|first|sh }}",
    "{{ [options]|sort(attribute='__class__')|first|sh }}",
    "{{ options.pop('x')|sh }}",
    "{{ installs.append(1)|sh }}",
    "{{ cycler.__init__.__globals__|sh }}",
    "{{ lipsum()|sh }}",
    "{{ namespace()|sh }}",
    "{{ dict(a=1)|sh }}",
    "{{ range(10)|list|join|sh }}",
    "{{ self.final()|sh }}",
    "{{ super()|sh }}",
    "{{ loop|sh }}",
    "{{ (2 ** 10)|sh }}",
    "{{ ('x' * 10)|sh }}",
    "{{ '{}'|tojson|sh }}",
    "{{ pins.gcc|safe }}",
    "{{ pins.gcc|e }}",
    "{{ pins.gcc }}",
    "{{ (pins.gcc|sh)|replace('1', ';') }}",
    "{{ (pins.gcc|sh) ~ pins.gcc }}",
    "{% filter replace('1', ';') %}{{ pins.gcc|sh }}{% endfilter %}",
    "{% set x %}{{ pins.gcc }}{% endset %}{{ x }}",
    "{% macro m() %}x{% endmacro %}{{ m() }}",
    "{% call m() %}x{% endcall %}",
    "{% import 'expect.j2' as e %}",
    "{% from 'expect.j2' import e %}",
    "{% extends 'expect.j2' %}",
    "{% include 'other.j2' %}",
    "{% include '../blocks/git.j2' %}",
    "{% include '/etc/passwd' %}",
    "{% include pins.gcc %}",
    "{% include ['expect.j2'] %}",
    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% with x = 1 %}{% endwith %}",
    "{% autoescape true %}{{ pins.gcc }}{% endautoescape %}",
    "{% do installs.append(1) %}",
    "{% trans %}x{% endtrans %}",
    "{% debug %}",
]


@pytest.mark.parametrize("trick", TRICKS)
def test_a_template_reaches_nothing_but_its_values(trick):
    facts = {"final": {"pins": {"gcc": "12"}, "options": {"x": "y"}, "block": "own", "installs": []}}
    includes = {"expect.j2": "set -eu"}
    with pytest.raises(sandbox.Refused):
        dict(sandbox.rendered(final(trick), includes, facts))
    assert dict(sandbox.rendered(final("{{ pins.gcc|sh }}"), includes, facts))["final"]["text"] == "12"


@pytest.mark.parametrize(
    "bomb",
    [
        "".join(f"{{% for {v} in 'abcdefghijklmnopqrstuvwxyz' %}}" for v in "abcdefghijklm") + "{% endfor %}" * 13,
        "{% set a = 'xxxxxxxx' %}" + "{% set a = a ~ a %}" * 40,
        "{% for a in 'abcdefghijklmnopqrstuvwxyz' %}" * 4 + "x" * 99 + "{% endfor %}" * 4,
        "{{ " + "[" * 3000 + "]" * 3000 + "|sh }}",
    ],
    ids=["time", "memory", "output", "depth"],
)
def test_rendering_is_bounded(tmp_path, bomb):
    with pytest.raises(UsageError, match=r"too much|too deeply|writes more than"):
        rendered(tmp_path, final(bomb))


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
        def __init__(self, command, **settings):
            seen.update(settings)
            super().__init__(command, **settings)

    monkeypatch.setenv("TOKEN_OF_THE_USER", "secret")
    monkeypatch.setattr(subprocess, "Popen", Spy)
    own_blocks._answer('{"template": "", "includes": {}, "parts": {}}')
    assert "TOKEN_OF_THE_USER" not in seen["env"] and seen["cwd"] == "/"


@pytest.mark.parametrize("package", ["-oDPkg::Pre-Invoke::=id", "a b", "a;id", "$(id)"])
def test_apt_gets_no_option_from_an_own_block(tmp_path, package):
    with pytest.raises(UsageError, match="asks apt for what is not a package"):
        rendered(tmp_path, final(f"RUN set -eu; \\\n{{{{ ['{package}']|apt_install }}}}\n    true\n"))


@pytest.mark.parametrize("name", ["git", "image", "scratch", "with-git", "env", "1x"])
def test_a_name_of_a_bundled_block_or_of_a_stage_is_refused(tmp_path, name):
    own(tmp_path, final(HARMLESS), name=name)
    own(tmp_path, final(HARMLESS))
    if name == "git":  # the bundled block is used
        text = render(target(tmp_path, **VARIANT, blocks=[name, "own"])).dockerfile
        assert "git fetch" in text
        return
    with pytest.raises(UsageError, match="another meaning"):
        render(target(tmp_path, **VARIANT, blocks=["git", name]))
    assert render(target(tmp_path, **VARIANT, blocks=["git", "own"]))


@pytest.mark.parametrize(
    "front",
    [
        "",
        "{#\ninstalls: apt\ndoes: x\n#}\n",
        "{#\nargument: BASE=x\ndoes: x\n#}\n",
        "{#\nwheel: '{pin.__class__}'\ndoes: x\n#}\n",
        "{#\ndoes: x\nname: git\n#}\n",
        "{#\ndoes: x\nrepeats: true\n#}\n",
        "{#\ndoes: &a x\npins: [*a]\n#}\n",
        '{#\ndoes: "\\e[2J"\n#}\n',
        "{#\ndoes: " + "x" * 301 + "\n#}\n",
        "{#\ndoes: x\nbuild_from: nvidia/cuda\n#}\n",
        "{#\npins: [gcc]\n#}\n",
    ],
)
def test_a_front_comment_states_no_more_than_own_blocks_can(tmp_path, front):
    file = own(tmp_path, final(HARMLESS), front)
    with pytest.raises(UsageError) as caught:
        render(target(tmp_path, **VARIANT, blocks=["git", "own"]))
    assert caught.value.where.startswith(str(file))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% block build %}\nRUN x\n{% endblock %}", "no `build_from`"),
        ("{% block finale %}\nRUN x\n{% endblock %}", "writes nothing"),
        (final("RUN {{ pins.gc|sh }}\n"), "no attribute 'gc'"),
    ],
)
def test_a_mistake_of_its_author_is_named(tmp_path, template, message):
    with pytest.raises(UsageError, match=message) as caught:
        rendered(tmp_path, template)
    assert "own.j2" in caught.value.where


def test_a_block_is_a_small_file_and_no_link(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(FRONT + final(HARMLESS))
    file = own(tmp_path, "")
    chosen = target(tmp_path, **VARIANT, blocks=["git", "own"])
    for make in (lambda: file.symlink_to(secret), lambda: os.mkfifo(file), lambda: file.write_text("x" * 70_000)):
        file.unlink()
        make()
        with pytest.raises(UsageError) as caught:
            render(chosen)
        assert str(file) in caught.value.where


def test_a_patch_is_a_file_beside_the_recipe(tmp_path):
    inside = tmp_path / "recipes"
    inside.mkdir()
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
    assert render(chosen).context == (("patches/link.patch", b"p"),)


@pytest.mark.parametrize("name", ["BASE", "REPROKIT_APT", "https_proxy", "HTTP_PROXY", "BUILDKIT_SYNTAX", "DOCKER_X"])
def test_a_build_argument_replaces_none_of_reprokits(tmp_path, name):
    with pytest.raises(UsageError, match="set by reprokit or the builder"):
        target(tmp_path, build_args={name: "x"}, blocks=[])
