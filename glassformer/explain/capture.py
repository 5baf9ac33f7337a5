"""Capture the weights of some heads, hidden states and outputs of modules while a model runs.

A captured attention computes its output as it always does, by the fused kernel; the weights of the requested heads are
computed beside it. So the run gives the same numbers, bit for bit, with and without capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ..errors import InputError, nearest
from ..models.base.pretrained_model import PreTrainedModel
from ..nn.attention import AttentionInputs, SelfAttention
from ..nn.context import Context
from ..nn.layout import Layout
from ..nn.scoped_hooks import HookScope
from .addressing import (
    CROSS,
    SELF,
    Heads,
    attention_of,
    crossing_layers,
    heads_by_layer,
    layer_names,
    matching,
    only_where_named,
)

Observers = dict[tuple[str, int], Callable[[AttentionInputs], None]]  # by kind of attention and layer
Layouts = dict[str, tuple[Layout | None, Layout | None]]  # of each stack, and of the source of its cross-attention


@dataclass
class CapturedActivations:
    """What was captured in the last run. Heads are in the requested order.

    Every requested module is indexed by name: `captured["encoder.layer.0.attention.self.query"]`, laid out B T C
    inside the body; and `captured["encoder.layer.0.attention.self.weights"]`.
    """

    attention: dict[int, Tensor] = field(default_factory=dict)  # layer -> B H T S
    cross: dict[int, Tensor] = field(default_factory=dict)
    queries: dict[int, Tensor] = field(default_factory=dict)  # layer -> B H T D
    keys: dict[int, Tensor] = field(default_factory=dict)  # layer -> B H S D
    values: dict[int, Tensor] = field(default_factory=dict)
    hidden: dict[int, Tensor] = field(default_factory=dict)  # 0 is what enters the first layer -> B T C
    returned: dict[str, Tensor] = field(default_factory=dict, repr=False)  # outputs of modules, as they were returned
    layouts: Layouts = field(default_factory=dict, repr=False)
    names: Sequence[str] = field(default=(), repr=False)  # of the layers

    def __getitem__(self, name: str) -> Tensor:
        if name in self.returned:
            layout = layout_for(name, self.returned[name], self.layouts)
            return self.returned[name] if layout is None else layout.unpack(self.returned[name])
        if name not in self:
            raise KeyError(f"{name!r} was not captured{nearest(str(name), self)}")
        layer, kind = name.removesuffix(".self.weights").rsplit(".", 1)
        return (self.cross if kind == CROSS else self.attention)[self.names.index(layer)]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        """All names that can be indexed."""
        yield from self.returned
        for kind, weights in ((SELF, self.attention), (CROSS, self.cross)):
            for layer in weights:
                yield f"{self.names[layer]}.{kind}.self.weights"


@contextmanager
def capture(
    model: PreTrainedModel,
    attention: Heads = None,
    *,
    cross: Heads = None,
    queries: bool = False,
    hidden: Iterable[int] | int | bool = (),
    modules: Iterable[str] | str = (),
) -> Iterator[CapturedActivations]:
    """Capture what is requested in the runs inside the `with`, in this thread or asyncio task and the tasks it starts;
    each run replaces the results of the previous one.

    `attention` and `cross` name layers and heads: True for all, [0, 5] for all heads of two layers, {0: [1, 2]} for two
    heads of one, numbered as in the unpruned model. `queries` keeps queries, keys and values of `attention`. `hidden`
    names vectors as `hidden_states` counts them: 0 before the first layer, -1 at the end. `modules` are names or
    patterns such as "encoder.layer.*.output.dense". What is captured stays in the autograd graph.
    The layers of an encoder-decoder are numbered through, those of the encoder first.

    >>> with model.capture(attention={3: [0, 7]}, hidden=[-1]) as captured:        # doctest: +SKIP
    ...     out = model(**batch)
    >>> captured.attention[3].shape                                                 # doctest: +SKIP
    torch.Size([1, 2, 9, 9])
    """
    if queries and (attention is None or attention is False):
        raise InputError("queries are those of attention: name its layers too, attention=True for all of them")
    captured = CapturedActivations(names=layer_names(model))
    with HookScope() as scope:
        record_layouts(model, captured.layouts, scope)
        observers: Observers = {}
        for kind, requested, weights in ((SELF, attention, captured.attention), (CROSS, cross, captured.cross)):
            for layer, slots in heads_by_layer(model, requested, kind).items():
                vectors = (captured.queries, captured.keys, captured.values) if queries and kind == SELF else ()
                observers[kind, layer] = record_attention(layer, slots, weights, vectors)
        observe(model, observers, scope)
        for layer in hidden_indices(model, hidden):
            record_hidden(model, layer, captured, scope)
        for name, module in matching(model, modules).items():
            if getattr(model.config, "chunk_size_feed_forward", 0) and name.split(".")[3:4] in (
                ["intermediate"],
                ["output"],
            ):
                raise InputError(f"{name} runs in chunks: set chunk_size_feed_forward=0 to see what it returns")
            scope.after(module, only_where_named(model, name, record_module(name, captured), scope))
        yield captured


def run_with_cache(model: PreTrainedModel, *args: Any, names: Iterable[str] | str = "*", **kwargs: Any) -> tuple:
    """(the model's output, everything that was captured): every weight, hidden state and module's output.

    >>> out, cache = model.run_with_cache(**batch)                                  # doctest: +SKIP
    >>> cache["encoder.layer.0.attention.self.query"].shape                         # doctest: +SKIP
    torch.Size([1, 9, 768])
    """
    cross = True if crossing_layers(model) else None
    with capture(model, True, cross=cross, queries=True, hidden=True, modules=names) as captured:
        out = model(*args, **kwargs)
    return out, captured


def observe(model: PreTrainedModel, observers: Observers, scope: HookScope) -> None:
    """Call observers with the inputs of some attentions, while the scope is open."""
    by_module: dict[nn.Module, list[Callable[[AttentionInputs], None]]] = {}
    for (kind, layer), observer in observers.items():
        module = attention_of(model, layer, kind).self
        by_module.setdefault(module, []).append(scope.only_in(model.layers, layer, observer))

    def notify(module: SelfAttention, inputs: AttentionInputs) -> None:
        for each in by_module.get(module, ()):
            each(inputs)

    if by_module:
        scope.observers.append(notify)


def record_attention(layer: int, slots: list[int], weights: dict, vectors: tuple) -> Callable[[AttentionInputs], None]:
    def keep(inputs: AttentionInputs) -> None:
        weights[layer] = inputs.weights(slots)
        if vectors:
            parts = ((inputs.q, inputs.layout), (inputs.k, inputs.source), (inputs.v, inputs.source))
            for into, (rows, layout) in zip(vectors, parts, strict=True):
                into[layer] = (rows if rows.dim() == 4 else layout.heads(rows))[:, slots]

    return keep


def hidden_indices(model: PreTrainedModel, hidden: Iterable[int] | int | bool) -> list[int]:
    count = len(model.layers)
    if isinstance(hidden, bool):
        hidden = range(count + 1) if hidden else ()
    requested = [hidden] if isinstance(hidden, int) else list(hidden or ())
    if requested and not count:
        raise InputError(f"{type(model).__name__} has no attention layers; name its modules instead")
    for index in requested:
        if not isinstance(index, int) or not -count - 1 <= index <= count:
            raise InputError(f"hidden states are numbered 0 to {count}, got {index!r}")
    return [index % (count + 1) for index in requested]


def record_hidden(model: PreTrainedModel, index: int, captured: CapturedActivations, scope: HookScope) -> None:
    """Record the vectors before layer `index`, or after all layers."""
    layers = model.layers
    if index < len(layers):

        def before_layer(_: nn.Module, inputs: tuple) -> None:
            layout, _source = layouts_from(inputs)
            captured.hidden[index] = inputs[0] if layout is None else layout.unpack(inputs[0])

        scope.before(layers[index], scope.only_in(layers, index, before_layer))
        return
    name = stack_of(captured.names[-1])

    def after_last_layer(_: nn.Module, __: tuple, out: Any) -> None:
        layout, _source = captured.layouts[name]
        captured.hidden[index] = first_output(out) if layout is None else layout.unpack(first_output(out))

    scope.after(model.base_model.get_submodule(name), after_last_layer)


def record_module(name: str, captured: CapturedActivations) -> Callable:
    """A hook that records the output of a module."""

    def keep(_: nn.Module, __: tuple, out: Any) -> None:
        value = first_output(out)
        if isinstance(value, Tensor):
            captured.returned[name] = value

    return keep


def record_layouts(model: PreTrainedModel, layouts: Layouts, scope: HookScope) -> None:
    """Record the layouts of every stack, as its first layer receives them."""
    firsts: dict[str, nn.Module] = {}
    for name, layer in zip(layer_names(model), model.layers, strict=True):
        firsts.setdefault(stack_of(name), layer)
    for stack, layer in firsts.items():

        def keep(_: nn.Module, inputs: tuple, stack: str = stack) -> None:
            layouts[stack] = layouts_from(inputs)

        scope.before(layer, keep)


def stack_of(layer: str) -> str:
    """The name of the stack that a layer stands in.

    >>> stack_of("encoder.layer.3"), stack_of("decoder.bert.encoder.layer.0")
    ('encoder', 'decoder.bert.encoder')
    """
    return layer.rpartition(".layer.")[0]


def is_beside_stack(name: str, stack: str) -> bool:
    """Whether a module belongs to a stack or to the embeddings before it: both work on one stream."""
    body = stack.rpartition(".")[0]
    embeddings = f"{body}.embeddings" if body else "embeddings"
    return f"{name}.".startswith((f"{stack}.", f"{embeddings}."))


def layouts_from(inputs: tuple) -> tuple[Layout | None, Layout | None]:
    """The layout of the stream and of its source, as a layer receives them."""
    context = next((each for each in inputs if isinstance(each, Context)), None)
    if context is None:
        return None, None
    return context.layout, None if context.cross is None else context.cross.source.layout


def layout_for(name: str, rows: Tensor, layouts: Layouts) -> Layout | None:
    """The layout of the output of the module of that name; None if it is not a stream of rows."""
    stack = next((each for each in layouts if is_beside_stack(name, each)), "")
    is_source = f".{CROSS}.self.key" in name or f".{CROSS}.self.value" in name
    layout = layouts.get(stack, (None, None))[is_source]
    return layout if layout is not None and len(rows) == layout.rows else None


def first_output(out: Any) -> Any:
    return out[0] if isinstance(out, (tuple, Mapping)) else out
