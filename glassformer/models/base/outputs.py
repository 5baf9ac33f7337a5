"""Outputs of models: a dictionary, an object and a tuple at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from torch import Tensor

from ...nn.layout import Layout
from ...nn.tensor_inputs import check_flag


class ModelOutput(OrderedDict):
    """An ordered dictionary whose values are attributes too, and can be indexed as in a tuple.

    Values that are None are attributes only: they have no key and no index.

    >>> out = BaseModelOutput(last_hidden_state=1, attentions=(2,))
    >>> out["last_hidden_state"], out.last_hidden_state, out[0], out[1], out.hidden_states, len(out)
    (1, 1, 1, (2,), None, 2)
    """

    def __post_init__(self) -> None:
        first = next(iter(fields(self))).name
        value = self.__dict__[first]
        if isinstance(value, Mapping | Iterator):  # {name: value} or pairs, as torch's own tools rebuild outputs
            self.__dict__[first] = None
            self.__dict__.update(self._checked(dict(value)))
        self._index()

    def _checked(self, values: dict[str, Any]) -> dict[str, Any]:
        for name in values:
            if name not in type(self).__dataclass_fields__:
                raise AttributeError(f"{type(self).__name__} has no value {name!r}")
        return values

    def _index(self) -> None:
        """Make the keys those of the values that are not None, in their order."""
        super().clear()
        for spec in fields(self):
            if self.__dict__[spec.name] is not None:
                super().__setitem__(spec.name, self.__dict__[spec.name])
        self.__dict__["_complete"] = True

    def __getitem__(self, key: str | int | slice) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.update(self._checked({name: value}))
        if "_complete" in self.__dict__:
            self._index()

    def _refuse(self, *_: Any) -> None:
        raise TypeError(f"values of a {type(self).__name__} cannot be removed")

    __delitem__ = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple:
        return type(self), tuple(self.__dict__[spec.name] for spec in fields(self))

    def to_tuple(self) -> tuple:
        """All values that are not None, in order."""
        return tuple(super(ModelOutput, self).__getitem__(key) for key in self.keys())

    def as_returned(self, return_dict: bool) -> ModelOutput | tuple:
        """This object, or its plain tuple with `return_dict=False`."""
        check_flag(return_dict, "return_dict")
        return self if return_dict else self.to_tuple()


def output(cls: type) -> type:
    """Decorate an output class: a dataclass whose field order is that of the tuple."""
    return dataclass(cls, eq=False)


Tensors = tuple[Tensor, ...]


@output
class BaseModelOutput(ModelOutput):
    last_hidden_state: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class BaseModelOutputWithPastAndCrossAttentions(ModelOutput):
    last_hidden_state: Tensor | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None
    cross_attentions: Tensors | None = None


@output
class BaseModelOutputWithPooling(ModelOutput):
    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class BaseModelOutputWithPoolingAndCrossAttentions(ModelOutput):
    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    hidden_states: Tensors | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    attentions: Tensors | None = None
    cross_attentions: Tensors | None = None


@output
class BertForPreTrainingOutput(ModelOutput):
    loss: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class BigBirdForPreTrainingOutput(BertForPreTrainingOutput):
    pass


@output
class AlbertForPreTrainingOutput(ModelOutput):
    loss: Tensor | None = None
    prediction_logits: Tensor | None = None
    sop_logits: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class MaskedLMOutput(ModelOutput):
    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class ElectraForPreTrainingOutput(MaskedLMOutput):
    pass


@output
class CausalLMOutputWithCrossAttentions(ModelOutput):
    loss: Tensor | None = None
    logits: Tensor | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None
    cross_attentions: Tensors | None = None


@output
class DoubleHeadsModelOutput(ModelOutput):
    loss: Tensor | None = None
    mc_loss: Tensor | None = None
    logits: Tensor | None = None
    mc_logits: Tensor | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class Seq2SeqLMOutput(ModelOutput):
    loss: Tensor | None = None
    logits: Tensor | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    decoder_hidden_states: Tensors | None = None
    decoder_attentions: Tensors | None = None
    cross_attentions: Tensors | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: Tensors | None = None
    encoder_attentions: Tensors | None = None


@output
class Seq2SeqModelOutput(ModelOutput):
    last_hidden_state: Tensor | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    decoder_hidden_states: Tensors | None = None
    decoder_attentions: Tensors | None = None
    cross_attentions: Tensors | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: Tensors | None = None
    encoder_attentions: Tensors | None = None


@output
class Seq2SeqSequenceClassifierOutput(Seq2SeqLMOutput):
    pass


@output
class Seq2SeqQuestionAnsweringModelOutput(ModelOutput):
    loss: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    decoder_hidden_states: Tensors | None = None
    decoder_attentions: Tensors | None = None
    cross_attentions: Tensors | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: Tensors | None = None
    encoder_attentions: Tensors | None = None


@output
class NextSentencePredictorOutput(MaskedLMOutput):
    pass


@output
class SequenceClassifierOutput(MaskedLMOutput):
    pass


@output
class SequenceClassifierOutputWithPast(ModelOutput):
    loss: Tensor | None = None
    logits: Tensor | None = None
    past_key_values: tuple[Tensors, ...] | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class ImageClassifierOutput(MaskedLMOutput):
    pass


@output
class MaskedImageModelingOutput(ModelOutput):
    loss: Tensor | None = None
    reconstruction: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None

    @property
    def logits(self) -> Tensor | None:
        return self.reconstruction


@output
class MultipleChoiceModelOutput(MaskedLMOutput):
    pass


@output
class TokenClassifierOutput(MaskedLMOutput):
    pass


@output
class QuestionAnsweringModelOutput(ModelOutput):
    loss: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class BigBirdForQuestionAnsweringModelOutput(ModelOutput):
    loss: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    pooler_output: Tensor | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class LongformerBaseModelOutputWithPooling(BaseModelOutputWithPooling):
    global_attentions: Tensors | None = None


@output
class LongformerMaskedLMOutput(MaskedLMOutput):
    global_attentions: Tensors | None = None


@output
class LongformerSequenceClassifierOutput(LongformerMaskedLMOutput):
    pass


@output
class LongformerMultipleChoiceModelOutput(LongformerMaskedLMOutput):
    pass


@output
class LongformerTokenClassifierOutput(LongformerMaskedLMOutput):
    pass


@output
class LongformerQuestionAnsweringModelOutput(QuestionAnsweringModelOutput):
    global_attentions: Tensors | None = None


@output
class XLNetModelOutput(ModelOutput):
    last_hidden_state: Tensor | None = None
    mems: Tensors | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class XLNetLMHeadModelOutput(ModelOutput):
    loss: Tensor | None = None
    logits: Tensor | None = None
    mems: Tensors | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class XLNetForSequenceClassificationOutput(XLNetLMHeadModelOutput):
    pass


@output
class XLNetForTokenClassificationOutput(XLNetLMHeadModelOutput):
    pass


@output
class XLNetForMultipleChoiceOutput(XLNetLMHeadModelOutput):
    pass


@output
class XLNetForQuestionAnsweringSimpleOutput(ModelOutput):
    loss: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    mems: Tensors | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class XLNetForQuestionAnsweringOutput(ModelOutput):
    loss: Tensor | None = None
    start_top_log_probs: Tensor | None = None
    start_top_index: Tensor | None = None
    end_top_log_probs: Tensor | None = None
    end_top_index: Tensor | None = None
    cls_logits: Tensor | None = None
    mems: Tensors | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class TransfoXLModelOutput(ModelOutput):
    last_hidden_state: Tensor | None = None
    mems: list[Tensor] | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@output
class TransfoXLLMHeadModelOutput(ModelOutput):
    losses: Tensor | None = None
    prediction_scores: Tensor | None = None
    mems: list[Tensor] | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None
    loss: Tensor | None = None

    @property
    def logits(self) -> Tensor | None:
        """The scores under the name that other models have for them."""
        return self.prediction_scores


@output
class TransfoXLSequenceClassifierOutputWithPast(ModelOutput):
    loss: Tensor | None = None
    logits: Tensor | None = None
    mems: list[Tensor] | None = None
    hidden_states: Tensors | None = None
    attentions: Tensors | None = None


@dataclass
class BodyOutput:
    """The output of a body for its heads: the rows of the stream and their layout."""

    rows: Tensor  # N C
    layout: Layout
    pooled: Tensor | None = None  # B C
    past_key_values: tuple[Tensors, ...] | None = None
    hidden_states: Tensors | None = None  # each B T C
    attentions: Tensors | None = None
    cross_attentions: Tensors | None = None
    global_attentions: Tensors | None = None  # of global tokens to all: each B H T G

    @cached_property
    def last_hidden_state(self) -> Tensor:
        return self.hidden_states[-1] if self.hidden_states else self.layout.unpack(self.rows)  # B T C
