"""Pipelines of every task, called with rows, options and settings that do not fit: an answer, or an error of ours."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

import glassformer
from glassformer.errors import GlassformerError
from glassformer.tasks.pipeline import Pipeline

from ..tasks.tiny import VOCAB
from ..train.small import bert, gpt2, tokenizer
from .case import Case
from .json_mutations import VALUES, hostile

NAME = "pipelines"
TEXTS = [
    *("so good", "John Smith lives in New York .", "", " ", "\n", "\0", "\ud800", "😀" * 30, "[MASK] [MASK]", "[SEP]"),
    *("the [MASK] sat", "a" * 500, "the " * 200, "北京天安门", "\u202eabc\u200d", "[CLS] the [PAD]", "e\u0301" * 40),
]
OTHERS: list[Any] = [*VALUES, b"bytes", object, object(), torch.ones(2), {1, 2}, range(2), Path("missing.txt")]
COLUMNS = (
    "text",
    "text_pair",
    "question",
    "context",
    "tokens",
    "choices",
    "first",
    "second",
    "sentence1",
    "label",
    "x",
)


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    pipes = [glassformer.pipeline(task, trained(model), tokenizer(folder)) for task, model in models(rng)]
    while True:
        pipe = rng.choice(pipes)
        rows, row = random_rows(rng, pipe)
        options, option = random_options(rng, pipe)
        run = partial(call, pipe, rows, options)
        yield Case(f"{pipe.task}({row}{option})", run, (GlassformerError,))


def trained(model: Any) -> Any:
    """A model whose weights have changed, so that it answers."""
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()


def models(rng: random.Random) -> Iterator[tuple[str, Any]]:
    torch.manual_seed(rng.randrange(2**31))
    for task, head in {
        "text-classification": "ForSequenceClassification",
        "token-classification": "ForTokenClassification",
        "question-answering": "ForQuestionAnswering",
        "fill-mask": "ForMaskedLM",
        "multiple-choice": "ForMultipleChoice",
        "next-sentence": "ForNextSentencePrediction",
        "feature-extraction": "Model",
    }.items():
        yield task, getattr(glassformer, f"Bert{head}")(bert()).eval()
    entailment = {0: "contradiction", 1: "neutral", 2: "entailment"}
    yield "zero-shot-classification", glassformer.BertForSequenceClassification(bert(id2label=entailment)).eval()
    yield "text-generation", glassformer.GPT2LMHeadModel(gpt2(eos_token_id=3, bos_token_id=2)).eval()
    shape = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 40}
    shape |= {
        "num_hidden_layers": 1,
        "num_decoder_layers": 1,
        "pad_token_id": 0,
        "decoder_start_token_id": 2,
        "eos_token_id": 3,
    }
    translator = glassformer.TransformerConfig(
        vocab_size=len(VOCAB),
        **shape,
    )
    yield "translation", glassformer.TransformerForSeq2SeqLM(translator).eval()


def random_rows(rng: random.Random, pipe: Pipeline) -> tuple[Any, str]:
    """Rows that a pipeline may read, or something else; and what they are."""
    columns = rng.sample(COLUMNS, rng.randrange(4)) + list(pipe.worker.columns.all)[: rng.randrange(4)]

    def value() -> Any:
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(TEXTS)
        return rng.choice(OTHERS) if kind < 0.8 else [rng.choice(TEXTS) for _ in range(rng.randrange(3))]

    def row() -> Any:
        kind = rng.random()
        if kind < 0.3:
            return value()
        return {name: value() for name in columns} if kind < 0.9 else (value(), value())

    many = rng.random()
    rows: Any = row() if many < 0.5 else [row() for _ in range(rng.randrange(4))]
    described = f"{rows!r:.100}".encode("ascii", "backslashreplace").decode()
    if many > 0.9:
        return tuple(rows) if many > 0.95 else iter(rows), f"an iterator of {described}"
    return rows, described


def random_options(rng: random.Random, pipe: Pipeline) -> tuple[dict[str, Any], str]:
    """Some options of a task, mostly with values that do not fit."""
    names = rng.sample([*pipe.worker.option_names(), "batch_size", "progress", "unknown"], rng.choice((0, 0, 1, 1, 2)))
    options = {name: rng.choice((1, 2, True, "x", None, hostile(rng))) for name in names}
    options |= {"max_new_tokens": 2} if pipe.task in ("text-generation", "translation") else {}
    described = "".join(f", {name}={value!r:.60}" for name, value in options.items())
    return options, described.encode("ascii", "backslashreplace").decode()


def call(pipe: Pipeline, rows: Any, options: dict[str, Any]) -> None:
    answer = pipe(rows, **options)
    if isinstance(answer, Iterator):
        list(itertools.islice(answer, 5))
