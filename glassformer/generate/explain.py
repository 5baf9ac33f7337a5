"""Which settings of a generation take effect, where they came from, and how long the text can get."""

from __future__ import annotations

import html
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .config import GenerationConfig
from .effects import CHOOSES, does, is_neutral, stands_alone, unneeded_settings, unused_settings
from .plan import DEFAULT, MODEL, NEW_TOKENS, Plan
from .settings import settle

if TYPE_CHECKING:
    from ..text.tokenizer import PreTrainedTokenizer

WIDTH = 100
BY_VALUE = ("min_length", "min_new_tokens", "bad_words_ids")  # another value might have an effect


@dataclass(frozen=True)
class Setting:
    """One setting: its value, where that came from, and what it does, or why it does nothing."""

    name: str
    value: Any
    source: str
    says: str
    takes_effect: bool


@dataclass(frozen=True)
class Explanation:
    """What a generation will do. Print it; or look at `settings`, `effective` and `inert`."""

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
        """The settings that were given and do nothing."""
        return tuple(one for one in self.settings if not one.takes_effect)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        values = asdict(self)
        return {**values, "stops": list(values["stops"]), "settings": list(values["settings"])}

    def parts(self) -> list[tuple[str, tuple[Setting, ...]]]:
        parts = [("takes effect", self.effective), ("has no effect", self.inert)]
        return [(title, settings) for title, settings in parts if settings]

    def __str__(self) -> str:
        lines = wrapped("strategy  ", f"{self.strategy}: {self.sentence}") + wrapped("length    ", self.length)
        lines += wrapped("ends      ", ", or ".join(self.stops))
        rows = [(one.name, shown(one.value), one.source) for one in self.settings]
        widths = [
            max(map(columns, column)) + 2 for column in zip(*rows, ("takes effect", "value", "from"), strict=True)
        ]
        for title, settings in self.parts():
            lines += ["", *table_row((title, "value", "from"), widths, "")]
            for one in settings:
                lines += table_row((one.name, shown(one.value), one.source), widths, one.says)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        told = [("strategy", f"{self.strategy}: {self.sentence}"), ("length", self.length)]
        told.append(("ends", ", or ".join(self.stops)))
        rows = "".join(html_row("td", name, text) for name, text in told)
        pages = [f"<table>{rows}</table>"]
        for title, settings in self.parts():
            rows = "".join(html_row("td", one.name, shown(one.value), one.source, one.says) for one in settings)
            pages.append(f"<table>{html_row('th', title, 'value', 'from', '')}{rows}</table>")
        return "\n".join(pages)


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
    ids B T, or an encoding. Without one the explanation is that of any prompt.

    >>> print(explain_generation(model, "Once upon a time", tokenizer, temperature=0.7))  # doctest: +SKIP
    """
    if hasattr(prompt, "keys"):
        prompt, attention_mask = prompt["input_ids"], prompt.get("attention_mask", attention_mask)
    prompts = prompt_lengths(model, prompt, tokenizer, attention_mask, generation_config, settings)
    has = {"has_tokenizer": tokenizer is not None, "has_generator": generator is not None}
    plan = settle(model, generation_config, settings, prompts, **has)
    return Explanation(
        strategy=plan.strategy,
        sentence=STRATEGIES[plan.strategy].format(settings=plan.settings),
        length=length_of(plan),
        stops=tuple(stops_of(plan, tokenizer)),
        settings=tuple(settings_of(plan, generator, pads=hasattr(prompt, "shape") and sum(prompts) < prompt.numel())),
    )


def prompt_lengths(
    model: Any, prompt: Any, tokenizer: Any, attention_mask: Any, generation_config: Any, settings: dict
) -> list[int]:
    """How many tokens of its own each prompt has."""
    if prompt is None:
        return []
    if isinstance(prompt, str) or (isinstance(prompt, (list, tuple)) and all(isinstance(one, str) for one in prompt)):
        if tokenizer is None:
            raise InputError(f"a text needs the tokenizer, got the prompt {prompt!r:.60} alone: pass tokenizer=")
        texts = [prompt] if isinstance(prompt, str) else list(prompt)
        return [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    from .engine import pad_in, real_tokens  # it brings torch

    return [len(row) for row in real_tokens(prompt, attention_mask, pad_in(model, generation_config, settings))]


STRATEGIES = {
    "greedy": "always the likeliest next word",
    "sampling": "every next word is drawn by chance, likely ones more often",
    "contrastive search": "of the {settings.top_k} likeliest next words the one that is least like what was said",
    "beam search": "the {settings.num_beams} best continuations are followed at once, and the best one is returned",
    "beam sampling": "{settings.num_beams} continuations are followed at once, and how each goes on is drawn by chance",
    "diverse beam search": "{settings.num_beams} continuations are followed at once in {settings.num_beam_groups} "
    "groups, each avoiding the words that others have just chosen",
    "constrained beam search": "the {settings.num_beams} best continuations are followed at once, and the best one "
    "that says the forced words is returned",
}


# --- lengths and ends -------------------------------------------------------------------------------------------------


def length_of(plan: Plan) -> str:
    """How long a text can get, and what says so."""
    name = plan.length_field
    value = getattr(plan.settings, name) if name else NEW_TOKENS
    by = (
        f"{name} from {plan.sources[name]}"
        if name
        else "the default, since neither max_new_tokens nor max_length is given"
    )
    if not plan.prompts:
        counted = "tokens, prompt included" if name == "max_length" else "new tokens"
        may_pass = plan.context is not None and (name != "max_length" or value > plan.context)
        is_bound = may_pass and plan.settings.on_full_context == "stop"
        return f"at most {value} {counted} ({by})" + (f"; with the prompt at most {plan.context}" if is_bound else "")
    if plan.passes_context and plan.settings.on_full_context == "stop":
        by += f", cut by the {plan.context} tokens that the model reads at once"
    return f"at most {span(plan.new_tokens)} new tokens behind {span(plan.prompts)} of the prompt ({by})"


def span(values: Sequence[int]) -> str:
    """A number, or the range of several.

    >>> span([3, 3]), span([3, 9, 5])
    ('3', '3 to 9')
    """
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def stops_of(plan: Plan, tokenizer: Any) -> list[str]:
    """What can end a sequence."""
    stops = []
    for token in plan.eos:
        word = "" if tokenizer is None else f" {tokenizer.convert_ids_to_tokens(token)}"
        stops.append(f"with token {token}{word}")
    if plan.settings.stop_strings:
        stops.append("with the text " + " or ".join(map(repr, plan.settings.stop_strings)))
    return [*stops, "when it is that long" if stops else "only when it is that long, for no token ends it"]


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_of(plan: Plan, generator: Any, pads: bool) -> list[Setting]:
    """Every setting that takes effect, and every one that was given; `pads`: whether the prompts hold padding."""
    idle = unneeded_settings(plan)
    for name in BY_VALUE:
        if plan.sources[name].instead_of is not None:
            idle.pop(name, None)
    idle.update(unused_settings(plan))
    if pads:
        idle.pop("pad_token_id", None)  # without a mask it tells padding from text
    rows = []
    for name in GenerationConfig.field_names():
        value, source = getattr(plan.settings, name), plan.sources[name]
        is_given = source.layer != DEFAULT
        why = why_idle(name, value, plan, idle)
        if why is None and (is_given or not is_neutral(name, value)):
            rows.append(Setting(name, value, told(plan, name), does(name, value, plan), True))
        elif is_given:
            rows.append(Setting(name, value, told(plan, name), why or "", False))
    if plan.settings.pad_token_id is None and "pad_token_id" not in idle:
        rows.append(Setting("pad_token_id", plan.pad, "default", does("pad_token_id", plan.pad, plan), True))
    if plan.has_generator:
        why, value = idle.get("generator"), generator if isinstance(generator, int) else type(generator).__name__
        says = why or "the same one draws the same words again"
        rows.append(Setting("generator", value, "this call", says, why is None))
    return rows


def why_idle(name: str, value: Any, plan: Plan, idle: dict[str, str]) -> str | None:
    """Why a setting does nothing, if it does nothing."""
    source = plan.sources[name]
    if value is None:
        if source.layer == MODEL:
            return f"{source.instead_of} is beyond the vocabulary"
        return "there was nothing to switch off" if source.instead_of is None else None
    if name in idle:
        return idle[name]
    if is_neutral(name, value) and name not in CHOOSES and stands_alone(name, plan):
        return "with this value it changes nothing"
    return None


def told(plan: Plan, name: str) -> str:
    """Where a value came from, and which one it took the place of."""
    source = plan.sources[name]
    if source.instead_of is None or source.layer == MODEL:
        return str(source)
    return f"{source}, not {shown(source.instead_of)}"


def shown(value: Any) -> str:
    """A value in a few letters."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 24 else text[:21] + "..."


def columns(text: str) -> int:
    """How wide a text is on a screen, where Chinese characters take two columns."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def table_row(cells: Sequence[str], widths: Sequence[int], text: str) -> list[str]:
    label = "".join(cell + " " * (width - columns(cell)) for cell, width in zip(cells, widths, strict=True))
    return wrapped(label, text) if text else [label.rstrip()]


def wrapped(label: str, text: str) -> list[str]:
    """Text behind a label, its further lines below the first."""
    room = max(WIDTH, len(label) + 30)
    return textwrap.wrap(text, room, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False)


def html_row(tag: str, *cells: str) -> str:
    return "<tr>" + "".join(f'<{tag} style="text-align:left">{html.escape(cell)}</{tag}>' for cell in cells) + "</tr>"
