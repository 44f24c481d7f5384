"""Which parameter is moved by what: Muon for the matrices, AdamW for the rest; and the running average of all of them.

Parameters are fp32 masters; the forward pass is autocast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .schedules import Schedule, factor


@dataclass(frozen=True)
class OptimizerSettings:
    """How weights are moved.

    Attributes:
        name: ``muon`` (torch.optim.Muon for matrices inside the layers and ``fc``, AdamW for norms, convolutions and
            codebooks) or ``adamw`` for everything.
        lr: base rate of AdamW; 6e-4 as in the paper from scratch, 1e-5 to 1e-4 for a trained drafter.
        muon_lr: base rate of Muon, for updates of AdamW's size (``match_rms_adamw``).
        weight_decay: of Muon; AdamW has a tenth of it.
        betas: of AdamW.
        momentum: of Muon.
        clip: largest norm of all gradients together; 0 for none.
        schedule: ``cosine``, ``wsd`` or ``constant``.
        warmup: share of the steps.
        decay: share of the steps over which ``wsd`` falls.
        floor: last factor of the rate.
        ema: decay of the running average of the weights that is saved and measured; 0 for none.
    """

    name: Literal["muon", "adamw"] = "muon"
    lr: float = 6e-4
    muon_lr: float = 2e-3
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    momentum: float = 0.95
    clip: float = 1.0
    schedule: Schedule = "cosine"
    warmup: float = 0.04
    decay: float = 0.2
    floor: float = 0.02
    ema: float = 0.999


class Optimizer:
    """The optimizers of one module, stepped together."""

    def __init__(self, module: nn.Module, settings: OptimizerSettings) -> None:
        self._settings = settings
        matrices: list[nn.Parameter] = []
        rest: list[nn.Parameter] = []
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            by_muon = settings.name == "muon" and parameter.ndim == 2 and "codebook" not in name
            (matrices if by_muon else rest).append(parameter)
        self._parameters = matrices + rest
        fused = all(p.is_cuda for p in rest)
        adamw = torch.optim.AdamW(
            rest, lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay / 10, fused=fused
        )
        self._all: list[torch.optim.Optimizer] = [adamw]
        if matrices:
            muon = torch.optim.Muon(
                matrices,
                lr=settings.muon_lr,
                weight_decay=settings.weight_decay,
                momentum=settings.momentum,
                adjust_lr_fn="match_rms_adamw",
            )
            self._all.append(muon)
        self._base = [settings.lr, settings.muon_lr]

    def step(self, step: int, steps: int) -> Tensor:
        """Move the weights by their gradients at ``step`` (from 0) of ``steps``; the norm of the gradients."""
        settings = self._settings
        scale = factor(
            settings.schedule, step, steps, warmup=settings.warmup, decay=settings.decay, floor=settings.floor
        )
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, settings.clip or float("inf"))
        for optimizer, base in zip(self._all, self._base, strict=False):
            for group in optimizer.param_groups:
                group["lr"] = base * scale
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return norm

    def state(self) -> list[dict[str, Any]]:
        """All of it, for :meth:`load`."""
        return [optimizer.state_dict() for optimizer in self._all]

    def load(self, state: list[dict[str, Any]]) -> None:
        """Go on from :meth:`state`."""
        for optimizer, part in zip(self._all, state, strict=True):
            optimizer.load_state_dict(part)


class Average:
    """A running average of a module's weights; early on it follows them faster, so that the start is forgotten."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._decay = decay
        self._live = [p for p in module.parameters() if p.requires_grad]
        self._mean = [p.detach().clone() for p in self._live]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after ``step`` (from 0)."""
        if self._decay:
            decay = min(self._decay, (step + 1) / (step + 10))
            torch._foreach_lerp_(self._mean, [p.detach() for p in self._live], 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights and their average; a second call undoes it."""
        if self._decay:
            for live, mean in zip(self._live, self._mean, strict=True):
                kept = live.detach().clone()
                live.copy_(mean)
                mean.copy_(kept)

    def state(self) -> list[Tensor]:
        """All of it, for :meth:`load`."""
        return self._mean

    def load(self, state: list[Tensor]) -> None:
        """Go on from :meth:`state`."""
        for mean, value in zip(self._mean, state, strict=True):
            mean.copy_(value)
