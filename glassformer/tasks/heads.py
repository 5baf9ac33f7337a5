"""What a model has on top of its body, by key: the class for an architecture, and the key of a class.

A task states its head by one of these keys, so that nothing follows from how a class is called.
"""

from __future__ import annotations

from ..models import auto

BODY = "body"
HEADS: dict[str, type[auto.AutoBase]] = {  # the first that holds a class is the key of that class
    "sequence-classification": auto.AutoModelForSequenceClassification,
    "token-classification": auto.AutoModelForTokenClassification,
    "question-answering": auto.AutoModelForQuestionAnswering,
    "multiple-choice": auto.AutoModelForMultipleChoice,
    "next-sentence": auto.AutoModelForNextSentencePrediction,
    "masked-lm": auto.AutoModelForMaskedLM,
    "pre-training": auto.AutoModelForPreTraining,
    "causal-lm": auto.AutoModelForCausalLM,
    "seq2seq-lm": auto.AutoModelForSeq2SeqLM,
    BODY: auto.AutoModel,
}


def auto_class(head: str) -> type[auto.AutoBase]:
    """What loads or makes a model with this head, of any architecture that has one."""
    return HEADS[head]


def head_of(class_name: str) -> str | None:
    """The key of the head that a model class of this name has; None for a class that is not registered."""
    for key, kind in HEADS.items():
        if any(model.__name__ == class_name for model in kind.models.values()):
            return key
    return None
