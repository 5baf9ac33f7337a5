"""What a generation will do: the layers of settings merged, contradictions refused, lengths and tokens worked out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError, InputError, refuse_unknown
from .config import TOKENS, GenerationConfig, say_once
from .effects import in_vain
from .foreign import FOREIGN, refuse_foreign
from .plan import (
    ARGUMENT,
    BEAM_SAMPLING,
    BEAMS,
    CALL,
    CONSTRAINED,
    CONTRASTIVE,
    DIVERSE,
    GREEDY,
    MODEL,
    NEW_TOKENS,
    SAMPLING,
    Plan,
    Source,
    length_field,
)

OF_GENERATE = """inputs input_ids attention_mask generation_config generator tokenizer streamer decoder_input_ids
    encoder_hidden_states encoder_attention_mask""".split()
OFF = {"top_k": 0}  # what None means in a call, where it is not the default


def resolve(
    model: Any,
    generation_config: GenerationConfig | None,
    call: Mapping[str, Any],
    prompts: Sequence[int],
    *,
    has_tokenizer: bool = False,
    has_generator: bool = False,
) -> Plan:
    """Settle a generation from prompts of these lengths, and say what is worth saying, once.

    The nearest layer that gives a field a value decides: the call, the `generation_config` that came with it, the
    model's own, the defaults. None in a call switches a setting off.
    """
    plan = settle(model, generation_config, call, prompts, has_tokenizer=has_tokenizer, has_generator=has_generator)
    for note in plan.notes:
        say_once(note)
    return plan


def settle(
    model: Any,
    generation_config: GenerationConfig | None,
    call: Mapping[str, Any],
    prompts: Sequence[int],
    *,
    has_tokenizer: bool = False,
    has_generator: bool = False,
) -> Plan:
    """What `resolve` does, without a word."""
    settings, sources = merge(model, generation_config, call)
    vocabulary = model.config.vocab_size
    context = model.decoding_body.max_length
    notes = settle_tokens(settings, sources, vocabulary)
    check_words(settings, vocabulary)
    check_strategy(settings, sources)
    if settings.stop_strings and not has_tokenizer:
        raise ConfigError(f"stop_strings {settings.stop_strings!r:.60} need the tokenizer: pass tokenizer=")
    new_tokens = [count_new_tokens(settings, sources, context, max(prompt, 1)) for prompt in prompts]
    for prompt, most in zip(prompts, new_tokens, strict=True):
        check_least(settings, sources, prompt, most)
    eos = flattened(settings.eos_token_id)
    plan = Plan(
        settings=settings,
        sources=sources,
        strategy=strategy_of(settings),
        eos=eos,
        pad=settings.pad_token_id if settings.pad_token_id is not None else [*eos, 0][0],
        prompts=list(prompts),
        new_tokens=new_tokens,
        context=context,
        is_encoder_decoder=model.config.is_encoder_decoder,
        has_generator=has_generator,
    )
    return dataclasses.replace(plan, notes=(*notes, *notes_on(plan), *in_vain(plan)))


def notes_on(plan: Plan) -> list[str]:
    """What to say of a plan that does less than was asked for, or more."""
    notes, settings, name = [], plan.settings, plan.length_field
    if name and plan.passes_context and settings.on_full_context == "stop":
        reads = f"the {plan.context} tokens that the model reads at once"
        notes.append(f"{name} {getattr(settings, name)} goes beyond {reads}: the text ends there")
    if settings.pad_token_id is None and len(plan.prompts) * settings.num_return_sequences > 1:
        notes.append(f"no pad_token_id is given: sequences that end early are filled with token {plan.pad}")
    return notes


def merge(
    model: Any, generation_config: GenerationConfig | None, call: Mapping[str, Any]
) -> tuple[GenerationConfig, dict[str, Source]]:
    """The settings that count, and where each came from."""
    if generation_config is not None and not isinstance(generation_config, GenerationConfig):
        raise ConfigError(f"generation_config must be a GenerationConfig, got {generation_config!r:.60}")
    if not hasattr(model, "generation_config"):
        raise InputError(f"{type(model).__name__} does not predict the next word, so it cannot generate")
    fields = GenerationConfig.field_names()
    refuse_unknown((name for name in call if name not in FOREIGN), [*fields, *OF_GENERATE], "generate")
    settings = GenerationConfig()
    sources = dict.fromkeys(fields, Source())

    def put(name: str, value: Any, layer: str, file: str = "") -> None:
        before = settings.given.get(name)
        setattr(settings, name, value)
        sources[name] = Source(layer, file, before if before != getattr(settings, name) else None)

    for layer, config in ((MODEL, model.generation_config), (ARGUMENT, generation_config or GenerationConfig())):
        for name, value in config.given.items():
            put(name, value, layer, config.files.get(name, ""))
    for name, value in call.items():
        if name in FOREIGN:
            refuse_foreign(name, value)
        else:
            put(name, OFF.get(name) if value is None else value, CALL)
    return settings, sources


# --- tokens -----------------------------------------------------------------------------------------------------------


def settle_tokens(settings: GenerationConfig, sources: dict[str, Source], vocabulary: int) -> list[str]:
    """Refuse token ids that the vocabulary does not have; a model's own are passed over and told: files are crooked."""
    notes = []
    for name in (*TOKENS, "forced_bos_token_id", "forced_eos_token_id"):
        value, source = getattr(settings, name), sources[name]
        ids = flattened(value)
        beyond = [token for token in ids if token >= vocabulary]
        if not beyond:
            continue
        if source.layer != MODEL:
            raise ConfigError(f"{name} {beyond[0]} is beyond the vocabulary of {vocabulary} tokens")
        notes.append(f"{name} {beyond[0]} is beyond the vocabulary of {vocabulary} tokens and is not used")
        setattr(settings, name, [token for token in ids if token < vocabulary] or None)
        sources[name] = Source(MODEL, source.file, instead_of=value)
    return notes


def check_words(settings: GenerationConfig, vocabulary: int) -> None:
    for name in ("bad_words_ids", "force_words_ids", "suppress_tokens", "begin_suppress_tokens"):
        beyond = [token for token in flattened(getattr(settings, name)) if token >= vocabulary]
        if beyond:
            raise ConfigError(f"{name}: token {beyond[0]} is beyond the vocabulary of {vocabulary} tokens")
    suppressed = set(settings.suppress_tokens or ())
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        forced = set(flattened(getattr(settings, name)))
        if forced and forced <= suppressed:
            raise ConfigError(f"{name} {sorted(forced)} and suppress_tokens contradict each other")


def flattened(value: Any) -> list[int]:
    if isinstance(value, list):
        return [token for one in value for token in flattened(one)]
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
    """Refuse settings that ask for two strategies at once, or for more than one can give."""

    def said(name: str) -> str:
        source = sources[name]
        behind = f" ({source})" if source.layer in (ARGUMENT, MODEL) else ""
        return f"{name} {getattr(settings, name)!r:.40}{behind}"

    beams, groups, wanted = settings.num_beams, settings.num_beam_groups, settings.num_return_sequences
    contrastive = strategy_of(settings) == CONTRASTIVE
    slides = settings.on_full_context == "slide"
    forced = bool(settings.force_words_ids)
    for wrong, sentence in (
        (forced and beams == 1, f"force_words_ids need a beam search, got {said('num_beams')}"),
        (forced and settings.do_sample, f"force_words_ids do not go with sampling, got {said('do_sample')}"),
        (forced and groups > 1, f"force_words_ids do not go with groups of beams, got {said('num_beam_groups')}"),
        (beams % groups, f"num_beams must be a multiple of num_beam_groups, got {said('num_beams')} and {groups}"),
        (groups > 1 and settings.do_sample, f"groups of beams do not sample, got {said('do_sample')}"),
        (
            groups > 1 and not settings.diversity_penalty,
            f"{said('num_beam_groups')} needs a diversity_penalty above 0, for all groups would be equal",
        ),
        (
            settings.penalty_alpha and beams > 1,
            f"{said('penalty_alpha')} asks for a contrastive search, and {said('num_beams')} for a beam search",
        ),
        (
            settings.penalty_alpha and settings.do_sample,
            f"{said('penalty_alpha')} asks for a contrastive search, and {said('do_sample')} for sampling",
        ),
        (
            1 < beams < wanted,
            f"num_return_sequences must be at most num_beams, got {said('num_return_sequences')} and {beams}",
        ),
        (
            beams == 1 < wanted and not settings.do_sample,
            f"a {'contrastive' if contrastive else 'greedy'} search finds one sequence, "
            f"got {said('num_return_sequences')}: pass do_sample=True or num_beams",
        ),
        (slides and beams > 1, f"on_full_context='slide' does not go with a beam search, got {said('num_beams')}"),
        (slides and contrastive, f"on_full_context='slide' does not go with {said('penalty_alpha')}"),
    ):
        if wrong:
            raise ConfigError(sentence)


# --- lengths ----------------------------------------------------------------------------------------------------------


def count_new_tokens(
    settings: GenerationConfig, sources: Mapping[str, Source], context: int | None, prompt: int
) -> int:
    """How many tokens may follow a prompt of this length."""
    slides = settings.on_full_context == "slide"
    if context is not None and prompt >= context and not slides:
        raise InputError(
            f"the prompt has {prompt} tokens, and the model reads at most {context} with what follows: "
            f"shorten it, or pass on_full_context='slide' to forget its beginning"
        )
    name = length_field(settings, sources)
    most = settings.max_new_tokens if name == "max_new_tokens" else NEW_TOKENS
    if name == "max_length":
        most = settings.max_length - prompt
        if most < 1:
            raise InputError(
                f"the prompt has {prompt} tokens, so max_length {settings.max_length} leaves no room for new ones: "
                f"raise it, or pass max_new_tokens"
            )
    return most if slides or context is None else min(most, context - prompt)


def check_least(settings: GenerationConfig, sources: Mapping[str, Source], prompt: int, most: int) -> None:
    """Refuse a least length above the greatest, unless the greatest was said nearer to the call."""
    limit = length_field(settings, sources)
    source = sources[limit] if limit else Source()
    for name, least in (("min_length", settings.min_length - prompt), ("min_new_tokens", settings.min_new_tokens or 0)):
        if least > most and not source.is_nearer_than(sources[name]):
            raise ConfigError(
                f"{name} {getattr(settings, name)} cannot be reached: "
                f"a prompt of {prompt} tokens may be followed by {most}: lower it, or allow more"
            )
