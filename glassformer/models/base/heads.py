"""The heads: one forward per task, shared by every architecture that has the task.

A class here uses modules (`dropout`, `classifier`, ...) that the architecture's own class builds, with the body.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...nn.crf import AllowedPaths, ConditionalRandomField, PathScores, crf_losses
from ...nn.linear import Linear
from ...nn.loss import CLASSES, IGNORED, check_label_range, label_loss, span_loss, text_loss
from ...nn.tensor_inputs import check_tensor
from .outputs import (
    BodyOutput,
    CausalLMOutputWithCrossAttentions,
    MaskedLMOutput,
    ModelOutput,
    MultipleChoiceModelOutput,
    NextSentencePredictorOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    SequenceClassifierOutputWithPast,
    TokenClassifierOutput,
)
from .pretrained_model import PreTrainedModel
from .signature import OUTPUTS, SOURCE, TEXT, takes
from .tag_schemes import allowed_paths

log = logging.getLogger("glassformer")


class HeadModel(PreTrainedModel):
    """A body with a head."""

    def text_logits(self, body: BodyOutput) -> Tensor:
        """The logits of a head that classifies texts: B C -> B L."""
        return self.classifier(self.dropout(body.pooled))


class LinearLMHeadModel(PreTrainedModel):
    """A model with a linear layer over the vocabulary; its weights are those of the word embeddings."""

    scorer: ClassVar[str] = "lm_head"  # the name of the layer

    def get_output_embeddings(self) -> nn.Linear:
        return getattr(self, self.scorer)

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        setattr(self, self.scorer, new_embeddings)

    def tied_names(self) -> dict[str, str]:
        if not self.config.tie_word_embeddings:
            return {}
        return {f"{self.scorer}.weight": f"{self.base_model_prefix}.embeddings.word_embeddings.weight"}

    def word_logits(self, rows: Tensor) -> Tensor:
        """N C -> N V"""
        return self.get_output_embeddings()(rows)

    def _resize_output(self, size: int, shared: int) -> None:
        old = self.get_output_embeddings()
        new = Linear(old.in_features, size, bias=old.bias is not None, device="meta")
        if old.bias is not None:
            bias = torch.cat((old.bias.data[:shared], old.bias.data.new_zeros(size - shared)))
            new.bias = nn.Parameter(bias, requires_grad=old.bias.requires_grad)
        if not self.config.tie_word_embeddings:
            weight = old.weight.data.new_empty(size, old.in_features).normal_(0.0, self.config.initializer_range)
            weight[:shared] = old.weight.data[:shared]
            new.weight = nn.Parameter(weight, requires_grad=old.weight.requires_grad)
        self.set_output_embeddings(new)


class LayeredLMHeadModel(PreTrainedModel):
    """A model that scores the vocabulary with several layers, of which the last, `decoder`, shares its `bias`.

    The weights of `decoder` are those of the word embeddings.
    """

    scorer: ClassVar[str] = "lm_head"  # the name of the module

    @property
    def lm_scorer(self) -> nn.Module:
        return self.get_submodule(self.scorer)

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_scorer.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_scorer.decoder = new_embeddings

    def tied_names(self) -> dict[str, str]:
        bias, own_bias = f"{self.scorer}.bias", f"{self.scorer}.decoder.bias"
        if not self.config.tie_word_embeddings:  # files may then hold another bias, which the decoder does not add
            return {bias: own_bias}
        words = f"{self.base_model_prefix}.embeddings.word_embeddings.weight"
        return {own_bias: bias, f"{self.scorer}.decoder.weight": words}

    def word_logits(self, rows: Tensor) -> Tensor:
        """N C -> N V"""
        return self.lm_scorer(rows)

    def _resize_output(self, size: int, shared: int) -> None:
        head = self.lm_scorer
        old = head.decoder
        bias = torch.cat((head.bias.data[:shared], head.bias.data.new_zeros(size - shared)))
        head.bias = nn.Parameter(bias, requires_grad=head.bias.requires_grad)
        head.decoder = Linear(old.in_features, size, device="meta")
        head.decoder.bias = head.bias
        if not self.config.tie_word_embeddings:
            weight = old.weight.data.new_empty(size, old.in_features).normal_(0.0, self.config.initializer_range)
            weight[:shared] = old.weight.data[:shared]
            head.decoder.weight = nn.Parameter(weight)


class CausalLMHeadModel(LinearLMHeadModel):
    """Which word comes next?"""

    def predict(
        self, body: BodyOutput, labels: Tensor | None, return_dict: bool | None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """The return value of a forward; `labels` are the input itself and shifted here."""
        _, logits = score_tokens(self.word_logits, body)  # B T V
        loss = None if labels is None else next_token_loss(logits, labels, body)
        return self.as_output(CausalLMOutputWithCrossAttentions, body, return_dict, loss=loss, logits=logits)


class LastTokenClassifier(PreTrainedModel):
    """A label for a text from its last token, the only one that attends to all others."""

    classified_output: ClassVar[type[ModelOutput]] = SequenceClassifierOutputWithPast

    def classify(
        self, body: BodyOutput, input_ids: Tensor | None, labels: Tensor | None, return_dict: bool | None
    ) -> Any:
        """The return value of a forward."""
        logits = self.score(self.last_tokens(body, input_ids))  # B L
        loss = None if labels is None else text_loss(logits, labels, problem_type(self, labels))
        return self.as_output(self.classified_output, body, return_dict, loss=loss, logits=logits)

    def last_tokens(self, body: BodyOutput, input_ids: Tensor | None) -> Tensor:
        """The vector of every text's last token that is not padding."""
        layout, padding = body.layout, self.config.pad_token_id
        real = layout.unpack(torch.ones_like(body.rows[:, 0])).bool()  # B T
        if padding is not None and input_ids is not None:
            real = real & (input_ids != padding)
        elif layout.batch > 1 and layout.index is None and padding is None and input_ids is not None:
            raise InputError("several texts need config.pad_token_id or an attention_mask, to tell where each one ends")
        places = torch.arange(layout.length, device=real.device).expand_as(real)
        last = places.masked_fill(~real, 0).amax(1)  # B
        return body.last_hidden_state[torch.arange(layout.batch, device=real.device), last]


def pack_labels(labels: Tensor, body: BodyOutput) -> Tensor:
    """Labels B T -> N, with a warning about labels of padded positions, where nothing is computed."""
    check_tensor(labels, "labels", CLASSES, device=body.rows.device)
    layout = body.layout
    if tuple(labels.shape) != (layout.batch, layout.length):
        raise InputError(f"labels must have the shape {[layout.batch, layout.length]}, got {list(labels.shape)}")
    packed = layout.pack(labels)
    dropped = int((labels != IGNORED).sum()) - int((packed != IGNORED).sum())
    if dropped:
        log.warning("%d labels of padded positions are ignored; set them to %d", dropped, IGNORED)
    return packed


def score_tokens(head: Callable[[Tensor], Tensor], body: BodyOutput) -> tuple[Tensor, Tensor]:
    """The head's scores of the real tokens (N V), and the same laid out (B T V).

    Padded positions, whose vectors are zero, get the head's scores of a zero vector, computed once in an extra row: so
    `head(last_hidden_state)` equals the laid-out scores everywhere.
    """
    if body.layout.index is None:
        scores = head(body.rows)
        return scores, body.layout.unpack(scores)
    *_, width = body.rows.shape
    scores = head(torch.cat((body.rows, body.rows.new_zeros(1, width))))
    return scores[:-1], body.layout.unpack(scores[:-1], fill=scores[-1])


def next_token_loss(logits: Tensor, labels: Tensor, body: BodyOutput) -> Tensor:
    """The mean loss of every next token: each position predicts the label after it."""
    targets = body.layout.unpack(pack_labels(labels, body), fill=IGNORED)
    return label_loss(logits[:, :-1], targets[:, 1:])


def problem_type(model: PreTrainedModel, labels: Tensor) -> str:
    """The kind of classification: that of the config, else as it follows from the labels.

    In training mode it is written into the config, so that the saved model answers accordingly.
    """
    check_tensor(labels, "labels")
    kind = model.config.problem_type
    if kind is None and model.num_labels == 1:
        kind = "regression"
    elif kind is None:
        kind = "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
    if model.training:
        model.config.problem_type = kind
    return kind


class ForMaskedLM(HeadModel):
    """Which word is at each position?"""

    output_class: type[ModelOutput] = MaskedLMOutput

    @takes(*TEXT, *SOURCE, "labels", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> ModelOutput | tuple:
        body = self.base_model.encode(**inputs)
        scores, logits = score_tokens(self.word_logits, body)  # N V, B T V
        loss = None if labels is None else label_loss(scores, pack_labels(labels, body))
        return self.as_output(self.output_class, body, return_dict, loss=loss, logits=logits)


class Classifier(HeadModel):
    """A classifier on top of a body; the classes below differ only in loss and logits."""

    output_class: type[ModelOutput]

    def loss_and_logits(self, body: BodyOutput, labels: Tensor | None) -> tuple[Tensor | None, Tensor]:
        """(loss if there are labels, logits)"""
        raise NotImplementedError(f"{type(self).__name__} must define loss_and_logits")

    @takes(*TEXT, "labels", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> ModelOutput | tuple:
        body = self.base_model.encode(**inputs)
        loss, logits = self.loss_and_logits(body, labels)
        return self.as_output(self.output_class, body, return_dict, loss=loss, logits=logits)


class ForNextSentencePrediction(Classifier):
    """Does the second sentence follow the first (0) or not (1)?"""

    output_class = NextSentencePredictorOutput

    def loss_and_logits(self, body: BodyOutput, labels: Tensor | None) -> tuple[Tensor | None, Tensor]:
        logits = self.cls(body.pooled)  # B 2
        return None if labels is None else label_loss(logits, labels), logits


class ForSequenceClassification(Classifier):
    """One label, several labels, or a number for each text.

    The loss is a mean squared error when `num_labels` is 1, else what `config.problem_type` says; without that, whole
    numbers are one label each and floats are several.
    """

    output_class = SequenceClassifierOutput

    def loss_and_logits(self, body: BodyOutput, labels: Tensor | None) -> tuple[Tensor | None, Tensor]:
        logits = self.text_logits(body)  # B L
        return None if labels is None else text_loss(logits, labels, problem_type(self, labels)), logits


class ForTokenClassification(Classifier):
    """A label for each token; with `config.crf`, labels are judged together by a conditional random field.

    Its chain is made of the positions that have a label, so of the first tokens of words; the logits are its emissions.
    """

    output_class = TokenClassifierOutput
    crf: ConditionalRandomField | None

    def post_init(self) -> None:
        self.crf = None if self.config.crf is None else ConditionalRandomField(self.config.num_labels)
        super().post_init()

    def loss_and_logits(self, body: BodyOutput, labels: Tensor | None) -> tuple[Tensor | None, Tensor]:
        scores, logits = score_tokens(lambda rows: self.classifier(self.dropout(rows)), body)  # N L, B T L
        if labels is None:
            return None, logits
        packed = pack_labels(labels, body)
        return label_loss(scores, packed) if self.crf is None else self.chain_loss(scores, packed, body), logits

    def chain_loss(self, scores: Tensor, labels: Tensor, body: BodyOutput) -> Tensor:
        """The negative log-likelihood of the labels of each sequence, as a mean over labels: N L and N -> a number."""
        check_label_range(labels, self.config.num_labels)
        counted = labels != IGNORED
        sizes = [run.length for run in body.layout.runs for _ in run.members]
        lengths = [int(each.sum()) for each in counted.split(sizes)]
        losses = crf_losses(scores[counted], labels[counted].long(), lengths, self.path_scores(), self.allowed_paths())
        return losses.sum() / counted.sum().clamp(min=1)

    def path_scores(self) -> PathScores:
        """What the conditional random field adds to the emissions."""
        if self.crf is None:
            raise InputError(f"this {type(self).__name__} has no conditional random field: config.crf is None")
        return self.crf()

    def allowed_paths(self) -> AllowedPaths | None:
        """What paths may do where they are constrained; None if all is allowed."""
        if self.config.crf != "constrained":
            return None
        return allowed_paths(tuple(self.config.id2label[i] for i in range(self.config.num_labels)))

    def add_crf(self, kind: str | bool = True) -> None:
        """Give a model an untrained conditional random field: "constrained" by the scheme of the tags (True), or not.

        >>> model = BertForTokenClassification.from_pretrained("./bert-base-chinese/")      # doctest: +SKIP
        >>> model.add_crf()                                                                 # doctest: +SKIP
        """
        if self.crf is not None:
            raise InputError(f"this {type(self).__name__} has a conditional random field already")
        if self.adapter is not None:
            raise InputError("the model has an adapter, which could not save a conditional random field: add it before")
        self.config.record_change(crf=kind)
        if self.config.crf is not None:
            self.crf = ConditionalRandomField(self.config.num_labels).to(self.device, self.stream_dtype)
            self.record_new_part("crf")


def flatten_choices(
    inputs: dict[str, Any], extra_inputs: Collection[str] = ()
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape B choices T of a batch, and its inputs with all choices one below the other."""
    ids, vectors = inputs.get("input_ids"), inputs.get("inputs_embeds")
    values, shape = (ids, "B choices T") if vectors is None else (vectors, "B choices T C")
    check_tensor(values, "input_ids" if vectors is None else "inputs_embeds", shape=shape)
    of_tokens = {*TEXT, *extra_inputs} - {"head_mask"}

    def is_of_choices(name: str, value: Any) -> bool:  # anything else is refused by the body
        is_dense = isinstance(value, Tensor) and value.layout is torch.strided and not value.is_nested
        return name in of_tokens and is_dense and value.shape[:2] == values.shape[:2]

    flat = {name: value.flatten(0, 1) if is_of_choices(name, value) else value for name, value in inputs.items()}
    return tuple(values.shape[:3]), flat


class ForMultipleChoice(HeadModel):
    """Which of several texts fits best? Inputs are B choices T."""

    output_class: type[ModelOutput] = MultipleChoiceModelOutput

    @takes(*TEXT, "labels", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> ModelOutput | tuple:
        (_, choices, _), flat = flatten_choices(inputs, self.base_model.extra_inputs)
        body = self.base_model.encode(**flat)
        logits = self.text_logits(body).view(-1, choices)  # B choices
        loss = None if labels is None else label_loss(logits, labels)
        return self.as_output(self.output_class, body, return_dict, loss=loss, logits=logits)


class ForQuestionAnswering(HeadModel):
    """Where in the text does the answer begin and end?"""

    output_class: type[ModelOutput] = QuestionAnsweringModelOutput

    def span_logits(self, rows: Tensor) -> Tensor:
        """Scores of each token as begin and end of the answer: N C -> N 2."""
        return self.qa_outputs(rows)

    @takes(*TEXT, "start_positions", "end_positions", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> ModelOutput | tuple:
        """Padded positions score the type's lowest number, so that no answer begins or ends in them.

        The original loss includes padded positions, so with labels they are computed too.
        """
        if (start_positions is None) != (end_positions is None):
            raise InputError("give both start_positions and end_positions, or neither")
        has_labels = start_positions is not None
        body = self.base_model.encode(**inputs, keep_padding=has_labels)
        logits = self.span_logits(body.rows)  # N 2
        laid_out = body.layout.unpack(logits, fill=torch.finfo(logits.dtype).min)  # B T 2
        starts, ends = (part.squeeze(-1).contiguous() for part in laid_out.split(1, dim=-1))
        loss = span_loss(starts, ends, start_positions, end_positions) if has_labels else None
        return self.as_output(self.output_class, body, return_dict, loss=loss, start_logits=starts, end_logits=ends)
