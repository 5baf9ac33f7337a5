"""The log of a run: a bar in a terminal, plain lines elsewhere, JSON lines and TensorBoard events in files."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...checkpoints.files import reason_of, write_atomically
from ...errors import CheckpointError, InputError
from ..result import Progress

if TYPE_CHECKING:
    from ..step import StepResult

LOG = "log.jsonl"
PRINTED_NAMES = {"padding": "padding skipped"}  # of what the file calls otherwise


class RunLog:
    """The lines of a run's log: written to a file, printed, and sent to TensorBoard if that is requested."""

    def __init__(
        self,
        folder: Path,
        total: int,
        *,
        writes: bool,
        tensorboard: bool = False,
        restore: Callable[[], None] | None = None,  # called before a line is written, if the folder may be gone
    ) -> None:
        self.restore = restore
        self.path, self.total, self.writes = folder / LOG, total, writes
        self.bar = Bar(total) if writes and sys.stderr.isatty() else None
        self.tensorboard = writes and tensorboard
        self.events: Any = None
        self.began, self.first = time.monotonic(), 0
        self.since, self.tokens = time.monotonic(), 0
        self.last_step = self.since  # when it ended

    def resume_from(self, step: int) -> None:
        """Remove the lines of steps that will be repeated."""
        self.first = step
        if self.tensorboard:
            self.events = open_events(self.path.parent, step + 1)
        if self.writes and self.path.exists():
            lines = [json.dumps(line) + "\n" for line in read_log(self.path) if line.get("step", 0) <= step]
            write_atomically(self.path, "".join(lines))

    def add(self, line: Mapping[str, Any]) -> None:
        """Write a line and print it."""
        if not self.writes:
            return
        if self.restore is not None:
            self.restore()
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise CheckpointError(f"could not write {self.path}: {reason_of(error)}") from error
        if self.events is not None:
            for name, value in line.items():
                if isinstance(value, int | float) and name != "step":
                    self.events.add_scalar(name, value, line["step"])
        self.show(self.format_line(line))
        if "tokens_per_second" not in line:  # the time of an evaluation does not count for the speed
            self.since += time.monotonic() - self.last_step

    def show(self, text: str) -> None:
        if not self.writes:
            return
        with contextlib.suppress(OSError):  # a terminal that was closed must not end the run
            if self.bar is not None:
                self.bar.show(text)
            else:
                print(text, file=sys.stderr, flush=True)

    def count_step(self, step: int, result: StepResult, rate: float) -> None:
        """Count the tokens of a step, and update the bar in a terminal."""
        self.tokens += result.tokens
        self.last_step = time.monotonic()
        if self.bar is not None:
            speed = f"{self.speed:,.0f} tokens/s, {result.padding:.0%} padding skipped"
            with contextlib.suppress(OSError):
                self.bar.update(step, f"loss {result.loss:.4f}, rate {rate:.2g}, {speed}")

    @property
    def speed(self) -> float:
        """Tokens per second since the last line."""
        return self.tokens / max(time.monotonic() - self.since, 1e-9)

    def log_steps(self, progress: Progress, result: StepResult, rate: float, epoch: float) -> None:
        """Add a line about all steps since the last one."""
        loss, targets, skipped = (progress.since_log[name] for name in ("loss", "targets", "skipped"))
        line = {
            "step": progress.step,
            "epoch": round(epoch, 4),
            "loss": loss / targets if targets else 0.0,
            **objective_means(progress.objectives),
            "grad_norm": result.grad_norm,
            "learning_rate": rate,
            "tokens_per_second": self.speed,
            "padding": result.padding,
        }
        self.add({**line, "skipped": int(skipped)} if skipped else line)
        self.since, self.tokens = time.monotonic(), 0

    def format_line(self, line: Mapping[str, Any]) -> str:
        step = line["step"]
        parts = [f"step {step:,} of {self.total:,}"]
        named = {PRINTED_NAMES.get(name, name): value for name, value in line.items() if name not in ("step", "time")}
        parts += [f"{name} {format_value(value)}" for name, value in named.items()]
        if "tokens_per_second" in line and step > self.first:
            left = (time.monotonic() - self.began) / (step - self.first) * (self.total - step)
            parts.append(f"{duration(left)} left")
        return ", ".join(parts)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        if self.events is not None:
            self.events.close()


def objective_means(objectives: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean of each objective if there are several; a single one is the loss itself.

    >>> objective_means({"masked_lm": (6.0, 2), "next_sentence": (1.0, 4)})
    {'masked_lm_loss': 3.0, 'next_sentence_loss': 0.25}
    """
    if len(objectives) == 1:
        return {}
    return {f"{name}_loss": total / count for name, (total, count) in objectives.items() if count}


class Bar:
    """Progress as a bar with its times, what the last step did below it, and lines above it."""

    def __init__(self, total: int) -> None:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        times = (TimeElapsedColumn(), TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("left"))
        columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps,"), *times)
        self.bar, self.status = Progress(*columns), Text()
        self.bar_id = self.bar.add_task("training", total=total)
        console = Console(stderr=True, highlight=False)
        self.live = Live(Group(self.bar, self.status), console=console, transient=True)
        self.live.start()

    def update(self, step: int, text: str) -> None:
        self.bar.update(self.bar_id, completed=step)
        self.status.plain = text

    def show(self, text: str) -> None:
        self.live.console.print(text, markup=False)

    def close(self) -> None:
        self.live.stop()


def open_events(folder: Path, first: int) -> Any:
    """TensorBoard's event writer, which discards older events of steps from `first` on."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("tensorboard needs its package: pip install 'glassformer[tensorboard]'") from None
    return SummaryWriter(os.fspath(folder / "tensorboard"), purge_step=first)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, without an incomplete one that a killed run left at the end."""
    lines = []
    with open(path, encoding="utf-8") as file:
        for text in file:
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:
                if text.endswith("\n"):
                    raise CheckpointError(f"{path} holds a line that is not JSON: {text[:80]!r}") from None
    return lines


def format_value(value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return f"{value:.4f}" if 0.001 <= abs(value) < 1000 else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A duration in readable units.

    >>> duration(42), duration(600), duration(7260)
    ('42 s', '10 min', '2 h 1 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
