"""How far a run has come, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .step import StepResult

RESULT = "result.json"  # written last: a folder that has it is done
LOWER_IS_BETTER = ("loss", "perplexity")


@dataclass
class Progress:
    """How far a run has come: all that its checkpoints remember beside weights and generators."""

    step: int = 0
    best: dict[str, Any] | None = None  # {"step", "name", "value", "metrics"}
    waited: int = 0  # evaluations since the best one
    seconds: float = 0.0  # spent on steps, without evaluation and saving
    tokens: int = 0
    since_log: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("loss", "targets", "skipped"), 0.0))
    objectives: dict[str, list[float]] = field(default_factory=dict)  # since the last line: of each its sum and count

    def count(self, result: StepResult) -> None:
        """Add a step."""
        self.step += 1
        self.tokens += result.tokens
        self.since_log["loss"] += result.loss * result.targets
        self.since_log["targets"] += result.targets
        self.since_log["skipped"] += not result.updated
        for name, (total, count) in result.objectives.items():
            before = self.objectives.get(name, (0.0, 0))
            self.objectives[name] = [before[0] + total, before[1] + count]

    def logged(self) -> None:
        """Begin to count anew what the next line of the log reports."""
        self.since_log, self.objectives = Progress().since_log, {}

    def judge(self, metrics: dict[str, float], name: str) -> bool:
        """Remember an evaluation; whether it is the best so far, by the metric of this name."""
        value, sign = metrics[name], -1 if name in LOWER_IS_BETTER else 1
        if math.isnan(value) or (self.best is not None and sign * value <= sign * self.best["value"]):
            self.waited += 1
            return False
        self.best = {"step": self.step, "name": name, "value": value, "metrics": metrics}
        self.waited = 0
        return True


@dataclass(frozen=True)
class TrainResult:
    """How a run ended."""

    step: int
    total_steps: int
    stopped_by: str | None  # None: it came to its end; "SIGTERM", "SIGINT", "early stopping"
    best: dict[str, Any] | None  # {"step", "name", "value", "metrics"}
    metrics: dict[str, float]  # of the model that was kept, on the evaluation rows
    seconds: float  # spent on steps, also before a break
    tokens: int  # that were learnt from
    parameters: int
    trained_parameters: int
