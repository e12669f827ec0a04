"""The parts of a build that need no engine."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.errors import EngineError, SourceError, UsageError, WorkFailed
from reprokit.image import dockercli
from reprokit.image.base import Base
from reprokit.image.buildkit import _Reader
from reprokit.image.classic import _lines, label_line
from reprokit.image.context import context_tar
from reprokit.image.events import Cached, Failed, Note, Output, Step
from reprokit.image.explain import explain
from reprokit.image.failure import Extractor, causes
from reprokit.image.inputs import Inputs
from reprokit.image.instructions import Instructions
from reprokit.image.labels import labels, minimum_driver
from reprokit.image.platform import platform_of
from reprokit.image.progress import Live, Plain, brief, title
from reprokit.supply.fetch.progress import Progress
from reprokit.supply.git import Commit
from reprokit.supply.lock.model import Distribution
from reprokit.supply.offer import Offer
from reprokit.supply.wheels import Platform, WheelSet
from tests.support.builds import rendered, target_of

BASE = Base("debian:12", "debian:12", "sha256:" + "1" * 64, "engine", "sha256:" + "2" * 64)
STAGES = """\
ARG BASE=debian:12
FROM ${BASE} AS base
# block tvm
FROM base AS tvm
RUN set -eu; \\
    # why
    echo one; \\
    echo $HOME
FROM base
# block later
COPY --from=tvm /a /b
ENV A=1
RUN set -eu; \\
    echo two
"""


def test_a_context_has_the_same_bytes_each_time():
    files = {"b": b"2", "Dockerfile": b"FROM x\n"}
    with context_tar(files) as one, context_tar(dict(reversed(files.items()))) as two:
        data = one.read()
        assert data == two.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["Dockerfile", "b"]
        assert {(m.mtime, m.uid, m.gid, m.mode) for m in tar} == {(0, 0, 0, 0o644)}


# --- hashes and platforms


def test_every_input_changes_the_hash():
    wheel = Distribution(name="six", version="1.16.0", file="six-1.16.0-py3-none-any.whl", sha256="a" * 64, size=1)
    commit = Commit("https://forge.test/a/b", "c" * 40)
    plain = Inputs(rendered("FROM x\n"), BASE, Offer())
    others = [
        Inputs(rendered("FROM x\nENV A=1\n"), BASE, Offer()),
        Inputs(rendered("FROM x\n"), Base("debian:12", "debian:12", "sha256:3", "registry"), Offer()),
        Inputs(rendered("FROM x\n"), BASE, Offer(WheelSet((wheel,)))),
        Inputs(rendered("FROM x\n"), BASE, Offer(commits=(commit,))),
    ]
    assert len({plain.hash, *(i.hash for i in others)}) == 5
    moved = Base("debian:bookworm", "other:name", BASE.image_id, "mirror x", BASE.digest)
    assert Inputs(rendered("FROM x\n"), moved, Offer()).hash == plain.hash


def test_only_declared_arguments_are_passed():
    assert Inputs(rendered("FROM x\n"), BASE, Offer()).arguments == {}
    declaring = rendered("ARG REPROKIT_GIT=https://\nARG REPROKIT_WHEELS=\nFROM x\n")
    found = Inputs(declaring, BASE, Offer()).arguments
    assert found["REPROKIT_GIT"] == "http://git.reprokit.invalid/"
    assert found["REPROKIT_WHEELS"] == f"http://wheels.reprokit.invalid/{WheelSet(()).key}/simple/"


def test_the_platform_is_that_of_the_base():
    assert platform_of(target_of("x"), "amd64") == Platform("3.11", "2.36", "x86_64")
    assert platform_of(target_of("x"), "arm64") == Platform("3.11", "2.36", "aarch64")
    older = target_of("x", base="nvidia/cuda:11.8.0-devel-ubuntu20.04")
    assert platform_of(older, "amd64") == Platform("3.11", "2.31", "x86_64")


def test_labels():
    inputs = Inputs(rendered("FROM x\n"), BASE, Offer())
    found = labels(target_of("x"), inputs, ["cuda with gpu: no"])
    assert found["reprokit.min-driver"] == "450.80.02"
    assert json.loads(found["reprokit.forced"]) == ["cuda with gpu: no"]
    assert "reprokit.forced" not in labels(target_of("x"), inputs, [])


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ("11.8", "450.80.02"),
        ("11.8.0", "450.80.02"),
        ("11", "450.80.02"),
        ("10.2", "440.33.01"),
        ("99.1", ""),
        (None, ""),
    ],
)
def test_the_lowest_driver_of_a_cuda(cuda: str | None, driver: str):
    assert minimum_driver(cuda) == driver


# --- what the two builders say


def test_the_classic_builders_stream_becomes_lines():
    stream = [
        {"stream": "Step 1/2 : FROM x"},
        {"stream": "\n"},
        {"stream": " ---> 0123456789ab\n"},
        {"stream": "Step 2/2 : RUN echo two"},
        {"stream": "\n"},
        {"stream": "half a "},
        {"stream": "line\n10%\r20%\r"},
        {"stream": "\r100%\nlast"},
        {"error": "returned a non-zero code: 1"},
    ]
    assert list(_lines(iter(stream))) == [
        "Step 1/2 : FROM x", " ---> 0123456789ab", "Step 2/2 : RUN echo two", "half a line", "100%", "last",
        {"error": "returned a non-zero code: 1"},
    ]  # fmt: skip


def test_instructions_are_found_by_what_buildkit_prints():
    found = Instructions(rendered(STAGES))
    assert found.stages == ["", "base", "tvm", "tvm", "stage-2", "stage-2", "stage-2", "stage-2"]
    assert found.step("tvm", "RUN set -eu;     echo one;     echo /root") == Step(
        4, 8, "tvm", "RUN set -eu; echo one; echo /root"
    )
    assert found.step("stage-2", "RUN set -eu;     echo two").number == 8
    assert found.step("stage-2", "COPY --from=tvm /a /b").block == "later"
    assert found.step("base", "FROM docker.io/library/debian:12").number == 2
    assert Instructions(rendered("FROM x\nRUN a\n")).step("", "RUN a").number == 2


def test_buildkits_progress_becomes_events():
    reader = _Reader(Instructions(rendered(STAGES)))
    lines = """\
#3 [internal] load metadata for docker.io/library/debian:12
#3 DONE 0.0s
#4 [base 1/1] FROM docker.io/library/debian:12
#4 CACHED
#5 [tvm 1/1] RUN set -eu;     echo one;     echo /root
#6 [stage-2 1/3] COPY --from=tvm /a /b
#5 0.411 one
#6 0.2 copying
#5 0.5 tail
#5 ERROR: executor failed running [/bin/sh -c x]: exit code: 3
------
 > [tvm 1/1] RUN:
------""".splitlines()
    events = [event for line in lines for event in reader.read(line)]
    tvm, copy = Step(4, 8, "tvm", "RUN set -eu; echo one; echo /root"), Step(6, 8, "later", "COPY --from=tvm /a /b")
    assert events[1:] == [
        Cached(), tvm, copy, tvm, Output("one"), copy, Output("copying"), tvm, Output("tail"),
    ]  # fmt: skip
    assert reader.failed == Failed("tvm", tvm.text, "executor failed running [/bin/sh -c x]: exit code: 3")


def docker(folder: Path, version: str, buildx: bool) -> Path:
    folder.mkdir()
    path = folder / "docker"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = buildx ] && exit {0 if buildx else 1}\necho "Docker version {version}, build x"\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "buildx", "words"),
    [
        ("20.10.24+dfsg1", False, ("build",)),
        ("28.2.2", False, None),
        ("28.2.2", True, ("buildx", "build", "--builder=default", "--load")),
        ("18.06.1-ce", False, None),
    ],
)
def test_which_docker_clis_have_buildkit(tmp_path, monkeypatch, version: str, buildx: bool, words):
    first = docker(tmp_path / "a", "28.2.2", False)
    path = docker(tmp_path / "b", version, buildx)
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}:{tmp_path / 'b'}:/usr/bin:/bin")
    monkeypatch.setattr(dockercli, "_candidates", lambda: [str(first), str(path)])
    if words is None:
        with pytest.raises(EngineError, match="no Docker CLI here can use BuildKit") as error:
            dockercli.find_cli()
        assert str(first) in error.value.message and "--builder classic" in error.value.hint
    else:
        assert dockercli.find_cli().build == (str(path), *words)


def test_every_docker_on_the_path_is_a_candidate_once(tmp_path, monkeypatch):
    one, two = docker(tmp_path / "a", "1", False), docker(tmp_path / "b", "2", False)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "docker").symlink_to(one)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / f) for f in ("a", "c", "none", "b")))
    assert dockercli._candidates() == [str(one), str(two)]


# --- why a step failed


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (  # parallel make: the first error, not the last line
            "[ 40%] Building CXX object a.o\nsrc/codegen_llvm.cc:480:82: error: no matching function for call to 'x'\n"
            "  480 |   foo(bar);\n[ 41%] Building CXX object b.o\nmake[2]: *** [a.o] Error 1\n"
            "make[1]: *** Waiting for unfinished jobs....\nmake: *** [Makefile:136: all] Error 2\n"
            "subprocess.CalledProcessError: Command 'make' returned non-zero exit status 2",
            ["src/codegen_llvm.cc:480:82: error: no matching function for call to 'x'", "  480 |   foo(bar);"],
        ),
        (
            "reprokit: block tvm: expected TVM 0.7.0, found nothing\nsome: error: later",
            ["reprokit: block tvm: expected TVM 0.7.0, found nothing"],
        ),
        (
            "CMake Error at CMakeLists.txt:3 (find_package):\n  No LLVM\n\n-- Configuring incomplete, errors",
            ["CMake Error at CMakeLists.txt:3 (find_package):", "  No LLVM"],
        ),
        ("Reading package lists...\nE: Unable to locate package llvm-99\n", ["E: Unable to locate package llvm-99"]),
        (
            "Traceback (most recent call last):\n  File 'x', line 1\nModuleNotFoundError: No module named 'h5py'",
            ["ModuleNotFoundError: No module named 'h5py'"],
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)\n"
            "ERROR: No matching distribution found for x==1",
            ["ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)"],
        ),
        ("fatal: unable to read tree", ["fatal: unable to read tree"]),
        ("/bin/sh: 1: nvcc: not found", ["/bin/sh: 1: nvcc: not found"]),
        ("c++: fatal error: Killed signal terminated", ["c++: fatal error: Killed signal terminated"]),
        ("\x1b[31mfoo.cu(3): error: bad\x1b[0m", ["foo.cu(3): error: bad"]),
        ("all is well\n\nand then it ends", ["all is well", "and then it ends"]),
    ],
)  # fmt: skip
def test_the_first_causal_lines(output: str, expected: list[str]):
    assert causes(output.splitlines()) == expected


def test_the_network_is_the_cause_of_what_follows():
    extractor = Extractor()
    for line in (
        "Err:1 http://archive.test/debian bookworm InRelease",
        "  502  reprokit gateway: cannot reach archive.test: timed out",
        "W: Failed to fetch http://archive.test/debian/dists/bookworm/InRelease  502",
        "E: Unable to locate package gcc",
    ):
        extractor.feed(line)
    assert extractor.first()[0].endswith("cannot reach archive.test: timed out")


def test_much_output_takes_little_memory():
    extractor = Extractor()
    for number in range(20_000):
        extractor.feed(f"x.c:{number}: error: " + "y" * 2000)
    kept = [*extractor.causes, *extractor.tail, *extractor.assertions, *extractor.network]
    assert sum(map(len, kept)) < 10_000
    assert extractor.first()[0].startswith("x.c:0: error")


class Asked:
    def __init__(self, requests: int = 1, refused: tuple[str, ...] = (), **missing: int) -> None:
        self.requests, self.refused, self.missing = requests, refused, missing


@pytest.mark.parametrize(
    ("lines", "gateway", "kind", "words"),
    [
        (["x: error: y"], Asked(), WorkFailed, "x: error: y"),
        (["tar: write error: No space left on device"], Asked(), EngineError, "disk is full"),
        (["reprokit: block a: expected b, found c", "curl: Could not resolve x"], Asked(), WorkFailed, "expected b"),
        (["W: Failed to fetch http://x"], Asked(), SourceError, "Failed to fetch"),
        (["E: Unable to connect to 127.0.0.1:1"], Asked(0), EngineError, "did not reach reprokit's gateway"),
        (["ERROR: No matching distribution found for y"], Asked(y=1), WorkFailed, "does not name: y"),
        (["curl: (22) error: 403"], Asked(refused=("http://h/a",)), WorkFailed, "undeclared download: http://h/a"),
        (["fatal: unable to access 'https://h'"], Asked(refused=("h:443",)), WorkFailed, "build --record x:v"),
        ([], Asked(), WorkFailed, "code: 1"),
    ],
)
def test_whose_fault_it_is(lines: list[str], gateway, kind: type, words: str):
    extractor = Extractor()
    for line in lines:
        extractor.feed(line)
    error = explain(target_of("x"), "unix:///e", Failed("tvm", "RUN make", "code: 1"), "code: 1", extractor, gateway)
    assert type(error) is kind
    assert error.message.startswith(
        ("x:v: block tvm failed: RUN make\n", "the engine's disk is full\n  x:v: block tvm failed")
    )
    assert words in f"{error.message} {error.hint}"


# --- what is shown


def test_plain_lines():
    out = io.StringIO()
    with Plain(out) as shown:
        for event in (
            Note("base x"),
            Step(1, 2, "base", "FROM x"),
            Cached(),
            Output("noise"),
            Step(2, 2, "apt", "RUN y"),
        ):
            shown.watch(event)
    assert out.getvalue() == "base x\n[1/2] base: FROM x\n  cached\n[2/2] apt: RUN y\n"


def test_the_live_display_fits_its_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    with Live(out) as shown:
        shown.traffic(type("Gateway", (), {"bytes_served": 12_000_000})())
        shown.watch(Step(1, 2, "apt", "RUN " + "long " * 40))
        shown.watch(Output("noise " * 40))
        text = shown._render().plain
        shown.watch(Step(2, 2, "env", "ENV A=1"))
    first, second = text.splitlines()
    assert first.startswith("[1/2] apt: RUN long") and "12 MB" in first and "0:00 of 0:00" in first
    assert max(len(first), len(second)) <= 60
    assert "0.0 s" in out.getvalue()


def test_downloads_are_shown_in_their_own_words():
    out, half = io.StringIO(), Progress(1, 2, 500, 1000, 0.0, None, ("torch.whl",))
    plain = Plain(out)
    plain.downloads.next = 0.0
    plain.watch(half)
    plain.watch(half)
    assert out.getvalue() == "1 of 2 files, 500 B of 1 kB\n"
    with Live(io.StringIO()) as shown:
        shown.watch(half)
        assert shown._render().plain.endswith("\n  1 of 2 files, 500 B of 1 kB")


def test_small_words():
    assert brief("RUN set -eu; expect() { case x in a) ;; *) exit 1 ;; esac; }; apt-get update") == "RUN apt-get update"
    assert title(Step(3, 9, "tvm", "RUN " + "x" * 200), 40).endswith("...")


@given(st.dictionaries(st.from_regex(r"reprokit\.[a-z-]{1,12}", fullmatch=True), st.text(max_size=40), min_size=1))
def test_labels_are_one_instruction_and_come_back_as_they_were(given_labels: dict[str, str]):
    try:
        line = label_line(given_labels)
    except UsageError:
        assert not all(value.isprintable() for value in given_labels.values())
        return
    assert line.count("\n") == 1 and line.startswith("LABEL ") and line.endswith('"\n')
    # A Dockerfile's double quotes know three escapes: of themselves, of the dollar and of the backslash.
    found = re.findall(r'(reprokit\.[a-z-]+)="((?:\\.|[^"\\])*)"', line)
    assert {name: re.sub(r'\\(["$\\])', r"\1", value) for name, value in found} == given_labels
