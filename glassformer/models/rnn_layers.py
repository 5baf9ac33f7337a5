"""Recurrent and convolutional encoders, and the recurrent decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..errors import InputError
from ..nn.context import Context, Source
from ..nn.dropout import Dropout
from ..nn.layout import Layout, sequence_lengths
from ..nn.linear import Linear
from ..nn.rnn_attention import BahdanauAttention, LuongAttention, apply_scores
from .base.embeddings import Embeddings
from .base.encoder_decoder import Decoder, Encoder
from .base.outputs import BodyOutput

if TYPE_CHECKING:
    from .rnn import RNNConfig


class WordVectors(Embeddings):
    """Word vectors."""

    position_count = None

    def __init__(self, config: RNNConfig, words: int):
        super().__init__()
        self.word_embeddings = nn.Embedding(words, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        ids: Tensor | None,
        types: Tensor | None = None,
        positions: Tensor | None = None,
        vectors: Tensor | None = None,
    ) -> Tensor:
        """N -> N C"""
        return self.dropout(self.word_embeddings(ids) if vectors is None else vectors)

    def check(  # type: ignore[override]
        self,
        ids: Tensor | None,
        types: Tensor | None,
        positions: Tensor,
        layout: Layout | None = None,
        name: str = "input_ids",
    ) -> None:
        """Refuse also padding anywhere but at the end."""
        super().check(ids, types, positions, layout, name)
        if layout is None:
            return
        if layout.mask is not None or any(run.column for run in layout.runs):
            raise InputError("a text that is read word by word has its padding at the end, and only there")


class Recurrent(nn.Module):
    """What encoders and decoder share: word vectors, and no attention heads."""

    layer_count = 0

    def __init__(self, config: RNNConfig, words: int):
        super().__init__()
        self.config = config
        self.embeddings = WordVectors(config, words)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def head_masks(self, head_mask: Tensor | None) -> None:
        if head_mask is not None:
            raise InputError("a recurrent model has no heads to mask")

    def as_body_output(self, rows: Tensor, context: Context) -> BodyOutput:
        layout, states = context.layout, context.hidden_states
        weights = None if context.cross is None else context.cross.weights
        return BodyOutput(
            rows=rows,
            layout=layout,
            pooled=context.state,
            hidden_states=None if states is None else tuple(layout.unpack(state) for state in states),
            cross_attentions=None if weights is None else (weights,),
        )


class SourceEncoder(Recurrent, Encoder):
    """Base class of the encoders."""

    def __init__(self, config: RNNConfig):
        super().__init__(config, config.source_words)

    def read(self, x: Tensor, layout: Layout) -> tuple[list[Tensor], Tensor]:
        """The hidden states of each layer for words N C, and the final state of each text, B layers state."""
        raise NotImplementedError(f"{type(self).__name__} must define read")

    def run_layers(self, x: Tensor, context: Context) -> Tensor:
        states, context.state = self.read(x, context.layout)
        if context.output_hidden_states:
            context.hidden_states = [x, *states]
        return states[-1]


class RecurrentEncoder(SourceEncoder):
    """A bidirectional recurrent encoder; half of every vector comes from each direction."""

    def __init__(self, config: RNNConfig):
        super().__init__(config)
        kind, layers = (nn.LSTM if config.cell == "lstm" else nn.GRU), config.num_hidden_layers
        dropout = config.hidden_dropout_prob if layers > 1 else 0.0
        size = config.hidden_size
        self.rnn = kind(size, size // 2, layers, batch_first=True, bidirectional=True, dropout=dropout)

    def read(self, x: Tensor, layout: Layout) -> tuple[list[Tensor], Tensor]:
        lengths = torch.tensor(sequence_lengths(layout))
        packed = pack_padded_sequence(layout.unpack(x), lengths, batch_first=True, enforce_sorted=False)
        hidden, last = self.rnn(packed)
        states, _ = pad_packed_sequence(hidden, batch_first=True, total_length=layout.length)  # B T C
        ends = last if isinstance(last, tuple) else (last,)
        joined = [end.unflatten(0, (-1, 2)).permute(2, 0, 1, 3).flatten(2) for end in ends]  # each B layers C
        return [layout.pack(states)], torch.cat(joined, -1)


class ConvolutionalEncoder(SourceEncoder):
    """A convolutional encoder: windows of a few words, whose reach grows with every layer."""

    def __init__(self, config: RNNConfig):
        super().__init__(config)
        size, layers = config.hidden_size, config.num_hidden_layers
        window = {"kernel_size": config.kernel_size, "padding": config.kernel_size // 2}
        self.convolution = nn.ModuleList(nn.Conv1d(size, size, **window) for _ in range(layers))
        self.LayerNorm = nn.ModuleList(nn.LayerNorm(size) for _ in range(layers))
        self.bridge = Linear(size, layers * config.state_size)

    def read(self, x: Tensor, layout: Layout) -> tuple[list[Tensor], Tensor]:
        """The final state is computed from the mean of all words."""
        states = []
        for convolution, norm in zip(self.convolution, self.LayerNorm, strict=True):
            parts = zip(layout.runs, x.split([run.count * run.length for run in layout.runs]), strict=True)
            blocks = [rows.view(run.count, run.length, -1).transpose(1, 2) for run, rows in parts]  # each B C T
            wide = [convolution(block).transpose(1, 2).flatten(0, 1) for block in blocks]
            x = norm(x + self.dropout(torch.cat(wide).relu()))
            states.append(x)
        means = layout.unpack(x).sum(1) / torch.tensor(sequence_lengths(layout), device=x.device)[:, None]  # B C
        return states, self.bridge(means).tanh().unflatten(-1, (len(self.convolution), -1))


class RecurrentDecoder(Recurrent, Decoder):
    """A recurrent decoder, whose initial state is the final state of the encoder."""

    keeps_state = True

    def __init__(self, config: RNNConfig):
        super().__init__(config, config.vocab_size)
        size = config.hidden_size
        kind, name = (nn.LSTMCell if config.cell == "lstm" else nn.GRUCell), config.attention
        self.attends_first = name == "bahdanau"
        widths = [size * 2 if self.attends_first else size, *[size] * (config.num_hidden_layers - 1)]
        self.cell = nn.ModuleList(kind(width, size) for width in widths)
        self.attention: BahdanauAttention | LuongAttention | None = None
        if name != "without":
            self.attention = (
                BahdanauAttention(size) if self.attends_first else LuongAttention(size, name.removeprefix("luong_"))
            )
            self.combine = Linear(2 * size, size)

    def run_layers(self, x: Tensor, context: Context) -> Tensor:
        """`context.state` becomes the state after each sequence's last word, B layers state."""
        layout, memory = context.layout, None if context.cross is None else context.cross.source
        state = None if memory is None else memory.state
        if state is None:
            raise InputError("a recurrent decoder begins with the final state of its encoder: give input_ids")
        lengths = torch.tensor(sequence_lengths(layout)).sort(descending=True)  # the longest first
        order = lengths.indices.to(x.device)
        words, state = layout.unpack(x)[order], state[order]
        source = self.prepare_source(memory, order)
        outputs, contexts, weights_of_steps = [], [], []
        for place in range(int(lengths.values[0])):
            active = int((lengths.values > place).sum())  # no work on sequences that have ended
            new, read, weights = self.step(words[:active, place], state[:active], [each[:active] for each in source])
            state = torch.cat((new, state[active:]))
            outputs.append(self.top_state(new))
            contexts.append(read)
            weights_of_steps.append(weights)

        def laid_out(steps: list[Tensor]) -> Tensor:
            """Steps of fewer and fewer sequences as B T C, in the order of the batch."""
            wide = [nn.functional.pad(step, (0, 0, 0, layout.batch - len(step))) for step in steps]
            return torch.stack(wide, 1)[order.argsort()]

        output = layout.pack(laid_out(outputs))  # N C
        if self.attention is not None:
            output = self.combine(torch.cat((layout.pack(laid_out(contexts)), output), -1)).tanh()
            if context.output_attentions:
                context.cross.weights = laid_out(weights_of_steps)[:, None]  # B 1 T S
        output = self.dropout(output)
        context.state = state[order.argsort()]
        if context.output_hidden_states:
            context.hidden_states = [output]
        return output

    def prepare_source(self, memory: Source, order: Tensor) -> list[Tensor]:
        """What the attention reads at every step: prepared keys, vectors, additive mask; nothing without attention."""
        if self.attention is None:
            return []
        keys, layout = memory.layout.unpack(memory.rows)[order], memory.layout  # B S C
        mask = layout.padding_mask(keys) if layout.mask is None else layout.mask  # B 1 1 S
        bias = keys.new_zeros(len(keys), 1, layout.length) if mask is None else mask[order, 0]
        return [self.attention.prepare(keys), keys, bias]

    def step(self, x: Tensor, state: Tensor, source: list[Tensor]) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """One word of every sequence (B C): the new state, the context (B C) and the weights (B S) of the attention."""
        context = weights = None
        if self.attends_first:
            context, weights = self.attend(source, state)
            x = torch.cat((x, context), -1)
        new = []
        for layer, cell in enumerate(self.cell):
            before = state[:, layer]
            if isinstance(cell, nn.LSTMCell):
                output, memory = cell(x, tuple(part.contiguous() for part in before.chunk(2, -1)))
                new.append(torch.cat((output, memory), -1))
            else:
                output = cell(x, before.contiguous())
                new.append(output)
            x = self.dropout(output)
        state = torch.stack(new, 1)
        if source and not self.attends_first:
            context, weights = self.attend(source, state)
        return state, context, weights

    def attend(self, source: list[Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
        prepared, keys, bias = source
        context, weights = apply_scores(self.attention.score(self.top_state(state), prepared) + bias, keys)
        return context, weights[:, 0]

    def top_state(self, state: Tensor) -> Tensor:
        """The output of the last layer: B C"""
        return state[:, -1, : self.embeddings.word_embeddings.embedding_dim]
