"""Generation settings: checks, files, precedence of layers, and the plan for given prompts."""

from __future__ import annotations

import copy
import json
import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
import transformers
from transformers.generation.configuration_utils import GenerationConfig as TheirConfig

from glassformer import ArgumentError, ConfigError, GenerationConfig, GPT2Config, InputError
from glassformer.generate import config as config_file
from glassformer.generate.config import task_settings
from glassformer.generate.settings_resolution import resolve
from glassformer.generate.unsupported import UNSUPPORTED

from ..conftest import ROOT

VOCABULARY, CONTEXT = 100, 32


@pytest.fixture(autouse=True)
def reset_warnings(caplog):
    """Warnings that are logged once are logged once in each test."""
    caplog.set_level(logging.WARNING, "glassformer")
    config_file.warn_once.cache_clear()


def fake_model(generation: GenerationConfig | None = None, **fields):
    config = GPT2Config(**{"vocab_size": VOCABULARY, "n_positions": CONTEXT, "eos_token_id": 7, **fields})
    config.bos_token_id = None
    generation = generation or GenerationConfig.from_model_config(config)
    body = SimpleNamespace(max_length=config.max_position_embeddings)
    return SimpleNamespace(config=config, generation_config=generation, decoding_body=body)


def plan(*layers, prompts=(5,), has_generator=False, **call):
    """The plan of a call for a model with these settings, perhaps with a generation_config; logs its warnings."""
    own, argument = (*layers, None, None)[:2]
    resolved = resolve(fake_model(own), argument, call, prompts, has_generator=has_generator)
    resolved.log_warnings()
    return resolved


# --- fields -----------------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_transformers():
    theirs = {**TheirConfig._get_default_generation_params(), "max_length": None}  # 20 new tokens instead
    ours = GenerationConfig().to_dict()
    assert {name: value for name, value in theirs.items() if name not in UNSUPPORTED} == {
        name: ours[name] for name in theirs if name not in UNSUPPORTED
    }
    for name, setting in UNSUPPORTED.items():
        assert not setting.changes_text or not setting.is_requested(theirs.get(name)), name


def test_names_and_defaults_are_those_of_transformers_4(tmp_path):
    """The defaults that transformers 4.30.2 writes to a file request nothing."""
    peer = ROOT / ".peers/transformers4"
    if not (peer / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    script = "import transformers; print(transformers.GenerationConfig().to_json_string(use_diff=False))"
    run = [sys.executable, "-c", script]
    out = subprocess.run(run, env={**os.environ, "PYTHONPATH": str(peer)}, check=True, capture_output=True, text=True)
    theirs = json.loads(out.stdout)
    known = {*GenerationConfig.field_names(), *UNSUPPORTED, *config_file.METADATA}
    assert theirs.pop("max_length") == 20 and len(theirs) > 40
    assert theirs.keys() <= known
    read = GenerationConfig.from_dict({name: value for name, value in theirs.items() if name not in UNSUPPORTED})
    assert {name: getattr(GenerationConfig(), name) for name in read.given} == read.given
    assert not any(UNSUPPORTED[name].is_requested(theirs[name]) for name in theirs if name in UNSUPPORTED)


def test_every_setting_of_transformers_is_supported_or_refused_by_name():
    theirs = {name for name in vars(TheirConfig()) if not name.startswith("_")} - {"transformers_version"}
    assert theirs <= {*GenerationConfig.field_names(), *UNSUPPORTED}


def test_no_field_is_unsupported():
    assert not set(GenerationConfig.field_names()) & set(UNSUPPORTED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", 10**400),
        ("temperature", True),
        ("temperature", "hot"),
        ("top_k", -1),
        ("top_k", 2.5),
        ("top_p", 0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("typical_p", 0),
        ("typical_p", 1.5),
        ("epsilon_cutoff", 1),
        ("epsilon_cutoff", -0.1),
        ("eta_cutoff", 1.0),
        ("repetition_penalty", 0),
        ("diversity_penalty", -0.5),
        ("penalty_alpha", 1.5),
        ("penalty_alpha", -0.1),
        ("length_penalty", "long"),
        ("no_repeat_ngram_size", -1),
        ("max_new_tokens", 0),
        ("max_length", 0),
        ("min_length", -1),
        ("min_new_tokens", -1),
        ("num_beams", 0),
        ("num_beam_groups", 0),
        ("num_return_sequences", 0),
        ("early_stopping", "always"),
        ("early_stopping", 1),
        ("do_sample", "yes"),
        ("on_full_context", "crash"),
        ("length_penalty_counts", "some"),
        ("stop_strings", [""]),
        ("stop_strings", 5),
        ("bad_words_ids", [5]),
        ("bad_words_ids", [[]]),
        ("bad_words_ids", [[-1]]),
        ("bad_words_ids", "bad"),
        ("force_words_ids", [[[]]]),
        ("force_words_ids", [5]),
        ("force_words_ids", {}),
        ("suppress_tokens", [[5]]),
        ("eos_token_id", -2),
        ("eos_token_id", []),
        ("eos_token_id", "end"),
        ("pad_token_id", -1),
    ],
)
def test_invalid_values_are_refused_everywhere(name, value):
    with pytest.raises(ConfigError, match=f"^{name} "):
        GenerationConfig(**{name: value})
    config = GenerationConfig()
    with pytest.raises(ConfigError, match=f"^{name} "):
        setattr(config, name, value)
    assert config.given == {}
    with pytest.raises(ConfigError, match=f"^{name} "):
        plan(**{name: value})


def test_boundary_values_are_accepted():
    edges = {"top_k": 0, "top_p": 1, "min_p": 1, "typical_p": 1.0, "epsilon_cutoff": 0, "penalty_alpha": 1}
    edges |= {
        "diversity_penalty": 0,
        "length_penalty": -2.0,
        "early_stopping": "never",
        "min_length": 0,
        "temperature": 1e-6,
    }
    assert GenerationConfig(**edges).given == edges


def test_lists_are_normalised():
    config = GenerationConfig(stop_strings="end", bad_words_ids=((1, 2), (3,)), force_words_ids=[[1], ((2,), (3, 4))])
    assert config.stop_strings == ["end"]
    assert config.bad_words_ids == [[1, 2], [3]]
    assert config.force_words_ids == [[1], [[2], [3, 4]]]


def test_unknown_names_get_a_suggestion():
    with pytest.raises(ArgumentError, match="GenerationConfig has no field 'temprature', did you mean 'temperature'"):
        GenerationConfig(temprature=0.5)
    with pytest.raises(ConfigError, match="did you mean 'num_beams'"):
        GenerationConfig().num_beam = 3
    with pytest.raises(AttributeError, match="did you mean 'top_k'"):
        _ = GenerationConfig().topk
    with pytest.raises(ArgumentError, match="generate has no argument 'max_lenght', did you mean 'max_length'"):
        plan(max_lenght=30)
    with pytest.raises(ArgumentError, match="did you mean 'attention_mask'"):
        plan(attention_maks=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("guidance_scale", 1.5),
        ("assistant_model", object()),
        ("output_attentions", True),
        ("negative_prompt_ids", torch.ones(2, 2)),
        ("logits_processor", [print]),
        ("cache_implementation", "static"),
        ("constraints", [1]),
    ],
)
def test_unsupported_settings_are_refused_with_the_reason(name, value):
    reason = UNSUPPORTED[name].reason
    for call in (lambda: GenerationConfig(**{name: value}), lambda: plan(**{name: value})):
        with pytest.raises(ConfigError, match=f"(?s)^{name}=.* is not supported: {reason}"):
            call()


def test_unsupported_settings_accept_neutral_values():
    neutral = {"guidance_scale": 1, "output_attentions": False, "assistant_model": None, "logits_processor": []}
    assert plan(**neutral).strategy == "greedy"
    assert GenerationConfig(**neutral).output_attentions is False


def test_given_fields():
    config = GenerationConfig(temperature=1.0, top_k=None)
    assert config.given == {"temperature": 1.0}
    assert config.top_k == 50
    config.temperature = None
    assert config.given == {}
    config.update(num_beams=3)
    config.update({"do_sample": True}, top_p=0.5)
    assert copy.deepcopy(config).given == {"do_sample": True, "num_beams": 3, "top_p": 0.5}


# --- files ------------------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    config = GenerationConfig(do_sample=True, top_p=0.9, eos_token_id=[7, 8], bad_words_ids=[[1, 2]], stop_strings="。")
    config.save_pretrained(tmp_path)
    again = GenerationConfig.from_pretrained(tmp_path, max_new_tokens=9)
    assert again.given == {**config.given, "max_new_tokens": 9}
    assert again != config
    again.max_new_tokens = None
    assert again == config
    assert str(config).startswith('GenerationConfig {\n  "bad_words_ids"')
    assert json.loads(config.to_json_string()) == config.given


def test_transformers_reads_what_we_write_and_the_reverse(tmp_path):
    fields = {"do_sample": True, "top_k": 12, "temperature": 0.5, "max_length": 40, "eos_token_id": [3, 4]}
    GenerationConfig(**fields, on_full_context="slide").save_pretrained(tmp_path / "ours")
    theirs = TheirConfig.from_pretrained(tmp_path / "ours")
    assert {name: getattr(theirs, name) for name in fields} == fields
    TheirConfig(**fields).save_pretrained(tmp_path / "theirs")
    assert GenerationConfig.from_pretrained(tmp_path / "theirs").given == fields


def test_unknown_keys_of_a_file_are_kept_and_written_back(tmp_path, caplog):
    file = {"transformers_version": "4.30.2", "_from_model_config": True, "colour": "blue", "guidance_scale": 2.0}
    (tmp_path / "generation_config.json").write_text(json.dumps({**file, "low_memory": True, "pad_token_id": -1}))
    config = GenerationConfig.from_pretrained(tmp_path)
    assert config.guidance_scale == 2.0 and config.given == {}
    assert caplog.text.count("guidance_scale = 2.0") == 1
    assert "colour" not in caplog.text and "low_memory" not in caplog.text
    GenerationConfig.from_pretrained(tmp_path)
    assert caplog.text.count("guidance_scale") == 1  # logged once
    config.save_pretrained(tmp_path / "again")
    written = json.loads((tmp_path / "again/generation_config.json").read_text())
    assert written == {"transformers_version": "4.30.2", "colour": "blue", "guidance_scale": 2.0, "low_memory": True}


def test_a_misspelt_key_of_a_file_is_reported(tmp_path, caplog):
    (tmp_path / "generation_config.json").write_text('{"temperatur": 0.5}')
    GenerationConfig.from_pretrained(tmp_path)
    assert "'temperatur' is not a generation setting and is ignored, did you mean 'temperature'?" in caplog.text


def test_a_bad_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"holds no generation_config\.json"):
        GenerationConfig.from_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"top_p": 3}')
    with pytest.raises(ConfigError, match=r"generation_config\.json: top_p must be above 0 and at most 1, got 3"):
        GenerationConfig.from_pretrained(tmp_path)


def test_generation_settings_of_an_old_config(caplog):
    values = {"max_length": 20, "do_sample": True, "top_k": 50, "length_penalty": -1.0, "num_beams": 4}
    old = GPT2Config.from_dict({**values, "encoder_no_repeat_ngram_size": 3, "output_attentions": True})
    config = GenerationConfig.from_model_config(old)
    assert config.given == {
        "do_sample": True,
        "length_penalty": -1.0,
        "num_beams": 4,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
    }  # 20 and 50 are in every old file
    assert set(config.files.values()) == {"model.config"}
    assert "encoder_no_repeat_ngram_size = 3" in caplog.text and "output_attentions" not in caplog.text


def test_an_old_config_is_read_as_transformers_reads_it():
    values = {"eos_token_id": 3, "pad_token_id": 0, "max_length": 142, "min_length": 56, "num_beams": 4}
    values |= {"no_repeat_ngram_size": 3, "length_penalty": 2.0, "early_stopping": True, "forced_bos_token_id": 0}
    theirs = TheirConfig.from_model_config(dict(values))
    assert GenerationConfig.from_model_config(values).given == {name: getattr(theirs, name) for name in values}


def test_the_inner_config_is_the_fallback_of_the_outer():
    values = {"eos_token_id": 3, "decoder": {"eos_token_id": 5, "bos_token_id": 4}}
    assert GenerationConfig.from_model_config(values).given == {"eos_token_id": 3, "bos_token_id": 4}
    assert GenerationConfig.from_model_config({"decoder": "gpt2", "pad_token_id": -1}).given == {}
    forced = {"force_bos_token_to_be_generated": True, "bos_token_id": 4}
    assert GenerationConfig.from_model_config(forced).forced_bos_token_id == 4


def test_settings_for_a_task():
    config = GPT2Config(task_specific_params={"text-generation": {"do_sample": True, "max_length": 320, "prefix": "x"}})
    settings = task_settings(config, "text-generation")
    assert settings.given == {"do_sample": True, "max_length": 320}
    assert settings.extra == {"prefix": "x"}
    assert (
        str(resolve(fake_model(), settings, {}, [5]).sources["do_sample"]) == "task_specific_params['text-generation']"
    )
    with pytest.raises(ConfigError, match="must map settings to values, got 5"):
        task_settings(GPT2Config(task_specific_params={"translation": 5}), "translation")
    assert task_settings(config, "summarization") is None and task_settings(GPT2Config(), "text-generation") is None


# --- layers -----------------------------------------------------------------------------------------------------------


def test_precedence_of_layers():
    resolved_plan = plan(
        GenerationConfig(temperature=0.1, top_k=1, top_p=0.1, eos_token_id=7),
        GenerationConfig(temperature=0.2, top_k=2),
        temperature=0.3,
        do_sample=True,
    )
    settings = resolved_plan.settings
    assert (settings.temperature, settings.top_k, settings.top_p, settings.typical_p) == (0.3, 2, 0.1, 1.0)
    layers = [resolved_plan.sources[name].layer for name in ("temperature", "top_k", "top_p", "typical_p")]
    assert layers == ["call", "generation_config", "model", "default"]
    assert resolved_plan.sources["temperature"].overridden == 0.2
    assert resolved_plan.sources["top_p"].overridden is None


def test_a_given_default_takes_precedence():
    resolved_plan = plan(GenerationConfig(do_sample=True, temperature=0.1), GenerationConfig(temperature=1.0))
    assert resolved_plan.settings.temperature == 1.0
    assert plan(GenerationConfig(do_sample=True), do_sample=False).strategy == "greedy"


def test_none_in_a_call_switches_a_setting_off():
    model = GenerationConfig(eos_token_id=7, do_sample=True, top_k=9, max_length=12, temperature=0.5)
    resolved_plan = plan(model, eos_token_id=None, top_k=None, max_length=None, temperature=None)
    assert (resolved_plan.eos, resolved_plan.settings.top_k, resolved_plan.settings.temperature) == ([], 0, 1.0)
    assert resolved_plan.max_new_tokens == [20]


def test_layers_are_not_modified():
    model, argument = GenerationConfig(top_k=3, eos_token_id=500), GenerationConfig(top_p=0.5)
    plan(model, argument, temperature=0.3)
    assert (model.given, argument.given) == ({"top_k": 3, "eos_token_id": 500}, {"top_p": 0.5})


def test_the_source_is_a_file_until_its_value_is_changed(tmp_path):
    GenerationConfig(top_k=3, top_p=0.5).save_pretrained(tmp_path)
    model = GenerationConfig.from_pretrained(tmp_path)
    model.top_p = 0.6
    sources = plan(model).sources
    assert str(sources["top_k"]) == "generation_config.json"
    assert str(sources["top_p"]) == "model.generation_config"


@pytest.fixture(scope="module")
def theirs():
    """The same tiny model in transformers."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=8, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None
    )
    return transformers.GPT2LMHeadModel(config).eval()


LAYERS = [
    ({}, None, {}),
    ({"max_length": 12}, None, {}),
    ({"max_length": 12}, None, {"max_new_tokens": 3}),
    ({"max_new_tokens": 4}, None, {"max_new_tokens": 9}),
    ({}, {"max_new_tokens": 4}, {}),
    ({"max_new_tokens": 6}, {"max_length": 40, "max_new_tokens": 4}, {}),
    ({"temperature": 0.5, "top_k": 7}, {"top_k": 5, "typical_p": 0.5}, {"typical_p": 0.6}),
    ({"num_beams": 3, "length_penalty": 0.5}, {"num_beams": 2}, {"early_stopping": True}),
    ({"eos_token_id": 3, "pad_token_id": 4}, {"eos_token_id": [5, 6]}, {"pad_token_id": 9}),
    ({"eos_token_id": 3, "top_k": 9}, None, {"eos_token_id": None}),
    ({"repetition_penalty": 1.5, "min_length": 3}, {"min_new_tokens": 2}, {"no_repeat_ngram_size": 2}),
]


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
@pytest.mark.parametrize(("model", "argument", "call"), LAYERS)
def test_merged_layers_and_lengths_equal_transformers(theirs, monkeypatch, model, argument, call):
    given = None if argument is None else TheirConfig(**argument)
    monkeypatch.setattr(theirs, "generation_config", TheirConfig(**model))
    merged, _ = theirs._prepare_generation_config(given, **call)
    resolved_plan = plan(GenerationConfig(**model), None if argument is None else GenerationConfig(**argument), **call)
    for name in ("temperature", "top_k", "typical_p", "num_beams", "length_penalty", "early_stopping", "eos_token_id"):
        assert getattr(resolved_plan.settings, name) == getattr(merged, name), name
    for name in ("pad_token_id", "repetition_penalty", "min_length", "min_new_tokens", "no_repeat_ngram_size"):
        assert getattr(resolved_plan.settings, name) == getattr(merged, name), name
    ids = torch.arange(10, 15)[None]
    generated = theirs.generate(ids, given, **{**call, "eos_token_id": None, "suppress_tokens": [3, 5, 6]})
    assert resolved_plan.max_lengths == [generated.shape[1]]


# --- strategies -------------------------------------------------------------------------------------------------------

STRATEGIES = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "beam search": {"num_beams": 3},
    "beam sampling": {"num_beams": 3, "do_sample": True},
    "diverse beam search": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "contrastive search": {"penalty_alpha": 0.6, "top_k": 4},
    "constrained beam search": {"num_beams": 3, "force_words_ids": [[5, 6], [[7], [8, 9]]]},
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies(strategy):
    assert plan(**STRATEGIES[strategy]).strategy == strategy
    names = {"group": "diverse", "sample": "sampling", "beam_sample": "beam sampling", "greedy_search": "greedy"}
    mode = TheirConfig(**STRATEGIES[strategy]).get_generation_mode().value
    for theirs, ours in names.items():
        mode = ours if mode == theirs else mode.replace(f"{theirs}_", f"{ours}_")
    assert mode.replace("_", " ") == strategy


def test_incomplete_contrastive_settings_are_greedy():
    for call in (
        {"penalty_alpha": 0.6, "top_k": 1},
        {"penalty_alpha": 0.0, "top_k": 4},
        {"penalty_alpha": 0.6, "top_k": 0},
    ):
        assert plan(**call).strategy == "greedy"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ({"num_beams": 2, "num_return_sequences": 3}, "at most num_beams, got num_return_sequences 3 and 2"),
        ({"num_return_sequences": 2}, "a greedy search returns one sequence, got num_return_sequences 2"),
        ({"num_return_sequences": 2, "penalty_alpha": 0.5}, "a contrastive search returns one sequence"),
        ({"num_beams": 4, "num_beam_groups": 3, "diversity_penalty": 1.0}, "must be a multiple of num_beam_groups"),
        ({"num_beam_groups": 2, "diversity_penalty": 1.0}, "must be a multiple of num_beam_groups"),
        (
            {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "do_sample": True},
            "beam groups do not sample",
        ),
        ({"num_beams": 4, "num_beam_groups": 2}, "num_beam_groups 2 needs a diversity_penalty above 0"),
        ({"penalty_alpha": 0.5, "num_beams": 2}, "penalty_alpha 0.5 requests a contrastive search, and num_beams 2"),
        ({"penalty_alpha": 0.5, "do_sample": True}, "penalty_alpha 0.5 requests a contrastive search, and do_sample"),
        ({"force_words_ids": [[5]]}, "force_words_ids need a beam search, got num_beams 1"),
        ({"force_words_ids": [[5]], "num_beams": 2, "do_sample": True}, "force_words_ids cannot be sampled"),
        (
            {"force_words_ids": [[5]], "num_beams": 2, "num_beam_groups": 2, "diversity_penalty": 1.0},
            "force_words_ids do not work with beam groups",
        ),
        ({"on_full_context": "slide", "num_beams": 2}, "'slide' does not work with a beam search, got num_beams 2"),
        ({"on_full_context": "slide", "penalty_alpha": 0.5}, "'slide' does not work with penalty_alpha 0.5"),
        ({"bad_words_ids": [[3, 100]]}, "bad_words_ids: token 100 is beyond the vocabulary of 100 tokens"),
        ({"force_words_ids": [[[3], [101]]], "num_beams": 2}, "force_words_ids: token 101 is beyond the vocabulary"),
        ({"suppress_tokens": [100]}, "suppress_tokens: token 100 is beyond"),
        ({"begin_suppress_tokens": [100]}, "begin_suppress_tokens: token 100 is beyond"),
        ({"eos_token_id": [5, 100]}, "eos_token_id 100 is beyond"),
        ({"pad_token_id": 100}, "pad_token_id 100 is beyond"),
        ({"suppress_tokens": [5, 6], "forced_eos_token_id": [5]}, "forced_eos_token_id .5. and suppress_tokens"),
        ({"stop_strings": ["end"]}, r"stop_strings \['end'\] need the tokenizer"),
        (
            {"min_length": 30, "max_length": 20},
            "min_length 30 cannot be reached: at most 15 tokens may follow a prompt of 5",
        ),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens 9 cannot be reached"),
        ({"min_new_tokens": 21}, "min_new_tokens 21 cannot be reached"),
        ({"min_length": 40, "max_length": 50}, "at most 27 tokens may follow a prompt of 5"),
    ],
)
def test_contradictions(call, sentence):
    with pytest.raises(ConfigError, match=sentence):
        plan(**call)


def test_a_contradiction_names_the_file(tmp_path):
    GenerationConfig(num_beams=4).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"got num_beams 4 \(generation_config.json\) and 3"):
        plan(GenerationConfig.from_pretrained(tmp_path), num_beam_groups=3, diversity_penalty=1.0)


def test_type_of_generation_config():
    with pytest.raises(ConfigError, match=r"generation_config must be a GenerationConfig, got .*top_k"):
        resolve(fake_model(), {"top_k": 3}, {}, [5])
    with pytest.raises(InputError, match="SimpleNamespace does not predict the next word"):
        resolve(SimpleNamespace(config=GPT2Config()), None, {}, [5])


# --- lengths ----------------------------------------------------------------------------------------------------------


def test_lengths_count_each_prompts_own_tokens():
    assert plan(prompts=[3, 5], max_length=9).max_new_tokens == [6, 4]
    assert plan(prompts=[3, 5], max_new_tokens=9).max_new_tokens == [9, 9]
    assert plan(prompts=[3, 5]).max_new_tokens == [20, 20]
    assert plan(prompts=[0], max_length=9).max_new_tokens == [8]  # an empty prompt begins with one token
    assert plan(prompts=[]).max_new_tokens == []


def test_max_new_tokens_takes_precedence_in_one_layer():
    assert plan(max_length=9, max_new_tokens=7).max_new_tokens == [7]
    assert plan(GenerationConfig(max_length=9, max_new_tokens=7)).max_new_tokens == [7]


def test_precedence_of_lengths_in_two_layers():
    assert plan(GenerationConfig(max_new_tokens=7), max_length=9).max_new_tokens == [4]
    assert plan(GenerationConfig(max_length=9), max_new_tokens=7).max_new_tokens == [7]
    assert plan(None, GenerationConfig(max_length=9), max_new_tokens=7).max_new_tokens == [7]


def test_the_context_limits_every_length(caplog):
    assert plan(prompts=[5, 30], max_new_tokens=100).max_lengths == [CONTEXT, CONTEXT]
    assert "max_new_tokens 100 goes beyond the 32 tokens that the model reads at once" in caplog.text
    assert plan(max_length=100).max_lengths == [CONTEXT]
    assert plan(prompts=[31]).max_new_tokens == [1]
    model = fake_model()
    model.decoding_body.max_length = None  # unlimited positions
    assert resolve(model, None, {"max_new_tokens": 100}, [50]).max_new_tokens == [100]


@pytest.mark.parametrize("length", [CONTEXT, CONTEXT + 3])
def test_a_prompt_that_fills_the_context_is_refused(length):
    with pytest.raises(InputError, match=f"prompt has {length} tokens, and the model reads at most 32 .*'slide'"):
        plan(prompts=[5, length])
    assert plan(prompts=[length], on_full_context="slide", max_new_tokens=50).max_new_tokens == [50]
    assert plan(prompts=[5], on_full_context="slide", max_length=500).max_new_tokens == [495]


def test_a_prompt_as_long_as_max_length_is_refused():
    with pytest.raises(InputError, match="the prompt has 9 tokens, so max_length 9 leaves no room"):
        plan(prompts=[5, 9], max_length=9)


def test_a_maximum_in_a_call_overrides_a_minimum_in_a_file():
    assert plan(GenerationConfig(min_length=20), max_new_tokens=5).max_new_tokens == [5]
    with pytest.raises(ConfigError, match="min_length 20 cannot be reached"):
        plan(GenerationConfig(max_length=15), min_length=20)


# --- tokens and warnings ----------------------------------------------------------------------------------------------


def test_tokens():
    resolved_plan = plan(GenerationConfig(eos_token_id=7))
    assert (resolved_plan.eos, resolved_plan.pad) == ([7], 7)
    assert (plan(eos_token_id=[8, 9]).eos, plan(eos_token_id=[8, 9]).pad) == ([8, 9], 8)
    assert plan(eos_token_id=[8, 9], pad_token_id=0).pad == 0
    assert (plan(eos_token_id=None).eos, plan(eos_token_id=None).pad) == ([], 0)


def test_missing_pad_token_is_reported_once(caplog):
    plan(prompts=[5])
    assert not caplog.records
    plan(prompts=[5, 6])
    plan(prompts=[5, 6, 7])
    assert [record.getMessage() for record in caplog.records] == [
        "no pad_token_id is given: sequences that end early are padded with token 7"
    ]


def test_tokens_of_a_model_beyond_the_vocabulary_are_dropped(caplog):
    resolved_plan = plan(GenerationConfig(eos_token_id=[7, 500], pad_token_id=500, forced_eos_token_id=501))
    assert (resolved_plan.eos, resolved_plan.pad, resolved_plan.settings.forced_eos_token_id) == ([7], 7, None)
    assert "eos_token_id 500 is beyond the vocabulary of 100 tokens and is not used" in caplog.text


def test_ineffective_settings_are_reported(caplog):
    plan(temperature=0.7, top_k=20, top_p=0.95, length_penalty=2.0, early_stopping=True, diversity_penalty=0.5)
    plan(max_length=9, max_new_tokens=4, min_length=2, output_scores=True)
    plan(has_generator=True)
    assert [record.getMessage() for record in caplog.records] == [
        "temperature, top_k, top_p have no effect: used only in sampling (do_sample=True)",
        "length_penalty, early_stopping have no effect: used only in beam search (num_beams above 1)",
        "diversity_penalty has no effect: there is one beam group (num_beam_groups above 1 makes more)",
        "max_length has no effect: max_new_tokens takes precedence",
        "output_scores has no effect: scores are returned only with return_dict_in_generate=True",
        "generator has no effect: used only in sampling (do_sample=True)",
    ]


def test_ineffective_settings_of_a_file_and_neutral_values_are_not_reported(caplog):
    plan(GenerationConfig(temperature=0.7, length_penalty=2.0), temperature=1.0, top_k=0, num_return_sequences=1)
    assert not caplog.records


def test_settings_do_not_import_torch():
    script = "import sys, glassformer.generate.settings_explanation; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
