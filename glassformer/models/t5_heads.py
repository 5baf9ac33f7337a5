"""T5's heads: it writes a text, or a vector of what it writes is classified."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.dropout import Dropout
from ..nn.linear import Linear
from ..nn.loss import span_loss, text_loss
from ..nn.tensor_inputs import WHOLE, check_tensor
from .base.heads import ForTokenClassification, problem_type
from .base.outputs import (
    BaseModelOutput,
    BodyOutput,
    Seq2SeqLMOutput,
    Seq2SeqQuestionAnsweringModelOutput,
    Seq2SeqSequenceClassifierOutput,
)
from .base.seq2seq import EncoderDecoderBody, Seq2SeqModel
from .base.signature import OUTPUTS, takes
from .t5 import (
    ENCODER_WEIGHTS,
    READ,
    T5Config,
    T5Decoder,
    T5Encoder,
    T5EncoderModel,
    T5Model,
    T5PreTrainedModel,
    sort_inputs,
)


class T5ForConditionalGeneration(Seq2SeqModel, T5PreTrainedModel):
    """Reads a text and writes another.

    >>> config = T5Config(vocab_size=50, hidden_size=16, head_width=8, intermediate_size=24, num_attention_heads=2)
    >>> model = T5ForConditionalGeneration(config).eval()
    >>> model(torch.tensor([[5, 6, 1]]), labels=torch.tensor([[8, 1]])).logits.shape
    torch.Size([1, 2, 50])
    """

    scorer = "lm_head"

    def __init__(self, config: T5Config):
        super().__init__(config)
        self.encoder = T5Encoder(self.config)
        self.decoder = T5Decoder(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def word_logits(self, rows: Tensor) -> Tensor:
        """N C -> N V; tied word vectors score rows that are divided by sqrt(C)."""
        if self.config.scales_rows:
            rows = rows * self.config.hidden_size**-0.5
        return self.lm_head(rows)

    @takes(*READ, "labels", "use_cache", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqLMOutput | tuple:
        """Score the words after each of `decoder_input_ids` (B T), given the source `input_ids` (B S).

        With `labels`, the target, the decoder reads them shifted by one, and their mean loss is returned.
        """
        source, target, recorded = sort_inputs(inputs)
        return self.read_and_write(source, attention_mask, target, encoder_outputs, labels, recorded, return_dict)


class T5ClassificationHead(nn.Module):
    """A layer with tanh, and the scores of the labels."""

    def __init__(self, config: T5Config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = Dropout(config.classifier_dropout)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """B C -> B L"""
        hidden = torch.tanh(self.dense(self.dropout(hidden_states)))
        return self.out_proj(self.dropout(hidden))


def repeat_source(
    body: EncoderDecoderBody, source: dict[str, Any], attention_mask: Tensor | None, target: dict[str, Any]
) -> None:
    """Let the decoder read the source itself, shifted by one, if it is given nothing else to read."""
    if target["input_ids"] is not None or target["inputs_embeds"] is not None:
        return
    ids = source["input_ids"]
    if ids is None:
        raise InputError("give input_ids, which the decoder reads too, or decoder_input_ids")
    check_tensor(ids, "input_ids", WHOLE, "B T")
    if attention_mask is not None:
        check_tensor(attention_mask, "attention_mask", device=ids.device)
    start, mask = body.start_token(), attention_mask
    shifted = torch.cat((ids.new_full((len(ids), 1), start), ids[:, :-1]), 1)
    if mask is not None and mask.shape == ids.shape:  # behind padding on the left the text begins anew
        shifted[:, 1:] = shifted[:, 1:].masked_fill((mask[:, 1:] != 0) & (mask[:, :-1] == 0), start)
    target["input_ids"] = shifted
    if target["attention_mask"] is None:
        target["attention_mask"] = mask


class T5ForSequenceClassification(T5PreTrainedModel):
    """Labels of a text: encoder and decoder read it, and the decoder's vector at its last `</s>` is classified."""

    def __init__(self, config: T5Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = T5Model(self.config)
        self.classification_head = T5ClassificationHead(self.config)
        self.post_init()

    @property
    def layers(self) -> list[nn.Module]:
        return self.transformer.layers

    def tied_names(self) -> dict[str, str]:
        tied = self.transformer.tied_names()
        return {f"transformer.{alias}": f"transformer.{name}" for alias, name in tied.items()}

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        self.transformer.gradient_checkpointing_enable(enabled)

    @takes(*READ, "labels", "use_cache", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqSequenceClassifierOutput | tuple:
        """Scores of the labels (B L) of texts (B T), each of which ends in `</s>`."""
        source, target, recorded = sort_inputs(inputs)
        ids = source["input_ids"]
        if ids is None:
            raise InputError("input_ids are needed: the vector at the last end of the text is classified")
        if labels is not None:
            target["use_cache"] = False
        repeat_source(self.transformer, source, attention_mask, target)
        if encoder_outputs is not None:
            source = {}
        body, encoded = self.transformer.read(source, attention_mask, target, encoder_outputs, recorded)
        logits = self.classification_head(self.last_ends(ids, attention_mask, body))  # B L
        loss = None if labels is None else text_loss(logits, labels, problem_type(self, labels))
        kind = Seq2SeqSequenceClassifierOutput
        return self.transformer.as_seq2seq_output(kind, body, return_dict, loss=loss, logits=logits, **encoded)

    def last_ends(self, ids: Tensor, mask: Tensor | None, body: BodyOutput) -> Tensor:
        """The decoder's vector at the last `</s>` of every text: B C."""
        check_tensor(ids, "input_ids", WHOLE, "B T", body.rows.device)
        states, named = body.last_hidden_state, self.config.eos_token_id
        if states.shape[:2] != ids.shape:
            raise InputError(
                f"the decoder's inputs must be as long as input_ids, whose ends are looked up in them: got "
                f"{list(states.shape[:2])} and {list(ids.shape)}"
            )
        if named is None:
            raise InputError("the config has no eos_token_id, so that it is unknown where a text ends")
        ends = torch.isin(ids, torch.tensor(named, device=ids.device))  # B T
        if mask is not None and mask.shape == ids.shape:
            ends = ends & (mask != 0)
        if not bool(ends.any(1).all()):
            missing = int((~ends.any(1)).nonzero()[0])
            raise InputError(f"text {missing} has no end: the token {named} (eos_token_id) is not in its input_ids")
        places = torch.arange(ids.shape[1], device=ids.device)
        return states[torch.arange(len(ids), device=ids.device), (ends * places).amax(1)]


class T5ForTokenClassification(T5PreTrainedModel, ForTokenClassification):
    """A label for each token, from the encoder alone."""

    keymap = ENCODER_WEIGHTS
    forward = takes(  # the arguments of the encoder
        *("input_ids", "attention_mask", "head_mask", "inputs_embeds", "labels", *OUTPUTS)
    )(ForTokenClassification.forward.__wrapped__)  # type: ignore[attr-defined]

    def __init__(self, config: T5Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = T5EncoderModel(self.config)
        self.dropout = Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @property
    def decoding_body(self) -> T5Encoder:
        return self.transformer.encoder


class T5ForQuestionAnswering(EncoderDecoderBody, T5PreTrainedModel):
    """Where in the text does the answer begin and end? Encoder and decoder read it."""

    is_body = False

    def __init__(self, config: T5Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.encoder = T5Encoder(self.config)
        self.decoder = T5Decoder(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @takes(*READ, "start_positions", "end_positions", "use_cache", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqQuestionAnsweringModelOutput | tuple:
        """Scores of each token as begin and end of the answer, B T each; padded positions score the lowest number.

        The original loss includes padded positions, so with labels they are computed too.
        """
        if (start_positions is None) != (end_positions is None):
            raise InputError("give both start_positions and end_positions, or neither")
        source, target, recorded = sort_inputs(inputs)
        has_labels = start_positions is not None
        if has_labels:
            target["use_cache"] = False
            if target["attention_mask"] is None and source["input_ids"] is not None:
                target["attention_mask"] = torch.ones_like(source["input_ids"])
        repeat_source(self, source, attention_mask, target)
        if encoder_outputs is not None:
            source = {}
        body, encoded = self.read(source, attention_mask, target, encoder_outputs, recorded)
        logits = self.qa_outputs(body.rows)  # N 2
        laid_out = body.layout.unpack(logits, fill=torch.finfo(logits.dtype).min)  # B T 2
        starts, ends = (part.squeeze(-1).contiguous() for part in laid_out.split(1, dim=-1))
        loss = span_loss(starts, ends, start_positions, end_positions) if has_labels else None
        scores = {"loss": loss, "start_logits": starts, "end_logits": ends}
        return self.as_seq2seq_output(Seq2SeqQuestionAnsweringModelOutput, body, return_dict, **scores, **encoded)
