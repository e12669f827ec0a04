"""The lines of a log that name the cause."""

from __future__ import annotations

import pytest

from reprokit.image.failure import Extractor, causes


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
