"""Rotary positions and RMS norms, in fp32 whatever the dtype around them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import DraftConfig


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension; computed in fp32, returned in the input's dtype."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """Norm ``[..., width]``."""
        return rms_norm(hidden, self.weight, self.eps).to(hidden.dtype)


def rms_norm(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm over the last dimension, fp32 out."""
    wide = hidden.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn ``[..., d]`` by the angles ``[..., d/2]``, rotate-half ("neox") style: i pairs with i + d/2."""
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def norm_rotate(heads: Tensor, weight: Tensor, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    """Norm each head, then turn it; one rounding to the input's dtype at the end."""
    return rotate(rms_norm(heads, weight, eps), cos, sin).to(heads.dtype)


class Rotary(nn.Module):
    """Positions → cosines and sines, with the frequencies of the drafter's config.

    The frequencies are fp32 and stay so when the module is cast: a bf16 frequency is wrong by a whole turn after a few
    hundred tokens.
    """

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        with torch.device("cpu"):  # real numbers also where the weights are only being shaped ("meta")
            self._frequencies, self._factor = frequencies(config)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """``[B, S]`` → two fp32 ``[B, S, d/2]``."""
        if self._frequencies.device != positions.device:
            self._frequencies = self._frequencies.to(positions.device)
        angles = positions.float().unsqueeze(-1) * self._frequencies
        return angles.cos() * self._factor, angles.sin() * self._factor


def frequencies(config: DraftConfig) -> tuple[Tensor, float]:
    """The ``d/2`` angles per position, fp32, and the factor of cosine and sine (YaRN's attention scaling)."""
    if not config.rope_scaling:
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        return config.rope_theta**-steps, 1.0
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    known = Qwen3Config(
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_attention_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.max_position_embeddings,
        rope_parameters={"rope_theta": config.rope_theta, **config.rope_scaling},
    )
    rotary = Qwen3RotaryEmbedding(known)
    return rotary.inv_freq.float().cpu(), float(rotary.attention_scaling)
