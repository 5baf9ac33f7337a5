"""TextGenerator: texts do not depend on batches, are reproducible by seed, and continue where the prompt ended."""

from __future__ import annotations

import pytest

from glassformer import BertTokenizer, ConfigError, GPT2Config, GPT2LMHeadModel
from glassformer.generate.text_generator import TextGenerator

PROMPTS = ["Once upon a time", "It", "", "The walls said what they"]
STRATEGIES = {
    "greedy": {},
    "sampling": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "beam sampling": {"num_beams": 3, "do_sample": True},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_texts_do_not_depend_on_batches(tiny_model, tiny_tokenizer, name):
    rows = [tiny_tokenizer.encode(text) for text in PROMPTS]
    seed = 5 if STRATEGIES[name].get("do_sample") else None
    together = TextGenerator(tiny_model, tiny_tokenizer, seed=seed, max_new_tokens=9, **STRATEGIES[name]).generate(rows)
    generator = TextGenerator(tiny_model, tiny_tokenizer, seed=seed, max_new_tokens=9, **STRATEGIES[name])
    assert together == [texts for row in rows for texts in generator.generate([row])]
    assert {len(texts) for texts in together} == {STRATEGIES[name].get("num_return_sequences", 1)}
    assert together[2][0].prompt == [tiny_tokenizer.bos_token_id]


def test_a_random_seed_is_reported(tiny_model, tiny_tokenizer):
    rows = [tiny_tokenizer.encode("Once")] * 2
    first, second = (TextGenerator(tiny_model, tiny_tokenizer, do_sample=True, max_new_tokens=20) for _ in range(2))
    texts = first.generate(rows)
    assert texts[0] != texts[1]  # equal prompts have different random numbers
    assert texts != second.generate(rows)
    again = TextGenerator(tiny_model, tiny_tokenizer, do_sample=True, max_new_tokens=20, seed=first.seed)
    assert again.generate(rows) == texts
    assert TextGenerator(tiny_model, tiny_tokenizer).seed is None


def test_streamed_equals_generated(tiny_model, tiny_tokenizer):
    row = tiny_tokenizer.encode("Once upon a")
    pieces: list[str] = []
    streamed = TextGenerator(tiny_model, tiny_tokenizer, do_sample=True, seed=1).stream(row, pieces.append)
    assert [[streamed]] == TextGenerator(tiny_model, tiny_tokenizer, do_sample=True, seed=1).generate([row])
    assert "".join(pieces) == streamed.text
    assert len(pieces) > 3


@pytest.mark.parametrize(("first", "start"), [("##ning", "ning"), ("home", " home")])
def test_text_continues_where_the_prompt_ended(first, start):
    """The text of a WordPiece depends on the token before it: the rest of a word, or a space."""
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] run ##ning home".split()
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(words)})
    config = GPT2Config(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, eos_token_id=3)
    others = [i for i, token in enumerate(words) if token != first]
    generator = TextGenerator(
        GPT2LMHeadModel(config), tokenizer, suppress_tokens=[0, 1, 2, 3, 4], begin_suppress_tokens=others
    )
    for (one,) in generator.generate([[5], [7], [5, 6, 7]]):
        assert one.text.startswith(start)
        assert tokenizer.decode(one.prompt) + one.text == tokenizer.decode(one.prompt + one.ids)
        pieces: list[str] = []
        assert generator.stream(one.prompt, pieces.append) == one
        assert "".join(pieces) == one.text


def test_contradictions_are_refused_in_the_constructor(tiny_model, tiny_tokenizer):
    with pytest.raises(ConfigError, match="num_return_sequences"):
        TextGenerator(tiny_model, tiny_tokenizer, num_return_sequences=2)
