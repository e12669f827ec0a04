"""The executor's images beside those of `docker build`, and what it does again."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.helper.container import NAME
from reprokit.image import made
from reprokit.image.copying import file_trees
from reprokit.image.dockerfile import parse
from reprokit.image.events import BuildStep, Event, OutputLine
from reprokit.image.executor import Executor, Plan
from reprokit.image.leftovers import leftovers, remove
from reprokit.image.made import Steps, step_name
from reprokit.image.stage import StepFailed
from reprokit.recipe import find
from tests.support.builds import target_of
from tests.support.images import built, noise
from tests.support.kill_moments import KillMoments
from tests.support.names import unique
from tests.support.paths import ROOT
from tests.support.registry import Registry
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

FILES = {"a.txt": b"a", "d/b.txt": b"b", "d/e/c": b"c"}
# What the classic builder knows too.
DOCKERFILE = """
ARG BASE
FROM ${BASE} AS one
ARG A=1
ENV X=a Y="b $A"
RUN mkdir -p /product/srv /product/etc && echo hi > /product/srv/f && ln -s f /product/srv/l && \\
    ln /product/srv/f /product/srv/h && chown 7:8 /product/etc && chmod 700 /product/etc && \\
    touch -d 2001-01-01 /product/srv/f
FROM ${BASE} AS unused
RUN false
FROM ${BASE}
LABEL a=b "c d"="e f"
SHELL ["/bin/bash", "-ec"]
COPY --from=one /product/ /
COPY --from=one /product/srv /opt/lib
COPY --from=one --chown=daemon:mail /product/srv/f /opt/x/y/
COPY --from=0 /product/srv/* /wild/
COPY a.txt /made/
COPY d /made/d
COPY d a.txt /made/both/
COPY a.txt /etc
COPY a.txt /renamed
WORKDIR /w/x
COPY a.txt .
USER daemon
RUN (id -u; id -G) > /tmp/id; pwd >> /tmp/id; echo $HOME >> /tmp/id; umask >> /tmp/id; tty >> /tmp/id || true
USER root
EXPOSE 80 8000-8002/udp
VOLUME /vol
HEALTHCHECK --interval=1m30s --retries=2 CMD true
STOPSIGNAL SIGINT
ENTRYPOINT ["/bin/sh"]
CMD ["-c", "echo x"]
ONBUILD RUN echo on
"""


class Memory:
    """A cache that ends with the test."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.images = engine, dict[str, str]()

    def find(self, key: str) -> str:
        return self.images.get(key, "")

    def keep(self, key: str, image: str) -> None:
        self.images[key] = image

    def announce(self, image_id: str) -> None:
        pass

    def name(self, key: str) -> str:
        return step_name(key)


class Build:
    def __init__(self, engine: Engine, base: str) -> None:
        self.engine, self.base, self.cache = engine, base, Memory(engine)
        self.name = f"{unique('executor')}:1"
        self.events: list[Event] = []

    def __call__(self, text: str, files: Mapping[str, bytes] = FILES, **changes) -> str:
        """The image's ID."""
        self.events.clear()
        block: Callable[[int], str] = changes.pop("block_of", lambda line: "block")
        plan = Plan(
            name=self.name,
            dockerfile=parse(text),
            block_of=block,
            base_of=lambda reference: self.base,
            files=file_trees(files),
            files_key=json.dumps({name: content.hex() for name, content in files.items()}),
            arguments={"BASE": "x"},
            **{"layered": False, **changes},
        )
        return Executor(self.engine, plan, self.cache, self.events.append).result()  # type: ignore[arg-type]

    @property
    def ran(self) -> list[str]:
        """The instructions that were not cached, without FROM."""
        ran = [event.text for event in self.events if isinstance(event, BuildStep) and not event.cached]
        return [text for text in ran if not text.startswith("FROM")]

    @property
    def output(self) -> list[str]:
        return [event.line for event in self.events if isinstance(event, OutputLine)]


@pytest.fixture
def build(engine: Engine, bookworm) -> Iterator[Build]:
    made = Build(engine, bookworm.base.image_id)
    yield made
    for image in (made.name, *reversed(made.cache.images.values())):
        if engine.image(image):
            engine.remove_image(image, force=True)


def tree(engine: Engine, image: str) -> dict[str, tuple]:
    """What an image's files are, without times, which both builders write as the clock says."""
    container = engine.create_container(unique("tree"), {"Image": image, "Entrypoint": ["/"]})
    try:
        archive = io.BytesIO(b"".join(engine.export(container)))
    finally:
        engine.remove(container)
    found: dict[str, tuple] = {}
    with tarfile.open(fileobj=archive) as tar:
        for m in tar:
            content = tar.extractfile(m).read() if m.isreg() else b""  # type: ignore[union-attr]
            when = m.mtime if m.name.endswith(("srv/f", "lib/f", "x/y/f")) else 0
            mode = m.mode & ~0o111 if content in FILES.values() else m.mode  # `built` makes files programs
            found[m.name] = (m.type, oct(mode), m.uid, m.gid, m.linkname, content, when)
    return found


def test_an_image_is_what_docker_build_makes(engine: Engine, build: Build, bookworm):
    classic = built(engine, DOCKERFILE.replace("RUN false", ""), FILES, buildargs={"BASE": bookworm.base.image_id})
    try:
        mine = build(DOCKERFILE)
        assert tree(engine, mine) == tree(engine, classic)
        settings = [engine.image(image).config for image in (mine, classic)]
        made_by_docker = {"Hostname", "Domainname", "Image"}
        one, other = ({k: v for k, v in each.items() if v and k not in made_by_docker} for each in settings)
        assert one == other
        texts = [each.command for each in engine.history(mine)]
        assert "USER daemon" in texts and "RUN /bin/bash -ec (id -u" in "\n".join(texts)
        described = json.dumps([engine.api.inspect_image(mine), engine.api.history(mine)])
        assert "/dev/reprokit" not in described and "helper" not in described
        layers = sum(1 for text in texts if text.startswith(("RUN", "COPY", "WORKDIR")))
        assert len(engine.layers(mine)) == 1 + layers
    finally:
        engine.remove_image(classic, force=True)


def test_only_what_changed_and_what_follows_runs_again(build: Build):
    text = """
FROM x AS a
RUN echo first > /a
RUN echo {a} >> /a
FROM x
COPY --from=a /a /a
COPY a.txt /
RUN cat /a a.txt
LABEL x={label}
"""
    before = build(text.format(a="second", label=1))
    assert build.output == ["first", "second", "a"]
    assert build(text.format(a="second", label=2)) != before and build.output == []
    build(text.format(a="other", label=1))
    assert build.ran[0].startswith("RUN echo other") and build.output == ["first", "other", "a"]
    build(text.format(a="other", label=1), {"a.txt": b"changed"})
    assert build.ran == ["COPY a.txt /", "RUN cat /a a.txt", "LABEL x=1"] and build.output[-1] == "changed"
    build(text.format(a="other", label=1), no_cache=True)
    assert len(build.ran) == 6


def test_a_stage_whose_product_is_cached_does_not_run(build: Build):
    text = "FROM x AS a\nRUN echo product > /a\nFROM x\nCOPY --from=a /a /\nLABEL n={n}\n"
    build(text.format(n=1))
    first = next(iter(build.cache.images))
    build.engine.remove_image(build.cache.images.pop(first), force=True)
    build(text.format(n=2))
    assert build.ran == []


def test_a_block_is_one_layer_and_its_assertions_are_part_of_it(engine: Engine, build: Build):
    text = "FROM x\nRUN echo > /a\nENV A=1\nRUN test -e /a\nRUN echo > /b\nRUN test -e /b\n"
    image = build(text, block_of=lambda line: "one" if line < 5 else "two", layered=True)
    assert len(engine.layers(image)) == 3
    # The block's last step failed, so all of the block runs again; the one before it does not.
    with pytest.raises(StepFailed) as failed:
        build(text.replace("/b\n", "/c\n", 1), block_of=lambda line: "one" if line < 5 else "two", layered=True)
    assert (failed.value.block, failed.value.code) == ("two", 1)
    assert build.ran == ["RUN echo > /c", "RUN test -e /b"]


def test_long_steps_of_a_stage_outlive_a_failure_after_them(build: Build):
    text = "FROM x AS a\nRUN sleep 8; echo compiled\nRUN test -e {file}\nFROM x\nCOPY --from=a /etc/passwd /a\n"
    with pytest.raises(StepFailed):
        build(text.format(file="/none"), layered=True)
    assert build.output == ["compiled"]
    build(text.format(file="/etc"), layered=True)
    assert build.output == []


def test_a_failed_steps_state_is_kept(engine: Engine, build: Build):
    kept = f"{unique('failed')}:1"
    try:
        with pytest.raises(StepFailed) as failed:
            build("FROM x\nENV A=b\nRUN echo half > /half; false", keep_failed=kept, failed_labels={"l": "m"})
        found = tree(engine, kept)
        assert failed.value.kept == engine.image(kept).id and found["half"][5] == b"half\n"
        assert engine.image(kept).labels["l"] == "m"
        assert "A=b" in engine.image(kept).config["Env"]
    finally:
        engine.remove_image(kept, force=True)


def test_an_error_of_the_engine_names_the_block(build: Build):
    with pytest.raises(EngineError) as error:
        build("FROM x\nRUN true", block_of={1: "first", 2: "third"}.get, settings={"CpusetCpus": "999"})
    assert error.value.message.startswith("block third: Requested CPUs are not available")


def test_stages_that_do_not_need_each_other_run_at_once_and_are_told_in_turn(engine: Engine, build: Build):
    both = "FROM x AS {0}\nRUN echo {0}; date +%s%N > /{0}; sleep 1; date +%s%N >> /{0}; echo {0}\n"
    last = "FROM x\nCOPY --from=a /a /\nCOPY --from=b /b /\nRUN cat /a /b\n"
    build(both.format("a") + both.format("b") + last, parallel=2)
    assert build.output[:4] == ["a", "a", "b", "b"]
    begin, end, other, last_end = map(int, build.output[4:])
    assert begin < last_end and other < end
    numbers = [event.number for event in build.events if isinstance(event, BuildStep)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_first_failure_ends_the_stages_beside_it(engine: Engine, build: Build):
    started = time.monotonic()
    slow = "FROM x AS slow\nRUN echo slow; sleep 60\n"
    text = slow + "FROM x AS bad\nRUN echo bad; exit 3\nFROM x\nCOPY --from=slow /etc/hosts /\nCOPY --from=bad /a /\n"
    with pytest.raises(StepFailed) as failed:
        build(text, parallel=2)
    assert failed.value.code == 3 and time.monotonic() - started < 30
    assert build.output[-1] == "bad"


def test_a_secret_is_there_for_its_step_only(engine: Engine, build: Build):
    text = """
FROM x
RUN mkdir -p /run/other && ln -s /run/other /run/planted && touch -d 2001-01-01 /run
RUN --mount=type=secret,id=one --mount=type=secret,id=two,target=/run/planted/deep/two,uid=1,mode=0404 \\
    --mount=type=secret,id=one,env=ONE cat /run/secrets/one /run/planted/deep/two; echo $ONE; \\
    stat -L -c '%a %u' /run/secrets/one /run/planted/deep/two; (setsid sh -c 'sleep 1; cat /run/secrets/one' &)
RUN ! cat /run/secrets/one && ! ls -d /dev/reprokit-* /run/secrets /run/other/deep && stat -c %y /run && env
"""
    image = build(text, secrets={"one": b"Xei3ahth\n", "two": b"quahR7ie\n", "three": b"Ohm4aiph"})
    assert build.output[:5] == ["Xei3ahth", "quahR7ie", "Xei3ahth", "400 0", "404 1"]
    rest = "\n".join(build.output[5:])
    assert "2001-01-01" in rest and "Xei3ahth" not in rest and "Ohm4aiph" not in rest
    saved = b"".join(engine.save(image))
    assert b"Xei3ahth" not in saved and b"quahR7ie" not in saved
    with pytest.raises(UsageError, match="needs the secret four"):
        build("FROM x\nRUN --mount=type=secret,id=four,required true")


def test_a_stage_of_nothing_has_only_what_is_copied(engine: Engine, build: Build):
    image = build("FROM scratch\nCOPY a.txt /b/\nCOPY <<A /c\n$HOME\nA\n")
    found = {
        name: each[5]
        for name, each in tree(engine, image).items()
        if not name.startswith(("dev", "etc", ".d", "proc", "sys"))
    }
    assert found == {"b": b"", "b/a.txt": b"a", "c": b"\n"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("COPY none /", "COPY finds no none"),
        ("COPY a.txt d /x", "needs a folder"),
        ("COPY --chmod=u+x a.txt /x", "is not a number"),
        ("ADD https://example.org/x /x", "ADD of an address is not supported"),
        ("COPY --chown=nobody:none a.txt /", "no group 'none'"),
        ("COPY a.txt ../../etc/passwd/x", "cannot write"),
        ("USER none\nRUN true", "no user 'none'"),
    ],
)
def test_what_a_step_lacks_is_named(build: Build, line: str, why: str):
    with pytest.raises(Exception, match=why):
        build(f"FROM x\n{line}")


def archive(mode: str, name: str = "in/file", content: bytes = b"content") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for path, kind in ((name.partition("/")[0], tarfile.DIRTYPE), (name, tarfile.REGTYPE)):
            member = tarfile.TarInfo(path)
            member.type, member.size, member.mode = kind, len(content) if kind == tarfile.REGTYPE else 0, 0o750
            member.uid = 5
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_archives_are_unpacked_by_add_and_copied_by_copy(build: Build, engine: Engine):
    files = {f"a{mode[2:]}": archive(mode) for mode in ("w:", "w:gz", "w:bz2", "w:xz")}
    plain = gzip.compress(b"no archive")
    lines = "\n".join(f"ADD {name} /{name}/x" for name in files)
    image = build(f"FROM scratch\n{lines}\nADD plain.gz /\nCOPY agz /copied\n", {**files, "plain.gz": plain})
    found = tree(engine, image)
    for name in files:
        _, mode, *owner, _, content, _ = found[f"{name}/x/in/file"]
        assert (int(mode, 8) & 0o7777, owner, content) == (0o750, [5, 0], b"content")
    assert (found["plain.gz"][5], found["copied"][5]) == (plain, files["agz"])
    # A block of bzip2 is large; parallel compressors write many streams.
    large = archive("w:", content=noise(900_000, 3))
    streams = b"".join(gzip.compress(large[at : at + 100_000]) for at in range(0, len(large), 100_000))
    build("FROM scratch\nADD one two /\nADD two /two/\n", {"one": bz2.compress(large), "two": streams})
    for path in ("in/file", "two/in/file"):
        assert tree(engine, build.name)[path][5] == noise(900_000, 3)
    # A name that leads out stays inside, and a damaged archive is named.
    build("FROM scratch\nADD out.tar /x/", {"out.tar": archive("w:", "../../out")})
    assert tree(engine, build.name)["x/out"][5] == b"content"
    with pytest.raises(UsageError, match=r"damaged\.tar cannot be unpacked"):
        build("FROM scratch\nADD damaged.tar /", {"damaged.tar": archive("w:")[:700]})


def test_copies_leave_out_and_keep_folders(build: Build, engine: Engine):
    files = {"a/b/c.txt": b"c", "a/b/d.o": b"d", "a/e/f.txt": b"f"}
    text = "FROM scratch\nCOPY --exclude=**/*.o --exclude=a/e a /one\nCOPY --parents a/b/c.txt a/./e /two/\n"
    found = {path for path, each in tree(engine, build(text, files)).items() if each[5] in files.values()}
    assert found == {"one/b/c.txt", "two/a/b/c.txt", "two/e/f.txt"}


def test_limits_reach_all_steps_and_gpus_those_of_which_no_layer_stays(build: Build, engine: Engine, monkeypatch):
    made: list[dict] = []
    create = engine.create_container

    def without_gpus(name: str, config: dict) -> str:
        """This engine has none to give."""
        made.append(config["HostConfig"])
        host = {key: value for key, value in config["HostConfig"].items() if key != "DeviceRequests"}
        return create(name, {**config, "HostConfig": host})

    monkeypatch.setattr(engine, "create_container", without_gpus)
    gpus = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]], "DeviceIDs": [], "Options": {}}]
    text = "FROM x AS a\nRUN echo 1 > /a\nFROM x\nCOPY --from=a /a /a\nRUN echo 2\n"
    build(text, gpus=gpus, settings={"Memory": 200 << 20})
    steps = [each for each in made if "Mounts" in each]
    assert [each.get("DeviceRequests") for each in steps] == [gpus, None, None]
    assert [each["Memory"] for each in steps] == [200 << 20] * 3
    # What was made with GPUs is no cache of a build without.
    build(text)
    assert build.ran[0] == "RUN echo 1 > /a"


def test_mounts_are_there_for_their_step_only(engine: Engine, build: Build):
    text = """
FROM x AS a
RUN mkdir -p /s/deep && echo staged > /s/deep/file
FROM x
RUN echo settled > /before
RUN --mount=target=/c --mount=from=a,source=/s,target=/opt --mount=type=tmpfs,target=/mnt \\
    cat /c/d/b.txt /opt/deep/file /before; ! touch /c/x 2> /dev/null; touch /mnt/x; echo late > /after
RUN ls -A /c /opt /mnt; cat /before /after
"""
    image = build(text)
    assert build.output == ["bstaged", "settled", "/c:", "/mnt:", "/opt:", "settled", "late"]
    assert not engine.image(image).config.get("Volumes")
    assert build(text) and build.output == []
    build(text, FILES | {"d/b.txt": b"changed"})
    assert build.output[0] == "changedstaged"
    build(text.replace("echo staged", "echo other"))
    assert build.output[:2] == ["bother", "settled"]


def test_a_cache_belongs_to_its_owner_and_is_off_without_the_cache(engine: Engine, build: Build):
    line = "RUN --mount=type=cache,target=/kept,uid=3,mode=0700 stat -c '%a %u' /kept; cat /kept/x; date +%N >> /kept/x"
    own, other = unique("mine"), unique("theirs")
    try:
        build(f"FROM x\n{line}", caches=own)
        assert build.output == ["700 3", "cat: /kept/x: No such file or directory"]
        build(f"FROM x\n{line} # again", caches=own)
        assert len(build.output) == 2 and build.output[1].isdigit()
        for changes in ({"caches": other}, {"caches": own, "no_cache": True}, {}):
            build(f"FROM x\n{line} # {len(changes)}", **changes)
            assert build.output[1].startswith("cat:"), changes
    finally:
        mine = [volume.name for volume in engine.volumes() if volume.name.startswith(f"{NAME}cache-")]
        for name in mine:
            engine.remove_volume(name)
    assert len(mine) == 2


def test_steps_of_a_repository_are_for_builds_that_name_it(engine: Engine, build: Build, inside, tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    text, more = "FROM x\nRUN echo a > /a\nRUN echo b > /b\n", "RUN echo c > /c\n"
    target = target_of("shared")
    made_here = []

    def cache(**places: str) -> Steps:
        steps = Steps(engine, target, **places)
        made_here.append(steps)
        build.cache = steps
        return steps

    with Registry(engine) as registry:
        repository = f"{registry.host}/{unique('steps')}"
        steps = cache(cache_to=repository)
        layers = engine.layers(build(text))
        steps.share()
        steps.drop()
        steps = cache(cache_from=repository)
        assert engine.layers(build(text + more))[:-1] == layers
        assert (len(build.ran), steps.origin) == (1, repository)
        # Neither what came from there nor what was made on it is taken for the user's own.
        steps = cache()
        build(text + more)
        assert (len(build.ran), steps.origin) == (3, "")
        steps.drop()
        steps = cache(cache_from=repository)
        build(text + more)
        assert (build.ran, steps.origin) == ([], repository)
    for steps in made_here:
        steps.drop()
    with pytest.raises(SourceError):
        cache(cache_from=repository)
        build(text + more + more)
    build.cache = Memory(engine)


KILLED = """
import sys
from reprokit.engine import Engine
from reprokit.image.made import Steps
from tests.image.integration.test_executor import Build, LONG
from tests.support.builds import target_of
build = Build(Engine.connect(), sys.argv[1])
build.name, build.cache = sys.argv[2], Steps(build.engine, target_of(sys.argv[3]))
print(build(LONG, block_of=str, layered=True))
build.cache.finish()
print(*(len(build.ran), *build.output))
"""
LONG = "FROM x\nCOPY a.txt /\n" + "".join(f"RUN sleep 0.3; echo {n} > /{n}; echo {n}\n" for n in range(6))


@pytest.mark.long
@pytest.mark.kills(3)
def test_builds_killed_at_random_moments_leave_nothing_and_go_on(
    engine: Engine, bookworm, home: Path, tmp_path: Path, monkeypatch, kills: int
):
    label = unique("killed")
    name, killed = f"{label}:1", 0
    command = [sys.executable, "-c", KILLED, bookworm.base.image_id, name, label]
    options = {"cwd": ROOT, "env": os.environ | {"TMPDIR": str(tmp_path)}, "stdout": subprocess.PIPE, "text": True}

    def running() -> bool:
        """Whether a container of this test runs: its sockets are in the test's own folder."""
        mounts = [mount for each in engine.containers([]) if each.state == "running" for mount in each.mounts]
        return any(mount.source.startswith(str(tmp_path)) for mount in mounts)

    moments = KillMoments(7, 0.1, takes=8)
    try:
        while killed < kills:
            process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
            moments.wait()
            process.send_signal(signal.SIGKILL)
            killed += moments.noted(process.wait() == -signal.SIGKILL)
            wait_for(lambda: not running())
        done = subprocess.run(command, check=True, **options).stdout.split()  # type: ignore[call-overload]
        ran = int(done[1])
        assert engine.image(name).id == done[0] and not running()
        assert done[2:] == [str(n) for n in range(6 - ran, 6)] and tree(engine, name)["5"][5] == b"5\n"
    finally:
        engine.remove_image(name, force=True)
        monkeypatch.setattr(find, "recipe_files", dict)
        for leftover in leftovers(engine):
            assert remove(engine, leftover)
        steps = [name for each in engine.images([]) for name in each.names if name.startswith(step_name(""))]
        assert not steps and not [entry for entry in made.entries(engine).values() if engine.image(entry.id)]
