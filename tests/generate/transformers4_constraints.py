"""Run with transformers 4: what its GPT-2 generates with forced words, as published and with two bugs fixed.

python transformers4_constraints.py SETTINGS.json OUTPUT.json
"""

import functools
import json
import sys

import torch
import transformers
from transformers.generation.beam_constraints import DisjunctiveConstraint
from transformers.generation.beam_search import ConstrainedBeamSearchScorer

torch.set_num_threads(1)


class LowerRanked(float):
    """A score below every plain score."""

    def __lt__(self, other):
        return float(self) < float(other) if isinstance(other, LowerRanked) else True

    def __gt__(self, other):
        return float(self) > float(other) if isinstance(other, LowerRanked) else False


def fix_bugs() -> None:
    """Copies share no list, and a sequence without the words never displaces one that has them."""
    copy, finalize = DisjunctiveConstraint.copy, ConstrainedBeamSearchScorer.finalize

    def copy_separately(self, stateful=False):
        other = copy(self, stateful)
        other.current_seq = list(other.current_seq)
        return other

    def finalize_in_order(self, *arguments, **named):
        for hypotheses in self._beam_hyps:

            def add(tokens, total, hypotheses=hypotheses):
                score = total / len(tokens) ** hypotheses.length_penalty
                complete = self.check_completes_constraints(tokens.tolist())
                hypotheses.beams.append((score if complete else LowerRanked(score), tokens, None))

            hypotheses.add = add
        return finalize(self, *arguments, **named)

    DisjunctiveConstraint.copy = copy_separately
    ConstrainedBeamSearchScorer.finalize = finalize_in_order


@functools.cache
def load(folder: str) -> transformers.GPT2LMHeadModel:
    return transformers.GPT2LMHeadModel.from_pretrained(folder).eval()


def run(folder: str, prompts: list, **settings) -> tuple[list, list]:
    ids = torch.tensor(prompts)
    wanted = {"return_dict_in_generate": True, "output_scores": True}
    out = load(folder).generate(ids, attention_mask=torch.ones_like(ids), **wanted, **settings)
    return out.sequences.tolist(), out.sequences_scores.tolist()


inputs, outputs = sys.argv[1:]
with open(inputs) as file:
    cases = json.load(file)
results = {"version": transformers.__version__, "published": [run(**case) for case in cases]}
fix_bugs()
results["fixed"] = [run(**case) for case in cases]
with open(outputs, "w") as file:
    json.dump(results, file)
