"""DFlash 2's grouped dynamic causal convolutions: neighbours in a block tell each other what they are about to say.

A tap has a learned gain per channel, and a correction per group of channels that depends on the row itself. Blocks
never mix: the rows before a block's first count as zero. Source: `dflash` 0.1.0, `GroupedDynamicCausalConv`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .config import DraftConfig


class BlockConvolution(nn.Module):
    """The two convolutions around one sublayer; both corrections are made from what enters it.

    ``base_kernel`` is ``[2, taps, H]``: index 0 before the sublayer, 1 after it; tap 0 is the row itself.
    """

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.taps, self.group = config.conv_kernel_size or 0, config.conv_group_size or 1
        groups = config.hidden_size // self.group
        self.base_kernel = nn.Parameter(torch.empty(2, self.taps, config.hidden_size))
        self.kernel_projection = nn.Linear(config.hidden_size, 2 * self.taps * groups, bias=False)
        self.reset_to_identity()

    @torch.no_grad()
    def reset_to_identity(self) -> None:
        """Let everything through unchanged: gain 1 on tap 0, 0 on the others, no correction."""
        self.base_kernel.zero_()
        self.base_kernel[:, 0] = 1.0
        self.kernel_projection.weight.zero_()

    def enter(self, hidden: Tensor, block_size: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Convolve what enters the sublayer.

        Args:
            hidden: ``[B, R, H]``; R is a multiple of ``block_size``.
            block_size: rows of a block.

        Returns:
            The same shape, and the function that convolves what leaves the sublayer.
        """
        blocks = _blocks(hidden, block_size)
        projected: Tensor = self.kernel_projection(hidden)
        before, after = _blocks(projected, block_size).unflatten(-1, (2, self.taps, -1)).unbind(-3)

        def leave(result: Tensor) -> Tensor:
            return convolve(_blocks(result, block_size), after, self.base_kernel[1], self.group).flatten(1, 2)

        return convolve(blocks, before, self.base_kernel[0], self.group).flatten(1, 2), leave


def convolve(blocks: Tensor, dynamic: Tensor, base: Tensor, group: int) -> Tensor:
    """Causal convolution inside each block.

    Args:
        blocks: ``[B, blocks, block, H]``.
        dynamic: ``[B, blocks, block, taps, H / group]``, added to the gains of each group.
        base: ``[taps, H]``, the gains.
        group: channels of a group.
    """
    output = torch.zeros_like(blocks)
    for tap in range(base.shape[0]):
        earlier = torch.roll(blocks, tap, dims=2) if tap else blocks
        if tap:
            earlier[:, :, :tap] = 0
        gains = base[tap].to(blocks.dtype) + dynamic[..., tap, :].repeat_interleave(group, dim=-1)
        output = output + gains * earlier
    return output


def _blocks(rows: Tensor, block_size: int) -> Tensor:
    blocks: Tensor = rows.unflatten(1, (-1, block_size))
    return blocks
