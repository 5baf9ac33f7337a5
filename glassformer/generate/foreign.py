"""Names that other libraries' generation has and this one does not, each with the reason that users are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError


@dataclass(frozen=True)
class Foreign:
    """A setting that is not computed here."""

    why: str
    neutral: tuple = (None,)  # with these values it asks for nothing
    changes_text: bool = True  # otherwise it concerns only speed and memory, and a file may say what it likes

    def asks_for_something(self, value: Any) -> bool:
        plain = value is None or isinstance(value, (bool, int, float, list, dict))  # others may not compare
        return not plain or value not in self.neutral


ASSISTED = Foreign("another model or the prompt does not help to guess ahead here", changes_text=False)
ASSISTED_OFF = Foreign(ASSISTED.why, (None, False), changes_text=False)
ONE_CACHE = Foreign("there is one kind of cache, and it is sized by itself", changes_text=False)
NOT_COMPILED = Foreign("a step is not compiled; torch.compile the model itself", (None, False, True), False)
TWO_PROMPTS = Foreign("guidance by a second prompt is not computed")
NO_CODE = Foreign("code that comes from elsewhere is never run", (None, False))
ENCODER_RULE = Foreign("rules against repeating the source text are not computed", (None, 0, 1.0))
LOOK_INSIDE = Foreign("call the model on the finished sequences to look inside", (None, False))
OWN_FUNCTIONS = Foreign("functions of one's own are not called during a search", (None, []))

FOREIGN: Mapping[str, Foreign] = {
    "assistant_model": ASSISTED,
    "assistant_tokenizer": ASSISTED,
    "is_assistant": ASSISTED_OFF,
    "use_mtp": ASSISTED_OFF,
    "num_assistant_tokens": ASSISTED,
    "num_assistant_tokens_schedule": ASSISTED,
    "assistant_confidence_threshold": ASSISTED,
    "assistant_early_exit": ASSISTED,
    "assistant_ensemble_weight": ASSISTED,
    "assistant_lookbehind": ASSISTED,
    "target_lookbehind": ASSISTED,
    "prompt_lookup_num_tokens": ASSISTED,
    "max_matching_ngram_size": ASSISTED,
    "speculation_type": ASSISTED,
    "cache_implementation": ONE_CACHE,
    "cache_config": ONE_CACHE,
    "max_cache_len": ONE_CACHE,
    "prefill_chunk_size": ONE_CACHE,
    "continuous_batching_config": ONE_CACHE,
    "low_memory": Foreign("contrastive search has one way, which needs little", (None, False), False),
    "compile_config": NOT_COMPILED,
    "disable_compile": NOT_COMPILED,
    "synced_gpus": Foreign("every process generates on its own", (None, False), False),
    "guidance_scale": Foreign(TWO_PROMPTS.why, (None, 1, 1.0)),
    "negative_prompt_ids": TWO_PROMPTS,
    "negative_prompt_attention_mask": TWO_PROMPTS,
    "custom_generate": NO_CODE,
    "trust_remote_code": NO_CODE,
    "use_model_defaults": Foreign("the model's settings always count, behind the call's own", (None, True)),
    "max_time": Foreign("no clock is watched; limit max_new_tokens"),
    "top_h": Foreign("the words to draw from are not chosen by their entropy; use typical_p or eta_cutoff"),
    "encoder_repetition_penalty": ENCODER_RULE,
    "encoder_no_repeat_ngram_size": ENCODER_RULE,
    "exponential_decay_length_penalty": Foreign("the end mark does not become likelier with length"),
    "sequence_bias": Foreign("scores of chosen sequences are not raised or lowered; use bad_words_ids"),
    "constraints": Foreign("words that must be said are given as force_words_ids"),
    "forced_decoder_ids": Foreign("tokens at chosen places are not forced; put them into the prompt"),
    "token_healing": Foreign("the last token of a prompt is not chosen again", (None, False)),
    "remove_invalid_values": Foreign("a model that computes NaN is told of, never patched", (None, False)),
    "watermarking_config": Foreign("no watermark is put into the text"),
    "dola_layers": Foreign("layers are not played off against each other"),
    "generation_kwargs": Foreign("settings are given by their own names", (None, {})),
    "output_attentions": LOOK_INSIDE,
    "output_hidden_states": LOOK_INSIDE,
    "output_logits": Foreign("output_scores gives the scores that were chosen from", (None, False)),
    "logits_processor": OWN_FUNCTIONS,
    "stopping_criteria": OWN_FUNCTIONS,
    "prefix_allowed_tokens_fn": OWN_FUNCTIONS,
    "streamer": Foreign("it is no setting to keep; pass it to generate itself", changes_text=False),
}


def refuse_foreign(name: str, value: Any) -> None:
    """Raise for a setting that would matter elsewhere and is not computed here; a neutral value passes."""
    if FOREIGN[name].asks_for_something(value):
        raise ConfigError(f"{name}={value!r:.60} is not supported: {FOREIGN[name].why}")


def unheeded(values: Mapping[str, Any]) -> list[str]:
    """What to say of a file's settings that would change the text and are not computed."""
    return [
        f"{name} = {value!r:.60} ({FOREIGN[name].why})"
        for name, value in values.items()
        if name in FOREIGN and FOREIGN[name].changes_text and FOREIGN[name].asks_for_something(value)
    ]
