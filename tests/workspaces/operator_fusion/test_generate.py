"""For every segment, the generated module computes the same numbers as torch's layer."""

from __future__ import annotations

import pytest
import torch
from operator_fusion import generate, inputs, operators, plans, runtime, weights
from operator_fusion.jobs import Confirmed, PartAlone
from operator_fusion.measure import Bench
from operator_fusion.plans import ALL_FUSED, NOTHING_FUSED, Plan
from operator_fusion.search.sampling import RandomSearch
from operator_fusion.shapes import Shape
from torch._dynamo.testing import CompileCounter

SHAPE = Shape(batch=2, seq=9, mask="strided", heads=2, head_size=4, layers=2)
BARE = SHAPE._replace(mask="none")  # needs no extension
TOLERANCES = {"float32": 1e-5, "bfloat16": 0.1}
SEGMENTS = [(first, last) for first in range(1, 16) for last in range(first + 1, 16)]


def forward(plan: Plan, shape: Shape, compiling: bool = False) -> torch.Tensor:
    names = runtime.load(generate.module(plan, shape), compiling)
    with torch.no_grad():
        return names["forward"](inputs.random_x(shape), weights.random_weights(shape), inputs.additive_mask(shape))


def reference(shape: Shape) -> torch.Tensor:
    """torch's own layer in float64."""
    x = inputs.random_x(shape).double()
    mask = inputs.additive_mask(shape)
    for w in weights.random_weights(shape):
        layer = torch.nn.TransformerEncoderLayer(
            shape.hidden, shape.heads, shape.inner, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True
        ).double()
        order = ["self_attn.in_proj", "self_attn.out_proj", "linear1", "linear2", "norm1", "norm2"]
        ours = ["qkv", "output", "inner", "outer", "norm_1", "norm_2"]
        state = {
            f"{theirs}{'_' if 'in_proj' in theirs else '.'}{kind}": getattr(w, f"{our}_{kind}").double()
            for theirs, our in zip(order, ours, strict=True)
            for kind in ("weight", "bias")
        }
        layer.load_state_dict(state)
        with torch.no_grad():
            x = layer.train()(x, src_mask=None if mask is None else mask.double())
    return x


@pytest.mark.parametrize(("dtype", "segments"), [("float32", SEGMENTS), ("bfloat16", SEGMENTS[::7])])
def test_every_segment_gives_the_numbers_of_the_unfused_layer(dtype: str, segments: list[plans.Part]):
    shape = SHAPE._replace(dtype=dtype)
    expected = forward(NOTHING_FUSED, shape)
    for segment in segments:
        found = forward(plans.from_segments(False, [segment]), shape)
        torch.testing.assert_close(
            found, expected, atol=TOLERANCES[dtype], rtol=0, msg=lambda m, s=segment: f"{s}: {m}"
        )


@pytest.mark.parametrize("value", [0, 6826, 1365, 16022, 0b0_0110110110110110, 0b0_0111000111000111])
def test_plans_of_several_segments_give_the_same_numbers(value: int):
    expected = forward(NOTHING_FUSED, SHAPE)
    torch.testing.assert_close(forward(plans.from_value(value), SHAPE), expected, atol=1e-5, rtol=0)


@pytest.mark.compiler
@pytest.mark.parametrize("mask", ["none", "strided", "fixed"])
def test_the_unfused_layer_and_the_hand_written_attention_are_torchs_layer(mask: str):
    shape = SHAPE._replace(mask=mask)
    plan = plans.from_value(41115)
    assert "fused_attention(q, k, v, ATTENDED" in generate.module(plan, shape)
    for each in (NOTHING_FUSED, plan):
        torch.testing.assert_close(forward(each, shape).double(), reference(shape), atol=1e-5, rtol=0)


@pytest.mark.compiler
def test_compiled_segments_give_the_same_numbers_and_are_compiled_once():
    expected = forward(NOTHING_FUSED, SHAPE)
    plan = plans.from_segments(False, [(9, 10), (14, 15)])
    torch.testing.assert_close(forward(plan, SHAPE, True), expected, atol=1e-5, rtol=0)
    before = runtime.regions()
    assert {(9, 10), (14, 15)} <= {key[:2] for key in before}
    first = runtime.load(generate.module(plan, SHAPE))["fused_9_10"]
    longer = SHAPE._replace(layers=3, mask="fixed")
    assert runtime.load(generate.module(plans.from_segments(True, [(9, 10)]), longer))["fused_9_10"] is first
    assert runtime.regions() == before


def test_a_segment_with_the_mask_is_compiled_for_each_mask():
    made = [runtime.compiled(3, 7, SHAPE._replace(mask=mask))(lambda: None) for mask in ("strided", "fixed", "fixed")]
    assert made[0] is not made[1] and made[1] is made[2]


def test_parts_alone_lead_through_the_layer():
    shape = SHAPE._replace(layers=1)
    activations = inputs.Activations(shape, weights.random_weights(shape)[0])
    for part in [(1, 7), (2, 2), (3, 6), (8, 14), (10, 15)]:
        run = runtime.load(generate.part_module(part, shape), compiling=False)["run"]
        made = run(activations.of(part), activations.weights)
        names = operators.outputs(part)
        for name, value in zip(names, made if len(names) > 1 else [made], strict=True):
            torch.testing.assert_close(value, activations.values[name], atol=1e-5, rtol=0)


def test_the_text_of_a_module(golden):
    shape = Shape(batch=8, seq=256, mask="strided", layers=12)
    golden("operator_fusion/41115.py.txt", generate.module(plans.from_value(41115), shape))


def test_only_the_bit_for_attention_that_has_an_effect_changes_the_code():
    for plan in (ALL_FUSED, NOTHING_FUSED):
        text = generate.module(plan._replace(hand_written=True), SHAPE)
        assert "fused_attention" not in text
        assert text.splitlines()[1:] == generate.module(plan, SHAPE).splitlines()[1:]


def test_a_search_compiles_each_segment_once(monkeypatch: pytest.MonkeyPatch):
    """A segment that begins with the transpose has two kinds of input: SDPA lays out its output in another way."""
    counter, real = CompileCounter(), torch.compile

    def counting(function, options, **words):  # the options are inductor's
        return real(function, backend=counter, **words)

    monkeypatch.setattr(torch, "compile", counting)
    monkeypatch.setattr(runtime, "_regions", {})
    measured = [plan for plan in RandomSearch(0).propose(6) if not plan.uses_attention]
    used = {segment for plan in measured for segment in plan.segments} | {(1, 15)}
    assert len(used) < sum(len(plan.segments) for plan in measured)
    for jobs in (measured, [Confirmed(plan) for plan in measured], [PartAlone(segment) for segment in sorted(used)]):
        Bench(BARE, rounds=1).measure(jobs)
        assert {key[:2] for key in runtime.regions()} == used
        assert len(used) <= counter.frame_count <= len(used) + sum(first == 7 for first, _ in used)
