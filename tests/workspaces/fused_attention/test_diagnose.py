"""What a failed build or load says first."""

from __future__ import annotations

import pytest
from fused_attention import diagnose

COMPILER = """Error building extension 'fused_attention': [1/3] c++ -MMD -MF ops.o.d -c ops.cpp -o ops.o
FAILED: ops.o
c++ -MMD -MF ops.o.d -c ops.cpp -o ops.o
In file included from ops.cpp:3:
checks.h:7:3: error: 'Optional' does not name a type
    7 |   Optional<double> scale;
      |   ^~~~~~~~
ops.cpp:20:5: error: 'scale' was not declared in this scope
ops.cpp:21:5: error: 'other' was not declared in this scope
ops.cpp:22:5: error: 'last' was not declared in this scope
ninja: build stopped: subcommand failed.
"""
CAUSES = [
    "nvcc fatal   : Unsupported gpu architecture 'compute_86'",
    "/usr/include/crt/host_config.h:138:2: error: #error -- unsupported GNU version! gcc later than 11",
    "/usr/bin/ld: main.o: undefined reference to `missing()'",
    "/usr/bin/ld: cannot find -lcudart: No such file or directory",
    "c++: fatal error: Killed signal terminated program cc1plus",
    'launch.cu(10): error: identifier "x" is undefined',
    "/bin/sh: 1: nvcc: command not found",
    "launch.o: write error: No space left on device",
    "ptxas fatal   : Value 'sm_86' is not defined for option 'gpu-name'",
    "ptxas error   : Entry function 'x' uses too much shared data (0x12000 bytes, 0xc000 max)",
    "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
]


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (COMPILER, COMPILER.splitlines()[4:9]),
        ("a\n\nb\nc\nd\n", ["b", "c", "d"]),
        *(
            (f"[1/2] c++ -Werror=x -c main.cpp\nFAILED: main.o\n{cause}\nninja: build stopped: x\n", [cause])
            for cause in CAUSES
        ),
    ],
)
def test_first_errors(log, lines):
    assert diagnose.first_errors(log) == lines


def test_an_undefined_reference_comes_with_its_declaration(tmp_path):
    (tmp_path / "launch.h").write_text("// notes\nint launch(int x);\n")
    log = "/usr/bin/ld: main.o: undefined reference to `launch(int)'\nninja: build stopped: subcommand failed.\n"
    assert diagnose.explain_build(log, [str(tmp_path)]).splitlines() == [
        "/usr/bin/ld: main.o: undefined reference to `launch(int)'",
        f"launch(int) is declared at {tmp_path}/launch.h:2",
    ]


def test_an_undefined_symbol_is_demangled_and_other_messages_stay():
    message = "matmul.so: undefined symbol: _Z33cublas_tensor_core_matmul_cuda_4dN2at6TensorES0_"
    assert diagnose.explain_load(OSError(message), []) == (
        message + "\ncublas_tensor_core_matmul_cuda_4d(at::Tensor, at::Tensor) is called, "
        "and nothing that was linked defines it with these parameters"
    )
    for message in ("libcudart.so.11.0: cannot open shared object file", "undefined symbol: cublasCreate"):
        assert diagnose.explain_load(OSError(message), []) == message
