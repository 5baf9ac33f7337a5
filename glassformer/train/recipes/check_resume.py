"""A check that a run resumes exactly: the same steps with and without an interruption, compared bit by bit."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..checkpoint import differing_weights, optimizer_tensors
from ..distributed import join_process_group
from ..setup import choose_device
from .build_trainer import build_trainer
from .recipe import Recipe

STEPS = 6


@dataclass(frozen=True)
class ResumeCheck:
    """The number of compared tensors, and those that differ: none, if resuming is exact."""

    steps: int
    resumed_at: int
    compared: int
    differing: list[str]  # on any rank


def check_resume(recipe: Recipe, steps: int = STEPS) -> ResumeCheck:
    """Train a few steps of a recipe twice, in a temporary folder, the second time from a checkpoint."""
    process_group = join_process_group(recipe.train.rank_timeout, choose_device(recipe.train.device))
    with tempfile.TemporaryDirectory(prefix="glassformer-check-") as temporary:
        folder = Path(process_group.gather(temporary)[0])  # all ranks read the main rank's folder
        short = {"max_steps": steps, "save_steps": steps // 2, "report": False, "save_total_limit": None}
        short |= {"load_best_model_at_end": False, "average_checkpoints": None}  # the last weights are compared
        reference = build_trainer(recipe.in_folder(folder / "uninterrupted", **short))
        reference.train()
        resumed = build_trainer(recipe.in_folder(folder / "resumed", **short))
        resumed.train(resume=folder / "uninterrupted" / f"checkpoint-{steps // 2}")
        differing = differing_weights(reference.model, resumed.model)
        expected, actual = optimizer_tensors(reference.optimizer), optimizer_tensors(resumed.optimizer)
        differing += [f"optimizer's {name}" for name in expected if not expected[name].equal(actual[name])]
        gathered = process_group.gather(differing)  # also waits until all ranks are done with the folder
        names = dict.fromkeys(name for each in gathered for name in each)
        return ResumeCheck(steps, steps // 2, len(reference.model.state_dict()) + len(expected), list(names))
