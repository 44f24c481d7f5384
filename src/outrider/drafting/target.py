"""The target: the frozen language model that a drafter speculates for."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import InvalidDrafter, WeightsUnavailable


class Output(NamedTuple):
    """What one pass gives.

    Attributes:
        logits: ``[B, S, V]``.
        features: ``[B, S, K·H]``, the tapped layers' states side by side, ascending.
    """

    logits: Tensor
    features: Tensor


class States(NamedTuple):
    """What one pass without the head gives.

    Attributes:
        final: ``[B, S, H]``, after the last norm: what the head reads.
        features: ``[B, S, K·H]``, as in :class:`Output`.
    """

    final: Tensor
    features: Tensor


class Target:
    """A Hugging Face causal language model, frozen, with taps on some of its layers.

    Attributes:
        model: the model, in evaluation mode and without gradients.
        layer_ids: the tapped layers, 0-based, ascending; the state *after* each is taken.
        tokenizer: its tokenizer, where it has one.
    """

    def __init__(self, model: nn.Module, layer_ids: Sequence[int], tokenizer: Any = None) -> None:
        """Freeze ``model``.

        Raises:
            InvalidDrafter: a layer id is not one of its layers, or they do not ascend.
        """
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self._decoder = cast(Any, model).get_decoder()
        # transformers 5.24 renamed it, and warns of the old name
        known = inspect.signature(self.model.forward).parameters
        self._cache_argument = "cache" if "cache" in known else "past_key_values"
        self.tap(layer_ids)

    def tap(self, layer_ids: Sequence[int]) -> None:
        """Tap these layers from now on, instead of those before.

        Raises:
            InvalidDrafter: as in the constructor.
        """
        ids = tuple(layer_ids)
        if list(ids) != sorted(set(ids)) or any(not 0 <= index < self.num_layers for index in ids):
            raise InvalidDrafter(
                "The target has no such layers", why=f"{list(ids)} are no ascending ids below {self.num_layers}"
            )
        self.layer_ids = ids

    @classmethod
    def load(
        cls,
        reference: str | Path,
        layer_ids: Sequence[int] = (),
        *,
        dtype: torch.dtype = torch.bfloat16,
        device: str | torch.device = "cpu",
    ) -> Self:
        """Load a target and its tokenizer.

        Args:
            reference: a directory in Hugging Face's layout, a ``.gguf`` file (dequantised: the same function), or a
                repository of the hub (``org/name``).
            layer_ids: the layers to tap.
            dtype: of the weights in memory.
            device: where they go.

        Raises:
            WeightsUnavailable: there is no such model, or transformers cannot read it.
            InvalidDrafter: as in the constructor.
        """
        from transformers import AutoModelForCausalLM, AutoTokenizer

        path = Path(reference).expanduser()
        where = {"pretrained_model_name_or_path": str(path if path.exists() else reference)}
        if path.suffix == ".gguf":
            where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(**where, dtype=dtype, **_dequantised(path))
            tokenizer = AutoTokenizer.from_pretrained(**where)
        except (OSError, ValueError, ImportError) as error:
            raise WeightsUnavailable(f"No target can be loaded from {reference}", why=str(error)) from None
        return cls(model.to(device), layer_ids, tokenizer)

    @property
    def num_layers(self) -> int:
        """L, its decoder layers."""
        return len(self._decoder.layers)

    @property
    def layers(self) -> list[nn.Module]:
        """Its decoder layers."""
        return list(self._decoder.layers)

    @property
    def hidden_size(self) -> int:
        """H."""
        return int(self._decoder.config.hidden_size)

    @property
    def vocab_size(self) -> int:
        """V, rows of the embedding: also those that no token uses."""
        return int(self._table.shape[0])

    @property
    def device(self) -> torch.device:
        """Where its embedding is."""
        return self._table.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of its embedding."""
        return self._table.dtype

    @property
    def input_embedding_scale(self) -> float:
        """The factor that the model itself puts on its embeddings (Gemma: √H); 1 for most.

        A drafter's ``input_embedding_scale`` should equal it.
        """
        embedding = cast(Any, self.model).get_input_embeddings()
        return float(getattr(embedding, "embed_scale", 1.0))

    @property
    def eos(self) -> frozenset[int]:
        """The ids that end an answer: those of its generation config, else its config's, and its tokenizer's."""
        model = cast(Any, self.model)
        found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
        found = model.config.eos_token_id if found is None else found
        ids = set(found if isinstance(found, list) else [found]) | {getattr(self.tokenizer, "eos_token_id", None)}
        return frozenset(index for index in ids if index is not None)

    @property
    def _table(self) -> Tensor:
        return cast(Tensor, cast(Any, self.model).get_input_embeddings().weight)

    def embed(self, ids: Tensor) -> Tensor:
        """Raw rows of the embedding, ``[B, S] → [B, S, H]``; the drafter scales them itself."""
        return functional.embedding(ids, self._table)

    def logits(self, hidden: Tensor) -> Tensor:
        """What the bare head makes of ``[..., H]``; gradients flow through to ``hidden``."""
        head = cast(nn.Module, cast(Any, self.model).get_output_embeddings())
        logits: Tensor = head(hidden.to(self.dtype).flatten(0, -2)).unflatten(0, hidden.shape[:-1])
        return logits

    def head_rows(self, ids: Tensor) -> Tensor:
        """Rows of the head's weight, ``[...] → [..., H]``: a logit is the product with one (plus its bias, if any)."""
        return functional.embedding(ids, cast(Any, self.model).get_output_embeddings().weight)

    def shape_logits(self, logits: Tensor) -> Tensor:
        """The target's own scale and cap on what :meth:`logits` gives (Gemma 2, Cohere, Granite)."""
        config = self._decoder.config
        logits = logits * float(getattr(config, "logit_scale", None) or 1.0)
        logits = logits / float(getattr(config, "logits_scaling", None) or 1.0)
        cap = getattr(config, "final_logit_softcapping", None)
        return torch.tanh(logits / cap) * cap if cap else logits

    @torch.no_grad()
    def forward(self, ids: Tensor, cache: Any = None, *, last: bool = False) -> Output:
        """One pass.

        Args:
            ids: ``[B, S]``; rows padded on the right are exact up to their padding.
            cache: from :meth:`cache`; the rows are added to it.
            last: logits of the last row only.
        """
        with self._taps() as taken:
            output = self.model(
                input_ids=ids,
                use_cache=cache is not None,
                logits_to_keep=1 if last else 0,
                **{self._cache_argument: cache},
            )
        return Output(output.logits, self._side_by_side(taken, ids))

    @torch.no_grad()
    def states(self, ids: Tensor, position_ids: Tensor | None = None, attention_mask: Any = None) -> States:
        """One pass without the head, for training and evaluation.

        Args:
            ids: ``[B, S]``.
            position_ids: ``[B, S]``; they start over at each document of a packed row, which keeps documents apart.
            attention_mask: as the model takes it.
        """
        with self._taps() as taken:
            output = self._decoder(
                input_ids=ids, position_ids=position_ids, attention_mask=attention_mask, use_cache=False
            )
        return States(output.last_hidden_state, self._side_by_side(taken, ids))

    @property
    def recurrent(self) -> bool:
        """Whether some layers keep a running state instead of keys and values (hybrid models): it cannot be cropped."""
        return "linear_attention" in (getattr(self._decoder.config, "layer_types", None) or ())

    def cache(self) -> Any:
        """An empty cache; of keys and values alone it is full also in sliding layers, so that it can be cropped."""
        from transformers import DynamicCache

        return DynamicCache(config=self._decoder.config) if self.recurrent else DynamicCache()

    def save(self, cache: Any) -> Any:
        """What :meth:`keep` needs to go back to the cache of now: a copy where the target is recurrent."""
        return copy.deepcopy(cache) if self.recurrent else None

    def keep(self, cache: Any, saved: Any, start: int, ids: Tensor, rows: int) -> Any:
        """The cache with only the first ``rows`` of the ``ids`` that it was given after ``start`` tokens."""
        if not self.recurrent:
            self.crop(cache, start + rows)
            return cache
        if rows < ids.shape[1]:
            cache = saved
            self.forward(ids[:, :rows], cache, last=True)
        return cache

    def crop(self, cache: Any, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        excess = cache.get_seq_length() - length
        if excess > 0:
            cache.crop(-excess)  # a count to remove: transformers 5.24 takes nothing else, earlier ones take it too

    @contextmanager
    def _taps(self) -> Iterator[dict[int, Tensor]]:
        """Hooks on the tapped layers; far less memory than ``output_hidden_states``."""
        found: dict[int, Tensor] = {}

        def keep(index: int) -> Any:
            def hook(module: nn.Module, args: Any, output: Any) -> None:
                found[index] = output[0] if isinstance(output, tuple) else output

            return hook

        handles = [self._decoder.layers[index].register_forward_hook(keep(index)) for index in self.layer_ids]
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()

    def _side_by_side(self, taken: dict[int, Tensor], ids: Tensor) -> Tensor:
        if not self.layer_ids:
            return torch.empty(*ids.shape, 0, device=ids.device)
        return torch.cat([taken[index] for index in self.layer_ids], dim=-1)


def _dequantised(path: Path) -> dict[str, Any]:
    """Arguments by which transformers unpacks a GGUF: from 5.20 on it would keep the weights packed."""
    import transformers

    config = getattr(transformers, "GgufConfig", None)
    return {} if config is None or path.suffix != ".gguf" else {"quantization_config": config(dequantize=True)}
