"""CamemBERT (Martin et al. 2019): RoBERTa for French, with a SentencePiece vocabulary.

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
class CamembertConfig(RobertaConfig):
    model_type = "camembert"

    vocab_size: int = integer(30522)


class CamembertPreTrainedModel(RobertaPreTrainedModel):
    config_class = CamembertConfig


class CamembertModel(CamembertPreTrainedModel, RobertaModel):
    pass


class CamembertForMaskedLM(CamembertPreTrainedModel, RobertaForMaskedLM):
    pass


class CamembertForCausalLM(CamembertPreTrainedModel, RobertaForCausalLM):
    pass


class CamembertForSequenceClassification(CamembertPreTrainedModel, RobertaForSequenceClassification):
    pass


class CamembertForMultipleChoice(CamembertPreTrainedModel, RobertaForMultipleChoice):
    pass


class CamembertForTokenClassification(CamembertPreTrainedModel, RobertaForTokenClassification):
    pass


class CamembertForQuestionAnswering(CamembertPreTrainedModel, RobertaForQuestionAnswering):
    pass
