"""Models small enough that a case takes milliseconds."""

from __future__ import annotations

from pathlib import Path

import torch

from glassformer import BertConfig, BertForSequenceClassification, BertTokenizer

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] low ##er new high a b c".split()
SHAPE = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}


def small_classifier(folder: Path, seed: int = 0, labels: tuple[str, ...] = ("good", "bad")) -> None:
    """A folder with a classifier and its tokenizer."""
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=16, id2label=dict(enumerate(labels)), **SHAPE)
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}).save_pretrained(folder)
