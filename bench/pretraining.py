"""How much of a pre-training step is the model's: a small BERT (4 layers x 256), masked words and sentence pairs.

python bench/pretraining.py ../shared/data/wikitext-2/wiki.valid.tokens
"""

from __future__ import annotations

import sys
import time

import torch

import glassformer
from glassformer.tasks.task import Task
from glassformer.train.batches import Batches
from glassformer.train.optimizer import AdamW
from glassformer.train.step import take_step

STEPS, TOKENS = 8, 2048
SHAPE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}


def measure(task: Task, rows: list, precision: torch.dtype | None) -> str:
    """CPU seconds to encode all rows, and to collate and train on a batch."""
    start = time.process_time()
    batches = Batches(task, rows, max_tokens=TOKENS)
    encoding = time.process_time() - start
    optimizer = AdamW(task.model.train().parameters(), lr=1e-4)
    collating = training = 0.0
    tokens = 0
    for number in range(STEPS + 1):
        start = time.process_time()
        batch = [batches.collate(numbers) for numbers in next(batches)]
        collated = time.process_time()
        trained_tokens = take_step(task, task.model, batch, optimizer, clip=1.0, precision=precision).tokens
        if number:  # the first step warms up
            collating += collated - start
            training += time.process_time() - collated
            tokens += trained_tokens
    total = collating + training
    return (
        f"{sum(batches.lengths) / encoding:>9,.0f} tokens/s encoded once, {1000 * collating / STEPS:5.1f} ms to "
        f"collate a batch, {1000 * training / STEPS:6.1f} ms to train: {training / total:.1%} is the model's, "
        f"{tokens / total:,.0f} tokens/s"
    )


def main() -> None:
    rows = list(glassformer.read_rows(sys.argv[1], format="txt"))
    tokenizer = glassformer.train_tokenizer(iter([row["text"] for row in rows]), "wordpiece", vocab_size=8000)
    config = glassformer.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **SHAPE)
    shared = {"document_start": "^ = [^=]", "mask_whole_words": True}
    for precision in (None, torch.bfloat16):
        words = glassformer.MaskedLanguageModeling(glassformer.BertForMaskedLM(config), tokenizer, **shared)
        pairs = glassformer.PreTraining(
            glassformer.BertForPreTraining(config), tokenizer, sentences="punctuation", **shared
        )
        for task in (words, pairs):
            print(f"{task.name:25} {'fp32' if precision is None else 'bf16'} {measure(task, rows, precision)}")


if __name__ == "__main__":
    main()
