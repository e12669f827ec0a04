"""Programs of structured masks: evaluated as they are defined, and refused where they would read out of bounds."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from fused_attention.mask_program import UNBOUNDED, assemble, both, inverse, key_residue
from hypothesis import given, settings
from hypothesis import strategies as st

ALL, BAND, RESIDUE, KEY_RESIDUE, SAME_BLOCK, KEY_RANGE, ROW_RANGE, KEY_SET, ROW_SET = range(9)
KEY_BELOW, ROW_BELOW, ROW_INTERVAL, BLOCK_TABLE, AND, OR, NOT = range(9, 16)
BATCH = 3


def int64s(program):
    return np.array(program, dtype=np.int64).ctypes.data_as(ctypes.POINTER(ctypes.c_int64))


@pytest.fixture(scope="session")
def library(compile_cpp):
    return compile_cpp("structure_programs.cpp")


@pytest.fixture(scope="session")
def assert_evaluated(library):
    """Compares the evaluation of rows with their definition. Returns the words of each row."""

    def compare(program, batch, row, rows, k_len, with_residues):
        results = []
        for function in (library.evaluate, library.evaluate_by_definition):
            # Not zero, so that a word left alone is seen.
            out = np.full((rows, (k_len + 63) // 64), 0xAAAA5555AAAA5555, dtype=np.uint64)
            sizes = map(ctypes.c_int64, (batch, row, rows, k_len))
            function(int64s(program), *sizes, int(with_residues), out.ctypes.data_as(ctypes.c_void_p))
            results.append(out)
        np.testing.assert_array_equal(*results)
        return results[0]

    return compare


@pytest.fixture(scope="session")
def error_of(library):
    def check(program, batch=1, q_len=1, k_len=1):
        text = ctypes.create_string_buffer(1000)
        sizes = map(ctypes.c_int64, (len(program), batch, q_len, k_len))
        library.check(int64s(program), *sizes, text, 1000)
        return text.value.decode()

    return check


@st.composite
def operands(draw, q_len, k_len):
    """One instruction with its table. Sizes straddle the lengths, so that edges lie in, on and beyond them."""
    around = st.integers(-k_len - 70, k_len + 70) | st.sampled_from([-UNBOUNDED, UNBOUNDED])
    step = st.integers(1, 10) | st.integers(1, k_len + 200) | st.sampled_from([32, 63, 64, 65, 128, UNBOUNDED])
    words = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, -(2**63), 1])
    batch = draw(st.sampled_from([1, BATCH]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    op = draw(st.integers(ALL, BLOCK_TABLE))
    if op in (BAND, KEY_RANGE, ROW_RANGE):
        return op, draw(around), draw(around), 0, None
    if op == RESIDUE:
        return op, draw(step), draw(around), 0, None
    if op == KEY_RESIDUE:
        size = draw(step)
        return op, size, draw(st.integers(-2, min(size, k_len))), draw(st.integers(-2, size + 2)), None
    if op == SAME_BLOCK:
        return op, draw(step), 0, 0, None
    if op in (KEY_SET, ROW_SET):
        count = draw(st.integers(0, k_len + 70))
        size = (count + 63) // 64
        return op, 0, count, 0, tuple(draw(st.lists(words, min_size=size, max_size=size)))
    if op in (KEY_BELOW, ROW_BELOW):
        return op, 0, batch, 0, tuple(draw(st.lists(around, min_size=batch, max_size=batch)))
    if op == ROW_INTERVAL:
        rows = max(0, q_len + draw(st.integers(-40, 20)))
        return op, 0, batch, rows, tuple(generator.integers(-9, k_len + 9, 2 * batch * rows).tolist())
    if op == BLOCK_TABLE:
        block = draw(step)
        rows, keys = -(-q_len // block), -(-k_len // block) + draw(st.integers(0, 70))
        table = generator.integers(-(2**63), 2**63, rows * -(-keys // 64), dtype=np.int64)
        return op, 0, block, keys, tuple((table | -draw(st.integers(0, 1))).tolist())
    return op, 0, 0, 0, None


@st.composite
def programs(draw, q_len, k_len):
    """A program of up to eight operands, in postfix order."""
    code, depth = [], 0
    for _ in range(draw(st.integers(1, 8))):
        code.append(draw(operands(q_len, k_len)))
        depth += 1
        for op in draw(st.lists(st.sampled_from([AND, OR, NOT]), max_size=3)):
            if depth > 1 or op == NOT:
                code.append((op, 0, 0, 0, None))
                depth -= op != NOT
    code += [(draw(st.sampled_from([AND, OR])), 0, 0, 0, None) for _ in range(depth - 1)]
    return assemble(tuple(code)).tolist()


@settings(max_examples=300)
@given(data=st.data(), row=st.integers(0, 200), rows=st.integers(1, 150), k_len=st.integers(1, 300))
def test_evaluation_is_the_definition(assert_evaluated, error_of, data, row, rows, k_len):
    program = data.draw(programs(row + rows, k_len))
    assert error_of(program, BATCH, row + rows, k_len) == ""
    assert_evaluated(program, data.draw(st.integers(0, BATCH - 1)), row, rows, k_len, data.draw(st.booleans()))


@settings(max_examples=40)
@given(data=st.data(), row=st.integers(0, 40000), rows=st.integers(1, 4), k_len=st.integers(32000, 40000))
def test_rows_longer_than_a_panel(assert_evaluated, data, row, rows, k_len):
    program = data.draw(programs(row + rows, k_len))
    assert_evaluated(program, data.draw(st.integers(0, BATCH - 1)), row, rows, k_len, True)


def test_what_all_rows_share_in_several_panels(assert_evaluated):
    """Sets and residues of keys are made once for a panel's keys, and anew for the next ones."""
    table = tuple(np.random.default_rng(3).integers(-(2**63), 2**63, 625, dtype=np.int64).tolist())
    residues, keys = key_residue(7, 2, 4), ((KEY_SET, 0, 40000, 0, table),)
    for code in (residues, both(residues, inverse(keys))):
        assert_evaluated(assemble(code).tolist(), 0, 5, 3, 40000, True)


HUGE = 2**62

# Each of one instruction, what is said of it, and lengths: batch, q_len, k_len.
REFUSED = [
    ((-1, 0, 0, 0), "operation -1", (1, 1, 1)),
    ((16, 0, 0, 0), "operation 16", (1, 1, 1)),
    ((BAND, -HUGE, 0, 0), "goes from", (1, 1, 1)),
    ((BAND, 0, HUGE, 0), "goes from", (1, 1, 1)),
    ((RESIDUE, 0, 0, 0), "step 0", (1, 1, 1)),
    ((RESIDUE, 5, -HUGE, 0), "offset", (1, 1, 1)),
    ((KEY_RESIDUE, -3, 0, 1), "step -3", (1, 1, 1)),
    ((SAME_BLOCK, HUGE, 0, 0), "step", (1, 1, 1)),
    ((KEY_SET, 6, 1, 0), "table at word 6", (1, 1, 1)),
    ((KEY_SET, -1, 1, 0), "table at word -1", (1, 1, 1)),
    ((KEY_SET, 5, 65, 0), "table", (1, 1, 1)),
    ((ROW_SET, 2, -1, 0), "-1 bits", (1, 1, 1)),
    ((ROW_SET, 2, 2**63 - 1, 0), "table", (1, 1, 1)),
    ((KEY_BELOW, 2, 2, 0), "a batch of 2, and the call's is 3", (3, 1, 1)),
    ((KEY_BELOW, 4, 3, 0), "table", (3, 1, 1)),
    ((ROW_BELOW, 6, 1, 0), "table", (3, 1, 1)),
    ((ROW_BELOW, 2, 0, 0), "a batch of 0", (3, 1, 1)),
    ((ROW_INTERVAL, 2, 1, -1), "-1 rows", (1, 3, 1)),
    ((ROW_INTERVAL, 2, 1, 3), "table", (1, 3, 1)),
    ((ROW_INTERVAL, 2, 3, 1), "table", (3, 1, 1)),
    ((ROW_INTERVAL, 2, 1, HUGE), "table", (1, 1, 1)),
    ((BLOCK_TABLE, 2, 0, 1), "step 0", (1, 1, 1)),
    ((BLOCK_TABLE, 2, 4, 2), "covers 2 blocks of 4 keys and k has 9", (1, 1, 9)),
    ((BLOCK_TABLE, 2, 1, 1), "table", (1, 5, 1)),
    ((BLOCK_TABLE, 2, 1, 2**63 - 1), "table", (1, 1, 1)),
    ((AND, 0, 0, 0), "finds 0 operands; it takes 2", (1, 1, 1)),
    ((NOT, 0, 0, 0), "finds 0 operands; it takes 1", (1, 1, 1)),
]


@pytest.mark.parametrize(("instruction", "message", "lengths"), REFUSED)
def test_instructions_that_are_refused(error_of, instruction, message, lengths):
    text = error_of([1, 1, *instruction], *lengths)
    assert text.startswith("structure")
    assert message in text


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([], "version 1"),
        ([1], "version 1"),
        ([2, 1, ALL, 0, 0, 0], "version 1"),
        ([1, 0], "0 instructions"),
        ([1, -1, ALL, 0, 0, 0], "-1 instructions"),
        ([1, 2, ALL, 0, 0, 0, ALL, 0, 0], "2 instructions"),
        ([1, 2**62, ALL, 0, 0, 0], "instructions"),
        ([1, 2, *[ALL, 0, 0, 0] * 2], "leaves 2 operands"),
        ([1, 33, *[ALL, 0, 0, 0] * 17, *[AND, 0, 0, 0] * 16], "at most 16"),
        ([1, 2, ALL, 0, 0, 0, AND, 0, 0, 0], "finds 1 operands; it takes 2"),
    ],
)
def test_programs_that_are_refused(error_of, program, message):
    assert message in error_of(program)


def test_deepest_program(assert_evaluated, error_of):
    program = [1, 31, *[ALL, 0, 0, 0] * 16, *[AND, 0, 0, 0] * 15]
    assert error_of(program) == ""
    assert assert_evaluated(program, 0, 0, 1, 3, True).tolist() == [[7]]


def any_program(generator, batch):
    """Numbers with which many a program passes, and tables that end where the program does or shortly after."""
    count = int(generator.integers(1, 5))
    operations = generator.integers(0, 16, count)
    offsets = [0, -1, 5, 64, 2 + 4 * count, int(generator.integers(150))]
    a, b, c = (
        generator.choice(numbers, count) for numbers in (offsets, [-2, 0, 1, 1, 3, 64, 90, batch], [1, 5, 20, 40])
    )
    tail = generator.integers(-(2**63), 2**63, int(generator.integers(0, 200)), dtype=np.int64).tolist()
    return [1, count, *np.stack([operations, a, b, c], axis=1).ravel().tolist(), *tail]


def test_what_passes_stays_in_bounds(csrc, tmp_path):
    """The evaluation of every program that passes, under AddressSanitizer and with undefined behaviour trapped."""
    generator = np.random.default_rng(7)
    lines = []
    for batch, q_len, k_len in generator.integers(1, [4, 20, 150], (20000, 3)).tolist():
        lines.append([batch, q_len, k_len, *any_program(generator, batch)])
    command = ["g++", "-std=c++14", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", f"-I{csrc}"]
    command += [str(Path(__file__).parent / "structure_bounds.cpp"), "-o", str(tmp_path / "bounds")]
    subprocess.run(command, check=True)
    text = "\n".join(" ".join(map(str, [len(line), *line])) for line in lines)
    done = subprocess.run([tmp_path / "bounds"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # By operation: those that a program which passed contained. Each must have been tried.
    evaluated = list(map(int, done.stdout.split()))
    assert len(evaluated) == NOT + 1
    assert min(evaluated) > 20
