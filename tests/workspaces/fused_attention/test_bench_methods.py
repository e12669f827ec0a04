"""How methods are timed and left out, and the parts of the benchmark beside the grid."""

from __future__ import annotations

import contextlib
import time
import types

import pytest
import torch
from fused_attention.bench import accuracy, cases, flex, layer, measure, methods, records, timing

SETTINGS = measure.Settings("cpu", repeats=3, budget_s=0.1, flex_from=10**9)


def timed(function, context=methods.no_context):
    return timing.Timed(function, context)


def a_clock(monkeypatch):
    """A clock for `timing` that moves by the returned `sleep(seconds)`, and by a millisecond when it is read."""
    now = [0.0]

    def read():
        now[0] += 1e-3
        return now[0]

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(timing, "time", types.SimpleNamespace(perf_counter=read))
    return sleep


def test_samples_are_taken_in_turns():
    order = []
    functions = {name: timed(lambda name=name: order.append(name)) for name in "ab"}
    samples = timing.interleaved(functions, "wall", repeats=4, budget_s=10)
    assert [len(values) for values in samples.values()] == [4, 4]
    turns = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert turns == ["a", "b"] * 5
    # A spent budget leaves three samples.
    samples = timing.interleaved(functions, "wall", repeats=50, budget_s=0)
    assert len(samples["a"]) == timing.MIN_SAMPLES


def test_the_context_is_entered_around_a_sample_and_not_timed():
    inside, entered = [], []

    @contextlib.contextmanager
    def slow():
        inside.append(True)
        entered.append(sum(i * i for i in range(200_000)))
        yield
        inside.pop()

    samples = timing.interleaved({"a": timed(lambda: inside[0], slow)}, "thread", 3, 1.0)
    # Once to warm up, once for a graph's capture, then for each sample. A call takes microseconds, the context ten
    # milliseconds.
    assert len(entered) == 5 and max(samples["a"]) < 1


def test_a_graph_is_captured_in_its_methods_context(monkeypatch):
    """Captured outside of it, every backend of SDPA would be torch's own choice."""
    entered, seen = [], []

    def capture(function, clock, calls):
        seen.append((function, tuple(entered)))
        return lambda: 1.0

    @contextlib.contextmanager
    def choosing(name):
        entered.append(name)
        yield
        entered.pop()

    monkeypatch.setattr(timing, "_sampler", capture)
    functions = {name: timed(name, lambda name=name: choosing(name)) for name in ("flash", "math")}
    timing.interleaved(functions, "events", 3, 1.0)
    assert seen == [("flash", ("flash",)), ("math", ("math",))] * 2


def test_why_a_backend_cannot_do_a_case():
    """As torch 2.11 warned on an H200 before it failed with "No available kernel"."""
    at = " (Triggered internally at /pytorch/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp:986.)"
    warned = [
        "Memory efficient kernel not used because:" + at,
        "Memory Efficient attention has been runtime disabled." + at,
        "Flash attention kernel not used because:" + at,
        "Flash Attention does not support non-null attn_mask." + at,
    ]
    error = RuntimeError("No available kernel. Aborting execution.\nmore")
    assert measure.refusal(error, warned) == "Flash Attention does not support non-null attn_mask."
    assert measure.refusal(error, warned[:2]) == "No available kernel. Aborting execution."


def test_what_cannot_be_captured_is_called_and_warned_about(monkeypatch):
    def refuse(graph):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    stream = types.SimpleNamespace(wait_stream=lambda other: None)
    for name, replacement in {
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "CUDAGraph": object,
        "graph": refuse,
        "synchronize": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, replacement)
    calls = []
    with pytest.warns(UserWarning, match="no CUDA graph .operation not permitted when stream is capturing.: times"):
        replay = timing._captured(lambda: calls.append(None), 3)
    replay()
    assert len(calls) == 1 + 3


def test_the_memory_of_a_method_is_its_own():
    """Ours needs its result, and the formula its scores."""
    lines = measure.Grid(SETTINGS, None).cell(cases.Case(1, 12, 256, 64, "float32", "none"))
    memory = {line["impl"]: line["peak_bytes"] for line in lines if line["metric"] == records.TIMES["forward"]}
    scores, result = 12 * 256 * 256 * 4, 12 * 256 * 64 * 4
    assert max(memory["ours"], memory["sdpa-flash"]) < 2 * result < scores < memory["sdpa-math"]
    assert memory["naive"] >= 2 * scores


def test_a_thread_is_timed_by_its_own_work(monkeypatch):
    """What waits takes the clock's time and none of the thread's."""
    functions = {"a": timed(lambda: time.sleep(0.02))}
    assert timing.interleaved(functions, "wall", 3, 1.0)["a"][0] >= 20
    assert timing.interleaved(functions, "thread", 3, 1.0)["a"][0] < 10
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert (timing.clock_of("cpu"), timing.clock_of("cuda:1")) == ("thread", "events")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert timing.clock_of("cpu") == "wall"


def test_what_is_no_rival_is_timed_once(monkeypatch):
    monkeypatch.setattr(timing, "SLOW_MS", 1.0)
    sleep = a_clock(monkeypatch)
    functions = {name: timed(lambda s=s: sleep(s)) for name, s in (("a", 0.002), ("b", 0.003), ("c", 0.05))}
    samples = timing.interleaved(functions, "wall", 3, 10.0)
    assert [len(samples[name]) for name in "abc"] == [3, 3, 1]


def a_case(**changes):
    return cases.Case(1, 2, 64, 16, "float32", "window")._replace(**changes)


def with_methods(monkeypatch, *more):
    monkeypatch.setattr(methods, "methods", lambda inputs, with_flex: [
        methods.Method("ours", lambda inputs: lambda: methods.ours(inputs)),
        methods.Method("sdpa", methods.sdpa),
        *more,
    ])  # fmt: skip


def test_a_method_that_torch_cannot_run_is_left_out_with_its_words(monkeypatch):
    def refuse(inputs):
        raise RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'\nmore")

    with_methods(monkeypatch, methods.Method("naive", refuse))
    grid = measure.Grid(SETTINGS, None)
    found = [record["impl"] for record in grid.cell(a_case()) if record["metric"] == records.TIMES["forward"]]
    assert found == ["ours", "sdpa"]
    assert grid.left_out == ["naive (\"addmm_impl_cpu_\" not implemented for 'Half')"]
    monkeypatch.setattr(methods, "methods", lambda inputs, with_flex: [methods.Method("ours", refuse)])
    with pytest.raises(RuntimeError, match="addmm"):
        grid.cell(a_case())


def test_scores_that_do_not_fit_are_not_tried(monkeypatch):
    with_methods(monkeypatch, methods.Method("naive", methods.naive, matrices=2.5))
    monkeypatch.setattr(measure, "_free_bytes", lambda device: 100_000)
    grid = measure.Grid(SETTINGS, None)
    grid.cell(a_case(seq=256))
    assert grid.left_out == ["naive (its scores take 0.0 GB, and 0.0 GB are free)"]
    grid.cell(a_case(seq=16))
    assert grid.left_out == []


def test_every_method_gives_the_same_gradients():
    inputs = cases.inputs(cases.Case(2, 4, 40, 16, "float32", "padding", 2), "cpu")
    every = methods.backwards([one for one in methods.methods(inputs, False) if "flash-attn" not in one.name])
    assert "ours-packed" not in [one.name for one in every]
    gradients = {}
    for method in every:
        with method.context():
            gradients[method.name] = method.make(inputs)()
    for name, computed in gradients.items():
        for one, right in zip(computed, gradients["ours"], strict=True):
            torch.testing.assert_close(one, right, atol=2e-5, rtol=1e-4, msg=name)


def test_minutes_for_what_is_no_rival_are_not_spent(monkeypatch):
    sleep = a_clock(monkeypatch)

    def slow(inputs):
        return lambda: sleep(0.3) or methods.ours(inputs)

    with_methods(monkeypatch, methods.Method("naive", slow))
    monkeypatch.setattr(timing, "clock_of", lambda device: "wall")
    grid = measure.Grid(SETTINGS, None)
    grid.cell(a_case(seq=16))
    grid.cell(a_case(seq=160))
    assert grid.left_out == ["naive (it would take 30 s a call)"]
    grid.cell(a_case(seq=160, mask="none"))
    assert grid.left_out == []


def test_flex_attention_is_compiled_or_refused(threads, monkeypatch):
    """However often dynamo has compiled before: each case's function is the first that it knows of."""
    from torch._inductor import config

    monkeypatch.setattr(flex, "RECOMPILES", 1)
    # There are buffers for every thread, whatever another workspace in this process has told inductor.
    monkeypatch.setattr(config.cpp, "threads", 1)
    torch.set_num_threads(2)
    for mask in ("bigbird", "padding"):
        inputs = cases.inputs(cases.Case(2, 2, 150, 16, "float32", mask), "cpu")
        torch.testing.assert_close(flex.compiled(inputs)().double(), accuracy.expected(inputs), rtol=0, atol=1e-5)
    # What would silently be the eager form, as beyond the recompile limit.
    with torch.compiler.set_stance("force_eager"), pytest.raises(cases.Unavailable, match="is the eager form"):
        flex.compiled(inputs)


def test_scaling_leaves_the_number_of_threads():
    before = torch.get_num_threads()
    one, two = measure.scaling(a_case(), SETTINGS)
    assert (one["params"]["threads"], two["params"]["threads"]) == (1, 2)
    assert one["params"]["clock"] == "wall" and len(one["samples"]) >= timing.MIN_SAMPLES
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("direction", ["forward", "training"])
def test_the_layer_is_the_same_in_every_variant(monkeypatch, direction):
    """A shorter batch; what torch compiles is for the benchmark, which checks it too."""
    monkeypatch.delattr(torch, "compile")
    said = []
    found = layer.cell(3, 20, "float32", SETTINGS, said.append, direction)
    assert {"ours", "torch", "sdpa"} <= {record["impl"] for record in found}
    assert "left out: sdpa-compiled (this torch has no torch.compile)" in said
    assert (found[0]["params"]["full"], found[0]["params"]["direction"]) == (0.6, direction)
    monkeypatch.setattr(layer, "packed", lambda *arguments: layer.composed(*arguments) * 1.01)
    with pytest.raises(layer.Wrong, match="the layer 'ours' differs from SDPA's by"):
        layer.cell(3, 20, "float32", SETTINGS, said.append, direction)
