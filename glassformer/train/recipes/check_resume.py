"""A proof that a run goes on exactly: the same steps once without a break and once with one, compared bit by bit."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..checkpoint import differing_weights, optimizer_tensors
from ..distributed import join_ranks
from ..setup import choose_device
from .build import build
from .recipe import Recipe

STEPS = 6


@dataclass(frozen=True)
class Proof:
    """What was compared, and what differs: nothing, if resuming is exact."""

    steps: int
    broken_at: int
    compared: int
    differing: list[str]  # in all ranks together


def check_resume(recipe: Recipe, steps: int = STEPS) -> Proof:
    """Train a few steps of a recipe twice, in a folder that is removed, the second time from a checkpoint."""
    ranks = join_ranks(recipe.train.rank_timeout, choose_device(recipe.train.device))
    with tempfile.TemporaryDirectory(prefix="glassformer-check-") as own:
        folder = ranks.gather(own)[0]  # all ranks read what the first one writes
        short = {"max_steps": steps, "save_steps": steps // 2, "report": False, "save_total_limit": None}
        short |= {"load_best_model_at_end": False, "average_checkpoints": None}  # the last weights are compared
        whole = build(recipe.in_folder(Path(folder) / "whole", **short))
        whole.train()
        broken = build(recipe.in_folder(Path(folder) / "broken", **short))
        broken.train(resume=Path(folder) / "whole" / f"checkpoint-{steps // 2}")
        differing = differing_weights(whole.model, broken.model)
        mine, theirs = optimizer_tensors(whole.optimizer), optimizer_tensors(broken.optimizer)
        differing += [f"optimizer's {name}" for name in mine if not mine[name].equal(theirs[name])]
        everywhere = dict.fromkeys(name for names in ranks.gather(differing) for name in names)  # and all are done
        return Proof(steps, steps // 2, len(whole.model.state_dict()) + len(mine), list(everywhere))
