"""What the training tests share: tiny tasks of every kind, and rows for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import glassformer
from glassformer.tasks.task import Task

from ..models.architectures import tiny_bert
from ..tasks.tiny import VOCAB

ROWS = [
    {"text": "the cat sat on the mat", "label": 0},
    {"text": "a good film", "label": 1},
    {"text": "so bad", "label": 0},
    {"text": "john smith lives in new york and is playing in the park today .", "label": 1},
    {"text": "the dog was in the park", "label": 0},
    {"text": "it is very good !", "label": 1},
    {"text": "not so good", "label": 0},
    {"text": "music", "label": 1},
    {"text": "what is the film ? where is it ?", "label": 0},
    {"text": "who works for acme in london", "label": 1},
]
TEXTS = [{"text": row["text"]} for row in ROWS]
MASKED = [
    {"text": "the [MASK] sat on the mat", "words": ["cat"]},
    {"text": "a [MASK] film [MASK]", "words": ["good", "!"]},
    {"text": "so [MASK]", "words": ["bad"]},
    {"text": "the dog [MASK] in the park", "words": ["was"]},
    {"text": "[MASK] smith [MASK] in new [MASK]", "words": ["john", "lives", "york"]},
]

TAGGED = [
    {"tokens": ["john", "smith", "lives", "in", "london", "."], "tags": ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]},
    {"tokens": ["the", "unaffable", "cat"], "tags": ["O", "O", "O"]},
    {"tokens": ["acme", "works", "in", "new", "york"], "tags": ["B-LOC", "O", "O", "B-LOC", "I-LOC"]},
    {"tokens": ["new", "york"], "tags": ["B-LOC", "I-LOC"]},
    {"tokens": ["who", "is", "john"], "tags": ["O", "O", "B-PER"]},
]


def tokenizer(folder: Path) -> glassformer.BertTokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    return glassformer.BertTokenizer.from_pretrained(folder, model_max_length=40)


def gpt2(**fields: Any) -> glassformer.GPT2Config:
    shape = {"vocab_size": len(VOCAB), "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}
    return glassformer.GPT2Config(**{**shape, **fields})


def bert(**fields: Any) -> glassformer.BertConfig:
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    return tiny_bert(**{"vocab_size": len(VOCAB), "initializer_range": 0.1, **shape, **fields})


def classifier(folder: Path, seed: int = 0, **fields: Any) -> Task:
    torch.manual_seed(seed)
    model = glassformer.BertForSequenceClassification(bert(**fields))
    return glassformer.TextClassification(model, tokenizer(folder))


def tagger(folder: Path, seed: int = 0, **fields: Any) -> Task:
    torch.manual_seed(seed)
    names = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))
    model = glassformer.BertForTokenClassification(bert(id2label=names, crf=True, **fields))
    return glassformer.TokenClassification(model, tokenizer(folder))


def filler(folder: Path, **fields: Any) -> Task:
    torch.manual_seed(0)
    return glassformer.FillMask(glassformer.BertForMaskedLM(bert(**fields)), tokenizer(folder))


def writer(folder: Path, **fields: Any) -> Task:
    torch.manual_seed(0)
    return glassformer.TextGeneration(glassformer.GPT2LMHeadModel(gpt2(**fields)), tokenizer(folder))


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def weights(task: Task) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in task.trainable.state_dict().items()}


def same(mine: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of weights are equal bit for bit."""
    return mine.keys() == right.keys() and all(torch.equal(mine[name], right[name]) for name in right)
