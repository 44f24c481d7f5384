"""Answers that the gateway gives itself."""

from __future__ import annotations

import json
import re

import pytest

from outrider.metrics import schema
from tests.gateway.client import chat, get, key, post, serving, table
from tests.gateway.standin import Standin

_LINE = re.compile(r'^[a-z0-9_]+(\{([a-z_]+="(\\.|[^"\\])*",?)*\})? [0-9.e+-]+$')


async def test_models() -> None:
    async with serving(table()) as served:
        model = {"id": "tiny", "object": "model", "created": 1_700_000_000, "owned_by": "outrider"}
        assert (await served.ask(get("/v1/models"))).json() == {"object": "list", "data": [model]}
        assert (await served.ask(get("/v1/models/tiny"))).json() == model
        assert (await served.ask(get("/v1/models/tinny"))).status == 404
        head = await served.ask(get("/v1/models", method="HEAD"), head_only=True)
        assert head.status == 200 and int(head.headers["content-length"]) > 0


async def test_unknown_model_names_the_nearest() -> None:
    async with serving(table(name="smollm2-135m-instruct")) as served:
        reply = await served.ask(post("/v1/completions", {"model": "HuggingFaceTB/SmolLM2-135M-Instruct"}))
        assert reply.status == 404
        error = reply.json()["error"]
        assert error["code"] == "model_not_found" and error["param"] == "model"
        assert "smollm2-135m-instruct" in error["message"]
        far = await served.ask(post("/v1/completions", {"model": "zzz"}))
        assert "There are: smollm2-135m-instruct" in far.json()["error"]["message"]


async def test_adapters_are_models_of_their_own() -> None:
    async with Standin() as engine, serving(table([engine], adapters=["polite", "Blunt"])) as served:
        listed = (await served.ask(get("/v1/models"))).json()["data"]
        assert [(model["id"], model.get("parent")) for model in listed] == [
            ("tiny", None),
            ("tiny:polite", "tiny"),
            ("tiny:Blunt", "tiny"),
        ]
        for path in ("/v1/models/tiny:polite", "/v1/models/tiny%3Apolite"):
            assert (await served.ask(get(path))).json()["id"] == "tiny:polite"
        reply = await served.ask(chat(model="tiny:polite"))
        assert reply.status == 200
        assert json.loads(engine.asked[0].body)["model"] == "tiny:polite", "the body is not rewritten"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("tiny:polit", "Did you mean 'tiny:polite'?"),
        ("tiny:BLUNT", "Did you mean 'tiny:Blunt'?"),
        ("tiny:zzz", "There are: polite, Blunt"),
        ("tiny:", "There are: polite, Blunt"),
    ],
)
async def test_an_unknown_adapter_names_the_nearest(model: str, said: str) -> None:
    async with serving(table(adapters=["polite", "Blunt"])) as served:
        for reply in (await served.ask(chat(model=model)), await served.ask(get(f"/v1/models/{model}"))):
            error = reply.json()["error"]
            assert (reply.status, error["code"], error["param"]) == (404, "adapter_not_found", "model")
            assert error["message"].startswith("Endpoint 'tiny' has no adapter") and said in error["message"]


async def test_a_key_of_another_endpoint_learns_nothing_of_adapters() -> None:
    keys = [key("mine"), key("other", endpoints=["elsewhere"])]
    async with serving(table(keys=keys, adapters=["polite"])) as served:
        mine, other = "Authorization: Bearer mine", "Authorization: Bearer other"
        assert (await served.ask(chat(other, model="tiny:polite"))).status == 403
        hidden = await served.ask(chat(other, model="tiny:polit"))
        assert hidden.status == 404 and "polite" not in hidden.json()["error"]["message"]
        assert (await served.ask(get("/v1/models", other))).json()["data"] == []
        assert len((await served.ask(get("/v1/models", mine))).json()["data"]) == 2


async def test_no_table_knows_no_model() -> None:
    async with serving() as served:
        assert (await served.ask(chat())).status == 404


async def test_health() -> None:
    async with serving(table(version=9)) as served:
        health = (await served.ask(get("/healthz"))).json()
        assert health == {
            "status": "ok",
            "endpoints": 1,
            "replicas": 0,
            "table_version": 9,
            "controller_connected": False,
        }


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/update_weights_from_disk", "/v1/chat/completions/", "/slots", "/v1/models/", "/e/", "/V1/models"],
)
async def test_other_paths_are_404(path: str) -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        reply = await served.ask(post(path, {"model": "tiny"}))
        assert reply.status == 404
        assert not engine.asked


async def test_methods() -> None:
    async with serving(table()) as served:
        wrong = await served.ask(get("/v1/chat/completions"))
        assert (wrong.status, wrong.headers["allow"]) == (405, "OPTIONS, POST")
        head = await served.ask(get("/v1/embeddings", method="HEAD"), head_only=True)
        assert head.status == 405
        options = await served.ask(get("/v1/messages", method="OPTIONS"))
        assert (options.status, options.headers["allow"]) == (204, "OPTIONS, POST")
        assert (await served.ask(post("/healthz", {}))).status == 405


async def test_metrics_are_prometheus_text() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        await served.ask(chat())
        await served.ask(chat(stream=True))
        reply = await served.ask(get("/metrics"))
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = reply.body.decode().splitlines()
        assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == [m.name for m in schema.METRICS]
        samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert all(_LINE.match(line) for line in lines if not line.startswith("#"))
        where = 'endpoint="tiny",revision="2",replica="r0"'
        assert samples[f'outrider_gateway_requests_total{{{where},status="200",outcome="ok"}}'] == "2"
        assert samples[f"outrider_prompt_tokens_total{{{where}}}"] == "14"
        assert samples[f"outrider_gateway_overhead_seconds_count{{{where}}}"] == "2"
        assert samples[f"outrider_request_ttft_seconds_count{{{where}}}"] == "1"
        assert samples['outrider_gateway_in_flight{endpoint="tiny",replica="r0"}'] == "0"
