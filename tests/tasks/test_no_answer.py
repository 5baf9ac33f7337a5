"""The figures of SQuAD 2.0 are those of its official formulas."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.tasks.metrics import answer_scores
from glassformer.tasks.no_answer import SpanPrediction, no_answer_scores

from ..parity.test_transformers4 import PEER

WORDS = ["The", "cat", "a", "Sat,", "sat", "on", "mats", "2008"]


def questions(seed: int) -> tuple[list[SpanPrediction], list[list[str]]]:
    """Random predictions, some of which are right, and references, some of which are empty."""
    rng = random.Random(seed)
    predictions, references = [], []
    for _ in range(60):
        correct = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 4))) for _ in range(rng.randrange(4))]
        span = rng.choice(correct) if correct and rng.random() < 0.5 else " ".join(rng.choices(WORDS, k=2))
        odds = round(rng.gauss(-1.0 if correct else 1.0, 2.0), 1)  # rounded, so that some are equal
        predictions.append(SpanPrediction("" if odds > 0 else span, span, odds))
        references.append(correct)
    return predictions, references


@pytest.mark.parametrize("seed", range(4))
def test_the_figures_are_those_of_the_official_formulas(seed, tmp_path):
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    predictions, references = questions(seed)
    answers, spans, odds = (list(values) for values in zip(*predictions, strict=True))
    file = tmp_path / "predictions.json"
    file.write_text(json.dumps({"answers": answers, "spans": spans, "odds": odds, "references": references}))
    script = Path(__file__).with_name("transformers4_squad.py")
    environment = {**os.environ, "PYTHONPATH": str(PEER)}
    run = subprocess.run([sys.executable, script, file], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    theirs = json.loads(run.stdout.splitlines()[-1])
    ours = no_answer_scores(predictions, references)
    overall = answer_scores(answers, references)
    assert theirs.pop("total") == 60
    assert 100 * overall["exact_match"] == pytest.approx(theirs.pop("exact"))
    assert 100 * overall["f1"] == pytest.approx(theirs.pop("f1"))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        scale = 1 if name.endswith(("total", "thresh")) else 100
        assert scale * ours[name] == pytest.approx(value), name


def test_every_threshold_is_tried():
    """The best threshold is the best of all, by applying each of them."""
    predictions, references = questions(9)
    predictions = [each._replace(no_answer_odds=each.no_answer_odds + 0.001 * i) for i, each in enumerate(predictions)]
    found = no_answer_scores(predictions, references)
    by_threshold = {}
    for threshold in (-100.0, *(each.no_answer_odds for each in predictions)):
        answers = ["" if each.no_answer_odds > threshold else each.span for each in predictions]
        by_threshold[threshold] = answer_scores(answers, references)
    for name, metric in (("exact", "exact_match"), ("f1", "f1")):
        assert found[f"best_{name}"] == pytest.approx(max(each[metric] for each in by_threshold.values()))
        assert by_threshold[found[f"best_{name}_thresh"]][metric] == pytest.approx(found[f"best_{name}"])


def test_questions_of_one_kind():
    sure = SpanPrediction("a cat", "a cat", -2.0)
    assert no_answer_scores([sure], [[]]) == {
        "NoAns_exact": 0.0,
        "NoAns_f1": 0.0,
        "NoAns_total": 1,
        "best_exact": 1.0,
        "best_exact_thresh": 0.0,
        "best_f1": 1.0,
        "best_f1_thresh": 0.0,
    }
    assert no_answer_scores([sure], [["the cat"]])["HasAns_exact"] == 1.0
