"""Generation settings of other libraries that are not supported here, each with the reason for error messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError


@dataclass(frozen=True)
class Unsupported:
    """A setting that is not implemented here."""

    reason: str
    neutral: tuple = (None,)  # values that request nothing
    changes_text: bool = True  # otherwise it affects only speed and memory, and a file may contain any value

    def is_requested(self, value: Any) -> bool:
        is_comparable = value is None or isinstance(value, (bool, int, float, list, dict))
        return not is_comparable or value not in self.neutral


ASSISTED = Unsupported("assisted generation is not implemented", changes_text=False)
ASSISTED_FLAG = Unsupported(ASSISTED.reason, (None, False), changes_text=False)
CACHE = Unsupported("there is one kind of KV cache, and it chooses its own size", changes_text=False)
COMPILED = Unsupported(
    "a decode step is not compiled; torch.compile the model itself", (None, False, True), changes_text=False
)
GUIDANCE = Unsupported("guidance by a second prompt is not implemented")
REMOTE_CODE = Unsupported("code from elsewhere is never run", (None, False))
ENCODER_PENALTY = Unsupported("penalties for repeating the source text are not implemented", (None, 0, 1.0))
INTERMEDIATE_VALUES = Unsupported("call the model on the finished sequences for its intermediate values", (None, False))
CALLBACK = Unsupported("user-defined functions are not called during a search", (None, []))

UNSUPPORTED: Mapping[str, Unsupported] = {
    "assistant_model": ASSISTED,
    "assistant_tokenizer": ASSISTED,
    "is_assistant": ASSISTED_FLAG,
    "use_mtp": ASSISTED_FLAG,
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
    "cache_implementation": CACHE,
    "cache_config": CACHE,
    "max_cache_len": CACHE,
    "prefill_chunk_size": CACHE,
    "continuous_batching_config": CACHE,
    "low_memory": Unsupported(
        "contrastive search has one implementation, which needs little memory", (None, False), False
    ),
    "compile_config": COMPILED,
    "disable_compile": COMPILED,
    "synced_gpus": Unsupported("every process generates independently", (None, False), False),
    "guidance_scale": Unsupported(GUIDANCE.reason, (None, 1, 1.0)),
    "negative_prompt_ids": GUIDANCE,
    "negative_prompt_attention_mask": GUIDANCE,
    "custom_generate": REMOTE_CODE,
    "trust_remote_code": REMOTE_CODE,
    "use_model_defaults": Unsupported("the model's settings always apply where the call gives none", (None, True)),
    "max_time": Unsupported("there is no time limit; set max_new_tokens"),
    "top_h": Unsupported("candidates are not selected by entropy; use typical_p or eta_cutoff"),
    "encoder_repetition_penalty": ENCODER_PENALTY,
    "encoder_no_repeat_ngram_size": ENCODER_PENALTY,
    "exponential_decay_length_penalty": Unsupported("the end token does not become likelier with length"),
    "sequence_bias": Unsupported("sequences are not given a bias; use bad_words_ids"),
    "constraints": Unsupported("pass the required words as force_words_ids"),
    "token_healing": Unsupported("the last token of a prompt is not generated again", (None, False)),
    "remove_invalid_values": Unsupported("scores that are NaN are never replaced", (None, False)),
    "watermarking_config": Unsupported("watermarks are not implemented"),
    "dola_layers": Unsupported("decoding by contrasting layers is not implemented"),
    "generation_kwargs": Unsupported("pass settings by their own names", (None, {})),
    "output_attentions": INTERMEDIATE_VALUES,
    "output_hidden_states": INTERMEDIATE_VALUES,
    "output_logits": Unsupported("output_scores returns the processed scores", (None, False)),
    "logits_processor": CALLBACK,
    "stopping_criteria": CALLBACK,
    "prefix_allowed_tokens_fn": CALLBACK,
    "streamer": Unsupported("it is an argument of generate, not a setting", changes_text=False),
}


def refuse_unsupported(name: str, value: Any) -> None:
    """Raise if a setting that is not implemented here is requested; a neutral value passes."""
    if UNSUPPORTED[name].is_requested(value):
        raise ConfigError(f"{name}={value!r:.60} is not supported: {UNSUPPORTED[name].reason}")


def ignored_settings(values: Mapping[str, Any]) -> list[str]:
    """Each setting of a file that would change the text and is not implemented, with the reason."""
    return [
        f"{name} = {value!r:.60} ({UNSUPPORTED[name].reason})"
        for name, value in values.items()
        if name in UNSUPPORTED and UNSUPPORTED[name].changes_text and UNSUPPORTED[name].is_requested(value)
    ]
