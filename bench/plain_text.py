"""How much of a pre-training step is the model's: a small BERT (4 layers x 256) on plain text, hidden words and pairs.

python bench/plain_text.py ../shared/data/wikitext-2/wiki.valid.tokens
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
    """Seconds of the processor for reading all rows, and for making and learning from a batch."""
    began = time.process_time()
    batches = Batches(task, rows, max_tokens=TOKENS)
    encoding = time.process_time() - began
    optimizer = AdamW(task.model.train().parameters(), lr=1e-4)
    making = learning = 0.0
    tokens = 0
    for number in range(STEPS + 1):
        began = time.process_time()
        made = [batches.collate(numbers) for numbers in next(batches)]
        between = time.process_time()
        read = take_step(task, task.model, made, optimizer, clip=1.0, precision=precision).tokens
        if number:  # the first step warms up
            making += between - began
            learning += time.process_time() - between
            tokens += read
    whole = making + learning
    return (
        f"{sum(batches.lengths) / encoding:>9,.0f} tokens/s encoded once, {1000 * making / STEPS:5.1f} ms to make a "
        f"batch, {1000 * learning / STEPS:6.1f} ms to learn from it: {learning / whole:.1%} is the model's, "
        f"{tokens / whole:,.0f} tokens/s"
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
