"""`explain_generation`: which settings take effect, where they came from, and how long the text can get."""

from __future__ import annotations

import html
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .config import GenerationConfig
from .plan import DEFAULT, DEFAULT_NEW_TOKENS, MODEL, Plan
from .settings_effects import (
    STRATEGY_SETTINGS,
    describe,
    disabled_by_other_settings,
    disabled_by_prompts_or_values,
    is_neutral,
    would_be_neutral,
)
from .settings_resolution import resolve

if TYPE_CHECKING:
    from ..text.tokenizer import PreTrainedTokenizer

WIDTH = 100
DEPENDS_ON_VALUE = ("min_length", "min_new_tokens", "bad_words_ids")  # an overridden value might have an effect


@dataclass(frozen=True)
class Setting:
    """One setting: its value, where that came from, and what it does, or why it has no effect."""

    name: str
    value: Any
    source: str
    says: str
    takes_effect: bool


@dataclass(frozen=True)
class Explanation:
    """What a call of `generate` will do. Print it, or read `settings`, `effective` and `inert`."""

    strategy: str
    sentence: str  # the strategy in plain words
    length: str  # how long a text can get
    stops: tuple[str, ...]  # what ends it
    settings: tuple[Setting, ...]

    @property
    def effective(self) -> tuple[Setting, ...]:
        """The settings that take effect, given or not."""
        return tuple(one for one in self.settings if one.takes_effect)

    @property
    def inert(self) -> tuple[Setting, ...]:
        """The settings that were given and have no effect."""
        return tuple(one for one in self.settings if not one.takes_effect)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        values = asdict(self)
        return {**values, "stops": list(values["stops"]), "settings": list(values["settings"])}

    def sections(self) -> list[tuple[str, tuple[Setting, ...]]]:
        sections = [("takes effect", self.effective), ("has no effect", self.inert)]
        return [(title, settings) for title, settings in sections if settings]

    def __str__(self) -> str:
        lines = wrap("strategy  ", f"{self.strategy}: {self.sentence}") + wrap("length    ", self.length)
        lines += wrap("ends      ", ", or ".join(self.stops))
        rows = [(one.name, format_value(one.value), one.source) for one in self.settings]
        widths = [
            max(map(display_width, column)) + 2 for column in zip(*rows, ("takes effect", "value", "from"), strict=True)
        ]
        for title, settings in self.sections():
            lines += ["", *table_row((title, "value", "from"), widths, "")]
            for one in settings:
                lines += table_row((one.name, format_value(one.value), one.source), widths, one.says)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        summary = [("strategy", f"{self.strategy}: {self.sentence}"), ("length", self.length)]
        summary.append(("ends", ", or ".join(self.stops)))
        rows = "".join(html_row("td", name, text) for name, text in summary)
        tables = [f"<table>{rows}</table>"]
        for title, settings in self.sections():
            rows = "".join(html_row("td", one.name, format_value(one.value), one.source, one.says) for one in settings)
            tables.append(f"<table>{html_row('th', title, 'value', 'from', '')}{rows}</table>")
        return "\n".join(tables)


def explain_generation(
    model: Any,
    prompt: Any = None,
    tokenizer: PreTrainedTokenizer | None = None,
    generation_config: GenerationConfig | None = None,
    *,
    attention_mask: Any = None,
    generator: Any = None,
    **settings: Any,
) -> Explanation:
    """What `model.generate` would do with these settings, without doing it.

    `prompt` is a text or several (with a `tokenizer`, which adds no special tokens to them), or what `generate` takes:
    ids B T, or an encoding. Without one the explanation holds for any prompt.

    >>> print(explain_generation(model, "Once upon a time", tokenizer, temperature=0.7))  # doctest: +SKIP
    """
    if hasattr(prompt, "keys"):
        prompt, attention_mask = prompt["input_ids"], prompt.get("attention_mask", attention_mask)
    prompts = prompt_lengths(model, prompt, tokenizer, attention_mask, generation_config, settings)
    has = {"has_tokenizer": tokenizer is not None, "has_generator": generator is not None}
    plan = resolve(model, generation_config, settings, prompts, **has)
    return Explanation(
        strategy=plan.strategy,
        sentence=STRATEGIES[plan.strategy].format(settings=plan.settings),
        length=describe_length(plan),
        stops=tuple(describe_stops(plan, tokenizer)),
        settings=tuple(
            explain_settings(plan, generator, is_padded=hasattr(prompt, "shape") and sum(prompts) < prompt.numel())
        ),
    )


def prompt_lengths(
    model: Any, prompt: Any, tokenizer: Any, attention_mask: Any, generation_config: Any, settings: dict
) -> list[int]:
    """The number of tokens in each prompt, without padding."""
    if prompt is None:
        return []
    if isinstance(prompt, str) or (isinstance(prompt, (list, tuple)) and all(isinstance(one, str) for one in prompt)):
        if tokenizer is None:
            raise InputError(f"a text needs the tokenizer, got only the prompt {prompt!r:.60}: pass tokenizer=")
        texts = [prompt] if isinstance(prompt, str) else list(prompt)
        return [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    from .generation import find_pad_token_id, unpad_prompts  # these import torch

    pad = find_pad_token_id(model, generation_config, settings)
    return [len(row) for row in unpad_prompts(prompt, attention_mask, pad)]


STRATEGIES = {
    "greedy": "always the likeliest next token",
    "sampling": "every next token is sampled, likely ones more often",
    "contrastive search": "of the {settings.top_k} likeliest next tokens the one least similar to the text so far",
    "beam search": "the {settings.num_beams} best continuations are followed at once, and the best one is returned",
    "beam sampling": "{settings.num_beams} continuations are followed at once, and their next tokens are sampled",
    "diverse beam search": "{settings.num_beams} continuations are followed at once in {settings.num_beam_groups} "
    "groups, each avoiding the tokens that earlier groups have just chosen",
    "constrained beam search": "the {settings.num_beams} best continuations are followed at once, and the best one "
    "that contains the forced words is returned",
}


# --- length and stops -------------------------------------------------------------------------------------------------


def describe_length(plan: Plan) -> str:
    """How long a text can get, and by which setting."""
    name = plan.length_field
    value = getattr(plan.settings, name) if name else DEFAULT_NEW_TOKENS
    origin = (
        f"{name} from {plan.sources[name]}"
        if name
        else "the default, since neither max_new_tokens nor max_length is given"
    )
    if not plan.prompt_lengths:
        counted = "tokens, prompt included" if name == "max_length" else "new tokens"
        limit = None if plan.settings.on_full_context == "slide" else plan.context_length
        is_limited = limit is not None and (name != "max_length" or value > limit)
        return f"at most {value} {counted} ({origin})" + (f"; with the prompt at most {limit}" if is_limited else "")
    if plan.exceeds_context and plan.settings.on_full_context == "stop":
        origin += f", cut by the {plan.context_length} tokens that the model reads at once"
    return f"at most {span(plan.max_new_tokens)} new tokens after {span(plan.prompt_lengths)} of the prompt ({origin})"


def span(values: Sequence[int]) -> str:
    """A number, or the range of several.

    >>> span([3, 3]), span([3, 9, 5])
    ('3', '3 to 9')
    """
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def describe_stops(plan: Plan, tokenizer: Any) -> list[str]:
    """What can end a sequence."""
    stops = []
    for token in plan.eos:
        spelling = "" if tokenizer is None else f" {tokenizer.convert_ids_to_tokens(token)}"
        stops.append(f"with token {token}{spelling}")
    if plan.settings.stop_strings:
        stops.append("with the text " + " or ".join(map(repr, plan.settings.stop_strings)))
    return [*stops, "when it is that long" if stops else "only when it is that long, for no token ends it"]


# --- settings ---------------------------------------------------------------------------------------------------------


def explain_settings(plan: Plan, generator: Any, is_padded: bool) -> list[Setting]:
    """Every setting that takes effect, and every one that was given; `is_padded`: whether the prompts are."""
    disabled = disabled_by_prompts_or_values(plan)
    for name in DEPENDS_ON_VALUE:
        if plan.sources[name].overridden is not None:
            disabled.pop(name, None)
    disabled.update(disabled_by_other_settings(plan))
    if is_padded:
        disabled.pop("pad_token_id", None)  # without a mask it distinguishes padding from text
    rows = []
    for name in GenerationConfig.field_names():
        value, source = getattr(plan.settings, name), plan.sources[name]
        is_given = source.layer != DEFAULT
        reason = why_ineffective(name, value, plan, disabled)
        if reason is None and (is_given or not is_neutral(name, value)):
            rows.append(Setting(name, value, describe_source(plan, name), describe(name, value, plan), True))
        elif is_given:
            rows.append(Setting(name, value, describe_source(plan, name), reason or "", False))
    if plan.settings.pad_token_id is None and "pad_token_id" not in disabled:
        rows.append(Setting("pad_token_id", plan.pad, "default", describe("pad_token_id", plan.pad, plan), True))
    if plan.has_generator:
        reason, value = disabled.get("generator"), generator if isinstance(generator, int) else type(generator).__name__
        says = reason or "the same generator samples the same tokens again"
        rows.append(Setting("generator", value, "this call", says, reason is None))
    return rows


def why_ineffective(name: str, value: Any, plan: Plan, disabled: dict[str, str]) -> str | None:
    """Why a setting has no effect, or None if it has one."""
    source = plan.sources[name]
    if value is None:
        if source.layer == MODEL:
            return f"{source.overridden} is beyond the vocabulary"
        return "there was nothing to switch off" if source.overridden is None else None
    if name in disabled:
        return disabled[name]
    if is_neutral(name, value) and name not in STRATEGY_SETTINGS and would_be_neutral(name, plan):
        return "this value changes nothing"
    return None


def describe_source(plan: Plan, name: str) -> str:
    """Where a value came from, and which one it overrides."""
    source = plan.sources[name]
    if source.overridden is None or source.layer == MODEL:
        return str(source)
    return f"{source}, not {format_value(source.overridden)}"


def format_value(value: Any) -> str:
    """A value, shortened."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 24 else text[:21] + "..."


def display_width(text: str) -> int:
    """The width of a text in a terminal, where Chinese characters take two columns."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def table_row(cells: Sequence[str], widths: Sequence[int], text: str) -> list[str]:
    label = "".join(cell + " " * (width - display_width(cell)) for cell, width in zip(cells, widths, strict=True))
    return wrap(label, text) if text else [label.rstrip()]


def wrap(label: str, text: str) -> list[str]:
    """Text after a label, further lines indented below the first."""
    width = max(WIDTH, len(label) + 30)
    return textwrap.wrap(text, width, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False)


def html_row(tag: str, *cells: str) -> str:
    return "<tr>" + "".join(f'<{tag} style="text-align:left">{html.escape(cell)}</{tag}>' for cell in cells) + "</tr>"
