"""A Makefile project with a patch that measures a service: from `new` to a claim that is reproduced."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from reprokit.container import services
from reprokit.engine import Engine
from tests.support.forge import Forge
from tests.support.names import unique
from tests.support.verbs import run_verb

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.long]

MAKEFILE = "ask: ask.c\n\t$(CC) -o $@ $<\n"
# The authors had everything on one machine.
ASK = """\
#include <netdb.h>
#include <stdio.h>
#include <unistd.h>
#define SERVER "127.0.0.1"
int main() {
    struct addrinfo *found;
    char answer[16] = "";
    if (getaddrinfo(SERVER, "7000", 0, &found)) return 2;
    int stream = socket(found->ai_family, SOCK_STREAM, 0);
    if (connect(stream, found->ai_addr, found->ai_addrlen)) return 3;
    if (read(stream, answer, 15) < 1) return 4;
    printf("time: %s ms\\n", answer);
}
"""
PATCH = """\
--- a/ask.c
+++ b/ask.c
@@ -1,7 +1,7 @@
 #include <netdb.h>
 #include <stdio.h>
 #include <unistd.h>
-#define SERVER "127.0.0.1"
+#define SERVER "parameters"
 int main() {
     struct addrinfo *found;
     char answer[16] = "";
"""
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    pins: {{distro: "debian:12", gcc: "12"}}
    sources:
      - {{name: code, git: "https://forge.test/paper/code", commit: {commit}, path: /opt/code, patches: [server.patch]}}
    blocks: [git, {{make: {{source: code, products: [ask]}}}}]
    services:
      parameters:
        image: debian:12
        env: {{MS: "1.5"}}
        command:
          - perl
          - -MIO::Socket::INET
          - -e
          - >-
            $s = IO::Socket::INET->new(LocalPort => 7000, Listen => 5) or die;
            while ($c = $s->accept) {{ print $c $ENV{{MS}} }}
        ports: [7000]
smoke:
  - {{command: /opt/code/ask, expect: "time: 1.5"}}
benchmarks:
  ask:
    command: /opt/code/ask
    parse: {{values: [{{pattern: 'time: (?P<value>\\S+) ms', metric: ask.time, unit: ms}}]}}
claims:
  - {{metric: ask.time, value: 1.5, unit: ms, hardware: a CPU, where: table 3}}
"""


def test_from_new_to_a_reproduced_claim(engine: Engine, debian_12, tmp_path: Path):
    name, forge = unique("served"), Forge(tmp_path / "forge")
    commit = forge.publish("paper/code", {"Makefile": MAKEFILE, "ask.c": ASK})
    environment = {**os.environ, **forge.settings, "REPROKIT_HOME": str(tmp_path / "home")}

    def reprokit(*words: str) -> str:
        done = run_verb(*words, cwd=tmp_path, env=environment)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    (tmp_path / "recipes").mkdir()
    reprokit("new", name)
    (tmp_path / "recipes" / f"{name}.yaml").write_text(RECIPE.format(name=name, commit=commit))
    (tmp_path / "recipes" / "server.patch").write_text(PATCH)
    try:
        reprokit("check", name)
        reprokit("lock", name)
        reprokit("fetch", name)
        reprokit("build", "--offline", name)
        reprokit("smoke", name)
        reprokit("bench", name)
        [record] = map(json.loads, (tmp_path / "results" / f"{name}.jsonl").read_text().splitlines())
        assert record["samples"] == [1.5]
        assert list(record["services"]) == ["parameters"] and engine.image(record["services"]["parameters"])
        (claim,) = json.loads(reprokit("claims", name, "--json"))["claims"]
        assert claim["verdict"] == "reproduced"
        assert not [each for each in engine.networks(services.OF) if name in each["Name"]]
        said = reprokit("export", name, "-o", "x.rkit")
        assert f"without the image of the service parameters of {name}:v, debian:12" in said
        assert "without the image" not in reprokit("export", name, "--with-store", "-o", "y.rkit")
    finally:
        for container in engine.containers([f"reprokit.recipe={name}"]):
            engine.remove(container["Id"], force=True)
        for network in engine.networks(services.OF):
            if name in network["Name"]:
                engine.remove_network(network["Id"])
        for made in engine.images([f"reprokit.recipe={name}"]):
            engine.remove_image(made["Id"], force=True)
