"""What each setting does in a plan, in plain words, and why it does nothing where it does nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .config import GenerationConfig
from .plan import ARGUMENT, BEAM_SAMPLING, CALL, CONTRASTIVE, SAMPLING, Plan

DRAWING = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    "renormalize_logits",
)
CHOOSES = ("do_sample", "num_beams")  # they decide on the strategy, whatever their value is
DEFAULTS = GenerationConfig().to_dict()
RANKING = ("length_penalty", "length_penalty_counts", "early_stopping")
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
    "renormalize_logits": False,
    "return_dict_in_generate": False,
    "output_scores": False,
    "use_cache": True,
    "do_sample": False,
    "num_beams": 1,
}

EARLY_STOPPING = {
    True: "a prompt is done as soon as num_beams sequences have ended",
    False: "a prompt is done when the beams still open look no better than the ended sequences",
    "never": "a prompt is done when no open beam could become better than the ended sequences",
}


def about_temperature(value: float, plan: Plan) -> str:
    tendency = "likely words become likelier" if value < 1 else "unlikely words get more of a chance"
    return f"scores are divided by {value}: {tendency}"


def about_top_k(value: int, plan: Plan) -> str:
    what = "compared" if plan.strategy == CONTRASTIVE else "drawn"
    return f"only the {value} likeliest words are {what}"


def about_length_penalty(value: float, plan: Plan) -> str:
    tendency = "long" if value > 0 else "short"
    return f"a sequence's score is divided by its length to the power of {value}: favours {tendency} ones"


def about_repetition(value: float, plan: Plan) -> str:
    return f"words that were said become {'less' if value > 1 else 'more'} likely, by a factor of {value}"


# For each field what it does: a text with the value in it, or a function of value and plan.
DOES: Mapping[str, str | Callable[[Any, Plan], str]] = {
    "max_length": "a sequence has at most {} tokens, prompt included",
    "max_new_tokens": "at most {} tokens follow a prompt",
    "min_length": "no end before a sequence has {} tokens, prompt included",
    "min_new_tokens": "no end before {} new tokens",
    "early_stopping": lambda value, plan: EARLY_STOPPING[value],
    "stop_strings": "a sequence ends when its new text contains one of these",
    "on_full_context": lambda value, plan: (
        "when the model can read no more, "
        + ("the older half is forgotten" if value == "slide" else "the text ends ('slide' would forget the older half)")
    ),
    "do_sample": lambda value, plan: "words are drawn by chance" if value else "nothing is left to chance",
    "num_beams": lambda value, plan: (
        f"the {value} best continuations are followed at once" if value > 1 else "one continuation is followed"
    ),
    "num_beam_groups": "the beams are split into {} groups that go different ways",
    "diversity_penalty": "a word loses {} for each time that a group before has just chosen it",
    "penalty_alpha": lambda value, plan: f"being new weighs {value:g}, being likely {1 - value:g}",
    "force_words_ids": "these words must be said",
    "num_return_sequences": "{} sequences come back for each prompt",
    "length_penalty": about_length_penalty,
    "length_penalty_counts": lambda value, plan: (
        "that length counts the prompt too" if value == "all" else "that length counts new tokens only"
    ),
    "use_cache": "everything is read again at every step: slow, and the same text",
    "temperature": about_temperature,
    "top_k": about_top_k,
    "top_p": "only the fewest likeliest words that together reach the probability {} are drawn",
    "min_p": "only words at least {} times as likely as the likeliest are drawn",
    "typical_p": "only the words nearest to the expected surprise, up to the probability {}, are drawn",
    "epsilon_cutoff": "only words of at least the probability {} are drawn",
    "eta_cutoff": "only words above a probability of at most {} are drawn, a lower one where much is possible",
    "repetition_penalty": about_repetition,
    "no_repeat_ngram_size": "no {} tokens in a row are said twice",
    "bad_words_ids": "these words are not said",
    "suppress_tokens": "these tokens are not said",
    "begin_suppress_tokens": "none of these tokens is the first new one",
    "forced_bos_token_id": "the first new token is {}",
    "forced_eos_token_id": "the last token of a sequence that uses its whole length is {}",
    "renormalize_logits": "what is left to draw from is made to sum to 1 again",
    "bos_token_id": "an empty prompt begins with token {}",
    "eos_token_id": "a sequence ends with token {}",
    "pad_token_id": "token {} fills up what is shorter than the rest",
    "decoder_start_token_id": "the answer begins with token {}",
    "return_dict_in_generate": "the result is an object that tells more than the sequences",
    "output_scores": "the result holds the scores that words were chosen from",
}


def does(name: str, value: Any, plan: Plan) -> str:
    """What a setting does, in plain words."""
    if value is None:
        return "switched off"
    if is_neutral(name, value) and name not in CHOOSES:
        before = plan.sources[name].instead_of
        other = f"the default {DEFAULTS[name]}" if before is None else repr(before)
        return f"with this value it changes nothing, where {other} would have"
    said = DOES[name]
    return said.format(value) if isinstance(said, str) else said(value, plan)


def stands_alone(name: str, plan: Plan) -> bool:
    """Whether a setting would have its value, or another that changes nothing, without being given."""
    before = plan.sources[name].instead_of
    return is_neutral(name, DEFAULTS[name]) if before is None else is_neutral(name, before)


def is_neutral(name: str, value: Any) -> bool:
    return value is None or (name in NEUTRAL and value == NEUTRAL[name])


def unused_settings(plan: Plan) -> dict[str, str]:
    """Settings that other settings keep from having an effect, and why. Whether they were given is not asked."""
    settings, why = plan.settings, {}
    draws = plan.strategy in (SAMPLING, BEAM_SAMPLING)
    if not draws:
        why.update(dict.fromkeys((*DRAWING, "generator"), "only sampling draws words (do_sample=True)"))
    if plan.strategy == SAMPLING and not settings.output_scores:
        why["renormalize_logits"] = "drawing does that anyway; only scores that are returned show it"
    if plan.strategy == CONTRASTIVE:
        del why["top_k"]
    elif settings.num_beams == 1 and not draws:
        why["penalty_alpha"] = f"a contrastive search compares top_k words, and top_k is {settings.top_k}"
    if settings.num_beams == 1:
        why.update(dict.fromkeys(RANKING, "only a beam search compares whole sequences (num_beams above 1)"))
    elif not settings.length_penalty:
        why["length_penalty_counts"] = "length_penalty is 0"
    if settings.num_beam_groups == 1:
        why["diversity_penalty"] = "there is one group of beams (num_beam_groups above 1 makes more)"
    if plan.length_field == "max_new_tokens":
        why["max_length"] = "max_new_tokens decides"
    elif plan.length_field == "max_length":
        why["max_new_tokens"] = f"max_length decides, which came nearer to the call ({plan.sources['max_length']})"
    if not plan.eos:
        for name in ("min_length", "min_new_tokens"):
            why[name] = "there is no eos_token_id that could come too early"
    if not settings.return_dict_in_generate:
        why["output_scores"] = "scores come back only with return_dict_in_generate=True"
    if not plan.is_encoder_decoder:
        why["decoder_start_token_id"] = "the model has no encoder: its answer begins with the prompt"
    return why


def unneeded_settings(plan: Plan) -> dict[str, str]:
    """Settings that these prompts, or their own values, leave without an effect, and why."""
    settings, prompts, why = plan.settings, plan.prompts, {}
    if all(word in [[token] for token in plan.eos] for word in settings.bad_words_ids or ()):
        why["bad_words_ids"] = "they name only tokens that end a sequence, and these stay allowed"
    if not prompts:
        return why if settings.on_full_context == "slide" else {**why, "on_full_context": "it depends on the prompt"}
    if settings.min_length <= min(prompts):
        why["min_length"] = "every prompt is that long already"
    elif settings.min_new_tokens and settings.min_length <= min(prompts) + settings.min_new_tokens:
        why["min_length"] = "min_new_tokens asks for more"
    elif settings.min_new_tokens and settings.min_length >= max(prompts) + settings.min_new_tokens:
        why["min_new_tokens"] = "min_length asks for more"
    if min(prompts) > 0:
        why["bos_token_id"] = "only an empty prompt begins with it"
    if min(prompts) > 1:
        why["forced_bos_token_id"] = "it counts only behind a prompt of one token"
    if not plan.passes_context:
        why["on_full_context"] = "no sequence gets longer than the model reads at once"
    if len(prompts) * settings.num_return_sequences == 1:
        why["pad_token_id"] = "one sequence is not filled up"
    return why


def in_vain(plan: Plan) -> list[str]:
    """What to say of settings that were asked for in vain; a model's file may say what it likes."""
    reasons: dict[str, list[str]] = {}
    for name, why in unused_settings(plan).items():
        if name == "generator":
            asked = plan.has_generator
        else:
            asked = plan.sources[name].layer in (CALL, ARGUMENT) and not is_neutral(name, getattr(plan.settings, name))
        if asked:
            reasons.setdefault(why, []).append(name)
    return [
        f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect: {why}" for why, names in reasons.items()
    ]
