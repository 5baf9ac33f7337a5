"""XLNet's heads: words in any order, texts and choices by their last token, labels of tokens, answers by beams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from ..nn.linear import Linear
from ..nn.loss import label_loss
from ..nn.tensor_inputs import WHOLE, as_index, check_broadcast, check_finite, check_ids, check_tensor
from .base.generation_mixin import GenerationMixin
from .base.heads import (
    ForMultipleChoice,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    HeadModel,
    LinearLMHeadModel,
    score_tokens,
)
from .base.outputs import (
    BodyOutput,
    XLNetForMultipleChoiceOutput,
    XLNetForQuestionAnsweringOutput,
    XLNetForQuestionAnsweringSimpleOutput,
    XLNetForSequenceClassificationOutput,
    XLNetForTokenClassificationOutput,
    XLNetLMHeadModelOutput,
)
from .base.sequence_summary import SequenceSummary
from .base.signature import OUTPUTS, takes
from .xlnet import INPUTS, XLNetConfig, XLNetModel, XLNetPreTrainedModel


class NextWordReader:
    """An XLNet as generation needs it: asked for the word behind each text.

    Every token sees all others, so that a further one changes the states of all: texts are read again for each word.
    """

    is_decoder, reads_again, max_length = True, True, None

    def __init__(self, body: XLNetModel):
        self.body = body

    def encode(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False) -> BodyOutput:
        """One prediction for each text (B T, padded on the right): its rows are B C."""
        ids, lengths = F.pad(input_ids, (0, 1)), attention_mask.sum(1)
        mask = torch.arange(ids.shape[1], device=ids.device) <= lengths[:, None]
        target = F.one_hot(lengths, ids.shape[1])[:, None]  # B 1 T: the token behind the text, which none sees
        hidden = target.expand(-1, ids.shape[1], -1)
        return self.body.encode(ids, mask, perm_mask=hidden, target_mapping=target, use_mems=False)


class XLNetLMHeadModel(GenerationMixin, XLNetPreTrainedModel, LinearLMHeadModel):
    """Which words are at the tokens that `target_mapping` names, given the others as `perm_mask` shows them?"""

    scorer = "lm_loss"

    def __init__(self, config: XLNetConfig):
        super().__init__(config)
        self.transformer = XLNetModel(self.config)
        self.lm_loss = Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @property
    def decoding_body(self) -> NextWordReader:
        return NextWordReader(self.transformer)

    @takes(*INPUTS, "labels", "use_mems", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> XLNetLMHeadModelOutput | tuple:
        """`labels` (B P, or B T without `target_mapping`) are the words themselves: nothing is shifted."""
        body = self.transformer.encode(**inputs, keep_padding=labels is not None)
        _, logits = score_tokens(self.word_logits, body)  # B P V
        loss = None if labels is None else label_loss(logits, labels)
        return self.as_output(XLNetLMHeadModelOutput, body, return_dict, loss=loss, logits=logits)


class SummaryHead(HeadModel):
    """A head that reads one vector of each text, by default that of its last token."""

    def make_head(self, outputs: int) -> None:
        self.sequence_summary = SequenceSummary(self.config)
        self.logits_proj = nn.Linear(self.config.hidden_size, outputs)

    def text_logits(self, body: BodyOutput) -> Tensor:
        return self.logits_proj(self.sequence_summary(body))


def forward_of(head: type[HeadModel], *own: str) -> Callable:
    """The forward of a shared head, with the inputs of an XLNet and some of the head's own."""
    return takes(*INPUTS, *own, "use_mems", *OUTPUTS)(head.forward.__wrapped__)  # type: ignore[attr-defined]


class XLNetForSequenceClassification(XLNetPreTrainedModel, SummaryHead, ForSequenceClassification):
    output_class = XLNetForSequenceClassificationOutput
    forward = forward_of(ForSequenceClassification, "labels")

    def __init__(self, config: XLNetConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = XLNetModel(self.config)
        self.make_head(config.num_labels)
        self.post_init()


class XLNetForMultipleChoice(XLNetPreTrainedModel, SummaryHead, ForMultipleChoice):
    output_class = XLNetForMultipleChoiceOutput
    forward = forward_of(ForMultipleChoice, "labels")

    def __init__(self, config: XLNetConfig):
        super().__init__(config)
        self.transformer = XLNetModel(self.config)
        self.make_head(1)
        self.post_init()


class XLNetForTokenClassification(XLNetPreTrainedModel, ForTokenClassification):
    output_class = XLNetForTokenClassificationOutput
    forward = forward_of(ForTokenClassification, "labels")

    def __init__(self, config: XLNetConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = XLNetModel(self.config)
        self.dropout = nn.Identity()
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class XLNetForQuestionAnsweringSimple(XLNetPreTrainedModel, ForQuestionAnswering):
    """Scores of starts and ends, independent of each other."""

    output_class = XLNetForQuestionAnsweringSimpleOutput
    forward = forward_of(ForQuestionAnswering, "start_positions", "end_positions")

    def __init__(self, config: XLNetConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = XLNetModel(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()


class XLNetForQuestionAnswering(XLNetPreTrainedModel, HeadModel):
    """Scores of ends given a start: a beam of starts, and for each a beam of ends; and whether there is an answer."""

    def __init__(self, config: XLNetConfig):
        super().__init__(config)
        self.transformer = XLNetModel(self.config)
        self.start_logits = XLNetPoolerStartLogits(self.config)
        self.end_logits = XLNetPoolerEndLogits(self.config)
        self.answer_class = XLNetPoolerAnswerClass(self.config)
        self.post_init()

    @takes(
        *INPUTS,
        *("start_positions", "end_positions", "is_impossible", "cls_index", "p_mask", "use_mems"),
        *OUTPUTS,
    )
    def forward(
        self,
        inputs: dict[str, Any],
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        is_impossible: Tensor | None = None,
        cls_index: Tensor | None = None,
        p_mask: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> XLNetForQuestionAnsweringOutput | tuple:
        """The loss with positions (B), else the probabilities and places of the best starts and ends.

        `p_mask` (B T) is 1 at tokens that are in no answer; only it keeps answers out of the padding, which is
        computed as in the original. `cls_index` (B) is the token that says whether there is an answer, by default the
        last one of the batch.
        """
        if (start_positions is None) != (end_positions is None):
            raise InputError("give both start_positions and end_positions, or neither")
        body = self.transformer.encode(**inputs, keep_padding=True)
        batch, length = body.layout.batch, body.layout.length
        given = {"start_positions": start_positions, "end_positions": end_positions, "cls_index": cls_index}
        for name, places in given.items():
            if places is not None:
                check_places(places, name, batch, length, body.rows.device)
        if p_mask is not None:
            check_tensor(p_mask, "p_mask", device=body.rows.device)
            check_broadcast(p_mask, (batch, length), "p_mask")
        if is_impossible is not None:
            check_tensor(is_impossible, "is_impossible", device=body.rows.device)
            check_finite(is_impossible, "is_impossible")
        x = body.layout.unpack(body.rows)  # B T C
        starts = self.start_logits(x, p_mask)
        if start_positions is not None and end_positions is not None:
            first = tokens_at(x, start_positions.reshape(-1, 1))  # B 1 C
            ends = self.end_logits(x, first.expand_as(x), p_mask)
            loss = (label_loss(starts, start_positions) + label_loss(ends, end_positions)) / 2
            if cls_index is not None and is_impossible is not None:
                answerable = self.answer_class(first[:, 0], x, cls_index)
                loss = loss + 0.5 * F.binary_cross_entropy_with_logits(answerable, is_impossible.to(x.dtype).view(-1))
            return self.as_output(XLNetForQuestionAnsweringOutput, body, return_dict, loss=loss)
        if self.config.start_n_top > x.shape[1] or self.config.end_n_top > x.shape[1]:
            raise InputError(
                f"a text of {x.shape[1]} tokens is too short for beams of {self.config.start_n_top} starts "
                f"(start_n_top) and {self.config.end_n_top} ends (end_n_top)"
            )
        start_probabilities = starts.softmax(-1)  # B T
        top_starts, start_index = start_probabilities.topk(self.config.start_n_top, -1)  # B K
        shape = (-1, x.shape[1], self.config.start_n_top, -1)
        first = tokens_at(x, start_index)[:, None].expand(shape)  # B T K C
        mask = None if p_mask is None else p_mask[..., None]
        end_probabilities = self.end_logits(x[:, :, None].expand(shape), first, mask).softmax(1)  # B T K
        top_ends, end_index = end_probabilities.topk(self.config.end_n_top, 1)  # B E K
        mean_start = (x * start_probabilities[..., None]).sum(1)  # B C
        beams = {
            "start_top_log_probs": top_starts,  # probabilities, under the name that they have elsewhere
            "start_top_index": start_index,
            "end_top_log_probs": top_ends.flatten(1),
            "end_top_index": end_index.flatten(1),
            "cls_logits": self.answer_class(mean_start, x, cls_index),
        }
        return self.as_output(XLNetForQuestionAnsweringOutput, body, return_dict, loss=None, **beams)


def check_places(places: Tensor, name: str, batch: int, length: int, device: torch.device) -> None:
    """Refuse places that are not one token of each sequence."""
    check_tensor(places, name, WHOLE, device=device)
    if places.numel() != batch:
        raise InputError(f"{name} must name one token of each of {batch} sequences, got {list(places.shape)}")
    check_ids(places, length, name)


def tokens_at(x: Tensor, index: Tensor) -> Tensor:
    """The vectors of some tokens of each sequence: B T C and B K -> B K C."""
    return x.gather(1, as_index(index)[..., None].expand(-1, -1, x.shape[-1]))


def without_masked(scores: Tensor, p_mask: Tensor | None) -> Tensor:
    return scores if p_mask is None else scores.masked_fill(p_mask > 0, torch.finfo(scores.dtype).min)


class XLNetPoolerStartLogits(nn.Module):
    """How well an answer begins at each token."""

    def __init__(self, config: XLNetConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 1)

    def forward(self, x: Tensor, p_mask: Tensor | None = None) -> Tensor:
        return without_masked(self.dense(x).squeeze(-1), p_mask)


class XLNetPoolerEndLogits(nn.Module):
    """How well an answer ends at each token, given where it begins."""

    def __init__(self, config: XLNetConfig):
        super().__init__()
        self.dense_0 = nn.Linear(2 * config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dense_1 = nn.Linear(config.hidden_size, 1)

    def forward(self, x: Tensor, starts: Tensor, p_mask: Tensor | None = None) -> Tensor:
        both = self.activation(self.dense_0(torch.cat((x, starts), -1)))
        return without_masked(self.dense_1(self.LayerNorm(both)).squeeze(-1), p_mask)


class XLNetPoolerAnswerClass(nn.Module):
    """Whether there is no answer, from the vectors of a start and of one more token."""

    def __init__(self, config: XLNetConfig):
        super().__init__()
        self.dense_0 = nn.Linear(2 * config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()
        self.dense_1 = nn.Linear(config.hidden_size, 1, bias=False)

    def forward(self, start: Tensor, x: Tensor, cls_index: Tensor | None) -> Tensor:
        """B C and B T C -> B"""
        token = x[:, -1] if cls_index is None else tokens_at(x, cls_index.reshape(-1, 1))[:, 0]
        return self.dense_1(self.activation(self.dense_0(torch.cat((start, token), -1)))).squeeze(-1)
