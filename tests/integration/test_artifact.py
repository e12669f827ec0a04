"""An artifact with environment.yml, an sdist, and private sources: from `new` to a reproduced claim."""

from __future__ import annotations

import json
import os
import ssl
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from reprokit.engine import Engine
from tests.support.conda_channel import index_channel, make_package
from tests.support.forge import Forge
from tests.support.git_server import GitServer
from tests.support.names import unique
from tests.support.ssh_server import SshServer, ssh_server
from tests.support.verbs import run_verb

RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    pins: {{distro: "debian:12", python: "3.11"}}
    blocks: [python, wheels, conda, git, imports]
    conda: [{{file: environment.yml}}]
    conda_channels: [lab]
    wheels: [{{file: environment.yml}}, {{file: pyproject.toml, extras: [bench]}}]
    sources:
      - {{name: code, git: "{server}/team/code", commit: {commit}, path: /opt/code}}
      - {{name: runs, git: "{site}/team/runs", commit: {runs}, path: /opt/runs}}
smoke:
  - {{command: "solver; python3 -c 'import docopt, six, tool'", expect: solver}}
benchmarks:
  spmm:
    command: python3 /opt/code/bench.py
    parse: {{values: [{{pattern: 'time: (?P<value>\\S+) ms', metric: spmm.time, unit: ms}}]}}
claims:
  - {{metric: spmm.time, value: 3, unit: ms, hardware: a CPU, where: table 3}}
"""
# docopt has an sdist only.
ENVIRONMENT = """\
name: paper
channels: [lab]
dependencies:
  - solver >=1
  - pip
  - pip: ["docopt>=0.6,<0.7", "tool @ git+https://forge.test/team/tool@v1"]
"""
PROJECT = (
    '[project]\nname = "code"\nversion = "1"\ndependencies = []\n[project.optional-dependencies]\nbench = ["six<2"]\n'
)
BENCH = """\
import os
print(os.environ["TOKEN"])
print("time:", 1.5 * int(open("/opt/runs/runs.txt").read()), "ms")
"""
# What the user's credential helper gives git, and what one command in a container gets.
HELPED, AT_RUN_TIME = "token-of-the-helper", "hunter2-of-the-lab"
TOOL = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "tool"\nversion = "1.0"\ndependencies = ["six"]\n[tool.setuptools]\npy-modules = ["tool"]\n',
    "tool.py": "",
}


def token_site(root: Path) -> tuple[GitServer, dict[str, str]]:
    """A git server over https that wants a token, and the settings of a user whose credential helper has it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(root / "ca.pem")
    helper = f'"!f() {{ echo username=me; echo password={HELPED}; }}; f"'
    (root / "gitconfig").write_text(f"[credential]\n\thelper = {helper}\n")
    # By the variable: a machine may set it for its own authority, and it comes before the configuration.
    user = {"GIT_CONFIG_GLOBAL": str(root / "gitconfig"), "GIT_SSL_CAINFO": str(root / "ca.pem")}
    return GitServer(root / "forge", HELPED, context), user


class Lab:
    """A folder with a recipe, as its user has it: `key` opens one private repository, `HELPED` the other."""

    def __init__(self, root: Path, name: str, server: SshServer, port: int) -> None:
        self.root, self.key = root, server.private_key.splitlines()[2]
        self.name = name
        forge, private = Forge(root / "forge"), Forge(server.root / "forge")
        forge.publish("team/tool", TOOL)
        forge.git("team/tool", "tag", "v1")
        commit = private.publish("team/code", {"bench.py": BENCH})
        runs = private.publish("team/runs", {"runs.txt": "2"})
        self.site, user = token_site(server.root)
        self.environment = {
            **os.environ, **forge.settings, **server.environment, **user,
            "REPROKIT_HOME": str(root / "home"), "REPROKIT_CONDA_MIRRORS": f"http://127.0.0.1:{port}/{{channel}}",
        }  # fmt: skip
        (root / "recipes").mkdir()
        self.run("new", self.name)
        texts = {"environment.yml": ENVIRONMENT, "pyproject.toml": PROJECT}
        texts[f"{self.name}.yaml"] = RECIPE.format(
            name=self.name, server=server.address, commit=commit, site=self.site.url, runs=runs
        )
        for file, text in texts.items():
            (root / "recipes" / file).write_text(text)

    def run(self, *words: str, code: int = 0, **more: str) -> str:
        done = run_verb(*words, cwd=self.root, env={**self.environment, **more})
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def holds(folder: Path, secret: bytes) -> list[str]:
    return [str(file) for file in folder.rglob("*") if file.is_file() and secret in file.read_bytes()]


@pytest.mark.network
@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="starts an sshd of its own, which takes root")
def test_from_new_to_a_reproduced_claim(engine: Engine, debian_12, tmp_path: Path, short_path: Path):
    channel, name = tmp_path / "channels" / "lab", unique("lab")
    of_lab = f"reprokit.recipe={name}"
    make_package(channel, "solver", "1.2")
    index_channel(channel)
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "channels"))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "lab").mkdir()
    (short_path / "ssh").mkdir()
    try:
        with ssh_server(short_path / "ssh") as private:
            lab = Lab(tmp_path / "lab", name, private, server.server_port)
            stranger = tmp_path / "stranger.yaml"
            stranger.write_text("hosts: []\n")
            assert "would use your keys" in lab.run("lock", lab.name, code=4, REPROKIT_CONFIG=str(stranger))
            lab.run("lock", lab.name)
            lab.run("fetch", lab.name)
        # What was locked needs no key, token or network of the user any more.
        lab.environment |= {"SSH_AUTH_SOCK": "", "GIT_CONFIG_GLOBAL": os.devnull}
        lab.run("build", "--offline", lab.name)
        lab.run("smoke", lab.name)
        tokens = short_path / "tokens.env"
        tokens.write_text(f"TOKEN={AT_RUN_TIME}\n")
        assert "spmm.time" in lab.run("bench", lab.name, "--env-file", str(tokens))
        [line] = (lab.root / "results" / f"{lab.name}.jsonl").read_text().splitlines()
        record = json.loads(line)
        assert record["samples"] == [3.0] and record["env_file"].keys() == {"TOKEN"}
        (claim,) = json.JSONDecoder().raw_decode(lab.run("results", "claims", lab.name, "--json"))[0]["claims"]
        assert claim["verdict"] == "reproduced"
        lab.run("export", lab.name, "-o", "lab.rkit")
        lab.run("export", lab.name, "--with-store", "-o", "all.rkit")
        image = f"reprokit/{lab.name}:v"
        with (lab.root / "image.tar").open("wb") as saved:
            saved.writelines(engine.save(image))
        containers = [engine.api.inspect_container(each.id) for each in engine.containers([of_lab])]
        described = [engine.api.inspect_image(image), *containers]
        (lab.root / "described.json").write_text(json.dumps(described))
        for secret in (lab.key.encode(), HELPED.encode(), AT_RUN_TIME.encode()):
            assert holds(short_path, secret), "the search finds the secret where it is"
            assert holds(lab.root, secret) == []
        locked = (lab.root / "recipes" / f"{lab.name}.lock.yaml").read_text()
        assert "docopt-0.6.2.tar.gz" in locked and "build_only: true" in locked and "ref: v1" in locked
    finally:
        server.shutdown()
        for container in engine.containers([of_lab]):
            engine.remove(container.id, force=True)
        for made in engine.images([of_lab]):
            engine.remove_image(made.id, force=True)
