"""Where training tells its numbers beside the terminal: TensorBoard, Weights & Biases. Both are optional packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import MachineFault
from .training import Progress


@contextmanager
def track(tensorboard: Path | None, wandb: str | None) -> Iterator[Callable[[Progress], None]]:
    """A function that tells every tracker asked for; ``wandb`` is a project.

    Raises:
        MachineFault: the package of one is not installed.
    """
    sinks: list[Callable[[int, dict[str, float]], None]] = []
    with ExitStack() as stack:
        if tensorboard is not None:
            writer = _module("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(tensorboard))
            stack.callback(writer.close)

            def chart(step: int, values: dict[str, float]) -> None:
                for name, value in values.items():
                    writer.add_scalar(f"training/{name}", value, step)

            sinks.append(chart)
        if wandb is not None:
            run = _module("wandb", "wandb").init(project=wandb)
            stack.callback(run.finish)
            sinks.append(lambda step, values: run.log(values, step=step))

        def tell(progress: Progress) -> None:
            values = {"loss": progress.loss, "eal": progress.eal, "tokens_per_second": progress.tokens_per_second}
            if progress.held_out is not None:
                values["held_out_eal"] = progress.held_out
            for sink in sinks:
                sink(progress.step, values)

        yield tell


def _module(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MachineFault(f"{package} is not installed", remedy=f"pip install {package}") from None
