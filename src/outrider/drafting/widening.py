"""A DFlash 2 that starts as a DFlash: its outputs are equal until the first step of training."""

from __future__ import annotations

import copy
from dataclasses import replace

from ..errors import InvalidDrafter
from .model import DFlash


def widen(drafter: DFlash, *, taps: int = 2, group: int = 16, rank: int = 256, top_k: int = 16) -> DFlash:
    """A DFlash 2 with the weights of ``drafter``, convolutions that change nothing and a selector that adds nothing.

    Args:
        drafter: a DFlash; left as it is.
        taps: rows that a convolution sees, itself included.
        group: channels that share a dynamic correction.
        rank: width of the selector's codebooks; each weighs ``vocab_size · rank``.
        top_k: candidates per slot.

    Raises:
        InvalidDrafter: it is a DFlash 2 already, or ``group`` does not divide its width.
    """
    if drafter.config.is_dflash2:
        raise InvalidDrafter("Only a DFlash can become a DFlash 2", why="this one is a DFlash 2 already")
    config = replace(
        drafter.config, conv_kernel_size=taps, conv_group_size=group, selector_rank=rank, selector_top_k=top_k
    )
    weight = drafter.fc.weight
    wide = DFlash(config).to(device=weight.device, dtype=weight.dtype)
    missing, unexpected = wide.load_state_dict(copy.deepcopy(drafter.state_dict()), strict=False)
    fresh = ("attention_conv.", "mlp_conv.", "candidate_selector.")
    assert not unexpected and all(any(part in name for part in fresh) for name in missing)
    return wide.train(drafter.training)
