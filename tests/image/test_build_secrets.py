"""`--secret` as it is written, and which steps of a recipe may read what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.image.build_secrets import check_complete, check_known, parse_secrets
from reprokit.image.dockerfile import parse
from reprokit.image.render import Rendered, render
from tests.support.rendering import source, target

VALUE = "hunter2-of-the-lab"
ENVIRONMENT = {"TOKEN": VALUE, "OTHER": "other-secret", "EMPTY": "", "SHORT": "12345"}


def run(*secrets: str, command: str = "true") -> dict:
    return {"run": {"commands": [command], "products": ["/x"], "in_image": True, "secrets": [*secrets]}}


def mounted(rendered: Rendered) -> list[list[str]]:
    """The names of the secrets of each step that has some."""
    steps = [each for stage in parse(rendered.dockerfile).stages for each in stage.instructions]
    mounts = [[value for name, value in each.flags if name == "mount"] for each in steps]
    return [[value.removeprefix("type=secret,id=").removesuffix(",required=true") for value in m] for m in mounts if m]


def test_values_of_the_environment_and_of_files(tmp_path: Path):
    for text in ("TOKEN", "id=TOKEN", "id=TOKEN,env=TOKEN", "env=TOKEN,id=TOKEN"):
        secrets = parse_secrets([text, "id=LATER,env=OTHER"], ENVIRONMENT)
        assert secrets == {"TOKEN": VALUE.encode(), "LATER": b"other-secret"}
    value = b"-----BEGIN KEY-----\n$(reboot)\0\xff\r\n"
    (tmp_path / "key").write_bytes(value)
    (tmp_path / "link").symlink_to("key")
    for name in ("key", "link"):
        assert parse_secrets([f"id=KEY,src={tmp_path / name}"], {}) == {"KEY": value}


@pytest.mark.parametrize(
    "text",
    [
        f"TOKEN={VALUE}", f"id=TOKEN,value={VALUE}", f"id=TOKEN,{VALUE}", f"{VALUE}=", "id=TOKEN,env=A,src=b", "",
        "id=TOKEN,id=OTHER", "id=../TOKEN", "id=a/b", "id=a b", "id=1A", "id=", "id=.", "../TOKEN", "TOKEN\n", "id=T\0",
        f"id={'A' * 101}", "id=TOKEN,env=NONE", "id=TOKEN,env=", "NONE", VALUE,
        VALUE.replace("-", "_"), "EMPTY", "SHORT", "id=TOKEN,src=",
    ],
)  # fmt: skip
def test_what_is_written_wrongly_is_refused_and_not_shown(text: str):
    with pytest.raises(UsageError) as error:
        parse_secrets([text], ENVIRONMENT)
    shown = f"{error.value.message} {error.value.where} {error.value.hint}"
    assert VALUE not in shown and VALUE.replace("-", "_") not in shown


def test_files_that_are_no_secrets_are_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "short").write_text("12345\n")
    for name in ("pipe", "large", "loop", "short", "none", "."):
        with pytest.raises(UsageError):
            parse_secrets([f"id=KEY,src={tmp_path / name}"], {})
    (tmp_path / "large").write_bytes(b"x" * (1 << 20))
    assert parse_secrets([f"id=KEY,src={tmp_path / 'large'}"], {})
    with pytest.raises(UsageError, match="given twice"):
        parse_secrets(["TOKEN", "id=TOKEN"], ENVIRONMENT)


def test_only_named_secrets_are_asked_for_and_taken(tmp_path: Path):
    here = target(tmp_path, blocks=[run("TOKEN", "KEY"), run()])
    rendered = render(here)
    assert rendered.secrets == ("KEY", "TOKEN")
    check_known(here, rendered, ["TOKEN"])
    check_complete(here, rendered, ["TOKEN", "KEY"])
    with pytest.raises(UsageError, match="needs the secret KEY to be built") as error:
        check_complete(here, rendered, ["TOKEN"])
    assert "`reprokit build paper:v --secret id=KEY`" in error.value.hint and "src=FILE" in error.value.hint
    with pytest.raises(UsageError, match="no block of paper:v reads the secret TOKN; did you mean TOKEN"):
        check_known(here, rendered, ["TOKN"])


def test_a_recipe_names_no_path(tmp_path: Path):
    for name in ("../TOKEN", "A B", "$(x)", "", "a/b", "A\n", "-x", "A" * 101):
        with pytest.raises(UsageError, match="which is not the name of a secret"):
            render(target(tmp_path, blocks=[run(name)]))


def test_only_the_steps_that_read_a_secret_have_it(tmp_path: Path):
    make = {"make": {"source": "a", "products": ["a"], "packages": ["gawk"], "secrets": ["TOKEN"]}}
    autotools = {"autotools": {"source": "a", "products": ["a"], "secrets": ["KEY"]}}
    sources = [source("a", "/opt/a")]
    rendered = render(target(tmp_path, pins={"gcc": "12"}, sources=sources, blocks=["git", make, autotools, run("A")]))
    assert mounted(rendered) == [["TOKEN"], ["KEY"], ["A"]] and rendered.secrets == ("A", "KEY", "TOKEN")
    plain = render(target(tmp_path, blocks=[run()])).dockerfile
    assert "secrets" not in plain and not render(target(tmp_path, blocks=[run()])).secrets


OWN = """\
{#
does: x
options:
  keys: {type: secrets, default: [], does: y}
#}
{% block final %}
RUN BODY
{% endblock %}
"""


@pytest.mark.slow
def test_an_own_block_reads_secrets_as_the_bundled_ones_do(tmp_path: Path):
    (tmp_path / "blocks").mkdir()
    own = tmp_path / "blocks/own.j2"
    own.write_text(OWN.replace("BODY", '{% include "expect.j2" %}\n{% include "secrets.j2" %}\n    true'))
    rendered = render(target(tmp_path, blocks=[{"own": {"keys": ["TOKEN"]}}]))
    assert rendered.secrets == ("TOKEN",) and mounted(rendered) == [["TOKEN"]]
    own.write_text(OWN.replace("BODY", "true"))
    with pytest.raises(UsageError, match="block own names the secret TOKEN but reads none"):
        render(target(tmp_path, blocks=[{"own": {"keys": ["TOKEN"]}}]))
