"""What each setting of a plan does, in plain words, and why it has no effect where it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .config import GenerationConfig
from .plan import ARGUMENT, BEAM_SAMPLING, CALL, CONTRASTIVE, SAMPLING, Plan

SAMPLING_SETTINGS = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    "renormalize_logits",
)
BEAM_SETTINGS = ("length_penalty", "length_penalty_counts", "early_stopping")
STRATEGY_SETTINGS = ("do_sample", "num_beams")  # they select the strategy, whatever their value is
DEFAULTS = GenerationConfig().to_dict()
# With these values a setting changes nothing.
NEUTRAL = {
    "min_length": 0,
    "min_new_tokens": 0,
    "temperature": 1,
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "typical_p": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "repetition_penalty": 1,
    "no_repeat_ngram_size": 0,
    "diversity_penalty": 0,
    "penalty_alpha": 0,
    "length_penalty": 0,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "stop_strings": [],
    "bad_words_ids": [],
    "force_words_ids": [],
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "forced_decoder_ids": [],
    "return_timestamps": False,
    "renormalize_logits": False,
    "return_dict_in_generate": False,
    "output_scores": False,
    "use_cache": True,
    "do_sample": False,
    "num_beams": 1,
}

EARLY_STOPPING = {
    True: "a prompt is finished as soon as num_beams sequences have ended",
    False: "a prompt is finished when the running beams look no better than the ended sequences",
    "never": "a prompt is finished when no running beam can become better than the ended sequences",
}


def describe_temperature(value: float, plan: Plan) -> str:
    effect = "likely tokens become likelier" if value < 1 else "unlikely tokens become likelier"
    return f"logits are divided by {value}: {effect}"


def describe_top_k(value: int, plan: Plan) -> str:
    return f"only the {value} likeliest tokens are {'compared' if plan.strategy == CONTRASTIVE else 'sampled'}"


def describe_length_penalty(value: float, plan: Plan) -> str:
    favoured = "long" if value > 0 else "short"
    return f"a sequence's score is divided by its length to the power of {value}: favours {favoured} ones"


def describe_repetition_penalty(value: float, plan: Plan) -> str:
    return f"tokens that already occur become {'less' if value > 1 else 'more'} likely, by a factor of {value}"


# For each field a text with a place for the value, or a function of value and plan.
DESCRIPTIONS: Mapping[str, str | Callable[[Any, Plan], str]] = {
    "max_length": "a sequence has at most {} tokens, prompt included",
    "max_new_tokens": "at most {} tokens follow a prompt",
    "min_length": "no sequence ends before it has {} tokens, prompt included",
    "min_new_tokens": "no sequence ends before {} new tokens",
    "early_stopping": lambda value, plan: EARLY_STOPPING[value],
    "stop_strings": "a sequence ends when its new text contains one of these",
    "on_full_context": lambda value, plan: (
        "when the context is full, "
        + ("the older half is dropped" if value == "slide" else "the text ends ('slide' would drop the older half)")
    ),
    "do_sample": lambda value, plan: "tokens are sampled" if value else "tokens are not sampled",
    "num_beams": lambda value, plan: (
        f"the {value} best continuations are followed at once" if value > 1 else "one continuation is followed"
    ),
    "num_beam_groups": "the beams are split into {} groups that differ from each other",
    "diversity_penalty": "a token loses {} for each earlier group that has just chosen it",
    "penalty_alpha": lambda value, plan: f"novelty weighs {value:g}, probability {1 - value:g}",
    "force_words_ids": "these words must occur",
    "num_return_sequences": "{} sequences are returned for each prompt",
    "length_penalty": describe_length_penalty,
    "length_penalty_counts": lambda value, plan: (
        "that length includes the prompt" if value == "all" else "that length counts new tokens only"
    ),
    "use_cache": "no KV cache: every step reads the full sequence again, slowly and with the same result",
    "temperature": describe_temperature,
    "top_k": describe_top_k,
    "top_p": "only the smallest set of likeliest tokens with a total probability of {} is sampled",
    "min_p": "only tokens at least {} times as likely as the likeliest are sampled",
    "typical_p": "only the tokens nearest to the expected surprise, up to a total probability of {}, are sampled",
    "epsilon_cutoff": "only tokens with a probability of at least {} are sampled",
    "eta_cutoff": "only tokens above a probability of at most {} are sampled, lower where the entropy is high",
    "repetition_penalty": describe_repetition_penalty,
    "no_repeat_ngram_size": "no {} tokens in a row occur twice",
    "bad_words_ids": "these words do not occur",
    "suppress_tokens": "these tokens do not occur",
    "begin_suppress_tokens": "none of these tokens is the first new one",
    "forced_bos_token_id": "the first new token is {}",
    "forced_eos_token_id": "the last token of a sequence of maximum length is {}",
    "forced_decoder_ids": "the target begins with these tokens",
    "return_timestamps": "times stand around what is written, in pairs that never go back",
    "no_timestamps_token_id": "the tokens behind {} are times",
    "max_initial_timestamp_index": "the first time is at most {} steps",
    "renormalize_logits": "the probabilities of the remaining tokens are normalised to sum to 1",
    "bos_token_id": "an empty prompt begins with token {}",
    "eos_token_id": "a sequence ends with token {}",
    "pad_token_id": "shorter sequences are padded with token {}",
    "decoder_start_token_id": "the target begins with token {}",
    "return_dict_in_generate": "the result is an object that holds more than the sequences",
    "output_scores": "the result includes the scores that tokens were chosen by",
}


def describe(name: str, value: Any, plan: Plan) -> str:
    """What a setting does, in plain words."""
    if value is None:
        return "switched off"
    if is_neutral(name, value) and name not in STRATEGY_SETTINGS:
        overridden = plan.sources[name].overridden
        other = f"the default {DEFAULTS[name]}" if overridden is None else repr(overridden)
        return f"this value changes nothing, but {other} would"
    description = DESCRIPTIONS[name]
    return description.format(value) if isinstance(description, str) else description(value, plan)


def would_be_neutral(name: str, plan: Plan) -> bool:
    """Whether a setting that was not given would change nothing."""
    overridden = plan.sources[name].overridden
    return is_neutral(name, DEFAULTS[name] if overridden is None else overridden)


def is_neutral(name: str, value: Any) -> bool:
    return value is None or (name in NEUTRAL and value == NEUTRAL[name])


def disabled_by_other_settings(plan: Plan) -> dict[str, str]:
    """Settings without an effect because of other settings, given or not, and the reasons."""
    settings, reasons = plan.settings, {}
    samples = plan.strategy in (SAMPLING, BEAM_SAMPLING)
    if not samples:
        reasons.update(dict.fromkeys((*SAMPLING_SETTINGS, "generator"), "used only in sampling (do_sample=True)"))
    if plan.strategy == SAMPLING and not settings.output_scores:
        reasons["renormalize_logits"] = "sampling normalises anyway; only returned scores show it"
    if plan.strategy == CONTRASTIVE:
        del reasons["top_k"]
    elif settings.num_beams == 1 and not samples:
        reasons["penalty_alpha"] = f"a contrastive search compares top_k tokens, and top_k is {settings.top_k}"
    if settings.num_beams == 1:
        reasons.update(dict.fromkeys(BEAM_SETTINGS, "used only in beam search (num_beams above 1)"))
    elif not settings.length_penalty:
        reasons["length_penalty_counts"] = "length_penalty is 0"
    if settings.num_beam_groups == 1:
        reasons["diversity_penalty"] = "there is one beam group (num_beam_groups above 1 makes more)"
    if plan.length_field == "max_new_tokens":
        reasons["max_length"] = "max_new_tokens takes precedence"
    elif plan.length_field == "max_length":
        reasons["max_new_tokens"] = f"max_length takes precedence (from {plan.sources['max_length']})"
    if not plan.eos:
        for name in ("min_length", "min_new_tokens"):
            reasons[name] = "there is no eos_token_id to suppress"
    if not settings.return_dict_in_generate:
        reasons["output_scores"] = "scores are returned only with return_dict_in_generate=True"
    if not settings.return_timestamps:
        names = ("no_timestamps_token_id", "max_initial_timestamp_index")
        reasons.update(dict.fromkeys(names, "used only with return_timestamps=True"))
    if not plan.is_encoder_decoder:
        reasons["forced_decoder_ids"] = "the model is no encoder-decoder: put the tokens into the prompt"
        reasons["decoder_start_token_id"] = "the model is no encoder-decoder: it continues the prompt"
    return reasons


def disabled_by_prompts_or_values(plan: Plan) -> dict[str, str]:
    """Settings without an effect for these prompts, or because of their own values, and the reasons."""
    settings, prompts, reasons = plan.settings, plan.prompt_lengths, {}
    if all(word in [[token] for token in plan.eos] for word in settings.bad_words_ids or ()):
        reasons["bad_words_ids"] = "contains only tokens that end a sequence, and these stay allowed"
    if not prompts:
        return (
            reasons if settings.on_full_context == "slide" else {**reasons, "on_full_context": "depends on the prompt"}
        )
    if settings.min_length <= min(prompts):
        reasons["min_length"] = "every prompt is that long already"
    elif settings.min_new_tokens and settings.min_length <= min(prompts) + settings.min_new_tokens:
        reasons["min_length"] = "min_new_tokens requires more"
    elif settings.min_new_tokens and settings.min_length >= max(prompts) + settings.min_new_tokens:
        reasons["min_new_tokens"] = "min_length requires more"
    if min(prompts) > 0:
        reasons["bos_token_id"] = "used only for empty prompts"
    if min(prompts) > 1:
        reasons["forced_bos_token_id"] = "used only after a prompt of one token"
    if not plan.exceeds_context:
        reasons["on_full_context"] = "no sequence gets longer than the model reads at once"
    if len(prompts) * settings.num_return_sequences == 1:
        reasons["pad_token_id"] = "a single sequence is not padded"
    return reasons


def warnings_of_ineffective_settings(plan: Plan) -> list[str]:
    """One warning for each reason why requested settings have no effect; settings of the model's files do not count."""
    ineffective: dict[str, list[str]] = {}
    for name, reason in disabled_by_other_settings(plan).items():
        if name == "generator":
            is_requested = plan.has_generator
        else:
            is_given = plan.sources[name].layer in (CALL, ARGUMENT)
            is_requested = is_given and not is_neutral(name, getattr(plan.settings, name))
        if is_requested:
            ineffective.setdefault(reason, []).append(name)
    return [
        f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect: {reason}"
        for reason, names in ineffective.items()
    ]
