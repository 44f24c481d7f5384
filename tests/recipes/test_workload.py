"""What a workload's lengths do to a plan: its context, and whose figures it goes by."""

from __future__ import annotations

import math
from typing import Any

import pytest

from outrider.errors import InvalidInput, ObjectiveUnreachable, UnknownModel
from outrider.recipes.capacity import seconds
from outrider.recipes.library import Catalog, load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.spec.endpoint import parse
from outrider.spec.facts import ModelFacts
from tests.recipes.inventories import INVENTORIES

SHIPPED = load_catalog([])
SHORT = SHIPPED.get("qwen3-8b/sglang-h200-bf16")
"""Measured with 512 tokens in, its context is 4,096, the model was trained for 40,960."""


def planned(inventory: str = "1×H200", **spec: Any) -> Plan:
    return plan(parse({"model": SHORT.model.id, **spec}), INVENTORIES[inventory], Catalog([SHORT], ["a test"]))


def context(made: Plan) -> tuple[int, str]:
    """Of the plan, and why."""
    flag = next(flag for flag in made.flags if flag.name == "context")
    assert isinstance(flag.value, int)
    return flag.value, flag.reason


def test_a_context_is_lengthened_for_a_workload_that_the_model_can_hold() -> None:
    assert context(planned(workload={"input_tokens": 3_000}))[0] == 4_096
    made = planned(workload={"input_tokens": 16_000})
    assert context(made) == (16_384, "tokens a request may hold: the workload's have 16,256")
    assert not [row for row in made.ignored if row.field == "workload.input_tokens"]
    mine = planned(workload={"input_tokens": 16_000}, flags={"context": 8_192})
    assert context(mine)[0] == 8_192
    assert [row.field for row in mine.ignored] == ["workload.input_tokens"]
    beyond = planned(workload={"input_tokens": 100_000})
    assert context(beyond)[0] == 4_096
    assert [row.field for row in beyond.ignored] == ["workload.input_tokens"]


def test_a_curve_of_much_shorter_prompts_is_not_gone_by() -> None:
    usual, long = planned(), planned(workload={"input_tokens": 16_000})
    assert usual.prediction and long.prediction and usual.prediction.ttft and long.prediction.ttft
    assert (usual.prediction.source, long.prediction.source) == ("curve", "roofline")
    assert "curve is of prompts of 512 tokens" in long.prediction.basis
    alike = planned(workload={"input_tokens": 512})
    assert alike.prediction and alike.prediction.source == "curve"
    with pytest.raises(ObjectiveUnreachable):
        planned(workload={"input_tokens": 16_000}, objective={"ttft": 0.1})


def test_what_a_curve_lacks_is_computed_for_its_own_traffic() -> None:
    """The recipe has no tokens/s at one request: it follows from 512 tokens in and 256 out, whatever is asked for."""
    assert SHORT.capacity_curve[0].output_tps is None
    aim = {"target_concurrency": 1.0, "max_concurrency": 1}
    default = planned(scaling=aim).prediction
    asked = planned(scaling=aim, workload={"input_tokens": 512}).prediction
    assert default is not None and asked is not None
    assert (default.concurrency, default.output_tps) == (1, asked.output_tps)
    assert default.itl is not None and default.output_tps == pytest.approx(1 / default.itl, rel=0.1)


def test_the_smallest_change_looks_at_recipes_that_were_not_weighed_here() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan(parse({"model": "zai-org/GLM-5.2"}), INVENTORIES["4×L40S"], SHIPPED)
    assert "It fits on 4 × B200: glm-5-2/vllm-4xb200-nvfp4." in (caught.value.remedy or "")


def test_a_recipe_that_fits_on_no_number_of_gpus_is_one_line() -> None:
    made = plan(parse({"model": "zai-org/GLM-5.2", "resources": {"gpu": "H100"}}), INVENTORIES["none"], SHIPPED)
    lines = made.decisions[0].rejected
    lacking = [line.partition(" on ")[0] for line in lines if "MiB more" in line]
    assert lacking and len(lacking) == len(set(lacking))
    assert not any("on 1 × H100" in line for line in lines)
    assert any(row.hardware == "1 × H100" for row in made.considered)


def test_where_all_is_too_dear_the_least_price_is_the_best() -> None:
    spec = {"model": SHORT.model.id, "objective": {"usd_per_hour": 0.5}}
    with pytest.raises(ObjectiveUnreachable) as caught:
        plan(parse(spec), INVENTORIES["4×L40S"], SHIPPED)
    assert "on 1 × L40S" in (caught.value.why or "")


def test_a_checkpoint_without_a_recipe_is_told_to_name_a_gpu() -> None:
    facts = ModelFacts(format="safetensors", architecture="llama", source="config.json of w")
    with pytest.raises(UnknownModel) as caught:
        plan(parse({"model": "path:/w"}), INVENTORIES["CPU"], SHIPPED, facts)
    assert "--gpu H100" in (caught.value.remedy or "")
    with pytest.raises(UnknownModel, match="Nothing is known") as unknown:
        plan(parse({"model": "nobody/none"}), INVENTORIES["CPU"], SHIPPED)
    assert "a directory of safetensors" in (unknown.value.remedy or "")


def test_a_curve_says_which_flags_it_was_measured_without() -> None:
    plain, other = planned(), planned(flags={"batch_size": 2048, "context": 2048})
    assert plain.prediction and other.prediction
    assert "measured without" not in plain.prediction.basis
    assert other.prediction.basis.endswith("; measured without batch_size=2048")


def test_arrivals_take_as_many_replicas_as_finish_them_at_the_target() -> None:
    made = planned(workload={"rate": 5, "output_tokens": 500}, objective={"itl": 0.006})
    aim = next(one for one in made.decisions if one.choice == "target_concurrency")
    assert made.expected is not None and made.expected.concurrency == 1
    assert made.expected.ttft is not None and made.expected.itl is not None
    needed = math.ceil(5 * (made.expected.ttft + made.expected.itl * 499))
    assert aim.reason.endswith(f"; your 5 requests a second need {needed} replicas")
    assert needed > 1 and "your workload of" not in aim.reason
    enough = planned(workload={"rate": 0.1, "output_tokens": 500}, objective={"itl": 0.006})
    assert "replicas" not in next(one.reason for one in enough.decisions if one.choice == "target_concurrency")


@pytest.mark.parametrize(("value", "text"), [(0.0123, "12.3 ms"), (1.566, "1.57 s"), (1410.4, "1,410 s")])
def test_a_duration_is_written_without_an_exponent(value: float, text: str) -> None:
    assert seconds(value) == text
