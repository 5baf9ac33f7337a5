"""Transformer-XL's heads: the next word by an adaptive softmax, and a label for a text by its last token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ..errors import ConfigError, InputError
from ..nn.adaptive_softmax import ProjectedAdaptiveLogSoftmax
from ..nn.layout import Layout
from ..nn.linear import Linear
from ..nn.loss import CLASSES, IGNORED, check_label_range
from ..nn.tensor_inputs import check_tensor
from .base.generation_mixin import GenerationMixin
from .base.heads import LastTokenClassifier, pack_labels, score_tokens
from .base.outputs import (
    BodyOutput,
    TransfoXLLMHeadModelOutput,
    TransfoXLSequenceClassifierOutputWithPast,
)
from .base.signature import OUTPUTS, takes
from .transfo_xl import INPUTS, MORE, TransfoXLConfig, TransfoXLModel, TransfoXLPreTrainedModel


class TransfoXLLMHeadModel(GenerationMixin, TransfoXLPreTrainedModel):
    """Which word comes next? The adaptive softmax shares the tables of the word vectors."""

    def __init__(self, config: TransfoXLConfig):
        super().__init__(config)
        if config.sample_softmax > 0:
            raise ConfigError(f"sample_softmax={config.sample_softmax}: no loss is computed from sampled words; use -1")
        self.transformer = TransfoXLModel(self.config)
        sizes = config.vocab_size, config.embedding_size, config.hidden_size
        self.crit = ProjectedAdaptiveLogSoftmax(*sizes, config.cutoffs, config.div_val)
        self.post_init()

    def tied_names(self) -> dict[str, str]:
        tied, words, config = super().tied_names(), "transformer.embeddings.word_embeddings", self.config
        if config.tie_word_embeddings:
            tables = range(len(self.crit.out_layers))
            tied |= {f"crit.out_layers.{i}.weight": f"{words}.emb_layers.{i}.weight" for i in tables}
        for i, is_tied in enumerate(config.tie_projs):
            if is_tied and len(self.crit.out_projs):
                tied[f"crit.out_projs.{i}"] = f"{words}.emb_projs.{i if config.div_val > 1 else 0}"
        return tied

    def init_mems(self, batch: int) -> list[Tensor] | None:
        return self.transformer.init_mems(batch)

    def get_output_embeddings(self) -> Linear:
        """The scores of the rarest words."""
        return self.crit.out_layers[-1]

    def word_logits(self, rows: Tensor) -> Tensor:
        """Log-probabilities, N C -> N V"""
        return self.crit(rows)

    def word_losses(self, rows: Tensor, words: Tensor) -> Tensor:
        """The loss of one word for each row, N C and N -> N, without the scores of all others."""
        return self.crit.losses(rows, words)

    def _resize_clusters(self, cluster: int, bounds: Sequence[int]) -> None:
        self.crit.resize(cluster, bounds)

    @takes(*INPUTS, "labels", *OUTPUTS, *MORE)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> TransfoXLLMHeadModelOutput | tuple:
        """`prediction_scores` (B T V) are log-probabilities; with `labels` (the input itself; shifted inside) there are
        `losses` (B T-1) and their mean, the `loss`, instead.

        As in the original, the losses stand cluster by cluster where there are several, not in the order of the words;
        those of ignored labels are 0, at the end. Where nothing counts, the loss is 0.
        """
        body = self.transformer.encode(**inputs)
        if labels is None:
            _, scores = score_tokens(self.word_logits, body)
            return self.as_output(TransfoXLLMHeadModelOutput, body, return_dict, prediction_scores=scores)
        losses, loss = self.next_word_losses(body, labels)
        return self.as_output(TransfoXLLMHeadModelOutput, body, return_dict, losses=losses, loss=loss)

    def next_word_losses(self, body: BodyOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The losses in the original's order, B T-1, and their mean."""
        layout: Layout = body.layout
        check_tensor(labels, "labels", CLASSES, device=body.rows.device)
        if layout.length < 2:
            raise InputError("labels are shifted inside: a text of one token has no next word")
        targets = layout.unpack(pack_labels(labels, body), fill=IGNORED)[:, 1:].reshape(-1).long()  # B(T-1)
        check_label_range(targets, self.config.vocab_size)
        counted = targets != IGNORED
        rows = body.last_hidden_state[:, :-1].flatten(0, 1)[counted]
        found = self.word_losses(rows, targets[counted])
        losses = found.new_zeros(len(targets)).index_copy(0, counted.nonzero()[:, 0], found)
        if self.crit.cluster_count > 1:
            losses = losses[self.crit.in_cluster_order(targets)]
        return losses.view(layout.batch, -1), found.sum() / max(1, len(found))


class TransfoXLForSequenceClassification(TransfoXLPreTrainedModel, LastTokenClassifier):
    classified_output = TransfoXLSequenceClassifierOutputWithPast

    def __init__(self, config: TransfoXLConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = TransfoXLModel(self.config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    @takes(*INPUTS, "labels", *OUTPUTS, *MORE)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> TransfoXLSequenceClassifierOutputWithPast | tuple:
        return self.classify(self.transformer.encode(**inputs), inputs.get("input_ids"), labels, return_dict)
