"""The predictor alone: its training file, what it learns, and its saved model."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from operator_fusion import plans, predictor


def cost(plan: plans.Plan) -> float:
    """A made-up time: segments cost less than single operators, the hand-written attention least."""
    return 20 - sum(last - first for first, last in plan.segments) - 5 * plan.uses_attention


@pytest.fixture(scope="module")
def lines() -> list[predictor.Line]:
    rng = random.Random(0)
    every = plans.plans_that_differ()
    drawn = rng.sample(every, 200) + rng.sample([plan for plan in every if plan.uses_attention], 40)
    return [(plan, cost(plan) * rng.uniform(0.98, 1.02)) for plan in drawn]


def test_held_out_plans_are_ranked_and_a_saved_model_predicts_the_same(lines: list[predictor.Line], tmp_path: Path):
    model, report = predictor.train(lines)
    assert (report.trained, report.held_out) == (240, 48)
    assert report.rank_correlation > 0.9
    assert report.median_error < 0.1
    best, worst = model.predict([plans.from_value(41115), plans.NOTHING_FUSED])
    assert best < worst
    assert model.is_fast(best) and not model.is_fast(worst)

    file = tmp_path / "model.json"
    model.save(str(file))
    again = predictor.Predictor.load(str(file))
    some = [plan for plan, _ in lines[:20]]
    assert again.predict(some) == pytest.approx(model.predict(some))
    assert again.threshold == model.threshold
    assert list(tmp_path.iterdir()) == [file]
    for content in (b"", b"{}", b"not a model", b'{"learner": 1}', file.read_bytes()[:-100]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.json is no model"):
            predictor.Predictor.load(str(file))


@pytest.mark.parametrize("value", [6826, 41115, 0, 12345])
def test_values_of_one_plan_have_the_same_features(value: int):
    first, second = (predictor.features(plans.from_value(v)) for v in (value, value ^ 0x7FFF))
    assert first == second


def test_a_training_file_is_read_and_every_bad_line_is_named(tmp_path: Path):
    file = tmp_path / "data.txt"
    good = "".join(f"{value:016b}   {value + 1}.5\n\n" for value in range(12))
    file.write_text(good)
    assert predictor.read(str(file)) == [(plans.from_value(value), value + 1.5) for value in range(12)]
    bad = ["0101 1", "0" * 16, "0" * 16 + " x", "0" * 16 + " -1", "0" * 16 + " nan", "2" * 16 + " 1", "0" * 16 + " 1 2"]
    file.write_text(good + "\n".join(bad))
    with pytest.raises(predictor.BadLines) as raised:
        predictor.read(str(file))
    assert [line.split(": ")[0] for line in str(raised.value).splitlines()] == [f"{file}:{n}" for n in range(25, 32)]
    file.write_text("0" * 16 + " 1\n")
    with pytest.raises(predictor.BadLines, match="1 lines; training needs 10"):
        predictor.read(str(file))


def test_a_plan_is_never_both_trained_on_and_held_out(monkeypatch: pytest.MonkeyPatch):
    """Several lines may be of one plan, by values that run the same code."""
    trained: list[list[predictor.Line]] = []
    learn = predictor.Predictor.train

    def spied(lines: list[predictor.Line], seed: int = 0) -> predictor.Predictor:
        trained.append(list(lines))
        return learn(lines, seed)

    monkeypatch.setattr(predictor.Predictor, "train", spied)
    values = [value for low in range(12) for value in (low, low ^ 0x7FFF, low | 1 << 15)]
    lines = [(plans.from_value(value), 1.0 + number) for number, value in enumerate(values)]
    _, report = predictor.train(lines)
    kept, everything = trained
    assert len(everything) == report.trained == 36
    held_out = [line for line in lines if line not in kept]
    assert len(held_out) == report.held_out == 6
    assert not {plan.as_run() for plan, _ in kept} & {plan.as_run() for plan, _ in held_out}
    with pytest.raises(ValueError, match="lines of 1 plan"):
        predictor.train([(plans.ALL_FUSED, 1.0 + number) for number in range(12)])
