"""Two heads on a causal body: the next word, and which of several texts fits best."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...errors import InputError
from ...nn.loss import label_loss
from ...nn.tensor_inputs import WHOLE, check_tensor
from .generation_mixin import GenerationMixin
from .heads import CausalLMHeadModel, flatten_choices, next_token_loss, score_tokens
from .outputs import DoubleHeadsModelOutput
from .sequence_summary import SequenceSummary


class DoubleHeadsModel(GenerationMixin, CausalLMHeadModel):
    """Scores the next word of every text, and each text as one of several choices. Inputs are B choices T."""

    multiple_choice_head: SequenceSummary  # gives one score for each text

    def score_choices(
        self,
        inputs: dict[str, Any],
        mc_token_ids: Tensor | None,
        labels: Tensor | None,
        mc_labels: Tensor | None,
        return_dict: bool | None,
    ) -> DoubleHeadsModelOutput | tuple:
        """The return value of a forward."""
        shape, flat = flatten_choices(inputs)
        body = self.transformer.encode(**flat)
        _, logits = score_tokens(self.word_logits, body)  # B*choices T V
        for name, value, wanted in (("mc_token_ids", mc_token_ids, shape[:2]), ("labels", labels, shape)):
            if value is not None:
                check_tensor(value, name, WHOLE)
                if value.shape != wanted:
                    raise InputError(f"{name} must have the shape {list(wanted)}, got {list(value.shape)}")
        index = None if mc_token_ids is None else mc_token_ids.reshape(-1)
        mc_logits = self.multiple_choice_head(body, index).view(shape[:-1])  # B choices
        loss = None if labels is None else next_token_loss(logits, labels.reshape(-1, shape[-1]), body)
        mc_loss = None if mc_labels is None else label_loss(mc_logits, mc_labels)
        scores = {"logits": logits.view(*shape, -1), "mc_logits": mc_logits}
        return self.as_output(DoubleHeadsModelOutput, body, return_dict, loss=loss, mc_loss=mc_loss, **scores)
