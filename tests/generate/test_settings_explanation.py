"""Explanations are true: what they call inert changes nothing, what they call effective does."""

from __future__ import annotations

import json
import logging

import pytest
import torch

from glassformer import (
    BertModel,
    BertTokenizer,
    ConfigError,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    InputError,
    explain_generation,
)
from glassformer.generate.config import warn_once
from glassformer.generate.settings_effects import DESCRIPTIONS, NEUTRAL
from glassformer.generate.settings_explanation import STRATEGIES, display_width
from glassformer.generate.unsupported import UNSUPPORTED

from ..models.architectures import tiny_bert

PROMPT = torch.tensor([[12, 30, 7, 9, 41]])
DEFAULT_LENGTH = "(the default, since neither max_new_tokens nor max_length is given)"
PROMPTS = torch.tensor([[12, 30, 7, 9, 41], [8, 8, 33, 6, 20]])


@pytest.fixture(scope="module")
def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    shape = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    tokens = {"bos_token_id": 1, "eos_token_id": 3, "max_position_embeddings": 32}
    return GPT2LMHeadModel(GPT2Config(**shape, **tokens, initializer_range=0.4)).double().eval()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> BertTokenizer:
    file = tmp_path_factory.mktemp("words") / "vocab.txt"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "once", "upon", "a", "time", "中", "。"]
    file.write_text("\n".join(words + [f"w{i}" for i in range(60 - len(words))]), encoding="utf-8")
    return BertTokenizer(str(file))


def names(settings) -> list[str]:
    return [setting.name for setting in settings]


def rows(settings) -> dict[str, tuple]:
    return {setting.name: (setting.value, setting.source, setting.says) for setting in settings}


# --- wording ----------------------------------------------------------------------------------------------------------


def test_a_call_of_the_tutorials(model):
    """temperature, top_k and top_p without do_sample."""
    explanation = explain_generation(
        model,
        PROMPT,
        max_length=30,
        num_return_sequences=1,
        no_repeat_ngram_size=2,
        temperature=0.7,
        top_k=50,
        top_p=0.95,
    )
    assert explanation.strategy == "greedy" and explanation.sentence == "always the likeliest next token"
    assert explanation.length == "at most 25 new tokens after 5 of the prompt (max_length from this call)"
    assert explanation.stops == ("with token 3", "when it is that long")
    assert rows(explanation.effective) == {
        "max_length": (30, "this call", "a sequence has at most 30 tokens, prompt included"),
        "no_repeat_ngram_size": (2, "this call", "no 2 tokens in a row occur twice"),
        "eos_token_id": (3, "model.config", "a sequence ends with token 3"),
    }
    sampling = "used only in sampling (do_sample=True)"
    assert rows(explanation.inert) == {
        "num_return_sequences": (1, "this call", "this value changes nothing"),
        "temperature": (0.7, "this call", sampling),
        "top_k": (50, "this call", sampling),
        "top_p": (0.95, "this call", sampling),
        "bos_token_id": (1, "model.config", "used only for empty prompts"),
    }


def test_printed_as_a_table(model):
    text = str(explain_generation(model, PROMPT, do_sample=True, temperature=0.7, num_beams=1, length_penalty=2.0))
    assert text == (
        "strategy  sampling: every next token is sampled, likely ones more often\n"
        "length    at most 20 new tokens after 5 of the prompt (the default, since neither max_new_tokens nor\n"
        "          max_length is given)\n"
        "ends      with token 3, or when it is that long\n"
        "\n"
        "takes effect    value  from\n"
        "do_sample       True   this call     tokens are sampled\n"
        "num_beams       1      this call     one continuation is followed\n"
        "temperature     0.7    this call     logits are divided by 0.7: likely tokens become likelier\n"
        "top_k           50     default       only the 50 likeliest tokens are sampled\n"
        "eos_token_id    3      model.config  a sequence ends with token 3\n"
        "\n"
        "has no effect   value  from\n"
        "length_penalty  2.0    this call     used only in beam search (num_beams above 1)\n"
        "bos_token_id    1      model.config  used only for empty prompts"
    )


def test_columns_are_aligned_with_chinese_text(model, tokenizer):
    text = str(explain_generation(model, PROMPT, tokenizer, stop_strings=["。", "中"], repetition_penalty=1.2))
    lines = [line for line in text.split("\n") if "this call" in line]
    assert len({display_width(line[: line.index("this call")]) for line in lines}) == 1 and len(lines) == 2


def test_html_is_escaped(model, tokenizer):
    page = explain_generation(model, PROMPT, tokenizer, stop_strings=["<script>alert(1)</script>"])._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert page.count("<table>") == page.count("</table>") == 3


def test_to_dict(model):
    explanation = explain_generation(model, PROMPT, num_beams=2, top_p=0.5, bad_words_ids=[[5]])
    data = json.loads(json.dumps(explanation.to_dict()))
    assert data["strategy"] == "beam search"
    row = next(row for row in data["settings"] if row["name"] == "bad_words_ids")
    assert row == {
        "name": "bad_words_ids",
        "value": [[5]],
        "source": "this call",
        "says": "these words do not occur",
        "takes_effect": True,
    }
    assert names(explanation.settings) == [row["name"] for row in data["settings"]]
    assert set(names(explanation.effective)) | set(names(explanation.inert)) == set(names(explanation.settings))


def test_sources_and_overridden_values(model, monkeypatch):
    own = GenerationConfig(top_k=5, eos_token_id=3, temperature=0.5)
    monkeypatch.setattr(model, "generation_config", own)
    given = GenerationConfig(top_k=6, do_sample=True)
    found = rows(explain_generation(model, None, None, given, temperature=0.6, eos_token_id=None).effective)
    assert found["top_k"][:2] == (6, "generation_config, not 5")
    assert found["temperature"][:2] == (0.6, "this call, not 0.5")
    assert found["eos_token_id"] == (None, "this call, not 3", "switched off")
    explanation = explain_generation(model, PROMPT, pad_token_id=None)
    assert rows(explanation.inert)["pad_token_id"] == (None, "this call", "there was nothing to switch off")


def test_tokens_beyond_the_vocabulary(model, monkeypatch):
    monkeypatch.setattr(model, "generation_config", GenerationConfig(eos_token_id=500))
    explanation = explain_generation(model, PROMPT)
    assert rows(explanation.inert)["eos_token_id"] == (None, "model.generation_config", "500 is beyond the vocabulary")
    assert explanation.stops == ("only when it is that long, for no token ends it",)


@pytest.mark.parametrize(
    ("call", "length"),
    [
        ({}, f"at most 20 new tokens {DEFAULT_LENGTH}; with the prompt at most 32"),
        ({"max_length": 9}, "at most 9 tokens, prompt included (max_length from this call)"),
        (
            {"max_length": 99},
            "at most 99 tokens, prompt included (max_length from this call); with the prompt at most 32",
        ),
        ({"max_new_tokens": 99, "on_full_context": "slide"}, "at most 99 new tokens (max_new_tokens from this call)"),
    ],
)
def test_lengths_without_a_prompt(model, call, length):
    assert explain_generation(model, **call).length == length


def test_lengths_limited_by_the_context(model):
    explanation = explain_generation(model, PROMPT, max_new_tokens=40)
    assert explanation.length == (
        "at most 27 new tokens after 5 of the prompt (max_new_tokens from this call, cut by the 32 tokens that the "
        "model reads at once)"
    )
    assert rows(explanation.effective)["on_full_context"][:2] == ("stop", "default")
    assert "on_full_context" not in names(explain_generation(model, PROMPT, max_new_tokens=27).settings)


def test_padding_without_a_mask(model):
    assert "pad_token_id" in names(explain_generation(model, PROMPT, pad_token_id=2).inert)
    explanation = explain_generation(model, PROMPT, pad_token_id=41)
    assert "pad_token_id" in names(explanation.effective)
    assert "after 4 of the prompt" in explanation.length
    assert not torch.equal(model.generate(PROMPT, pad_token_id=41), model.generate(PROMPT, pad_token_id=2))


def test_the_larger_minimum_length_takes_effect(model):
    ids, mask = torch.tensor([[12, 30, 0, 0], [8, 33, 6, 20]]), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    for least, expected in ((7, {"min_new_tokens"}), (6, set()), (5, {"min_length"}), (2, {"min_length"})):
        explanation = explain_generation(model, ids, attention_mask=mask, min_length=least, min_new_tokens=3)
        assert {"min_length", "min_new_tokens"} & set(names(explanation.inert)) == expected


def test_prompt_types(model, tokenizer):
    def length(prompt, *more, **given) -> str:
        return explain_generation(model, prompt, *more, max_length=12, **given).length.split(" (")[0]

    assert length("Once upon a time", tokenizer) == "at most 8 new tokens after 4 of the prompt"
    assert length(["Once upon a time", "a"], tokenizer) == "at most 8 to 11 new tokens after 1 to 4 of the prompt"
    batch = tokenizer(["once upon", "a"], padding=True, add_special_tokens=False, return_tensors="pt")
    assert length(batch) == "at most 10 to 11 new tokens after 1 to 2 of the prompt"
    assert length(**batch_as_arguments(batch)) == "at most 10 to 11 new tokens after 1 to 2 of the prompt"
    with pytest.raises(InputError, match="a text needs the tokenizer, got only the prompt 'Once'"):
        length("Once")


def batch_as_arguments(batch) -> dict:
    return {"prompt": batch["input_ids"], "attention_mask": batch["attention_mask"]}


def test_stops(model, tokenizer):
    explanation = explain_generation(model, "once", tokenizer, eos_token_id=[3, 8], stop_strings="。")
    assert explanation.stops == (
        "with token 3 [SEP]",
        "with token 8 time",
        "with the text '。'",
        "when it is that long",
    )


def test_refused_calls_have_no_explanation(model):
    with pytest.raises(ConfigError, match="a greedy search returns one sequence"):
        explain_generation(model, PROMPT, num_return_sequences=3)
    with pytest.raises(InputError, match="BertModel does not predict the next word"):
        explain_generation(BertModel(tiny_bert()))


def test_an_explanation_logs_no_warnings(model, caplog):
    warn_once.cache_clear()
    caplog.set_level(logging.WARNING, "glassformer")
    explain_generation(model, PROMPTS, temperature=0.5, max_new_tokens=100)
    assert not caplog.records


def test_every_setting_has_a_description():
    assert DESCRIPTIONS.keys() == set(GenerationConfig.field_names())
    assert NEUTRAL.keys() <= DESCRIPTIONS.keys()
    for text in [*STRATEGIES.values(), *(setting.reason for setting in UNSUPPORTED.values())]:
        assert not text[0].isupper() and not text.endswith(".")


# --- against generated texts ------------------------------------------------------------------------------------------

# Calls, and the settings of each that take effect.
CALLS = [
    ({"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.5, "epsilon_cutoff": 0.1}, ""),
    ({"eta_cutoff": 0.1, "renormalize_logits": True, "length_penalty": 2.0, "early_stopping": True}, ""),
    ({"diversity_penalty": 0.5, "length_penalty_counts": "new", "penalty_alpha": 0.6, "top_k": 1}, ""),
    (
        {"max_length": 9, "max_new_tokens": 6, "min_length": 4, "min_new_tokens": 0, "output_scores": True},
        "max_new_tokens",
    ),
    ({"min_length": 7, "min_new_tokens": 3, "bad_words_ids": [[3]], "forced_bos_token_id": 8}, "min_new_tokens"),
    ({"min_length": 9, "min_new_tokens": 3, "on_full_context": "slide", "decoder_start_token_id": 4}, "min_length"),
    ({"do_sample": True, "renormalize_logits": True, "diversity_penalty": 0.5, "top_p": 1.0}, "do_sample"),
    ({"do_sample": True, "top_k": 0, "temperature": 1.0, "use_cache": True, "early_stopping": True}, "do_sample top_k"),
    (
        {"num_beams": 3, "temperature": 0.7, "length_penalty": 0.0, "length_penalty_counts": "new"},
        "num_beams length_penalty",
    ),
    ({"num_beams": 3, "no_repeat_ngram_size": 0, "suppress_tokens": [], "eos_token_id": 3}, "num_beams eos_token_id"),
    (
        {"num_beams": 2, "num_beam_groups": 2, "diversity_penalty": 5.0, "top_k": 3},
        "num_beams num_beam_groups diversity_penalty",
    ),
    ({"penalty_alpha": 0.6, "top_k": 4, "temperature": 0.5, "early_stopping": "never"}, "penalty_alpha top_k"),
    ({"eos_token_id": None, "min_length": 9, "min_new_tokens": 8, "stop_strings": []}, "eos_token_id"),
]


@pytest.mark.parametrize(("call", "effective"), CALLS, ids=[" ".join(call) for call, _ in CALLS])
@pytest.mark.parametrize("prompts", [PROMPT, PROMPTS], ids=["one prompt", "two prompts"])
def test_inert_settings_change_nothing(model, call, effective, prompts):
    explanation = explain_generation(model, prompts, **call)
    needed = {name: value for name, value in call.items() if name not in names(explanation.inert)}
    assert list(needed) == effective.split()
    expected = model.generate(prompts, **call, generator=3)
    assert torch.equal(expected, model.generate(prompts, **needed, generator=3))


def test_a_neutral_value_takes_effect_by_overriding_another(model, monkeypatch):
    own = {"temperature": 3.0, "top_k": 2, "repetition_penalty": 9.0, "min_length": 20, "do_sample": True}
    monkeypatch.setattr(model, "generation_config", GenerationConfig(**own, eos_token_id=list(range(9))))
    call = {"temperature": 1.0, "top_k": 0, "repetition_penalty": 1.0, "min_length": 2}
    explanation = explain_generation(model, PROMPT, **call)
    assert set(names(explanation.effective)) >= set(call)
    says = "this value changes nothing, but 3.0 would"
    assert rows(explanation.effective)["temperature"] == (1.0, "this call, not 3.0", says)
    expected = model.generate(PROMPT, **call, generator=5)
    for name in call:
        without = {other: value for other, value in call.items() if other != name}
        assert not torch.equal(expected, model.generate(PROMPT, **without, generator=5)), name


BEAMS = {"num_beams": 3, "max_new_tokens": 8}
SAMPLED = {"do_sample": True, "max_new_tokens": 12}
# For each field a call in which it takes effect, with two values.
EFFECTS = {
    "max_length": ({}, 8, 9),
    "max_new_tokens": ({}, 4, 5),
    "min_length": ({"eos_token_id": list(range(50))}, 9, 0),
    "min_new_tokens": ({"eos_token_id": list(range(50))}, 4, 0),
    "early_stopping": ({**BEAMS, "length_penalty": 5.0, "eos_token_id": list(range(30))}, True, "never"),
    "on_full_context": ({"max_new_tokens": 40, "eos_token_id": None}, "slide", "stop"),
    "do_sample": ({"max_new_tokens": 9}, True, False),
    "num_beams": ({"max_new_tokens": 9}, 3, 1),
    "num_beam_groups": ({"num_beams": 4, "num_return_sequences": 4, "diversity_penalty": 3.0}, 2, 4),
    "diversity_penalty": ({"num_beams": 4, "num_beam_groups": 2, "num_return_sequences": 4}, 5.0, 0.01),
    "penalty_alpha": ({"top_k": 4}, 0.8, 0.0),
    "num_return_sequences": (BEAMS, 2, 1),
    "length_penalty": ({**BEAMS, "eos_token_id": list(range(20)), "early_stopping": "never"}, 5.0, -5.0),
    "temperature": (SAMPLED, 3.0, 1.0),
    "top_k": (SAMPLED, 2, 0),
    "top_p": (SAMPLED, 0.1, 1.0),
    "min_p": (SAMPLED, 0.9, 0.0),
    "typical_p": (SAMPLED, 0.1, 1.0),
    "epsilon_cutoff": (SAMPLED, 0.5, 0.0),
    "eta_cutoff": (SAMPLED, 0.9, 0.0),
    "repetition_penalty": ({}, 5.0, 1.0),
    "no_repeat_ngram_size": ({}, 1, 0),
    "suppress_tokens": ({}, list(range(4, 40)), [59]),
    "bad_words_ids": ({}, [[token] for token in range(4, 40)], [[59]]),
    "begin_suppress_tokens": ({}, list(range(40)), [59]),
    "forced_eos_token_id": ({"eos_token_id": None}, 9, 10),
    "eos_token_id": ({}, list(range(40)), None),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effective_settings_change_something(model, name):
    call, value, other = EFFECTS[name]
    explanation = explain_generation(model, PROMPT, **call, **{name: value})
    assert name in names(explanation.effective)
    one = model.generate(PROMPT, **call, **{name: value}, generator=3)
    assert not torch.equal(one, model.generate(PROMPT, **call, **{name: other}, generator=3))


def test_prompts_of_one_token_and_of_none(model):
    explanation = explain_generation(model, PROMPT[:, :1], forced_bos_token_id=8)
    assert "forced_bos_token_id" in names(explanation.effective) and "bos_token_id" in names(explanation.inert)
    assert model.generate(PROMPT[:, :1], forced_bos_token_id=8, max_new_tokens=1).tolist() == [[12, 8]]
    assert "bos_token_id" in names(explain_generation(model, PROMPT[:, :0]).effective)
    assert model.generate(max_new_tokens=1)[0, 0] == 1


def test_length_equals_that_of_the_text(model):
    for call in ({}, {"max_length": 12}, {"max_new_tokens": 7}, {"max_new_tokens": 40}):
        new = model.generate(PROMPT, **call, eos_token_id=None).shape[1] - PROMPT.shape[1]
        assert explain_generation(model, PROMPT, **call).length.startswith(f"at most {new} new tokens after 5")
