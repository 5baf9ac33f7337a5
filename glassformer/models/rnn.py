"""What came before the Transformer: an encoder and a decoder that read word by word (Sutskever et al. 2014).

Without attention all that the decoder knows of the source is one vector of fixed size. `attention` lets it look back:
"bahdanau" before each step of the decoder (2014), the three of "luong" after it (2015). A convolutional encoder, which
reads all words at once but sees few of them (Gehring et al. 2017), can take the place of the recurrent one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..checkpoints.config import PretrainedConfig, choice, flag, number, whole
from ..checkpoints.keymap import KeyMap
from ..errors import ConfigError, InputError
from ..nn.additive import BahdanauAttention, LuongAttention
from ..nn.linear import Linear
from ..nn.mask import arrange, check_ids, check_tensor
from ..nn.stream import Layout, lengths_of
from .outputs import BodyOutput
from .seq2seq import Seq2SeqModel

ATTENTIONS = ("without", "bahdanau", "luong_dot", "luong_general", "luong_concat")


@dataclass(repr=False, eq=False)
class RNNConfig(PretrainedConfig):
    """The shape of a recurrent encoder-decoder."""

    model_type = "rnn"

    vocab_size: int = whole(10000)  # of the target
    source_vocab_size: int | None = whole(None, optional=True)  # None: as many as the target's
    hidden_size: int = whole(256)
    num_hidden_layers: int = whole(2, high=100)  # of the encoder, and of the decoder
    cell: str = choice("gru", ("gru", "lstm"))
    attention: str = choice("bahdanau", ATTENTIONS)
    encoder_type: str = choice("recurrent", ("recurrent", "convolutional"))
    kernel_size: int = whole(3)  # words that a convolution sees at once
    hidden_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = whole(5000)
    initializer_range: float = number(0.1, 0, 1e6)
    _: KW_ONLY
    share_embeddings: bool = flag(True)  # one table of vectors for source and target
    output_bias: bool = flag(False)
    is_encoder_decoder: bool = flag(True)
    decoder_start_token_id: int | None = whole(None, low=0, optional=True)

    def validate(self) -> None:
        if self.hidden_size % 2:
            raise ConfigError(f"hidden_size must be even, half for each direction of reading, got {self.hidden_size}")
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"kernel_size must be odd, as many words before as behind, got {self.kernel_size}")
        if self.share_embeddings and self.source_vocab_size not in (None, self.vocab_size):
            raise ConfigError(
                f"shared embeddings need one vocabulary, got {self.source_vocab_size} and {self.vocab_size} words"
            )

    @property
    def state_size(self) -> int:
        """An LSTM remembers twice: what it says and what it keeps."""
        return self.hidden_size * (2 if self.cell == "lstm" else 1)


class RNNForSeq2SeqLM(Seq2SeqModel):
    """Reads a text word by word and writes another.

    >>> model = RNNForSeq2SeqLM(RNNConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1)).eval()
    >>> model(torch.tensor([[5, 6, 7]]), decoder_input_ids=torch.tensor([[1, 8]])).logits.shape
    torch.Size([1, 2, 50])
    """

    is_body = True
    config_class = RNNConfig
    base_model_prefix = "rnn"
    keymap = KeyMap(prefix="rnn.", body=("encoder", "decoder"))
    layers: Sequence[nn.Module] = ()  # without attention of many heads there is nothing to prune or mask

    def __init__(self, config: RNNConfig):
        super().__init__(config)
        config = self.config
        kind = RecurrentEncoder if config.encoder_type == "recurrent" else ConvolutionalEncoder
        self.encoder = kind(config)
        self.decoder = RecurrentDecoder(config)
        self.fc_out = Linear(config.hidden_size, config.vocab_size, bias=config.output_bias)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        deviation = self.config.initializer_range
        for name, parameter in module.named_parameters(recurse=False):
            if name.startswith("bias"):
                parameter.data.zero_()
            elif isinstance(module, nn.Embedding):
                parameter.data.normal_(0.0, deviation)
            elif isinstance(module, nn.LayerNorm):
                parameter.data.fill_(1.0)
            else:
                parameter.data.uniform_(-1.0, 1.0).mul_(math.sqrt(3 / parameter[0].numel()))

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        if enabled:
            raise InputError(f"{type(self).__name__} has no layers: gradient checkpointing is for stacks of them")

    @property
    def is_gradient_checkpointing(self) -> bool:
        return False

    def source_for(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
        memory = self.encoder.run(input_ids, attention_mask)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states = {"encoder_hidden_states": memory.last_hidden_state, "encoder_attention_mask": mask}
        return states if memory.pooled is None else {**states, "state": memory.pooled}


class WordVectors(nn.Module):
    """The vectors of words."""

    def __init__(self, config: RNNConfig, words: int):
        super().__init__()
        self.word_embeddings = nn.Embedding(words, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """B T -> N C"""
        rows = layout.pack(ids)
        check_ids(rows, self.word_embeddings.num_embeddings, "input_ids: id", layout)
        return self.dropout(self.word_embeddings(rows))


class Reads(nn.Module):
    """What the halves share: their words and their door."""

    def __init__(self, config: RNNConfig, words: int):
        super().__init__()
        self.embeddings = WordVectors(config, words)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.max_position_embeddings = config.max_position_embeddings

    def enter(self, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Layout]:
        check_tensor(input_ids, "input_ids")
        if input_ids.dim() != 2 or 0 in input_ids.shape:
            raise InputError(f"input_ids must have the shape B T, neither of them 0, got {list(input_ids.shape)}")
        if input_ids.shape[1] > self.max_position_embeddings:
            raise InputError(
                f"{input_ids.shape[1]} positions are more than max_position_embeddings {self.max_position_embeddings}"
            )
        weight = self.embeddings.word_embeddings.weight
        layout = arrange(*input_ids.shape, attention_mask, dtype=weight.dtype, device=weight.device)
        if layout.mask is not None or any(run.column for run in layout.runs):
            raise InputError("a text that is read word by word has its padding at the end, and only there")
        return self.embeddings(input_ids, layout), layout


def refuse_heads(head_mask: Tensor | None) -> None:
    if head_mask is not None:
        raise InputError("a recurrent model has no heads to mask")


class RecurrentEncoder(Reads):
    """Reads the source from both ends; half of every vector comes from each side."""

    def __init__(self, config: RNNConfig):
        super().__init__(config, config.source_vocab_size or config.vocab_size)
        kind, layers = (nn.LSTM if config.cell == "lstm" else nn.GRU), config.num_hidden_layers
        dropout = config.hidden_dropout_prob if layers > 1 else 0.0
        size = config.hidden_size
        self.rnn = kind(size, size // 2, layers, batch_first=True, bidirectional=True, dropout=dropout)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BodyOutput:
        """Rows of the source; `pooled` is what is remembered at the end, B layers state."""
        refuse_heads(head_mask)
        rows, layout = self.enter(input_ids, attention_mask)
        lengths = torch.tensor(lengths_of(layout))
        packed = pack_padded_sequence(layout.unpack(rows), lengths, batch_first=True, enforce_sorted=False)
        read, last = self.rnn(packed)
        states, _ = pad_packed_sequence(read, batch_first=True, total_length=layout.length)
        ends = last if isinstance(last, tuple) else (last,)
        joined = [end.unflatten(0, (-1, 2)).permute(2, 0, 1, 3).flatten(2) for end in ends]  # each B layers C
        return BodyOutput(
            rows=layout.pack(states),
            layout=layout,
            pooled=torch.cat(joined, -1),
            hidden_states=(layout.unpack(rows), states) if output_hidden_states else None,
        )


class ConvolutionalEncoder(Reads):
    """Reads the source through windows of a few words; each layer sees a little further."""

    def __init__(self, config: RNNConfig):
        super().__init__(config, config.source_vocab_size or config.vocab_size)
        size, layers = config.hidden_size, config.num_hidden_layers
        reach = {"kernel_size": config.kernel_size, "padding": config.kernel_size // 2}
        self.convolution = nn.ModuleList(nn.Conv1d(size, size, **reach) for _ in range(layers))
        self.LayerNorm = nn.ModuleList(nn.LayerNorm(size) for _ in range(layers))
        self.bridge = Linear(size, layers * config.state_size)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BodyOutput:
        refuse_heads(head_mask)
        x, layout = self.enter(input_ids, attention_mask)
        seen = [x]
        for convolution, norm in zip(self.convolution, self.LayerNorm, strict=True):
            parts = zip(layout.runs, x.split([run.count * run.length for run in layout.runs]), strict=True)
            blocks = [rows.view(run.count, run.length, -1).transpose(1, 2) for run, rows in parts]  # each B C T
            wide = [convolution(block).transpose(1, 2).flatten(0, 1) for block in blocks]
            x = norm(x + self.dropout(torch.cat(wide).relu()))
            seen.append(x)
        means = layout.unpack(x).sum(1) / torch.tensor(lengths_of(layout), device=x.device)[:, None]  # B C
        state = self.bridge(means).tanh().unflatten(-1, (len(self.convolution), -1))  # B layers state
        states = tuple(layout.unpack(each) for each in seen) if output_hidden_states else None
        return BodyOutput(rows=x, layout=layout, pooled=state, hidden_states=states)


class RecurrentDecoder(Reads):
    """Writes the target word by word; what it remembers begins as what the encoder remembered."""

    is_decoder = True
    keeps_state = True  # between two words it keeps a state, not keys and values

    def __init__(self, config: RNNConfig):
        super().__init__(config, config.vocab_size)
        size = config.hidden_size
        kind, name = (nn.LSTMCell if config.cell == "lstm" else nn.GRUCell), config.attention
        self.looks_before = name == "bahdanau"
        widths = [size * 2 if self.looks_before else size, *[size] * (config.num_hidden_layers - 1)]
        self.cell = nn.ModuleList(kind(width, size) for width in widths)
        self.attention: nn.Module | None = None
        if name != "without":
            self.attention = (
                BahdanauAttention(size) if self.looks_before else LuongAttention(size, name.removeprefix("luong_"))
            )
            self.combine = Linear(2 * size, size)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        memory: BodyOutput | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        state: Tensor | None = None,
        use_cache: bool = False,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BodyOutput:
        """Rows that score the next word; `pooled` is the state after each sequence's last word, B layers state."""
        refuse_heads(head_mask if cross_head_mask is None else cross_head_mask)
        rows, layout = self.enter(input_ids, attention_mask)
        if memory is not None:
            state, source = memory.pooled, memory.last_hidden_state
            seen = memory.layout.unpack(torch.ones_like(memory.rows[:, 0]))
        else:
            source, seen = encoder_hidden_states, encoder_attention_mask
        if state is None:
            raise InputError("a recurrent decoder begins with the last state of its encoder: give input_ids")
        if len(state) != layout.batch:
            raise InputError(f"{layout.batch} targets cannot be written beside {len(state)} sources")
        lengths = lengths_of(layout)
        order = sorted(range(layout.batch), key=lambda row: -lengths[row])  # the longest first
        lengths = sorted(lengths, reverse=True)
        words, keys, state = layout.unpack(rows)[order], source[order], state[order]
        shown = None if seen is None else seen[order]
        said, looked = [], []
        for place in range(lengths[0]):
            going = sum(length > place for length in lengths)  # no work on sequences that have ended
            hidden = None if shown is None else shown[:going]
            new, context, weights = self.step(words[:going, place], state[:going], keys[:going], hidden)
            state = torch.cat((new, state[going:]))
            said.append(self.spoken(self.top(new), context))
            looked.append(weights)
        return self.laid_out(said, looked, state, order, layout, output_attentions, output_hidden_states)

    def step(
        self, x: Tensor, state: Tensor, keys: Tensor, shown: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """One word of every sequence (B C): the new state, and what was seen of the source."""
        context = weights = None
        if self.looks_before:
            context, weights = self.attention(self.top(state), keys, mask=shown)
            x = torch.cat((x, context), -1)
        new = []
        for layer, cell in enumerate(self.cell):
            before = state[:, layer]
            if isinstance(cell, nn.LSTMCell):
                spoken, kept = cell(x, tuple(part.contiguous() for part in before.chunk(2, -1)))
                new.append(torch.cat((spoken, kept), -1))
            else:
                spoken = cell(x, before.contiguous())
                new.append(spoken)
            x = self.dropout(spoken)
        state = torch.stack(new, 1)
        if self.attention is not None and not self.looks_before:
            context, weights = self.attention(self.top(state), keys, mask=shown)
        return state, context, weights if weights is None or weights.dim() == 2 else weights[..., 0]

    def top(self, state: Tensor) -> Tensor:
        """What the last layer says: B C"""
        return state[:, -1, : self.embeddings.word_embeddings.embedding_dim]

    def spoken(self, top: Tensor, context: Tensor | None) -> Tensor:
        if context is None:
            return self.dropout(top)
        return self.dropout(self.combine(torch.cat((context, top), -1)).tanh())

    def laid_out(self, said, looked, state, order, layout, with_weights, with_states) -> BodyOutput:
        """Steps of fewer and fewer sequences, as rows of the layout."""
        back = torch.tensor(order, device=state.device).argsort()
        states = padded(said).transpose(0, 1)[back]  # B T C
        crossed = None
        if with_weights and self.attention is not None:
            crossed = (padded(looked).transpose(0, 1)[back][:, None],)  # B 1 T S
        return BodyOutput(
            rows=layout.pack(states),
            layout=layout,
            pooled=state[back],
            hidden_states=(states,) if with_states else None,
            cross_attentions=crossed,
        )


def padded(steps: list[Tensor]) -> Tensor:
    """Steps with fewer and fewer rows (each B' C) as T B C, zero where a sequence has ended."""
    rows = len(steps[0])
    return torch.stack([nn.functional.pad(step, (0, 0, 0, rows - len(step))) for step in steps])
