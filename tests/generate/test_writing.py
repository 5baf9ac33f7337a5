"""The writer: batches do not matter, seeds do, and the text goes on where the prompt ended."""

from __future__ import annotations

import pytest

from glassformer import BertTokenizer, ConfigError, GPT2Config, GPT2LMHeadModel
from glassformer.generate.writing import Writer

PROMPTS = ["Once upon a time", "It", "", "The walls said what they"]
WAYS = {
    "greedy": {},
    "sampling": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "drawn beams": {"num_beams": 3, "do_sample": True},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
}


@pytest.mark.parametrize("name", WAYS)
def test_batches_do_not_matter(tiny_model, tiny_tokenizer, name):
    rows = [tiny_tokenizer.encode(text) for text in PROMPTS]
    seed = 5 if WAYS[name].get("do_sample") else None
    together = Writer(tiny_model, tiny_tokenizer, seed=seed, max_new_tokens=9, **WAYS[name]).write(rows)
    writer = Writer(tiny_model, tiny_tokenizer, seed=seed, max_new_tokens=9, **WAYS[name])
    assert together == [texts for row in rows for texts in writer.write([row])]
    assert {len(texts) for texts in together} == {WAYS[name].get("num_return_sequences", 1)}
    assert together[2][0].prompt == [tiny_tokenizer.bos_token_id]


def test_a_seed_is_made_up_and_told(tiny_model, tiny_tokenizer):
    rows = [tiny_tokenizer.encode("Once")] * 2
    first, second = (Writer(tiny_model, tiny_tokenizer, do_sample=True, max_new_tokens=20) for _ in range(2))
    written = first.write(rows)
    assert written[0] != written[1]  # a prompt that comes twice is not drawn alike
    assert written != second.write(rows)
    again = Writer(tiny_model, tiny_tokenizer, do_sample=True, max_new_tokens=20, seed=first.seed)
    assert again.write(rows) == written
    assert Writer(tiny_model, tiny_tokenizer).seed is None


def test_a_streamed_text_is_the_written_one(tiny_model, tiny_tokenizer):
    row = tiny_tokenizer.encode("Once upon a")
    shown: list[str] = []
    streamed = Writer(tiny_model, tiny_tokenizer, do_sample=True, seed=1).stream(row, shown.append)
    assert [[streamed]] == Writer(tiny_model, tiny_tokenizer, do_sample=True, seed=1).write([row])
    assert "".join(shown) == streamed.text
    assert len(shown) > 3


@pytest.mark.parametrize(("first", "begins"), [("##ning", "ning"), ("home", " home")])
def test_text_goes_on_where_the_prompt_ended(first, begins):
    """What BERT's pieces are depends on what stands before them: the rest of a word, or a space."""
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] run ##ning home".split()
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(words)})
    config = GPT2Config(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, eos_token_id=3)
    others = [i for i, token in enumerate(words) if token != first]
    writer = Writer(GPT2LMHeadModel(config), tokenizer, suppress_tokens=[0, 1, 2, 3, 4], begin_suppress_tokens=others)
    for (one,) in writer.write([[5], [7], [5, 6, 7]]):
        assert one.text.startswith(begins)
        assert tokenizer.decode(one.prompt) + one.text == tokenizer.decode(one.prompt + one.ids)
        shown: list[str] = []
        assert writer.stream(one.prompt, shown.append) == one
        assert "".join(shown) == one.text


def test_contradictions_are_told_before_anything_is_written(tiny_model, tiny_tokenizer):
    with pytest.raises(ConfigError, match="num_return_sequences"):
        Writer(tiny_model, tiny_tokenizer, num_return_sequences=2)
