"""`--secret` as it is written, and which steps of a recipe may read what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.image.build_secrets import allowed_now, check_complete, check_known, names_of, parse_secrets
from reprokit.image.progress import brief
from reprokit.image.render import instructions, render
from tests.support.rendering import source, target

VALUE = "hunter2-of-the-lab"
ENVIRONMENT = {"TOKEN": VALUE, "OTHER": "other-secret", "EMPTY": "", "SHORT": "12345"}


def run(*secrets: str, command: str = "true") -> dict:
    return {"run": {"commands": [command], "products": ["/x"], "in_image": True, "secrets": [*secrets]}}


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
    assert names_of(rendered) == ["KEY", "TOKEN"]
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
    found = {names: brief(step) for step, names in rendered.secrets}
    assert [(names, step.split(";")[0]) for names, step in found.items()] == [
        (("TOKEN",), "RUN secrets TOKEN"), (("KEY",), "RUN secrets KEY"), (("A",), "RUN secrets A"),
    ]  # fmt: skip
    assert all(step in instructions(rendered.dockerfile) for step, _ in rendered.secrets)
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
    assert names_of(rendered) == ["TOKEN"]
    own.write_text(OWN.replace("BODY", "true"))
    with pytest.raises(UsageError, match="block own names the secret TOKEN and reads none"):
        render(target(tmp_path, blocks=[{"own": {"keys": ["TOKEN"]}}]))


class Containers:
    """An engine whose containers are these: network, command, and whether it runs."""

    def __init__(self, *made: tuple[str, str, bool]) -> None:
        self.made = {str(n): each for n, each in enumerate(made)}

    def containers(self, labels: list[str]) -> list[dict]:
        return [{"Id": one, "HostConfig": {"NetworkMode": made[0]}} for one, made in self.made.items()]

    def container(self, one: str) -> dict:
        return {"State": {"Running": self.made[one][2]}, "Config": {"Cmd": ["/bin/sh", "-c", self.made[one][1]]}}


def test_the_engine_says_which_step_asks(tmp_path: Path):
    rendered = render(target(tmp_path, blocks=[run("TOKEN"), run(command="echo other")]))
    [(step, _)] = rendered.secrets
    command = step.removeprefix("RUN ").replace("; ", ";     ")  # engines keep the spaces of continued lines
    reading, other = ("container:s", command, True), ("container:s", "bash -c 'echo other'", True)

    def allowed(*made: tuple[str, str, bool]) -> list[str]:
        return sorted(allowed_now(Containers(*made), "container:s", rendered)())

    assert allowed(reading) == ["TOKEN"] == allowed(reading, ("bridge", "x", True), ("container:s", "x", False))
    for made in ((), (other,), (reading, other), (("bridge", command, True),), (("container:s", command, False),)):
        assert allowed(*made) == []
