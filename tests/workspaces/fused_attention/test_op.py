"""The operator as torch sees it: schema, tracing, modes, threads, instruction sets."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fused_attention import fused_attention, masks
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

LEVELS = ["default", "avx2", "avx512", "avx512_bf16", "avx512_amx"]
ENDS = torch.tensor([0, 5, 5, 33]).int()
STRUCTURE = torch.tensor([1, 1, 1, -9, 5, 0])
OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "boolean mask": {"mask": torch.ones(40, dtype=torch.bool)},
    "additive mask": {"mask": torch.zeros(2, 4, 33, 40)},
    "additive row": {"mask": torch.zeros(40)},
    "additive column": {"mask": torch.zeros(4, 33, 1), "is_causal": True},
    "additive scalar": {"mask": torch.tensor(0.3)},
    "scale": {"scale": 0.3},
    "structure": {"structure": STRUCTURE},
    "alibi_slopes": {"alibi_slopes": torch.linspace(0, 1, 4)},
    "packed": {"cu_seqlens_q": ENDS, "cu_seqlens_k": ENDS, "max_seqlen_q": 28, "max_seqlen_k": 28},
}


def behind(t: torch.Tensor) -> torch.Tensor:
    """The same values, with heads behind seq in memory."""
    return t.transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_opcheck(extension, tensors, options, needs_gradient):
    packed = {"batch": 1, "k_len": 33} if "cu_seqlens_q" in options else {}
    arguments = tensors(kv_heads=2, **packed)
    if needs_gradient:
        arguments = [behind(t).requires_grad_() for t in arguments]
        floats = {name: options[name] for name in ("mask", "alibi_slopes") if name in options}
        floats = {name: t.clone().requires_grad_() for name, t in floats.items() if t.is_floating_point()}
        options = {**options, **floats}
    torch.library.opcheck(torch.ops.fused_attention.forward.default, tuple(arguments), options)


@pytest.mark.parametrize("requested", [[True] * 3 + [False] * 2, [False, True, False, False, False]])
def test_opcheck_of_the_backward_operator(extension, tensors, requested):
    q, k, v = tensors()
    arguments = (torch.ones_like(q), requested, None, None, q, k, v)
    torch.library.opcheck(torch.ops.fused_attention.backward.default, arguments)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_graph_break(extension, tensors, dynamic):
    def layer(q, k, v, **options):
        return fused_attention(q * 2, k, v, is_causal=True, **options) + 1

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for q_len in (70, 71):
        inputs = tensors(q_len=q_len)
        assert torch.equal(compiled(*inputs), layer(*inputs))
    options = {"cu_seqlens": ENDS, "max_seqlen": 28}
    inputs = tensors(batch=1, k_len=33)
    assert torch.equal(compiled(*inputs, **options), layer(*inputs, **options))


def test_a_trace_for_a_gpu_takes_a_structured_mask(extension):
    """The structure is on the CPU and all else on the GPU, which meta kernels as such refuse."""
    with FakeTensorMode():
        q = torch.empty(2, 4, 70, 32, device="cuda")
        structure = torch.empty(6, dtype=torch.int64)
        out = torch.ops.fused_attention.forward(q, q, q, structure=structure)
        gradients = torch.ops.fused_attention.backward(
            q, [True] * 3 + [False] * 2, None, None, q, q, q, None, structure
        )
    assert out.device.type == "cuda" and out.shape == q.shape
    assert [t.device.type for t in gradients] == ["cuda"] * 5 and gradients[0].shape == q.shape


def test_meta_tensors_give_shape_and_strides_and_are_checked(tensors):
    q, k, v = map(behind, tensors(torch.bfloat16))
    out = fused_attention(*(x.to("meta") for x in (q, k, v)))
    expected = fused_attention(q, k, v)
    assert (out.shape, out.dtype, out.stride()) == (expected.shape, expected.dtype, expected.stride())
    with pytest.raises(ValueError, match="k has batch 1"):
        fused_attention(q.to("meta"), k[:1].to("meta"), v.to("meta"))


def test_fake_tensors(extension, tensors):
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in tensors()]
        outputs = [
            fused_attention(*fakes),
            torch.ops.fused_attention.forward(*fakes, None, mode.from_tensor(STRUCTURE)),
        ]
    assert all(isinstance(out, FakeTensor) and out.shape == (2, 4, 33, 16) for out in outputs)


@pytest.mark.parametrize("mask", [masks.Causal(), masks.Dense(torch.arange(40) < 7) & masks.SlidingWindow(9)], ids=repr)
def test_masks_are_lowered_on_the_way(extension, tensors, mask):
    structure, tensor = mask.lower(33, 40)
    expected = torch.ops.fused_attention.forward(*tensors(), tensor, structure)
    assert torch.equal(fused_attention(*tensors(), mask), expected)


def test_an_interrupt_while_a_mask_is_lowered_is_not_lost(tensors):
    class Interrupted(masks.Causal):
        def lower(self, q_len, k_len):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fused_attention(*tensors(), Interrupted())


class Subclass(torch.Tensor):
    pass


class DispatchLog(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.names.append(str(function))
        return function(*arguments, **(options or {}))


class FunctionLog(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, arguments=(), options=None):
        self.names.append(str(function))
        return function(*arguments, **(options or {}))


def test_modes_profilers_and_traces_see_the_operator(extension, tensors):
    with DispatchLog() as dispatched, FunctionLog() as called, torch.profiler.profile() as profile:
        fused_attention(*tensors())
    graph = make_fx(lambda q, k, v: fused_attention(q, k, v))(*tensors())
    for names in (dispatched.names, called.names, [str(node.target) for node in graph.graph.nodes]):
        assert any("fused_attention.forward" in name for name in names)
    assert "fused_attention::forward" in {event.key for event in profile.key_averages()}


def test_a_subclass_comes_back(tensors):
    q, k, v = tensors()
    assert type(fused_attention(q.as_subclass(Subclass), k, v)) is Subclass


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap(tensors):
    q, k, v = (torch.stack([t, t + 1]) for t in tensors())
    out = torch.vmap(fused_attention)(q, k, v)
    torch.testing.assert_close(out, torch.stack([fused_attention(*one) for one in zip(q, k, v, strict=True)]))


def test_inference_mode(tensors):
    q, k, v = tensors()
    expected = fused_attention(q, k, v)
    with torch.inference_mode():
        out = fused_attention(q, k, v)
        again = fused_attention(out, k.clone(), v)
    assert torch.equal(out, expected) and out.is_inference() and again.is_inference()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_same_bits_for_any_number_of_threads_and_from_run_to_run(threads, tensors, dtype):
    q, k, v = tensors(dtype, q_len=300, k_len=300, dim=32)
    results = []
    for count in (1, 2, 3, 7, 2):
        torch.set_num_threads(count)
        results.append(fused_attention(q, k, v, is_causal=True))
    assert all(torch.equal(result, results[0]) for result in results)


def test_the_kernel_obeys_torchs_thread_count(python):
    """By the number of threads in the process: another OpenMP runtime than torch's would start its own."""
    done = python(
        "import os, torch; from fused_attention import fused_attention; torch.set_num_threads(1);"
        "q = torch.randn(1, 8, 512, 64); fused_attention(q, q, q);"
        "one = len(os.listdir('/proc/self/task')); torch.set_num_threads(3); fused_attention(q, q, q);"
        "print(len(os.listdir('/proc/self/task')) - one)",
        OMP_NUM_THREADS="1",
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("capability", LEVELS)
def test_every_instruction_set(extension, python, capability):
    """torch's own switch selects a narrower kernel. A wider one than the CPU's makes torch itself die by SIGILL."""
    widest = torch.ops.fused_attention.cpu_capability()
    has_amx = "amx_bf16" in Path("/proc/cpuinfo").read_text()
    if not has_amx if capability == "avx512_amx" else LEVELS.index(capability) > LEVELS.index(widest):
        pytest.skip(f"the CPU lacks {capability}")
    code = """
import torch
from fused_attention import bench, build
build.load()
results = bench.check(["float32", "bfloat16", "float16"], "cpu")
assert all(result["ok"] for result in results), results
print(torch.ops.fused_attention.cpu_capability())
"""
    done = python(code, ATEN_CPU_CAPABILITY=capability)
    assert (done.returncode, done.stdout.strip()) == (0, capability), done.stderr


@pytest.mark.parametrize(("narrowed", "chosen"), [("", True), ("avx512_bf16", False), ("avx512", False)])
def test_amx_is_chosen_unless_narrowed(compile_cpp, python, narrowed, chosen):
    """On any CPU with the instructions besides AMX, which the test pretends to have."""
    library = compile_cpp("select.cpp", "cpu/select.cpp")
    if not library.can_choose_amx():
        pytest.skip("the CPU lacks avx512_bf16")
    code = f"import ctypes; print(ctypes.CDLL({library._name!r}).chooses_amx())"
    assert python(code, ATEN_CPU_CAPABILITY=narrowed).stdout == f"{int(chosen)}\n"
