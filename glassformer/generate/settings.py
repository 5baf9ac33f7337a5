"""What a generation will do: the layers of settings merged, contradictions refused, lengths and tokens worked out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError, InputError, refuse_unknown
from .config import TOKENS, GenerationConfig, say_once
from .foreign import FOREIGN, refuse_foreign

# Where a value came from, the nearest first.
CALL, ARGUMENT, MODEL, DEFAULT = "call", "generation_config", "model", "default"
NEAREST = (CALL, ARGUMENT, MODEL, DEFAULT)

GREEDY, SAMPLING, CONTRASTIVE = "greedy", "sampling", "contrastive search"
BEAMS, BEAM_SAMPLING = "beam search", "beam sampling"
DIVERSE, CONSTRAINED = "diverse beam search", "constrained beam search"

NEW_TOKENS = 20  # when nobody says how long
OFF = {"top_k": 0}  # what None means in a call, where it is not the default


@dataclass(frozen=True)
class Plan:
    """What a generation will do, and where every setting came from."""

    settings: GenerationConfig
    sources: Mapping[str, str]  # field -> CALL, ARGUMENT, MODEL or DEFAULT
    origins: Mapping[str, str]  # ARGUMENT and MODEL -> the file behind them, if there is one
    strategy: str
    eos: list[int]
    pad: int
    context: int | None  # how many tokens the model reads at once
    prompts: list[int]  # their lengths
    new_tokens: list[int] = field(default_factory=list)  # for each prompt, at most
    has_generator: bool = False

    @property
    def limits(self) -> list[int]:
        """How many tokens each sequence may have, prompt included."""
        return [prompt + new for prompt, new in zip(self.prompts, self.new_tokens, strict=True)]


def resolve(
    model: Any,
    generation_config: GenerationConfig | None,
    call: Mapping[str, Any],
    prompts: Sequence[int],
    *,
    has_tokenizer: bool = False,
    has_generator: bool = False,
) -> Plan:
    """Settle a generation from prompts of these lengths.

    The nearest layer that gives a field a value decides: the call, the `generation_config` that came with it, the
    model's own, the defaults. None in a call switches a setting off.
    """
    settings, sources, origins = merge(model, generation_config, call)
    context = getattr(model.config, "max_position_embeddings", None)
    settle_tokens(settings, sources, model.config.vocab_size)
    check_vocabulary(settings, model.config.vocab_size)
    check_together(settings, has_tokenizer)
    strategy = strategy_of(settings)
    new_tokens = [count_new_tokens(settings, sources, context, prompt) for prompt in prompts]
    for prompt, most in zip(prompts, new_tokens, strict=True):
        check_least(settings, sources, prompt, most)
    eos = [settings.eos_token_id] if isinstance(settings.eos_token_id, int) else settings.eos_token_id or []
    pad = settings.pad_token_id
    if pad is None:
        pad = eos[0] if eos else 0
        if len(prompts) * settings.num_return_sequences > 1:
            say_once(f"no pad_token_id is given: sequences that end early are filled with {pad}")
    return Plan(
        settings, sources, origins, strategy, eos, pad, context, list(prompts), new_tokens, has_generator=has_generator
    )


def merge(
    model: Any, generation_config: GenerationConfig | None, call: Mapping[str, Any]
) -> tuple[GenerationConfig, dict[str, str], dict[str, str]]:
    """The settings that count, the layer that each came from, and the files behind the layers."""
    if generation_config is not None and not isinstance(generation_config, GenerationConfig):
        raise ConfigError(f"generation_config must be a GenerationConfig, got {generation_config!r:.60}")
    refuse_unknown((name for name in call if name not in FOREIGN), GenerationConfig.field_names(), "generate")
    settings = GenerationConfig()
    sources = dict.fromkeys(GenerationConfig.field_names(), DEFAULT)
    layers = {MODEL: model.generation_config, ARGUMENT: generation_config or GenerationConfig()}
    for layer, config in layers.items():
        settings.update(config.given)
        sources.update(dict.fromkeys(config.given, layer))
    for name, value in call.items():
        if name in FOREIGN:
            refuse_foreign(name, value)
            continue
        setattr(settings, name, OFF.get(name) if value is None else value)
        sources[name] = CALL
    return settings, sources, {layer: config.origin for layer, config in layers.items()}


# --- tokens -----------------------------------------------------------------------------------------------------------


def settle_tokens(settings: GenerationConfig, sources: dict[str, str], vocabulary: int) -> None:
    """Refuse token ids that the vocabulary does not have; a model's own ones are passed over, for files are crooked."""
    for name in (*TOKENS, "forced_bos_token_id", "forced_eos_token_id"):
        value = getattr(settings, name)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        beyond = [token for token in ids if token >= vocabulary]
        if not beyond:
            continue
        if sources[name] != MODEL:
            raise ConfigError(f"{name} {beyond[0]} is beyond the vocabulary of {vocabulary} tokens")
        say_once(f"{name} {beyond[0]} is beyond the vocabulary of {vocabulary} tokens and is not used")
        setattr(settings, name, [token for token in ids if token < vocabulary] or None)


def check_vocabulary(settings: GenerationConfig, vocabulary: int) -> None:
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


def check_together(settings: GenerationConfig, has_tokenizer: bool) -> None:
    """Refuse settings that contradict each other."""
    beams, groups, wanted = settings.num_beams, settings.num_beam_groups, settings.num_return_sequences
    if settings.force_words_ids:
        if beams == 1:
            raise ConfigError("force_words_ids need a beam search: pass num_beams above 1")
        if settings.do_sample:
            raise ConfigError("force_words_ids cannot be met by sampling: pass do_sample=False")
        if groups > 1:
            raise ConfigError(f"force_words_ids do not go with groups of beams, got num_beam_groups {groups}")
    if beams % groups:
        raise ConfigError(f"num_beams must be a multiple of num_beam_groups, got {beams} and {groups}")
    if groups > 1:
        if settings.do_sample:
            raise ConfigError("groups of beams do not sample: pass do_sample=False or num_beam_groups=1")
        if not settings.diversity_penalty:
            raise ConfigError(f"num_beam_groups {groups} needs a diversity_penalty above 0: all groups would be equal")
    if settings.penalty_alpha and (beams > 1 or settings.do_sample):
        other = f"num_beams {beams}" if beams > 1 else "do_sample=True"
        raise ConfigError(
            f"penalty_alpha {settings.penalty_alpha} asks for a contrastive search, which {other} excludes"
        )
    if beams > 1 and wanted > beams:
        raise ConfigError(f"num_return_sequences must be at most num_beams, got {wanted} and {beams}")
    if beams == 1 and not settings.do_sample and wanted > 1:
        search = strategy_of(settings).removesuffix(" search")
        raise ConfigError(
            f"a {search} search finds one sequence, got num_return_sequences {wanted}: pass do_sample=True or num_beams"
        )
    if settings.on_full_context == "slide" and beams > 1:
        raise ConfigError(f"on_full_context='slide' does not go with a beam search, got num_beams {beams}")
    if settings.stop_strings and not has_tokenizer:
        raise ConfigError(f"stop_strings {settings.stop_strings!r:.60} need the tokenizer: pass tokenizer=")


# --- lengths ----------------------------------------------------------------------------------------------------------


def length_field(settings: GenerationConfig, sources: Mapping[str, str]) -> str | None:
    """The field that says how long a sequence may get: of two the nearer one, and max_new_tokens in one layer."""
    named = [name for name in ("max_new_tokens", "max_length") if getattr(settings, name) is not None]
    return min(named, key=lambda name: NEAREST.index(sources[name]), default=None)


def count_new_tokens(settings: GenerationConfig, sources: Mapping[str, str], context: int | None, prompt: int) -> int:
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


def check_least(settings: GenerationConfig, sources: Mapping[str, str], prompt: int, most: int) -> None:
    """Refuse a least length above the greatest, unless the greatest is said nearer to the call."""
    limit = length_field(settings, sources)
    nearness = NEAREST.index(sources[limit] if limit else DEFAULT)
    for name, least in (("min_length", settings.min_length - prompt), ("min_new_tokens", settings.min_new_tokens or 0)):
        if least > most and NEAREST.index(sources[name]) <= nearness:
            raise ConfigError(
                f"{name} {getattr(settings, name)} cannot be reached: "
                f"a prompt of {prompt} tokens may be followed by {most}"
            )
