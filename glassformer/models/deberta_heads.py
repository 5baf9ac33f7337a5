"""DeBERTa's heads, for v1 and v2: those for texts read the first token through one more layer."""

from __future__ import annotations

from torch import Tensor, nn

from ..nn.activation import ACTIVATIONS
from ..nn.dropout import Dropout
from ..nn.linear import Linear
from ..nn.loss import IGNORED
from ..nn.tensor_inputs import check_tensor
from .base.heads import (
    ForMaskedLM,
    ForMultipleChoice,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    HeadModel,
    LayeredLMHeadModel,
)
from .base.outputs import BodyOutput
from .bert_heads import BertLMPredictionHead, BertOnlyMLMHead, BertPredictionHeadTransform
from .deberta import DebertaConfig, DebertaModel, DebertaPreTrainedModel
from .deberta_v2 import DebertaV2Config, DebertaV2Model, DebertaV2PreTrainedModel


class ContextPooler(nn.Module):
    """The vector of the first token through one more layer."""

    def __init__(self, config: DebertaConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = Dropout(config.pooler_dropout)
        self.activation = ACTIVATIONS[config.pooler_hidden_act]()

    def forward(self, first: Tensor) -> Tensor:
        """B C of the first tokens, or B T C of all -> B C"""
        first = first[:, 0] if first.dim() == 3 else first
        return self.activation(self.dense(self.dropout(first)))


class LegacyPredictionHead(BertLMPredictionHead):
    """BERT's layers that score words, for embeddings of another width than the layers have too."""

    def __init__(self, config: DebertaConfig):
        super().__init__(config)
        if config.word_size != config.hidden_size:
            self.transform.dense = nn.Linear(config.hidden_size, config.word_size)
            self.transform.LayerNorm = nn.LayerNorm(config.word_size, eps=config.layer_norm_eps)
            self.decoder = Linear(config.word_size, config.vocab_size)
            self.decoder.bias = self.bias


class DebertaLMPredictionHead(BertPredictionHeadTransform):
    """The layers that DeBERTa was trained with; they always score by the word embeddings."""

    def __init__(self, config: DebertaConfig):
        super().__init__(config)
        self.decoder = Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(self.decoder.bias.detach().zero_())
        self.decoder.bias = self.bias

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.decoder(super().forward(hidden_states))


class MaskedWords(LayeredLMHeadModel, ForMaskedLM):
    """The two heads for masked words, of which `config.legacy` chooses one."""

    def make_head(self) -> None:
        if self.config.legacy:
            self.cls = BertOnlyMLMHead(self.config)
            self.cls.predictions = LegacyPredictionHead(self.config)
        else:
            self.lm_predictions = nn.ModuleDict({"lm_head": DebertaLMPredictionHead(self.config)})

    @property
    def scorer(self) -> str:  # type: ignore[override]
        return "cls.predictions" if self.config.legacy else "lm_predictions.lm_head"

    def tied_names(self) -> dict[str, str]:
        if self.config.legacy:
            return super().tied_names()
        words = f"{self.base_model_prefix}.embeddings.word_embeddings.weight"
        return {f"{self.scorer}.decoder.bias": f"{self.scorer}.bias", f"{self.scorer}.decoder.weight": words}


class FirstTokenHead(HeadModel):
    """A head that reads the first token through a pooler of its own."""

    def make_head(self, outputs: int) -> None:
        config: DebertaConfig = self.config
        self.pooler = ContextPooler(config)
        self.classifier = nn.Linear(config.hidden_size, outputs)
        self.dropout = Dropout(config.hidden_dropout_prob if config.cls_dropout is None else config.cls_dropout)

    def text_logits(self, body: BodyOutput) -> Tensor:
        return self.classifier(self.dropout(self.pooler(body.layout.first(body.rows))))


class TextClassifier(FirstTokenHead, ForSequenceClassification):
    """Without a `problem_type`, a label below 0 does not count, and rows of numbers are probabilities of the labels."""

    def loss_and_logits(self, body: BodyOutput, labels: Tensor | None) -> tuple[Tensor | None, Tensor]:
        if labels is None or self.config.problem_type is not None or self.num_labels == 1:
            return super().loss_and_logits(body, labels)
        check_tensor(labels, "labels", device=body.rows.device)
        if labels.dim() <= 1 or labels.shape[-1] == 1:
            labels = labels.long().reshape(-1)
            return super().loss_and_logits(body, labels.masked_fill(labels < 0, IGNORED))
        logits = self.text_logits(body)
        return -(logits.log_softmax(-1) * labels).sum(-1).mean(), logits


class DebertaForMaskedLM(DebertaPreTrainedModel, MaskedWords):
    def __init__(self, config: DebertaConfig):
        super().__init__(config)
        self.deberta = DebertaModel(self.config)
        self.make_head()
        self.post_init()


class DebertaForSequenceClassification(DebertaPreTrainedModel, TextClassifier):
    def __init__(self, config: DebertaConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.deberta = DebertaModel(self.config)
        self.make_head(config.num_labels)
        self.post_init()


class DebertaForTokenClassification(DebertaPreTrainedModel, ForTokenClassification):
    def __init__(self, config: DebertaConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.deberta = DebertaModel(self.config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class DebertaForQuestionAnswering(DebertaPreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: DebertaConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.deberta = DebertaModel(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()


class DebertaV2ForMaskedLM(DebertaV2PreTrainedModel, MaskedWords):
    def __init__(self, config: DebertaV2Config):
        super().__init__(config)
        self.deberta = DebertaV2Model(self.config)
        self.make_head()
        self.post_init()


class DebertaV2ForSequenceClassification(DebertaV2PreTrainedModel, TextClassifier):
    def __init__(self, config: DebertaV2Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.deberta = DebertaV2Model(self.config)
        self.make_head(config.num_labels)
        self.post_init()


class DebertaV2ForMultipleChoice(DebertaV2PreTrainedModel, FirstTokenHead, ForMultipleChoice):
    def __init__(self, config: DebertaV2Config):
        super().__init__(config)
        self.deberta = DebertaV2Model(self.config)
        self.make_head(1)
        self.post_init()


class DebertaV2ForTokenClassification(DebertaV2PreTrainedModel, ForTokenClassification):
    def __init__(self, config: DebertaV2Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.deberta = DebertaV2Model(self.config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class DebertaV2ForQuestionAnswering(DebertaV2PreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: DebertaV2Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.deberta = DebertaV2Model(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
