"""From the settings of a call, a config and the model to a plan: layers are merged, contradictions refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError, InputError, refuse_unknown
from .config import TOKENS, GenerationConfig
from .plan import (
    ARGUMENT,
    BEAM_SAMPLING,
    BEAMS,
    CALL,
    CONSTRAINED,
    CONTRASTIVE,
    DEFAULT_NEW_TOKENS,
    DIVERSE,
    GREEDY,
    MODEL,
    SAMPLING,
    Plan,
    Source,
    length_field,
)
from .settings_effects import warnings_of_ineffective_settings
from .unsupported import UNSUPPORTED, refuse_unsupported

GENERATE_ARGUMENTS = """inputs input_ids attention_mask generation_config generator tokenizer streamer decoder_input_ids
    encoder_hidden_states encoder_attention_mask""".split()
OFF = {"top_k": 0}  # what None means in a call, where it is not the default


def resolve(
    model: Any,
    generation_config: GenerationConfig | None,
    call: Mapping[str, Any],
    prompt_lengths: Sequence[int],
    *,
    has_tokenizer: bool = False,
    has_generator: bool = False,
) -> Plan:
    """The plan of a call for prompts of these lengths.

    A setting is taken from the first layer that gives it: the call, its `generation_config`, the model's own, the
    defaults. None in a call switches a setting off.
    """
    settings, sources = merge(model, generation_config, call)
    vocab_size = model.config.vocab_size
    context_length = model.decoding_body.max_length
    warnings = check_token_ids(settings, sources, vocab_size)
    check_word_lists(settings, vocab_size)
    check_strategy(settings, sources)
    if settings.stop_strings and not has_tokenizer:
        raise ConfigError(f"stop_strings {settings.stop_strings!r:.60} need the tokenizer: pass tokenizer=")
    new_tokens = [max_new_tokens(settings, sources, context_length, max(prompt, 1)) for prompt in prompt_lengths]
    for prompt, maximum in zip(prompt_lengths, new_tokens, strict=True):
        check_min_length(settings, sources, prompt, maximum)
    eos = flatten(settings.eos_token_id)
    plan = Plan(
        settings=settings,
        sources=sources,
        strategy=strategy_of(settings),
        eos=eos,
        pad=settings.pad_token_id if settings.pad_token_id is not None else [*eos, 0][0],
        prompt_lengths=list(prompt_lengths),
        max_new_tokens=new_tokens,
        context_length=context_length,
        is_encoder_decoder=model.config.is_encoder_decoder,
        has_generator=has_generator,
    )
    warnings += [*warnings_of_length_and_padding(plan), *warnings_of_ineffective_settings(plan)]
    return dataclasses.replace(plan, warnings=tuple(warnings))


def warnings_of_length_and_padding(plan: Plan) -> list[str]:
    warnings, settings, name = [], plan.settings, plan.length_field
    if name and plan.exceeds_context and settings.on_full_context == "stop":
        context = f"the {plan.context_length} tokens that the model reads at once"
        warnings.append(f"{name} {getattr(settings, name)} goes beyond {context}: the text ends there")
    if settings.pad_token_id is None and len(plan.prompt_lengths) * settings.num_return_sequences > 1:
        warnings.append(f"no pad_token_id is given: sequences that end early are padded with token {plan.pad}")
    return warnings


def merge(
    model: Any, generation_config: GenerationConfig | None, call: Mapping[str, Any]
) -> tuple[GenerationConfig, dict[str, Source]]:
    """The settings of all layers, and where each came from."""
    if generation_config is not None and not isinstance(generation_config, GenerationConfig):
        raise ConfigError(f"generation_config must be a GenerationConfig, got {generation_config!r:.60}")
    if not hasattr(model, "generation_config"):
        raise InputError(f"{type(model).__name__} does not predict the next word, so it cannot generate")
    fields = GenerationConfig.field_names()
    refuse_unknown((name for name in call if name not in UNSUPPORTED), [*fields, *GENERATE_ARGUMENTS], "generate")
    settings = GenerationConfig()
    sources = dict.fromkeys(fields, Source())

    def override(name: str, value: Any, layer: str, file: str = "") -> None:
        before = settings.given.get(name)
        setattr(settings, name, value)
        sources[name] = Source(layer, file, before if before != getattr(settings, name) else None)

    for layer, config in ((MODEL, model.generation_config), (ARGUMENT, generation_config or GenerationConfig())):
        for name, value in config.given.items():
            override(name, value, layer, config.files.get(name, ""))
    for name, value in call.items():
        if name in UNSUPPORTED:
            refuse_unsupported(name, value)
        else:
            override(name, OFF.get(name) if value is None else value, CALL)
    return settings, sources


# --- tokens -----------------------------------------------------------------------------------------------------------


def check_token_ids(settings: GenerationConfig, sources: dict[str, Source], vocab_size: int) -> list[str]:
    """Refuse token ids outside the vocabulary; those from the model's own files are dropped with a warning."""
    warnings = []
    for name in (*TOKENS, "forced_bos_token_id", "forced_eos_token_id", "no_timestamps_token_id"):
        value, source = getattr(settings, name), sources[name]
        ids = flatten(value)
        invalid = [token for token in ids if token >= vocab_size]
        if not invalid:
            continue
        if source.layer != MODEL:
            raise ConfigError(f"{name} {invalid[0]} is beyond the vocabulary of {vocab_size} tokens")
        warnings.append(f"{name} {invalid[0]} is beyond the vocabulary of {vocab_size} tokens and is not used")
        setattr(settings, name, [token for token in ids if token < vocab_size] or None)
        sources[name] = Source(MODEL, source.file, overridden=value)
    return warnings


def check_word_lists(settings: GenerationConfig, vocab_size: int) -> None:
    for name in ("bad_words_ids", "force_words_ids", "suppress_tokens", "begin_suppress_tokens"):
        invalid = [token for token in flatten(getattr(settings, name)) if token >= vocab_size]
        if invalid:
            raise ConfigError(f"{name}: token {invalid[0]} is beyond the vocabulary of {vocab_size} tokens")
    if settings.return_timestamps and settings.no_timestamps_token_id is None:
        raise ConfigError("return_timestamps needs no_timestamps_token_id, behind which the tokens of times begin")
    suppressed = set(settings.suppress_tokens or ())
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        forced = set(flatten(getattr(settings, name)))
        if forced and forced <= suppressed:
            raise ConfigError(f"{name} {sorted(forced)} and suppress_tokens contradict each other")


def flatten(value: Any) -> list[int]:
    if isinstance(value, list):
        return [token for one in value for token in flatten(one)]
    return [] if value is None else [value]


# --- strategy ---------------------------------------------------------------------------------------------------------


def strategy_of(settings: GenerationConfig) -> str:
    if settings.force_words_ids:
        return CONSTRAINED
    if settings.num_beams > 1:
        if settings.num_beam_groups > 1:
            return DIVERSE
        return BEAM_SAMPLING if settings.do_sample else BEAMS
    if settings.do_sample:
        return SAMPLING
    return CONTRASTIVE if settings.penalty_alpha and settings.top_k > 1 else GREEDY


def check_strategy(settings: GenerationConfig, sources: Mapping[str, Source]) -> None:
    """Refuse settings that request two strategies at once, or more sequences than one can return."""

    def setting(name: str) -> str:
        source = sources[name]
        origin = f" ({source})" if source.layer in (ARGUMENT, MODEL) else ""
        return f"{name} {getattr(settings, name)!r:.40}{origin}"

    beams, groups, sequences = settings.num_beams, settings.num_beam_groups, settings.num_return_sequences
    contrastive = strategy_of(settings) == CONTRASTIVE
    slides = settings.on_full_context == "slide"
    forced = bool(settings.force_words_ids)
    for is_wrong, message in (
        (forced and beams == 1, f"force_words_ids need a beam search, got {setting('num_beams')}"),
        (forced and settings.do_sample, f"force_words_ids cannot be sampled, got {setting('do_sample')}"),
        (forced and groups > 1, f"force_words_ids do not work with beam groups, got {setting('num_beam_groups')}"),
        (beams % groups, f"num_beams must be a multiple of num_beam_groups, got {setting('num_beams')} and {groups}"),
        (groups > 1 and settings.do_sample, f"beam groups do not sample, got {setting('do_sample')}"),
        (
            groups > 1 and not settings.diversity_penalty,
            f"{setting('num_beam_groups')} needs a diversity_penalty above 0, or all groups would be equal",
        ),
        (
            settings.penalty_alpha and beams > 1,
            f"{setting('penalty_alpha')} requests a contrastive search, and {setting('num_beams')} a beam search",
        ),
        (
            settings.penalty_alpha and settings.do_sample,
            f"{setting('penalty_alpha')} requests a contrastive search, and {setting('do_sample')} sampling",
        ),
        (
            1 < beams < sequences,
            f"num_return_sequences must be at most num_beams, got {setting('num_return_sequences')} and {beams}",
        ),
        (
            beams == 1 < sequences and not settings.do_sample,
            f"a {'contrastive' if contrastive else 'greedy'} search returns one sequence, "
            f"got {setting('num_return_sequences')}: pass do_sample=True or num_beams",
        ),
        (slides and beams > 1, f"on_full_context='slide' does not work with a beam search, got {setting('num_beams')}"),
        (slides and contrastive, f"on_full_context='slide' does not work with {setting('penalty_alpha')}"),
    ):
        if is_wrong:
            raise ConfigError(message)


# --- lengths ----------------------------------------------------------------------------------------------------------


def max_new_tokens(
    settings: GenerationConfig, sources: Mapping[str, Source], context_length: int | None, prompt: int
) -> int:
    """How many tokens may follow a prompt of this length."""
    slides = settings.on_full_context == "slide"
    if context_length is not None and prompt >= context_length and not slides:
        raise InputError(
            f"the prompt has {prompt} tokens, and the model reads at most {context_length} with what follows: "
            f"shorten it, or pass on_full_context='slide' to drop its beginning"
        )
    name = length_field(settings, sources)
    maximum = settings.max_new_tokens if name == "max_new_tokens" else DEFAULT_NEW_TOKENS
    if name == "max_length":
        maximum = settings.max_length - prompt
        if maximum < 1:
            raise InputError(
                f"the prompt has {prompt} tokens, so max_length {settings.max_length} leaves no room for new ones: "
                f"raise it, or pass max_new_tokens"
            )
    return maximum if slides or context_length is None else min(maximum, context_length - prompt)


def check_min_length(settings: GenerationConfig, sources: Mapping[str, Source], prompt: int, maximum: int) -> None:
    """Refuse a minimum length above the maximum, unless the maximum has the higher precedence."""
    limit = length_field(settings, sources)
    source = sources[limit] if limit else Source()
    for name, least in (("min_length", settings.min_length - prompt), ("min_new_tokens", settings.min_new_tokens or 0)):
        if least > maximum and not source.takes_precedence_over(sources[name]):
            raise ConfigError(
                f"{name} {getattr(settings, name)} cannot be reached: "
                f"at most {maximum} tokens may follow a prompt of {prompt}: lower it, or allow more"
            )
