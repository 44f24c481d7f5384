"""The drafter that ships with Outrider: its files, its card, and that it drafts for the real target."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from safetensors import safe_open

from outrider.drafting import checkpoint, templates
from outrider.drafting.acceptance import Measurement
from outrider.drafting.card import read_card
from outrider.drafting.chat_format import ChatFormat
from outrider.drafting.config import DraftConfig
from outrider.drafting.evaluation import Record, measure
from outrider.drafting.inspection import inspect
from outrider.drafting.settings import parse
from outrider.drafting.target_digest import target_digest
from outrider.models.drafter_check import Target as Checked
from outrider.models.facts import read_facts
from outrider.models.safetensors import read_object
from outrider.models.tokenizer import read_tokenizer
from tests.engines.drafting_parts import SHIPPED, target
from tests.models.real import SHA256, smollm

from .test_checkpoint import WHOLE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
MEGABYTE = 1_000_000
CHATS = (
    "Why do leaves change their colour in autumn?",
    "Give me three tips for sleeping better.",
)
LIMIT = 64
"""Tokens of an answer."""


def card() -> dict[str, Any]:
    """The card as it stands in the file."""
    return read_object(SHIPPED / "drafter.json")


def test_it_is_one_small_file_of_bf16_with_config_and_card() -> None:
    assert sorted(path.name for path in SHIPPED.iterdir()) == ["config.json", "drafter.json", "model.safetensors"]
    assert (SHIPPED / "model.safetensors").stat().st_size <= 20 * MEGABYTE
    with safe_open(SHIPPED / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}  # noqa: SIM118


def test_its_tensors_are_those_of_z_labs_table() -> None:
    """Research on DFlash, the table of tensors, for H 576, K 5, I 1024, 9 query and 3 key heads of 64: both ways."""
    layer = {
        "input_layernorm.weight": [576],
        "post_attention_layernorm.weight": [576],
        "self_attn.q_proj.weight": [576, 576],
        "self_attn.k_proj.weight": [192, 576],
        "self_attn.v_proj.weight": [192, 576],
        "self_attn.o_proj.weight": [576, 576],
        "self_attn.q_norm.weight": [64],
        "self_attn.k_norm.weight": [64],
        "mlp.gate_proj.weight": [1024, 576],
        "mlp.up_proj.weight": [1024, 576],
        "mlp.down_proj.weight": [576, 1024],
    }
    whole = {"fc.weight": [576, 5 * 576], "hidden_norm.weight": [576], "norm.weight": [576]}
    assert all(name.startswith(WHOLE) for name in whole)
    expected = whole | {f"layers.{i}.{name}": shape for i in range(3) for name, shape in layer.items()}
    with safe_open(SHIPPED / "model.safetensors", "pt") as file:
        found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    assert found == expected
    assert {name: list(shape) for name, shape in checkpoint.shapes(checkpoint.load(SHIPPED).config).items()} == expected


def test_its_card_says_what_it_was_made_from_and_how_good_it_is() -> None:
    said = card()
    assert said["target"] == {"name": "SmolLM2-135M-Instruct", "sha256": SHA256} and target_digest(smollm()) == SHA256
    assert len(said["data"]["manifest"]) == 64
    assert said["data"]["tokens"] > said["data"]["examples"] > 10_000
    settings = parse(said["hyperparameters"])
    config = DraftConfig.parse(read_object(SHIPPED / "config.json"))
    assert settings.steps > 1000 and said["max_context"] == settings.width == 4096
    assert (settings.shape.layers, settings.shape.block) == (config.num_hidden_layers, config.block_size)
    assert settings.shape.taps == config.target_layer_ids
    measured = {one["slice"]: one for one in said["evaluation"]["slices"] + said["evaluation"]["after_context"]}
    assert set(said["tau"]) == {"chat", "code", "json", "all", "context-256", "context-4096"}
    for name in set(said["tau"]) - {"all"}:
        tau = measured[name]["tau"]
        assert tau["low"] < said["tau"][name] == round(tau["value"], 3) < tau["high"]
        # τ is one and the share of blocks whose first k drafts stood, summed over k.
        assert tau["value"] == pytest.approx(1 + sum(p["value"] for p in measured[name]["positions"]), abs=1e-3)
    assert said["tau"]["chat"] >= 2.8 and min(said["tau"]["code"], said["tau"]["json"]) >= 3.5
    assert said["tau"]["context-4096"] > 0.9 * said["tau"]["context-256"]
    read = read_card(SHIPPED)
    assert (read.name, read.target.sha256, read.max_context) == (said["name"], SHA256, 4096)


def test_inspect_finds_nothing_wrong_with_it_for_its_target() -> None:
    file = smollm()
    found = inspect(SHIPPED, Checked(read_facts(file), read_tokenizer(file)))
    assert found.findings == []
    assert {loader.engine for loader in found.loaders} == {"vllm", "sglang", "llamacpp"}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """What the target answers, greedily, to questions and to fillings of held-out templates."""
    found = [template for template in templates.read(templates.SHIPPED) if template.split == "held_out"]
    asked = [("chat", text) for text in CHATS]
    for name in ("code", "json"):
        group = [template for template in found if template.slice == name]
        asked += [(name, template.fill(Random(1))) for template in Random(1).sample(group, 2)]
    form = ChatFormat(target().tokenizer)
    prompts = [(*form.opening(), *form.encode(text), form.user_stop, *form.bridge) for _, text in asked]
    answers = _answers(prompts, form.stops)
    return [Record(*both, name) for both, (name, _) in zip(zip(prompts, answers, strict=True), asked, strict=True)]


def _answers(prompts: list[tuple[int, ...]], stops: frozenset[int]) -> list[tuple[int, ...]]:
    """Greedy answers, each up to its end of turn."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    model: Any = target().model
    said = model.generate(ids, attention_mask=mask, max_new_tokens=LIMIT, do_sample=False)[:, width:].tolist()
    ends = [next((at + 1 for at, token in enumerate(row) if token in stops), LIMIT) for row in said]
    return [tuple(row[:end]) for row, end in zip(said, ends, strict=True)]


def acceptance(drafter: Any, records: list[Record]) -> Measurement:
    """Of a drafter, in fp32."""
    target().tap(drafter.config.target_layer_ids)
    return measure(drafter, target(), records)


def test_it_drafts_for_its_target_as_its_card_says(records: list[Record]) -> None:
    measured = acceptance(checkpoint.load(SHIPPED, dtype=torch.float32), records)
    blocks = sum(len(record.stood) for record in measured.records)
    assert blocks > 40
    assert measured.tau() > 2.5
    for name in ("code", "json"):
        assert measured.tau(name) > 3
        # A hundred tokens say little about a slice, but what is far off belongs to other weights.
        assert measured.tau(name) == pytest.approx(card()["tau"][name], rel=0.4)
    # Openings of answers to a person's questions: harder than what the target asks itself, which the card is about.
    assert measured.tau("chat") > 1.4


def test_random_weights_would_be_seen(records: list[Record]) -> None:
    drafter = checkpoint.load(SHIPPED, dtype=torch.float32)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for layer in drafter.layers:
            for parameter in layer.parameters():
                if parameter.dim() > 1:
                    parameter.copy_(torch.randn_like(parameter) * parameter.std())
    code = [record for record in records if record.slice == "code"]
    assert acceptance(drafter, code).tau() < 1.6
