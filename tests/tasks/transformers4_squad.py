"""Run with transformers 4: its copy of SQuAD 2.0's official formulas, for predictions of a file.

python transformers4_squad.py PREDICTIONS.json
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from transformers.data.metrics.squad_metrics import squad_evaluate

given = json.loads(Path(sys.argv[1]).read_text())
examples = [
    SimpleNamespace(qas_id=number, answers=[{"text": text} for text in correct])
    for number, correct in enumerate(given["references"])
]
# What is left unanswered is decided before, so that the scores of the answers and the best thresholds are two calls.
answered = squad_evaluate(examples, dict(enumerate(given["answers"])))
by_odds = squad_evaluate(examples, dict(enumerate(given["spans"])), dict(enumerate(given["odds"])), float("inf"))
print(json.dumps({**answered, **{name: value for name, value in by_odds.items() if name.startswith("best_")}}))
