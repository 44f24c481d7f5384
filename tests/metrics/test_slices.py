"""What of a request changes τ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.metrics.slices import SCRIPT_WINDOW, read, script


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the capital of France?", "latin"),
        ("Où est le château, s'il vous plaît ?", "latin"),
        ("Được rồi, cảm ơn bạn", "latin"),
        ("Какая столица Франции?", "cyrillic"),
        ("Ποια είναι η πρωτεύουσα;", "greek"),
        ("法国的首都是哪里？请用 JSON 回答。", "han"),
        ("フランスの首都はどこですか", "kana"),
        ("日本語の文章です。漢字漢字漢字漢字漢字漢字漢字", "kana"),
        ("프랑스의 수도는 어디입니까?", "hangul"),
        ("ما هي عاصمة فرنسا؟", "arabic"),
        ("מהי בירת צרפת?", "hebrew"),
        ("फ्रांस की राजधानी क्या है?", "indic"),
        ("เมืองหลวงของฝรั่งเศส", "thai"),
        ("1 + 1 = ?", "latin"),
        ("😀 🎉 …", "none"),
        ("  \n", "none"),
        ("", "none"),
    ],
)
def test_script(text: str, expected: str) -> None:
    assert script(text) == expected


def test_only_the_end_counts() -> None:
    assert script("Привет " * 100 + "a" * SCRIPT_WINDOW) == "latin"


@given(st.text(st.characters()))
def test_any_text_has_a_script(text: str) -> None:
    assert script(text) in {
        "latin", "greek", "cyrillic", "hebrew", "arabic", "indic", "thai", "kana", "han", "hangul", "other", "none",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field", "expected"),
    [
        ({}, "tools", False),
        ({"tools": []}, "tools", False),
        ({"tools": [{}]}, "tools", True),
        ({"functions": [{}]}, "tools", True),
        ({}, "response_format", "text"),
        ({"response_format": {"type": "text"}}, "response_format", "text"),
        ({"response_format": {"type": "json_object"}}, "response_format", "json_object"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format", "json_schema"),
        ({"text": {"format": {"type": "json_schema"}}}, "response_format", "json_schema"),
        ({"guided_regex": "a+"}, "response_format", "grammar"),
        ({}, "temperature", None),
        ({"temperature": 0}, "temperature", 0.0),
        ({"temperature": True}, "temperature", None),
        ({"temperature": "hot"}, "temperature", None),
        ({}, "mode", "default"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "mode", "thinking"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "mode", "direct"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "mode", "thinking"),
        ({"thinking": {"type": "disabled"}}, "mode", "direct"),
        ({"reasoning": {"effort": "high"}}, "mode", "thinking"),
        ({"reasoning_effort": "none"}, "mode", "direct"),
    ],
)
def test_facts(body: dict[str, Any], field: str, expected: object) -> None:
    assert getattr(read(body, "hello"), field) == expected
