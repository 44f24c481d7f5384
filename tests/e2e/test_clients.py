"""The official clients of OpenAI and Anthropic, through the gateway, against the real engine.

What is asserted of an answer is its shape and what the API promises of it, never what a small model happens to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

SAY: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Name three colours."}]
GO_ON: dict[str, Any] = {"ignore_eos": True}  # an answer that has to be of a certain length may not end by itself
SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["count"],
    "additionalProperties": False,
}


class Served:
    """A private Outrider with one endpoint that generates and one that embeds, and a key for them."""

    def __init__(self, outrider: Outrider) -> None:
        self.outrider = outrider
        outrider.run("endpoint", "create", "--model", MODEL, "--set", "slots=2", "--set", "context=4096")
        outrider.run("endpoint", "create", "--model", MODEL, "--name", "embed", "--task", "embed")
        self.secret = self.key("app")
        until(lambda: self.get("/v1/models", "nobody's").status_code == 401)
        self.openai = self.openai_client(self.secret)
        self.anthropic = self.anthropic_client(self.secret)

    def openai_client(self, secret: str) -> openai.OpenAI:
        """OpenAI's client, which raises at the first error."""
        return openai.OpenAI(base_url=f"{self.outrider.url}/v1", api_key=secret, max_retries=0, timeout=60)

    def anthropic_client(self, secret: str) -> anthropic.Anthropic:
        """Anthropic's client, which raises at the first error."""
        return anthropic.Anthropic(base_url=self.outrider.url, api_key=secret, max_retries=0, timeout=60)

    def key(self, name: str, **limits: int) -> str:
        """Make a key; its secret."""
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self.outrider.home.api_socket))) as api:
            made = api.post("http://outrider/api/v1/keys", json={"name": name, "limits": limits})
        assert made.status_code == 201, made.text
        return str(made.json()["secret"])

    def get(self, path: str, secret: str) -> httpx.Response:
        """One GET with a key."""
        return httpx.get(f"{self.outrider.url}{path}", headers={"Authorization": f"Bearer {secret}"})

    def in_flight(self) -> float:
        """Requests on the generating endpoint's replica, as the gateway counts them."""
        text = httpx.get(f"{self.outrider.url}/metrics").text
        return float(re.findall(rf'^outrider_gateway_in_flight{{endpoint="{NAME}".*}} (\S+)', text, re.MULTILINE)[0])

    def processing(self) -> float:
        """Requests that the engine itself says it is working on."""
        table = json.loads((self.outrider.home.run / "table.json").read_text())
        (replica,) = [one for one in table["replicas"] if one["endpoint"] == NAME]
        headers = {"Authorization": f"Bearer {replica['key']}"}
        text = httpx.get(f"{replica['url']}/metrics", headers=headers, timeout=30).text
        return float(re.findall(r"^llamacpp:requests_processing (\S+)", text, re.MULTILINE)[0])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, weights_cache: Path) -> Iterator[Served]:
    """One Outrider for the whole module: what is tested here changes nothing in it."""
    outrider = Outrider(tmp_path_factory.mktemp("clients"), weights_cache)
    try:
        made = Served(outrider)
        with made.openai, made.anthropic:
            yield made
    finally:
        outrider.remove()


def test_chat(served: Served) -> None:
    raw = served.openai.chat.completions.with_raw_response.create(
        model=NAME, messages=SAY, max_tokens=8, extra_body=GO_ON
    )
    answer = raw.parse()
    assert answer.model == NAME
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None and answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    assert re.fullmatch(r"1-[0-9a-f]{12}", raw.headers["x-outrider-revision"])
    assert raw.headers["x-request-id"]


def test_chat_streamed_says_what_it_says_whole(served: Served) -> None:
    asked: dict[str, Any] = {"model": NAME, "messages": SAY, "max_tokens": 12, "temperature": 0, "extra_body": GO_ON}
    whole = served.openai.chat.completions.create(**asked)
    events = list(served.openai.chat.completions.create(**asked, stream=True))
    assert "".join(event.choices[0].delta.content or "" for event in events) == whole.choices[0].message.content
    assert events[-1].choices[0].finish_reason == "length"
    assert not any(event.usage for event in events)  # the gateway asked for it; the client did not


def test_usage_of_a_stream_comes_last_where_asked_for(served: Served) -> None:
    events = list(
        served.openai.chat.completions.create(
            model=NAME,
            messages=SAY,
            max_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=GO_ON,
        )
    )
    assert events[-1].usage is not None and events[-1].usage.completion_tokens == 4
    assert not events[-1].choices
    assert not any(event.usage for event in events[:-1])


def test_several_choices(served: Served) -> None:
    answer = served.openai.chat.completions.create(model=NAME, messages=SAY, max_tokens=2, n=2)
    assert sorted(choice.index for choice in answer.choices) == [0, 1]


def test_tools_are_taken_and_none_is_called(served: Served) -> None:
    """SmolLM2's chat template knows no tools, and llama.cpp then drops them, ``required`` or not."""
    weather: Any = {"name": "get_weather", "parameters": SCHEMA}
    answer = served.openai.chat.completions.create(
        model=NAME,
        messages=SAY,
        max_tokens=4,
        extra_body=GO_ON,
        tools=[{"type": "function", "function": weather}],
        tool_choice="required",
    )
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
def test_json_by_a_schema(served: Served, stream: bool) -> None:
    asked: dict[str, Any] = {
        "model": NAME,
        "messages": SAY,
        "max_tokens": 64,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    }
    if stream:
        events = served.openai.chat.completions.create(**asked, stream=True)
        text = "".join(event.choices[0].delta.content or "" for event in events)
    else:
        text = served.openai.chat.completions.create(**asked).choices[0].message.content
    answer = json.loads(text)
    assert list(answer) == ["count"] and 0 <= answer["count"] <= 99


def test_logprobs(served: Served) -> None:
    answer = served.openai.chat.completions.create(
        model=NAME, messages=SAY, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert len(logprobs.content) == 3
    for token in logprobs.content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 2
        assert token.token == token.top_logprobs[0].token  # at temperature 0 the likeliest is taken


def test_completions(served: Served) -> None:
    asked: dict[str, Any] = {
        "model": NAME,
        "prompt": "Once upon",
        "max_tokens": 4,
        "temperature": 0,
        "extra_body": GO_ON,
    }
    whole = served.openai.completions.create(**asked)
    assert whole.choices[0].text and whole.usage is not None and whole.usage.completion_tokens == 4
    events = served.openai.completions.create(**asked, stream=True)
    assert "".join(event.choices[0].text for event in events) == whole.choices[0].text
    logprobs: Any = served.openai.completions.create(**asked, logprobs=2).choices[0].logprobs
    assert len(logprobs.content) == 4  # llama.cpp gives the form of chat here, not that of the older API


def test_embeddings(served: Served) -> None:
    answer = served.openai.embeddings.create(model="embed", input=["one", "two"])
    assert [len(vector.embedding) for vector in answer.data] == [576, 576]
    assert answer.data[0].embedding != answer.data[1].embedding
    assert answer.usage.prompt_tokens == 2
    with pytest.raises(openai.InternalServerError, match="does not support embeddings") as caught:
        served.openai.embeddings.create(model=NAME, input="one")
    assert caught.value.status_code == 501  # llama.cpp's own answer where it was not started for them


def test_responses(served: Served) -> None:
    answer = served.openai.responses.create(
        model=NAME, input="Say hello.", max_output_tokens=8, temperature=0, extra_body=GO_ON
    )
    assert answer.output_text and answer.usage is not None and answer.usage.output_tokens == 8
    assert answer.model == NAME
    assert served.openai.responses.input_tokens.count(model=NAME, input="Say hello.").input_tokens > 0
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):  # llama.cpp keeps no responses
        served.openai.responses.create(model=NAME, input="And?", previous_response_id=answer.id)


def test_responses_streamed(served: Served) -> None:
    asked: dict[str, Any] = {"model": NAME, "input": "Say hello.", "max_output_tokens": 4, "extra_body": GO_ON}
    events = list(served.openai.responses.create(**asked, stream=True))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    last: Any = events[-1]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert last.response.output[0].content[0].text == text
    assert last.response.usage.output_tokens == 4


def test_messages(served: Served) -> None:
    raw = served.anthropic.messages.with_raw_response.create(
        model=NAME, max_tokens=8, messages=[{"role": "user", "content": "Name three colours."}], extra_body=GO_ON
    )
    answer = raw.parse()
    assert (answer.model, answer.role, answer.stop_reason) == (NAME, "assistant", "max_tokens")
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.usage.output_tokens == 8
    counted = served.anthropic.messages.count_tokens(
        model=NAME, messages=[{"role": "user", "content": "Name three colours."}]
    )
    assert counted.input_tokens > 10


def test_messages_streamed(served: Served) -> None:
    with served.anthropic.messages.stream(
        model=NAME, max_tokens=8, messages=[{"role": "user", "content": "Name three colours."}], extra_body=GO_ON
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].type == "text" and final.content[0].text == text
    assert final.stop_reason == "max_tokens" and final.usage.output_tokens == 8


def test_models(served: Served) -> None:
    assert {model.id for model in served.openai.models.list()} == {NAME, "embed"}
    assert {model.id for model in served.anthropic.models.list()} == {NAME, "embed"}
    assert served.openai.models.retrieve(NAME).owned_by == "outrider"
    with pytest.raises(openai.NotFoundError, match=f"Did you mean '{NAME}'"):
        served.openai.models.retrieve(NAME + "s")


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_a_stream_given_up_frees_the_engines_slot(served: Served, vendor: str) -> None:
    """Left alone, the answer would take many times longer than what is waited for here."""
    until(lambda: served.processing() == 0)
    asked: dict[str, Any] = {"model": NAME, "messages": SAY, "max_tokens": 3500, "stream": True}
    if vendor == "openai":
        stream: Any = served.openai.chat.completions.create(**asked, extra_body=GO_ON)
    else:
        stream = served.anthropic.messages.create(**asked, extra_body=GO_ON)
    next(iter(stream))
    assert served.in_flight() == 1
    until(lambda: served.processing() == 1, seconds=20)
    stream.close()
    until(lambda: served.in_flight() == 0, seconds=5)
    until(lambda: served.processing() == 0, seconds=5)


def test_a_wrong_key(served: Served) -> None:
    with served.openai_client("wrong") as client, pytest.raises(openai.AuthenticationError, match="Wrong or expired"):
        client.chat.completions.create(model=NAME, messages=SAY, max_tokens=1)
    with (
        served.anthropic_client("wrong") as other,
        pytest.raises(anthropic.AuthenticationError, match="Wrong or expired"),
    ):
        other.messages.create(model=NAME, max_tokens=1, messages=[{"role": "user", "content": "hi"}])


def test_over_the_limit(served: Served) -> None:
    secret = served.key("limited", requests_per_minute=1)
    until(lambda: served.get("/v1/models", secret).status_code == 200)
    with served.openai_client(secret) as client:
        first = client.chat.completions.with_raw_response.create(model=NAME, messages=SAY, max_tokens=1)
        assert first.headers["x-ratelimit-limit-requests"] == "1"
        assert first.headers["x-ratelimit-remaining-requests"] == "0"
        with pytest.raises(openai.RateLimitError, match="over its limit of requests") as caught:
            client.chat.completions.create(model=NAME, messages=SAY, max_tokens=1)
    headers = caught.value.response.headers
    assert caught.value.code == "rate_limit_exceeded"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert 1 <= int(headers["retry-after"]) <= 60
    with served.anthropic_client(secret) as other, pytest.raises(anthropic.RateLimitError):
        other.messages.create(model=NAME, max_tokens=1, messages=[{"role": "user", "content": "hi"}])


def test_what_the_engine_refuses_is_its_own_word(served: Served) -> None:
    long: list[ChatCompletionMessageParam] = [{"role": "user", "content": "x y " * 6000}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
            served.openai.chat.completions.create(model=NAME, messages=long, max_tokens=2, stream=stream)
    with pytest.raises(openai.NotFoundError, match="No such path"):
        served.openai.images.generate(prompt="x", model=NAME)
