"""What profilers print, as summaries.

The tables of nsys follow NVIDIA's documentation: the user guide of Nsight Systems ("Report scripts",
`cuda_gpu_kern_gb_sum`, `cuda_gpu_kern_sum`). nsys/ has what Debian's packages of three versions printed:

- `.txt`: for `true`, which runs no kernel
- `.csv` of 2023.4.4: for a program on an H200
- `.csv` of 2022.4.2: for a real database, into which kernels were written by hand

The tables of ncu follow h200/ncu.csv, which ncu 2025.3 printed.
"""

from __future__ import annotations

import pytest

from reprokit.errors import SourceError
from reprokit.profiling import output
from reprokit.profiling.table import positions, rows
from tests.support.paths import ROOT

RECORDED = ROOT / "tests" / "profiling"
NSYS = """Processing [report.sqlite] with [cuda_gpu_kern_gb_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name
75.0,3000000,10,300000.0,300000.0,290000,310000,5000.0,  4096    1    1, 256    1    1,"void gemm<float, 128>(int)"
25.0,1000000,4,250000.0,250000.0,240000,260000,5000.0,   128    2    1,  32    4    1,softmax(float*)
"""
NSYS_WITHOUT_GRID = """Time (%),Total Time (us),Instances,Avg (us),Name
100.0,"1,000",2,500.0,copy
"""
NCU = """==PROF== Connected to process 12
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum",\
"launch__registers_per_thread","sm__throughput.avg.pct_of_peak_sustained_elapsed",\
"sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","%","ns","register/thread","%","%"
"0","12","python3","h","gemm","1","7","(256, 1, 1)","(4096, 1, 1)","0","8.0","20.00","3,000","128","80.00","45.00"
"1","12","python3","h","gemm","1","7","(256, 1, 1)","(4096, 1, 1)","0","8.0","40.00","1,000","128","60.00","49.00"
"2","12","python3","h","copy","1","7","(1024, 1, 1)","(80, 1, 1)","0","8.0","91.50","2,500","16","12.00","80.00"
"3","12","python3","h","tiny","1","7","(32, 1, 1)","(1, 1, 1)","0","8.0","0.10","900","16","0.20","3.00"
"""
PERF = """# Samples: 61  of event 'cpu-clock:uhppp'
#
# Overhead|     Samples|Shared Object|Symbol
 47.54% | 29         |python3.11   |[.] _PyEval_EvalFrameDefault
 13.11% | 8          |libc.so.6|[.] operator|| (int)
"""


def test_nsight_systems_kernels_with_their_launches():
    summary = output.nsys(NSYS)
    first, second = summary.rows
    launches = (first.name, first.count, first.grid, first.block)
    assert launches == ("void gemm<float, 128>(int)", 10, (4096, 1, 1), (256, 1, 1))
    assert (first.seconds, summary.share(first), summary.share(second)) == (0.003, 75.0, 25.0)
    (only,) = output.nsys(NSYS_WITHOUT_GRID).rows
    assert (only.seconds, only.grid) == (0.001, ())
    assert output.nsys("ERROR: Report 'cuda_gpu_kern_gb_sum' could not be found.").rows == ()


def test_what_nsys_printed():
    """On an H200 a program launched one kernel 50 times. One table has grid and block, the other has not."""
    (scale,) = output.nsys((RECORDED / "nsys/2023.4.4/kernels.csv").read_text()).rows
    assert (scale.name, scale.count, scale.seconds) == ("scale(float *, int)", 50, pytest.approx(2.815737e-3))
    assert (scale.grid, scale.block) == ((65536, 1, 1), (256, 1, 1))
    (plain,) = output.nsys((RECORDED / "nsys/2023.4.4/kernels-without-grid.csv").read_text()).rows
    assert plain == scale.model_copy(update={"grid": (), "block": ()})
    first, second = output.nsys((RECORDED / "nsys/2022.4.2/kernels.csv").read_text()).rows
    assert first.name == "void gemm<float, (int)128>(const T1 *, T1 *, int)"
    assert (first.count, first.seconds) == (10, pytest.approx(3.000045e-3))
    assert (first.grid, first.block) == ((4096, 1, 1), (256, 1, 1))
    assert (second.name, second.count, second.grid, second.block) == ("softmax(float *)", 4, (128, 2, 1), (32, 4, 1))
    without_kernels = list((RECORDED / "nsys").glob("*/*.txt"))
    assert len(without_kernels) == 5 and not any(output.nsys(file.read_text()).rows for file in without_kernels)


def test_what_ncu_printed_on_an_h200():
    """Of two kernels of the extension and one of cuBLAS; all 530 columns."""
    simt, hopper, gemm = output.ncu((RECORDED / "h200/ncu.csv").read_text()).rows
    assert "attend_simt_kernel<float, 64>" in simt.name
    assert "hopper_kernel<fused_attention::BFloat16, 64>" in hopper.name
    assert (hopper.count, hopper.seconds, hopper.registers) == (2, pytest.approx(24.8e-6), 168)
    assert (hopper.grid, hopper.block) == ((96, 1, 1), (384, 1, 1))
    assert (gemm.occupancy, gemm.compute, gemm.memory) == pytest.approx((14.21, 21.45, 24.4))


def test_nsight_compute_occupancy_and_position():
    found = output.ncu(NCU)
    gemm, copy, tiny = found.rows
    assert (gemm.count, gemm.seconds, gemm.registers) == (2, pytest.approx(4e-6), 128)
    assert (gemm.occupancy, gemm.compute, gemm.memory) == pytest.approx((46.0, 75.0, 25.0))  # means by time
    assert (gemm.grid, gemm.block, copy.block) == ((4096, 1, 1), (256, 1, 1), (1024, 1, 1))
    assert [each.limited_by for each in positions(found)] == ["compute", "bandwidth", "overhead"]
    assert tiny.name == "tiny"


def test_perf_report():
    first, second = output.perf(PERF).rows
    assert (first.name, first.count, first.share) == ("_PyEval_EvalFrameDefault (python3.11)", 29, 47.54)
    assert second.name == "operator|| (int) (libc.so.6)"


def test_counted_work_against_the_data_sheet():
    row = '{"kind": "cpu", "name": "aten::mm", "count": 1, "seconds": 1e-4, "flop": 7.8336e9, "work_seconds": 0.001, '
    text = '{"rows": [%s"on_gpu": %s}], "totals": {"cpu": 1e-4}, "device": "Tesla V100-SXM2-16GB"}'
    summary = output.reduced(text % (row, "true"))
    assert summary.rows[0].rate == pytest.approx(7833.6)
    assert positions(summary)[0].of_peak == pytest.approx(50.0)  # of 15.67 TFLOP/s
    assert positions(output.reduced(text % (row, "false")))[0].of_peak is None  # it ran on the CPU
    assert rows(summary, "gpu", 5, "calls") is None
    columns, cells = rows(summary, "cpu", 5, "calls")
    assert tuple(columns) == ("name", "calls", "ms", "%", "GFLOP/s", "% of fp32 peak")
    assert list(map(tuple, cells)) == [("aten::mm", "1", "0.100", "100.0", "7833.6", "50.0")]


def test_forged_summaries_and_tables_are_refused():
    fields = ('"seconds": 1e999', '"seconds": -1', '"grid": [1, 2, 3, 4]', '"name": "%s"' % ("x" * 30_000))
    forged = [f'{{"rows": [{{"kind": "gpu", "name": "x", {field}}}]}}' for field in fields]
    for text in ("", "[]", "[" * 100_000, '{"rows": 5}', '{"rows": [], "more": 1}', *forged):
        with pytest.raises(SourceError):
            output.reduced(text)
    for cell in ("nan", "1e400", "-5", "x", "9" * 5000):
        with pytest.raises(SourceError):
            output.nsys(NSYS.replace("3000000", cell))
        with pytest.raises(SourceError):
            output.ncu(NCU.replace('"3,000"', f'"{cell}"'))
        with pytest.raises(SourceError):
            output.perf(PERF.replace("47.54", cell))
