"""The progress of a training run, and its result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .step import StepResult

RESULT = "result.json"  # written last: the run of a folder that has it is finished
LOWER_IS_BETTER = ("loss", "perplexity")


@dataclass
class Progress:
    """The progress of a run: what its checkpoints store beside weights, data position and random states."""

    step: int = 0
    best: dict[str, Any] | None = None  # {"step", "name", "value", "metrics"}
    waited: int = 0  # evaluations since the best one, for early stopping
    seconds: float = 0.0  # spent on steps, without evaluation and saving
    tokens: int = 0
    since_log: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("loss", "targets", "skipped"), 0.0))
    objectives: dict[str, list[float]] = field(default_factory=dict)  # sum and count of each since the last log line

    def add(self, result: StepResult) -> None:
        """Add a step."""
        self.step += 1
        self.tokens += result.tokens
        self.since_log["loss"] += result.loss * result.targets
        self.since_log["targets"] += result.targets
        self.since_log["skipped"] += not result.updated
        for name, (total, count) in result.objectives.items():
            before = self.objectives.get(name, (0.0, 0))
            self.objectives[name] = [before[0] + total, before[1] + count]

    def reset_log(self) -> None:
        """Reset the sums for the next log line."""
        self.since_log, self.objectives = Progress().since_log, {}

    def add_evaluation(self, metrics: dict[str, float], name: str) -> bool:
        """Record an evaluation; returns whether it is the best so far, by the metric of this name."""
        value, sign = metrics[name], -1 if name in LOWER_IS_BETTER else 1
        if math.isnan(value) or (self.best is not None and sign * value <= sign * self.best["value"]):
            self.waited += 1
            return False
        self.best = {"step": self.step, "name": name, "value": value, "metrics": metrics}
        self.waited = 0
        return True


@dataclass(frozen=True)
class TrainResult:
    """The result of a run."""

    step: int
    total_steps: int
    stopped_by: str | None  # None: it ran to its end; "SIGTERM", "SIGINT", "SIGHUP", "early stopping"
    best: dict[str, Any] | None  # {"step", "name", "value", "metrics"}
    metrics: dict[str, float]  # of the final model, on the evaluation rows
    seconds: float  # spent on steps, including those before the run was resumed
    tokens: int  # that were trained on
    parameters: int
    trained_parameters: int
