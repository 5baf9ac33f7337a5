"""Span corruption: blocks of one stream of text, the loss of the model itself, gaps filled, runs that resume."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import BertTokenizer, InputError, SpanCorruption, T5Config, T5ForConditionalGeneration, pipeline
from glassformer.cli.main import main
from glassformer.data.spans import count_spans, lengths_of_pair, longest_block, restore_spans
from glassformer.tasks.objectives import LOSS

LINES = [
    f"the {animal} number {i} sat on the {place}" for i in range(8) for animal in ("cat", "dog") for place in "mat"
]


@pytest.fixture(scope="module")
def tokenizer():
    return glassformer.train_tokenizer(iter(LINES * 2), "unigram", vocab_size=50, extra_ids=20)


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "head_width": 8, "num_attention_heads": 4, "num_hidden_layers": 2}
    config = T5Config(**shape, intermediate_size=48, vocab_size=len(tokenizer), hidden_dropout_prob=0.0)
    return T5ForConditionalGeneration(config)


def blocks(task):
    rows = task.prepare_rows([{"text": line} for line in LINES])
    return rows, [task.training_examples(rows[number], (0, 0, number))[0] for number in range(len(rows))]


def test_published_lengths():
    """Those of the original: inputs of 512 tokens are made of 568, and their targets have 114 and a last sentinel."""
    assert longest_block(512) == 568 and lengths_of_pair(568) == (512, 114 + 1) and count_spans(568) == (85, 28)


def test_the_text_is_one_stream_and_nothing_of_it_is_lost(model, tokenizer):
    task = SpanCorruption(model, tokenizer, context=30)
    rows, examples = blocks(task)
    stream = [token for line in LINES for token in tokenizer.encode(line, add_special_tokens=False)]
    read = []
    for example, length in zip(examples, rows.lengths, strict=True):
        hidden, target = example.encoded.ids(), example.labels["labels"]
        assert len(hidden) <= 30 and len(hidden) + len(target) == length == len(example)
        assert hidden[-1] == target[-1] == tokenizer.eos_token_id
        gaps = [token for token in hidden if token in task.sentinels]
        assert gaps == task.sentinels[: len(gaps)] and target[0] == gaps[0]
        read += restore_spans(hidden, target, task.sentinels, tokenizer.eos_token_id)
    assert read == stream
    assert {len(example.encoded) for example in examples[:-1]} == {30}
    other = task.training_examples(rows[0], (0, 1, 0))[0]
    assert other.labels != examples[0].labels and task.training_examples(rows[0], (0, 1, 0))[0].labels == other.labels
    by_row = SpanCorruption(model, tokenizer, documents="row")
    assert len(by_row.prepare_rows([{"text": line} for line in LINES])) == len(LINES)


def test_the_loss_is_the_models_own(model, tokenizer):
    task = SpanCorruption(model.eval(), tokenizer, context=30)
    batch = task.collate(blocks(task)[1][:3])
    mask, labels = batch.inputs["attention_mask"], batch.labels["labels"]
    expected = model(batch.inputs["input_ids"], attention_mask=mask, labels=labels).loss
    outputs = task.outputs(model, batch)
    sums = task.evaluation_sums(outputs, batch)
    assert sums[LOSS][1] == sums["token_accuracy"][1] == int((labels != -100).sum())
    torch.testing.assert_close(torch.tensor(sums[LOSS][0] / sums[LOSS][1]), expected, rtol=1e-5, atol=1e-5)


def test_gaps_are_filled(model, tokenizer):
    pipe = glassformer.SpanCorruption(model, tokenizer)
    first, second = (tokenizer.encode(word, add_special_tokens=False) for word in ("cat", "the mat"))
    a, b, c = pipe.sentinels[:3]
    example = pipe.encode({"text": "the <extra_id_0> sat on <extra_id_1>"})
    answer = pipe.answer({}, example, [[([a, *first, b, *second, c, 1], "eos")]])
    assert answer == {"filled_text": "the cat sat on the mat", "spans": ["cat", "the mat"]}
    answer = pipe.answer({}, example, [[([a, *first], "length")]])
    assert answer["spans"] == ["cat", None] and answer["unfinished"] is True
    with pytest.raises(InputError, match="the text has no gap"):
        pipe.encode({"text": "the cat"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_density": 1.0}, "noise_density must be between 0 and 1"),
        ({"mean_noise_span_length": 0.5}, "mean_noise_span_length"),
        ({"documents": "page"}, "documents must be one of row, blank, file, all"),
    ],
)
def test_options_are_checked(model, tokenizer, options, message):
    with pytest.raises(InputError, match=message):
        SpanCorruption(model, tokenizer, **options)


def test_sentinels_are_needed(model, tokenizer):
    with pytest.raises(InputError, match="needs sentinels, <extra_id_0> and so on"):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
        SpanCorruption(model, BertTokenizer(vocab={word: i for i, word in enumerate(words)}))
    many = SpanCorruption(model, tokenizer, context=2000)
    with pytest.raises(InputError, match=r"need \d+ sentinels, and the tokenizer has 20; give a smaller context"):
        blocks(many)


def test_a_single_token_at_the_end_is_joined(model, tokenizer, caplog):
    task = SpanCorruption(model, tokenizer, context=30)
    size = longest_block(30)
    word = tokenizer.decode([40])
    assert tokenizer.encode(word, add_special_tokens=False) == [40]
    with caplog.at_level(logging.WARNING, "glassformer"):
        rows = task.prepare_rows([{"text": word}] * (2 * size + 1))
    assert [row.last - row.first for row in rows] == [size, size - 1, 2] and not caplog.records


def test_training_from_the_shell_resumes_exactly(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("\n".join(LINES) + "\n")
    shape = ["hidden_size=16", "head_width=8", "num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=24"]
    recipe = ["--model=new:t5", "--data=text.txt", "--vocabulary.vocab_size=50", "--options.context=30"]
    recipe += [*(f"--config.{field}" for field in shape), "--tokens-per-batch=80", "--output-dir=run"]
    assert main(["train", "span-corruption", *recipe, "--check-resume"]) == 0
    assert "exact" in capsys.readouterr().out
    assert main(["train", "span-corruption", *recipe, "--max-steps=3"]) == 0
    tokenizer = glassformer.AutoTokenizer.from_pretrained("run")
    assert tokenizer.convert_ids_to_tokens(len(tokenizer) - 1) == "<extra_id_0>"
    assert len(tokenizer.get_sentinel_tokens()) == 100
    answer = pipeline("span-corruption", model="run", max_new_tokens=5)("the <extra_id_0> sat")
    assert answer[0].keys() >= {"filled_text", "spans"}
