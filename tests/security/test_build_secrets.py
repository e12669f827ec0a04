"""Build secrets: nothing that a build leaves has one, and no step reads one that its block does not name."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from tests.support.names import unique
from tests.support.verbs import run_verb

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.long]

TOKEN = "hunter2-$(reboot) ' \" \\ `x` ;&|*? of-the-lab"
KEY = b"-----BEGIN KEY-----\nc2VjcmV0LW9mLXRoZS1sYWI=\n\0\xff\xfe binary-of-the-lab\n-----END KEY-----\n"
# Of a command in a container, whose output the user sees.
AT_RUN_TIME = "token-of-one-command"
SEARCHED = (TOKEN.encode(), b"c2VjcmV0LW9mLXRoZS1sYWI=", b"binary-of-the-lab")
# What blocks may do: print it, pass it on, leave it in /tmp.
USES = [
    'cat "$REPROKIT_SECRETS/TOKEN"; echo; cat "$REPROKIT_SECRETS/KEY" >&2',
    'TOKEN="$(cat "$REPROKIT_SECRETS/TOKEN")"; export TOKEN; env',
    'cp "$REPROKIT_SECRETS/KEY" /tmp/key; ! grep -slaFf "$REPROKIT_SECRETS/TOKEN" /proc/[0-9]*/cmdline',
    'sha256sum "$REPROKIT_SECRETS"/* | cut -d " " -f 1 > /opt/sums; stat -Lc %a "$REPROKIT_SECRETS"/* >> /opt/sums',
]
# Where steps have their secrets.
LOOK = "ls -d /run/secrets/TOKEN /dev/reprokit-* 2>/dev/null"


def block(*commands: str, secrets: list[str], product: str = "/opt/sums") -> dict:
    return {"run": {"commands": [*commands], "products": [product], "in_image": True, "secrets": secrets}}


class Desk:
    """A folder with a recipe of these variants, and the user's secrets outside of it."""

    def __init__(self, root: Path, name: str, variants: dict[str, list]) -> None:
        self.root, self.name = root / "desk", name
        (self.root / "recipes").mkdir(parents=True)
        for blocks in variants.values():
            blocks[0]["run"]["commands"].insert(0, f": {name}")  # no step comes from the layer cache
        self.key = root / "key"
        self.key.write_bytes(KEY)
        recipe = {
            "name": name,
            "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"},
            "variants": {each: {"base": "debian:12", "blocks": blocks} for each, blocks in variants.items()},
        }
        (self.root / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump(recipe))

    def run(self, *words: str, code: int = 0) -> str:
        environment = {"REPROKIT_HOME": str(self.root / "home"), "TOKEN": TOKEN}
        done = run_verb(*words, cwd=self.root, env=environment)
        output = done.stdout + done.stderr
        assert done.returncode == code, f"{words}: {done.returncode}\n{output}"
        assert not holding(output.encode())
        return output

    def build(self, variant: str, *words: str, code: int = 0) -> str:
        return self.run(*words, "build", f"{self.name}:{variant}", "--secret", "id=TOKEN", code=code)


def holding(data: bytes) -> list[bytes]:
    return [value for value in SEARCHED if value in data]


def files_with_a_secret(folder: Path, *more: bytes) -> list[str]:
    files = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return [str(file) for file, data in files.items() if holding(data) or any(each in data for each in more)]


@pytest.fixture
def desk(engine: Engine, debian_12, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    made: list[tuple[str, str]] = []

    def make(**variants: list) -> Desk:
        name = unique("secrets")
        made.extend((name, variant) for variant in variants)
        return Desk(tmp_path, name, variants)

    yield make
    for name, variant in made:
        for container in engine.containers([f"reprokit.recipe={name}"]):
            engine.remove(container.id, force=True)
        with contextlib.suppress(ReprokitError):
            engine.remove_image(f"reprokit/{name}:{variant}", force=True)


def test_nothing_that_a_build_leaves_has_a_secret(engine: Engine, desk, tmp_path: Path):
    made: Desk = desk(v=[block(*USES, secrets=["TOKEN", "KEY"])])
    images = {image.id for image in engine.images([], steps=True)}
    refused = made.run("build", made.name, "--secret", "id=TOKEN", code=2)
    assert "needs the secret KEY to be built" in refused and "--secret id=KEY" in refused
    assert not (made.root / "home/state/logs").exists(), "nothing ran"
    made.run("build", made.name, "--secret", "id=TOKEN", "--secret", f"id=KEY,src={made.key}")
    assert "is up to date" in made.run("build", made.name)  # which needs no secret
    made.run("export", made.name, "-o", "bundle.rkit")
    sums = made.run("run", made.name, "--network", "none", "--", "cat", "/opt/sums").split()
    variables = tmp_path / "variables"
    variables.write_text(f"TOKEN={AT_RUN_TIME}\n")
    printing = ["--env-file", str(variables), "--", "sh", "-c", "echo now $TOKEN; printf $TOKEN >&2; exit 3"]
    assert f"now {AT_RUN_TIME}" in made.run("run", made.name, "--network", "none", *printing, code=3)
    assert (
        "now ***" in made.run("logs", made.name) and "***" in (made.root / "home/state/failures/last.log").read_text()
    )
    containers = [engine.api.inspect_container(each.id) for each in engine.containers([f"reprokit.recipe={made.name}"])]
    name = f"reprokit/{made.name}:v"
    new = [image.id for image in engine.images([], steps=True) if image.id not in images]
    described: list = [
        [engine.api.inspect_image(each), engine.api.history(each)] for each in (name, *new) if engine.image(each)
    ]
    (made.root / "described.json").write_text(json.dumps([*described, *containers]))
    with (made.root / "image.tar").open("wb") as saved:
        saved.writelines(engine.save(name))
    [log] = (made.root / "home/state/logs").iterdir()
    assert "TOKEN=***" in log.read_text() and "-----BEGIN KEY" not in log.read_text()
    found = files_with_a_secret(tmp_path, AT_RUN_TIME.encode())
    assert sorted(found) == [str(made.key), str(variables)]  # the control: the search finds them where they are
    assert len(containers) == 1
    digests = [hashlib.sha256(value).hexdigest() for value in (KEY, TOKEN.encode())]
    assert sums[:4] == [*digests, "400", "400"]


def test_a_block_that_names_no_secret_gets_none(desk):
    named = block(f"test -s $REPROKIT_SECRETS/TOKEN; {LOOK} > /opt/sums", secrets=["TOKEN"])
    other = block(f"{LOOK} > /opt/found || test ! -s /opt/found", secrets=[], product="/opt/found")
    made: Desk = desk(v=[named, other], stranger=[block("true", secrets=[])])
    made.build("v")
    looked = made.run("run", f"{made.name}:v", "--network", "none", "--", "wc", "-l", "/opt/sums", "/opt/found")
    assert looked.split()[:4] == ["2", "/opt/sums", "0", "/opt/found"]
    assert "no block" in made.build("stranger", code=2)  # which has no lock and no secret


def test_a_secret_that_a_layer_would_keep_fails_the_step(engine: Engine, desk):
    leaks = {
        "a": "cp $REPROKIT_SECRETS/TOKEN /opt/conf",
        "b": "mkdir -p /opt/conf; head -c 2097150 /dev/zero > /opt/conf/x; cat $REPROKIT_SECRETS/TOKEN >> /opt/conf/x",
        "c": 'ln -s "$(cat $REPROKIT_SECRETS/TOKEN)" /opt/conf',
        "d": "touch /opt/conf; rm -r $REPROKIT_SECRETS",
    }
    made: Desk = desk(**{n: [block(text, secrets=["TOKEN"], product="/opt/conf")] for n, text in leaks.items()})
    for name in leaks:
        text = made.build(name, "--debug", code=1)
        if name == "d":
            assert "TOKEN is gone: leave the folder of secrets as it is" in text
        else:
            assert "the secret TOKEN is in /opt/conf" in text and "Traceback" in text
        assert engine.image(f"reprokit/{made.name}:{name}") is None
    assert files_with_a_secret(made.root) == []
