"""What happened inside: a look at some heads, vectors and modules while the model runs, and at nothing else.

A watched attention computes its output as it always does, by the fused kernel; the weights of the heads that were asked
for are computed beside it. So the run gives the same numbers, bit for bit, whether somebody looks or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ..errors import InputError, nearest
from ..models.base import PreTrainedModel
from ..nn.attention import Look, SelfAttention
from ..nn.stream import Layout
from .places import CROSS, SELF, Heads, attention_of, heads_by_layer, layers_of, matching

STREAM = ("embeddings", "encoder")  # the parts of a body that work on rows of the stream


@dataclass
class Seen:
    """What the last run showed. Heads stand in the order in which they were asked for.

    By name there is every module that was asked for: `seen["encoder.layer.0.attention.self.query"]`, laid out B T C
    inside the body; and `seen["encoder.layer.0.attention.self.weights"]`.
    """

    attention: dict[int, Tensor] = field(default_factory=dict)  # layer -> B H T S
    cross: dict[int, Tensor] = field(default_factory=dict)
    queries: dict[int, Tensor] = field(default_factory=dict)  # layer -> B H T D
    keys: dict[int, Tensor] = field(default_factory=dict)  # layer -> B H S D
    values: dict[int, Tensor] = field(default_factory=dict)
    hidden: dict[int, Tensor] = field(default_factory=dict)  # 0 is what enters the first layer -> B T C
    returned: dict[str, Tensor] = field(default_factory=dict, repr=False)  # by modules, as they returned it
    layouts: tuple[Layout | None, Layout | None] = (None, None)  # of the stream, and of the source of cross-attention

    def __getitem__(self, name: str) -> Tensor:
        if name in self.returned:
            rows, crossed = self.returned[name], f".{CROSS}.self.key" in name or f".{CROSS}.self.value" in name
            layout = self.layouts[crossed] if name.split(".")[0] in STREAM else None
            return rows if layout is None or len(rows) != layout.rows else layout.unpack(rows)
        if name not in self:
            raise KeyError(f"{name!r} was not asked for{nearest(name, self)}")
        return (self.cross if f".{CROSS}." in name else self.attention)[int(name.split(".")[2])]

    def __iter__(self) -> Iterator[str]:
        """All that can be asked for by name."""
        yield from self.returned
        for kind, held in ((SELF, self.attention), (CROSS, self.cross)):
            for layer in held:
                yield f"encoder.layer.{layer}.{kind}.self.weights"


@contextmanager
def capture(
    model: PreTrainedModel,
    attention: Heads = None,
    *,
    cross: Heads = None,
    queries: bool = False,
    hidden: Iterable[int] | bool = (),
    modules: Iterable[str] = (),
) -> Iterator[Seen]:
    """See what was asked for in the runs inside the `with`; each run replaces what the one before it showed.

    `attention` and `cross` name layers and heads: True for all, [0, 5] for all heads of two layers, {0: [1, 2]} for two
    heads of one, numbered as in the unpruned model. `queries` keeps their queries, keys and values as well. `hidden`
    names vectors as `hidden_states` counts them: 0 before the first layer, -1 at the end. `modules` are names or
    patterns such as "encoder.layer.*.output.dense". What is seen keeps its place in the graph of gradients.

    >>> with model.capture(attention={3: [0, 7]}, hidden=[-1]) as seen:            # doctest: +SKIP
    ...     out = model(**batch)
    >>> seen.attention[3].shape                                                     # doctest: +SKIP
    torch.Size([1, 2, 9, 9])
    """
    seen = Seen()
    with ExitStack() as undo:
        for kind, asked, held in ((SELF, attention, seen.attention), (CROSS, cross, seen.cross)):
            for layer, slots in heads_by_layer(model, asked, kind).items():
                module = attention_of(model, layer, kind).self
                vectors = (seen.queries, seen.keys, seen.values) if queries and kind == SELF else ()
                undo.callback(watch(module, on_look(layer, slots, held, vectors)))
        for layer in hidden_places(model, hidden):
            undo.callback(watch_hidden(model, layer, seen.hidden))
        for name, module in matching(model, modules).items():
            if model.config.chunk_size_feed_forward and name.split(".")[3:4] in (["intermediate"], ["output"]):
                raise InputError(f"{name} runs in chunks: set chunk_size_feed_forward=0 to see what it returns")
            undo.callback(watch_module(name, module, seen))
        undo.callback(watch_layouts(model, seen))
        yield seen


def run_with_cache(model: PreTrainedModel, *args: Any, names: Iterable[str] = ("*",), **kwargs: Any) -> tuple:
    """(what the model returns, all that was seen on the way): every weight, hidden state and module's output.

    >>> out, cache = model.run_with_cache(**batch)                                  # doctest: +SKIP
    >>> cache["encoder.layer.0.attention.self.query"].shape                         # doctest: +SKIP
    torch.Size([1, 9, 768])
    """
    cross = True if hasattr(model.layer(0), CROSS) else None
    with capture(model, True, cross=cross, queries=True, hidden=True, modules=names) as seen:
        out = model(*args, **kwargs)
    return out, seen


def watch(module: SelfAttention, watcher: Callable[[Look], None]) -> Callable[[], None]:
    """Let `watcher` see every look of an attention, besides those who watch it already; returns what ends that."""
    before = module.watcher

    def both(look: Look) -> None:
        if before is not None:
            before(look)
        watcher(look)

    module.watcher = both
    return lambda: setattr(module, "watcher", before)


def on_look(layer: int, slots: list[int], held: dict, vectors: tuple) -> Callable[[Look], None]:
    def keep(look: Look) -> None:
        held[layer] = look.weights(slots)
        if vectors:
            parts = ((look.q, look.layout), (look.k, look.source), (look.v, look.source))
            for into, (rows, layout) in zip(vectors, parts, strict=True):
                into[layer] = (rows if rows.dim() == 4 else layout.heads(rows))[:, slots]

    return keep


def hidden_places(model: PreTrainedModel, hidden: Iterable[int] | bool) -> list[int]:
    count = len(layers_of(model))
    asked = range(count + 1) if hidden is True else hidden or ()
    places = [count + 1 + place if place < 0 else place for place in asked]
    wrong = [place for place in places if not 0 <= place <= count]
    if wrong:
        raise InputError(f"hidden states are numbered 0 to {count}, got {wrong[0]}")
    return places


def watch_hidden(model: PreTrainedModel, place: int, held: dict[int, Tensor]) -> Callable[[], None]:
    """Keep the vectors before layer `place`, or behind all layers."""
    stack = model.base_model.encoder
    if place == len(stack.layer):

        def at_the_end(_: nn.Module, __: tuple, arguments: dict, out: Any) -> None:
            held[place] = unpacked(first_of(out), arguments.get("layout"))

        return stack.register_forward_hook(at_the_end, with_kwargs=True).remove

    def at_the_start(_: nn.Module, inputs: tuple) -> None:
        held[place] = unpacked(inputs[0], inputs[8])

    return stack.layer[place].register_forward_pre_hook(at_the_start).remove


def watch_module(name: str, module: nn.Module, seen: Seen) -> Callable[[], None]:
    """Keep what a module returns."""

    def keep(_: nn.Module, __: tuple, out: Any) -> None:
        value = first_of(out)
        if isinstance(value, Tensor):
            seen.returned[name] = value

    return module.register_forward_hook(keep).remove


def watch_layouts(model: PreTrainedModel, seen: Seen) -> Callable[[], None]:
    """Know where the rows of the stream stand."""

    def keep(_: nn.Module, __: tuple, arguments: dict) -> None:
        seen.layouts = (arguments.get("layout"), arguments.get("source"))

    return model.base_model.encoder.register_forward_pre_hook(keep, with_kwargs=True).remove


def first_of(out: Any) -> Any:
    return out[0] if isinstance(out, (tuple, Mapping)) else out


def unpacked(rows: Tensor, layout: Layout | None) -> Tensor:
    return rows if layout is None else layout.unpack(rows)
