"""Trains a drafter for a frozen target on what that target said.

Everything drawn at a step depends on the seed and the step alone, so a run resumed from any saved state goes on as if
it had never stopped: bit for bit on a CPU. Under ``torchrun`` each process takes its own rows and gradients are
averaged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UsageError
from . import batches, checkpoint, objective
from .dataset import Dataset, check
from .model import DFlash
from .optimizers import Average, Optimizer
from .packing import Packer
from .settings import TrainSettings
from .target import Target

STATE = "training.pt"
_CALIBRATED = (15, 45)
"""Steps over which the pace is measured: after compilation."""


@dataclass(frozen=True)
class Progress:
    """What a step was like.

    Attributes:
        step: steps done.
        steps: steps in all.
        loss: mean since the last report.
        eal: expected acceptance length on the training blocks since the last report: an estimate of τ.
        held_out: the same on held-out rows with the averaged weights, where it was measured just now.
        tokens_per_second: context tokens, over all processes.
        epoch: passes over the data that are over.
    """

    step: int
    steps: int
    loss: float
    eal: float
    held_out: float | None
    tokens_per_second: float
    epoch: int


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class World:
    """The processes that train together.

    Attributes:
        rank: this one, from 0.
        size: how many.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> World:
        """The world that ``torchrun`` (or ``accelerate launch``) set up; alone where none did."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(int(os.environ["RANK"]), size)

    def average(self, tensors: list[Tensor]) -> None:
        """Replace each by its mean over the processes."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        torch.distributed.all_reduce(flat)
        flat /= self.size
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))


class Trainer:
    """One run over ``dataset``; ``directory`` keeps its resumable state."""

    def __init__(
        self,
        drafter: DFlash,
        target: Target,
        dataset: Dataset,
        settings: TrainSettings,
        directory: Path,
        *,
        digest: str,
    ) -> None:
        """Check the data and set everything up.

        Args:
            drafter: to be trained, in fp32 on the target's device.
            target: with the drafter's layers tapped.
            dataset: what the target said.
            settings: of this run.
            directory: for the resumable state.
            digest: of the target's weights.

        Raises:
            InvalidDataset: a row cannot be used, or another target wrote the data.
        """
        check(dataset, vocabulary=target.vocab_size, target=digest, mask_token=drafter.config.mask_token_id)
        self.drafter, self.target, self.settings = drafter.train(), target, settings
        drafter.gradient_checkpointing = settings.gradient_checkpointing
        self._file, self._device = directory / STATE, target.device
        if settings.compile:
            _compile([*target.layers, *drafter.layers])
        self._world = World.join(target.device)
        self._rows = Packer(dataset.split("train"), width=settings.width, joined=settings.joined, seed=settings.seed)
        held_out = dataset.split("held_out")
        self._held_out = Packer(held_out, width=settings.width, joined=0.0, seed=0) if held_out else None
        self._optimizer = Optimizer(drafter, settings.optimizer)
        self._average = Average(drafter, settings.optimizer.ema)
        self.step, self.steps = 0, settings.steps
        self._binding = {"target": digest, "data": dataset.manifest.get("sha256"), "settings": settings.emit()}

    def run(self, report: Report = lambda _: None, *, until: int | None = None, every: int = 10) -> None:
        """Train to the last step, or ``until`` one; the drafter then holds the averaged weights if it is the last.

        Args:
            report: hears how it goes, every ``every`` steps and after each measurement on held-out rows.
            until: stop after this step and save.
            every: steps between reports.
        """
        last = self._last(until)
        sums, begun, counted = torch.zeros(2, device=self._device), time.monotonic(), 0
        while self.step < last:
            if self.settings.steps == 0 and self.step == _CALIBRATED[0]:
                self._synchronise()
                mark = time.monotonic()
            sums += self._advance()
            counted += 1
            if self.settings.steps == 0 and self.step == _CALIBRATED[1]:
                self._synchronise()
                self._fit(time.monotonic() - mark)
                last = self._last(until)
            measuring = self.settings.validate_every and self.step % self.settings.validate_every == 0
            if self.step % every == 0 or measuring or self.step == last:
                held_out = self.validate() if measuring or self.step == last else None
                loss, eal = (sums / counted).tolist()
                tokens = counted * self.settings.rows * self.settings.width * self._world.size
                pace = tokens / max(time.monotonic() - begun, 1e-9)
                epoch = self._rows.epoch(self.step * self.settings.rows * self._world.size)
                report(Progress(self.step, self.steps, loss, eal, held_out, pace, epoch))
                sums.zero_()
                begun, counted = time.monotonic(), 0
            if self.settings.save_every and self.step % self.settings.save_every == 0:
                self.save()
        self.save()
        if self.finished:
            self._average.swap()
            self.drafter.eval()

    @property
    def finished(self) -> bool:
        """Whether the last step is done: the drafter then holds the averaged weights."""
        return 0 < self.steps <= self.step

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files."""
        return self._world.rank == 0

    def _last(self, until: int | None) -> int:
        """The step to stop after. While the pace is not known, that is the one that it is known after."""
        steps = self.steps or _CALIBRATED[1]
        return steps if until is None else min(steps, until)

    def _fit(self, seconds: float) -> None:
        """As many steps as ``minutes`` allow at this pace."""
        pace = seconds / (_CALIBRATED[1] - _CALIBRATED[0])
        self.steps = max(self.step, round(self.settings.minutes * 60 / pace))
        if self._world.size > 1:
            agreed = torch.tensor([float(self.steps)], device=self._device)
            self._world.average([agreed])
            self.steps = int(agreed)

    def _advance(self) -> Tensor:
        """One step: loss and eal, on the device."""
        result = objective.measure(self.drafter, self.target, self._batch(self.step), self.settings)
        torch.autograd.backward(result.loss)
        numbers = torch.stack([result.loss.detach().float(), result.eal.float()])
        self._world.average([p.grad for p in self.drafter.parameters() if p.grad is not None])
        self._optimizer.step(self.step, self.steps or 10_000)
        self._average.update(self.step)
        self.step += 1
        return numbers

    def _batch(self, step: int) -> batches.Batch:
        settings, world = self.settings, self._world
        packed = self._rows.batch((step * world.size + world.rank) * settings.rows, settings.rows)
        random = np.random.default_rng((settings.seed, 2, step, world.rank))
        size = self.drafter.config.block_size
        return batches.batch(packed, count=settings.anchors, size=size, random=random, device=self._device)

    @torch.no_grad()
    def validate(self) -> float | None:
        """Expected acceptance length of the averaged weights on one batch of held-out rows, the same each time."""
        if self._held_out is None:
            return None
        packed = self._held_out.batch(0, self.settings.rows)
        size = self.drafter.config.block_size
        drawn = batches.batch(
            packed, count=self.settings.anchors, size=size, random=np.random.default_rng(0), device=self._device
        )
        self._average.swap()
        try:
            return float(objective.measure(self.drafter, self.target, drawn, self.settings).eal)
        finally:
            self._average.swap()

    def save(self) -> None:
        """Write the resumable state, whole or not at all."""
        if not self.leads:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "binding": self._binding,
            "step": self.step,
            "steps": self.steps,
            "weights": self.drafter.state_dict(),
            "optimizer": self._optimizer.state(),
            "average": self._average.state(),
        }
        part = self._file.with_suffix(".part")
        torch.save(state, part)
        part.replace(self._file)

    def resume(self) -> bool:
        """Go on from the saved state; False where there is none.

        Raises:
            UsageError: it belongs to another target, other data or other settings.
        """
        if not self._file.exists():
            return False
        state: dict[str, Any] = torch.load(self._file, map_location=self._device, weights_only=True)
        for what, mine in self._binding.items():
            if _plain(state["binding"][what]) != _plain(mine):
                raise UsageError(
                    f"The saved state in {self._file.parent} belongs to other {what}",
                    remedy="Train without --resume, or elsewhere.",
                )
        self.step, self.steps = state["step"], state["steps"]
        self.drafter.load_state_dict(state["weights"])
        self._optimizer.load(state["optimizer"])
        self._average.load(state["average"])
        return True

    def _synchronise(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def _compile(layers: list[torch.nn.Module]) -> None:
    """Compile each layer's forward; layers of one kind share the result. What cannot be compiled runs as it is."""
    import torch._dynamo

    torch._dynamo.config.suppress_errors = True
    for layer in layers:
        layer.forward = torch.compile(layer.forward, dynamic=False)


def _plain(value: Any) -> Any:
    """Tuples as lists, so that what was stored compares equal."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def fresh(settings: TrainSettings, target: Target) -> DFlash:
    """A drafter with random weights, by the settings' seed; the target's taps are set for it."""
    from .shaping import shape

    config = shape(settings.shape, target)
    target.tap(config.target_layer_ids)
    torch.manual_seed(settings.seed)
    return DFlash(config).to(target.device, torch.float32)


def warm(directory: Path, target: Target) -> DFlash:
    """A trained drafter to go on from, in fp32; the target's taps are set for it."""
    drafter = checkpoint.load(directory, dtype=torch.float32, device=target.device)
    target.tap(drafter.config.target_layer_ids)
    return drafter
