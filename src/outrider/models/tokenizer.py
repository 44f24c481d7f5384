"""Facts of a tokenizer: how many tokens, which are special, how a conversation is written; and how two of them differ.

Read from ``tokenizer.json``, ``tokenizer_config.json``, ``generation_config.json`` and ``chat_template.jinja`` of a
Hugging Face directory, or from a GGUF header. What no file says stays None.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.models.gguf import read_header
from outrider.models.safetensors import read_object

_ROLES = ("bos", "eos", "pad", "unk")
_THINKING = ("enable_thinking", "<think>", "reasoning_content")
"""What templates of models that think hold."""


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What is known of a tokenizer.

    Attributes:
        source: where it was read.
        size: tokens, the special ones included; a GGUF's list also names unused rows, so it may be larger there.
        special: role (``bos``, ``eos``, ``pad``, ``unk``) → token id.
        ids: ids that stand for a token; None: the file does not tell used rows from unused ones.
        vocabulary: SHA-256 of its ids and their texts; None: the file does not list them, or is not read that far.
        named: id → text of the tokens that were added to the vocabulary, special ones among them.
        template: SHA-256 of the chat template; None: there is none.
        modes: ``thinking`` and ``non-thinking`` where the template can do both, else ``non-thinking``; empty: no
            template, so nobody knows.
    """

    source: str
    size: int | None = None
    special: Mapping[str, int] = field(default_factory=dict)
    ids: frozenset[int] | None = field(default=None, repr=False)
    vocabulary: str | None = None
    named: Mapping[int, str] = field(default_factory=dict, repr=False)
    template: str | None = None
    modes: tuple[str, ...] = ()


def read_tokenizer(path: Path) -> TokenizerFacts | None:
    """The tokenizer beside a model's weights, or in a GGUF; None: there is none.

    Raises:
        WeightsUnreadable: one of its files is damaged.
    """
    if path.is_file():
        return _from_gguf(path) if path.suffix == ".gguf" else read_tokenizer(path.parent)
    if (path / "tokenizer.json").exists() or (path / "tokenizer_config.json").exists():
        return _from_directory(path)
    ggufs = sorted(path.glob("*.gguf"))
    return _from_gguf(ggufs[0]) if len(ggufs) == 1 else None


def differences(base: TokenizerFacts, own: TokenizerFacts) -> list[str]:
    """Where ``own`` differs from ``base``, a line each; what either does not know is not compared."""
    found = []
    if base.size is not None and own.size is not None and base.size != own.size:
        found.append(f"tokens of the tokenizer: {own.size:,}, the catalog model's has {base.size:,}")
    elif None not in (base.vocabulary, own.vocabulary) and base.vocabulary != own.vocabulary:
        shown = [f"SHA-256 {str(digest)[:12]}…" for digest in (own.vocabulary, base.vocabulary)]
        found.append(f"vocabulary: {shown[0]}, the catalog model's is {shown[1]}: ids stand for other texts")
    for role in _ROLES:
        was, now = base.special.get(role), own.special.get(role)
        if was is not None and now is not None and was != now:
            found.append(f"{role} token: id {now}, the catalog model's is {was}")
    found += [f"token {token}: {text}" for token, text in _renamed(base.named, own.named)]
    if base.template != own.template:
        shown = [f"SHA-256 {text[:12]}…" if text else "none" for text in (own.template, base.template)]
        found.append(f"chat template: {shown[0]}, the catalog model's is {shown[1]}")
    return found


def _renamed(base: Mapping[int, str], own: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    for token in sorted(base.keys() & own.keys()):
        if base[token] != own[token]:
            yield token, f"{own[token]!r}, the catalog model's is {base[token]!r}"


def _from_directory(directory: Path) -> TokenizerFacts:
    vocabulary, named = _tokens(directory)
    config = _optional(directory / "tokenizer_config.json")
    named |= _added(config.get("added_tokens_decoder"))
    texts = {text: token for token, text in named.items()}
    special = {}
    for role in _ROLES:
        text = config.get(f"{role}_token")
        text = text.get("content") if isinstance(text, dict) else text
        token = texts.get(text, vocabulary.get(text)) if isinstance(text, str) else None
        if token is not None:
            special[role] = token
    special = {**_generation(directory), **special}
    ids = frozenset(vocabulary.values()) | named.keys() if vocabulary else None
    template = _template(directory, config)
    return TokenizerFacts(
        source=f"tokenizer files of {directory.name}",
        size=len(ids) if ids else None,
        special=special,
        ids=ids,
        vocabulary=_digest(vocabulary, named) if vocabulary else None,
        named=named,
        template=None if template is None else _sha256(template),
        modes=_modes(template),
    )


def _from_gguf(path: Path) -> TokenizerFacts | None:
    metadata = read_header(path).metadata
    size = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(size, int):
        return None
    names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    special = {role: metadata.get(f"tokenizer.ggml.{name}_token_id") for role, name in names.items()}
    template = metadata.get("tokenizer.chat_template")
    template = template if isinstance(template, str) else None
    return TokenizerFacts(
        source=f"GGUF header of {path.name}",
        size=size,
        special={role: token for role, token in special.items() if isinstance(token, int)},
        template=None if template is None else _sha256(template),
        modes=_modes(template),
    )


def _tokens(directory: Path) -> tuple[dict[str, int], dict[int, str]]:
    """The vocabulary by text, and the added tokens by id."""
    data = _optional(directory / "tokenizer.json")
    model = data.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    vocabulary: dict[str, int] = {}
    if isinstance(listed, dict):
        vocabulary = {text: token for text, token in listed.items() if isinstance(token, int)}
    elif isinstance(listed, list):  # a unigram model lists [text, score]
        vocabulary = {str(entry[0]): token for token, entry in enumerate(listed) if isinstance(entry, list) and entry}
    added = data.get("added_tokens")
    entries = added if isinstance(added, list) else []
    return vocabulary, _added({entry.get("id"): entry for entry in entries if isinstance(entry, dict)})


def _added(entries: Any) -> dict[int, str]:
    found: dict[int, str] = {}
    for token, entry in entries.items() if isinstance(entries, dict) else ():
        text = entry.get("content") if isinstance(entry, dict) else None
        if isinstance(text, str) and str(token).isdecimal():
            found[int(token)] = text
    return found


def _generation(directory: Path) -> dict[str, int]:
    """Ids by role in ``generation_config.json``; of several end tokens the first."""
    config, found = _optional(directory / "generation_config.json"), {}
    for role in ("bos", "eos", "pad"):
        token = config.get(f"{role}_token_id")
        token = token[0] if isinstance(token, list) and token else token
        if isinstance(token, int) and not isinstance(token, bool):
            found[role] = token
    return found


def _template(directory: Path, config: Mapping[str, Any]) -> str | None:
    file = directory / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8", errors="replace")
    written = config.get("chat_template")
    if isinstance(written, list):  # several, by name; the default one is what chat uses
        texts = {entry.get("name"): entry.get("template") for entry in written if isinstance(entry, dict)}
        written = texts.get("default")
    return written if isinstance(written, str) else None


def _modes(template: str | None) -> tuple[str, ...]:
    if template is None:
        return ()
    return ("thinking", "non-thinking") if any(word in template for word in _THINKING) else ("non-thinking",)


def _sha256(text: str) -> str:
    # Files end with a line break or not, depending on who saved them; templates mean the same.
    return hashlib.sha256(text.rstrip().encode()).hexdigest()


def _digest(vocabulary: Mapping[str, int], named: Mapping[int, str]) -> str:
    """Of every id with its text, wherever a file lists the added ones: among the others or apart."""
    return _sha256(json.dumps(sorted(({token: text for text, token in vocabulary.items()} | dict(named)).items())))


def _optional(path: Path) -> dict[str, Any]:
    return read_object(path) if path.exists() else {}
