"""The lines of a log that name the cause, and the error that a failed build becomes."""

from __future__ import annotations

import subprocess
from typing import cast

import pytest

from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError, WorkFailed
from reprokit.explain.last import causes_of
from reprokit.image.events import Failed
from reprokit.image.failure import build_error
from reprokit.recipe.blocks import shared_template
from reprokit.recipe.find import target
from reprokit.supply.gateway import Gateway
from tests.support.builds import target_of


class FakeGateway:
    """What a gateway knows after a build: its count of requests, and names that it refused or lacked."""

    def __init__(self, requests: int = 1, refused: tuple[str, ...] = (), **missing: int) -> None:
        self.requests, self.refused, self.missing = requests, refused, missing
        self.failure: ReprokitError | None = None


def error_of(output: str, gateway: FakeGateway | None = None) -> ReprokitError:
    gateway = gateway or FakeGateway()
    facts = [f"reprokit gateway: undeclared download: {name}" for name in gateway.refused]
    causes = causes_of(output, [*facts, *([] if output else ["code: 1"])])
    end = Failed("tvm", "RUN make", "code: 1")
    return build_error(target_of("x"), end, "code: 1", causes, cast(Gateway, gateway), output.encode())


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (  # parallel make: the first error, not the last line
            "[ 40%] Building CXX object a.o\nsrc/codegen_llvm.cc:480:82: error: no matching function for call to 'x'\n"
            "  480 |   foo(bar);\n[ 41%] Building CXX object b.o\nmake[2]: *** [a.o] Error 1\n"
            "make[1]: *** Waiting for unfinished jobs....\nmake: *** [Makefile:136: all] Error 2\n"
            "subprocess.CalledProcessError: Command 'make' returned non-zero exit status 2",
            ["src/codegen_llvm.cc:480:82: error: no matching function for call to 'x'"],
        ),
        (
            "reprokit: block tvm: expected TVM 0.7.0, found nothing\nsome: error: later",
            ["reprokit: block tvm: expected TVM 0.7.0, found nothing"],
        ),
        (
            "CMake Error at CMakeLists.txt:3 (find_package):\n  No LLVM\n\n-- Configuring incomplete, errors",
            ["CMake Error at CMakeLists.txt:3 (find_package):"],
        ),
        ("\x1b[31mfoo.cu(3): error: bad\x1b[0m", ["foo.cu(3): error: bad"]),
        ("all is well\n\nand then it ends", ["all is well", "and then it ends"]),
    ],
)
def test_the_causal_line_is_in_the_error(output: str, expected: list[str]):
    lines = error_of(output).message.splitlines()
    assert lines[1 : 1 + len(expected)] == [f"  {line}" for line in expected]


def test_much_output_gives_a_short_error():
    error = error_of("".join(f"x.c:{number}: error: {'y' * 2000}\n" for number in range(500)))
    assert len(error.message) < 2500 and "x.c:0: error" in error.message


BROKEN_NETWORK = """\
Err:1 http://archive.test/debian bookworm InRelease
  502  reprokit gateway: cannot reach archive.test: timed out
W: Failed to fetch http://archive.test/debian/dists/bookworm/InRelease  502
E: Unable to locate package gcc
"""


@pytest.mark.parametrize(
    ("output", "gateway", "kind", "words"),
    [
        ("x: error: y", FakeGateway(), WorkFailed, "x: error: y"),
        ("tar: write error: No space left on device", FakeGateway(), EngineError, "disk is full"),
        ("reprokit: block a: expected b, found c\ncurl: Could not resolve x", FakeGateway(), WorkFailed, "expected b"),
        ("W: Failed to fetch http://x", FakeGateway(), SourceError, "Failed to fetch"),
        (BROKEN_NETWORK, FakeGateway(), SourceError, "cannot reach archive.test: timed out"),
        ("E: Unable to connect to 127.0.0.1:1", FakeGateway(0), WorkFailed, "no request reached reprokit's gateway"),
        ("ERROR: No matching distribution found for y", FakeGateway(y=1), WorkFailed, "what the build requested: y"),
        ("curl: (22) error: 403", FakeGateway(1, ("http://h/a",)), WorkFailed, "undeclared download: http://h/a"),
        ("fatal: unable to access 'https://h'", FakeGateway(1, ("h:443",)), WorkFailed, "build --record x:v"),
        ("", FakeGateway(), WorkFailed, "code: 1"),
    ],
)
def test_whose_fault_it_is(output: str, gateway: FakeGateway, kind: type, words: str):
    error = error_of(output and f"{output}\n", gateway)
    assert type(error) is kind
    start = "the engine's disk is full\n  " if kind is EngineError else ""
    assert error.message.startswith(f"{start}x:v: block tvm failed: RUN make\n")
    assert words in f"{error.message} {error.hint}"


def test_a_file_that_the_gateway_cannot_make_is_the_cause():
    gateway = FakeGateway()
    gateway.failure = UsageError("more than 1 bytes unpacked", "x.conda", "raise the limit")
    error = error_of("curl: (22) The requested URL returned error: 500\n", gateway)
    assert type(error) is UsageError and (error.where, error.hint) == ("x.conda", "raise the limit")
    assert error.message == "x:v: block tvm failed: more than 1 bytes unpacked"


STENCIL = """\
name: stencil
paper: {title: A, venue: V, year: 2020, licence: none}
variants:
  cpu:
    base: debian:12
    blocks:
      - run: {commands: ["true"], products: [bin]}
      - cmake:
          source: stencil
          products:
            - build/stencill
"""


@pytest.mark.parametrize(
    ("made", "message", "hint"),
    [
        (["build/libx.so", "build/stencil"], "block cmake made build/stencil, not build/stencill", ""),
        (["lib/a.so", "lib/b.so"], "block cmake did not make build/stencill", "it made lib/a.so, lib/b.so"),
        ([], "block cmake did not make build/stencill", ""),
    ],
)
def test_an_absent_product_is_named_with_its_line_and_the_nearest_that_was_made(
    tmp_path, monkeypatch, made, message, hint
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stencil.yaml").write_text(STENCIL)
    output = "\x1b[91m" + "".join(f"reprokit: made {path}\n" for path in made)
    output += "reprokit: block cmake: expected build/stencill built, found nothing\n"
    end, gateway = Failed("cmake", "RUN ninja", "code: 1"), cast(Gateway, FakeGateway())
    error = build_error(target("stencil.yaml"), end, "code: 1", causes_of(output), gateway, output.encode())
    assert (error.message, error.where, error.hint) == (f"stencil:cpu: {message}", "stencil.yaml:11", hint)


def test_programs_and_libraries_that_a_step_made_are_listed(tmp_path):
    modes = {"build/stencil": 0o755, "build/x.o": 0o644, "build/liba.so.1": 0o644, ".git/hook": 0o755}
    for name, mode in modes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch(mode)
    command = shared_template("made.j2").rstrip("\\\n")
    printed = subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True, text=True).stderr
    assert sorted(printed.splitlines()) == ["reprokit: made build/liba.so.1", "reprokit: made build/stencil"]
