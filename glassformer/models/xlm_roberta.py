"""XLM-RoBERTa (Conneau et al. 2019): RoBERTa over a hundred languages, with a SentencePiece vocabulary.

Its files name the parts as those of a RoBERTa do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..checkpoints.config_fields import integer
from .roberta import RobertaConfig, RobertaModel, RobertaPreTrainedModel
from .roberta_heads import (
    RobertaForCausalLM,
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
)


@dataclass(repr=False, eq=False)
class XLMRobertaConfig(RobertaConfig):
    model_type = "xlm-roberta"

    vocab_size: int = integer(30522)


class XLMRobertaPreTrainedModel(RobertaPreTrainedModel):
    config_class = XLMRobertaConfig


class XLMRobertaModel(XLMRobertaPreTrainedModel, RobertaModel):
    pass


class XLMRobertaForMaskedLM(XLMRobertaPreTrainedModel, RobertaForMaskedLM):
    pass


class XLMRobertaForCausalLM(XLMRobertaPreTrainedModel, RobertaForCausalLM):
    pass


class XLMRobertaForSequenceClassification(XLMRobertaPreTrainedModel, RobertaForSequenceClassification):
    pass


class XLMRobertaForMultipleChoice(XLMRobertaPreTrainedModel, RobertaForMultipleChoice):
    pass


class XLMRobertaForTokenClassification(XLMRobertaPreTrainedModel, RobertaForTokenClassification):
    pass


class XLMRobertaForQuestionAnswering(XLMRobertaPreTrainedModel, RobertaForQuestionAnswering):
    pass
